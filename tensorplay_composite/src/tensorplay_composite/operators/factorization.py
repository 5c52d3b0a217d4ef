"""Decompositions and norms of matrices in terms of others.

The factor of Cholesky and triangular systems are solved column by column here, for a device without LAPACK; the rest is
written in the decompositions that a device has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorplay_composite.operators.linalg import _norm, _wide, root, squared
from tensorplay_core.errors import (
    ArgumentError,
    DimError,
    DTypeError,
    LinAlgError,
    ShapeError,
    ValueRangeError,
    did_you_mean,
    fix,
)
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.helpers_linalg import adjoint
from tensorplay_core.ops.shape_checks import Shaped, as_int, as_ints, normalize_dims
from tensorplay_core.ops.shapes_factorization import item_name, solve_triangular, square
from tensorplay_core.ops.shapes_linalg import matrices
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element
from tensorplay_core.types.dtype import DType, int64

EPSILON = {"float32": 2.0**-23, "complex64": 2.0**-23, "float64": 2.0**-52, "complex128": 2.0**-52}
INF = math.inf


def _square(op: str, x: Tensor) -> None:
    square(op, Shaped(x.shape, x.dtype))


# ---------------------------------------------------------------------------------------------------- without LAPACK


def linalg_cholesky(self: Tensor, *, upper: bool = False) -> Tensor:
    """Column by column, as Cholesky and Banachiewicz did."""
    _square("linalg_cholesky", self)
    a = adjoint(self) if upper else self
    n = a.shape[-1]
    if not a.numel():
        return self.clone()
    columns: list[Tensor] = []
    for j in range(n):
        column = a.select(-1, j)
        for done in columns:
            column = column - done * done.select(-1, j).unsqueeze(-1).conj()
        pivot = column.select(-1, j).real()
        bad = every_element(F.where(pivot > 0, 0, 1))
        if not self.is_meta and bad.sum().item():
            item = item_name((*bad.shape, *self.shape[-2:]), bad.reshape((-1,)).tolist().index(1))
            raise LinAlgError(
                f"linalg_cholesky: {item}the matrix is not positive-definite: its leading minor of order {j + 1} is not"
                + fix("check that it is Hermitian; a small multiple of tp.eye added to it may help")
            )
        below = F.arange(n, device=a.device) >= j
        columns.append(F.where(below, column / F.sqrt(pivot).unsqueeze(-1), self.new_zeros(())))
    factor = F.stack(columns, -1)
    return adjoint(factor).clone() if upper else factor


def linalg_solve_triangular(
    self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Row by row: what is known of X is taken from the right side, and the rest divided by the diagonal."""
    solve_triangular("linalg_solve_triangular", *(Shaped(x.shape, x.dtype) for x in (self, B)), left=left)
    for x in (self, B):
        if x.dtype.name not in EPSILON:
            raise DTypeError(
                f"linalg_solve_triangular: takes float32, float64, complex64 and complex128, and the tensors are "
                f"{x.dtype.name}" + fix("convert with .to(tp.float32).")
            )
    if not left:
        a, b = self.transpose(-2, -1), B.transpose(-2, -1)
        x = linalg_solve_triangular(a, b, upper=not upper, unitriangular=unitriangular)
        return x.transpose(-2, -1).clone()
    n = self.shape[-1]
    diagonal = self.diagonal(0, -2, -1)
    if not unitriangular and not self.is_meta and bool((every_element(diagonal) == 0).any().item()):
        raise LinAlgError("linalg_solve_triangular: the matrix is singular: its diagonal has a 0")
    batch = F.add(self.detach().sum((-2, -1)), B.detach().sum((-2, -1))).shape
    if not n or not B.numel():
        return B.expand((*batch, *B.shape[-2:])).clone()
    rows: list[Any] = [None] * n
    order = range(n - 1, -1, -1) if upper else range(n)
    for i in order:
        row = B.select(-2, i)
        for j in order:
            if j == i:
                break
            row = row - self.select(-2, i).select(-1, j).unsqueeze(-1) * rows[j]
        rows[i] = row if unitriangular else row / diagonal.select(-1, i).unsqueeze(-1)
    width = B.shape[-1]
    return F.stack([row.expand((*batch, width)) for row in rows], -2)


def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Serves a call that gives ``driver``, which the shape rule lets be None only."""
    return F.linalg_svd(A, full_matrices)


def linalg_svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The values of a whole decomposition."""
    return F.linalg_svd(A, False)[1]


# ----------------------------------------------------------------------------------------------------------- solving


def cholesky_solve(self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Two triangular systems."""
    _square("cholesky_solve", input2)
    if self.ndim < 2 or self.shape[-2] != input2.shape[-1]:
        raise ShapeError(
            f"cholesky_solve: the factor has shape {input2.shape}, so self must have {input2.shape[-1]} rows, "
            f"and has shape {self.shape}"
        )
    low = adjoint(input2) if upper else input2
    half = F.linalg_solve_triangular(low, self, upper=False)
    return F.linalg_solve_triangular(adjoint(low), half, upper=True)


def cholesky_inverse(self: Tensor, upper: bool = False) -> Tensor:
    """Solved for the identity."""
    _square("cholesky_inverse", self)
    one = F.eye(self.shape[-1], dtype=self.dtype, device=self.device)
    return cholesky_solve(one.expand(self.shape), self, upper)


def det(self: Tensor) -> Tensor:
    """The determinant."""
    return F.linalg_det(self)


def inverse(self: Tensor) -> Tensor:
    """The inverse."""
    return F.linalg_inv(self)


def slogdet(self: Tensor) -> Any:
    """Sign and logarithm."""
    return F.linalg_slogdet(self)


def logdet(self: Tensor) -> Tensor:
    """The logarithm of the absolute value; of complex matrices the angle too."""
    _square("logdet", self)
    sign, size = F.linalg_slogdet(self)
    if self.is_complex():
        return F.log(sign) + size
    return F.where(sign < 0, float("nan"), size)


def linalg_pinv(
    self: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Tensor:
    """From the singular values, or the eigenvalues of Hermitian matrices."""
    matrices("linalg_pinv.atol_rtol_float", Shaped(self.shape, self.dtype))
    if not self.numel():
        return self.transpose(-2, -1).clone()
    if hermitian:
        _square("linalg_pinv", self)
        values, vectors = F.linalg_eigh(self)
        return (vectors * _inverted(self, values, atol, rtol)) @ adjoint(vectors)
    u, s, vh = F.linalg_svd(self, False)
    return (adjoint(vh) * _inverted(self, s, atol, rtol)) @ adjoint(u)


def _inverted(self: Tensor, values: Tensor, atol: float | None, rtol: float | None) -> Tensor:
    """One over each value that is large enough, 0 for the others, as a row."""
    least = _least(self, F.max(values.abs(), -1, True)[0], atol, rtol)
    large = values.abs() > least
    return F.where(large, 1 / F.where(large, values, 1), 0).to(self.dtype).unsqueeze(-2)


def _least(self: Tensor, largest: Tensor, atol: float | None, rtol: float | None) -> Tensor:
    relative = rtol if rtol is not None else 0.0 if atol else max(self.shape[-2:]) * EPSILON[self.dtype.name]
    return F.maximum(largest * relative, float(atol or 0.0))


def linalg_pinv_rcond(self: Tensor, rcond: float, hermitian: bool = False) -> Tensor:
    """With a relative tolerance."""
    return F.linalg_pinv(self, rtol=rcond, hermitian=hermitian)


def linalg_lstsq(self: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The pseudo-inverse times ``b``: nothing is squared, so the condition number is not either."""
    drivers = ("gels", "gelsy", "gelsd", "gelss")
    if driver is not None and driver not in drivers:
        raise ValueRangeError(
            f"linalg_lstsq: driver must be one of {', '.join(map(repr, drivers))}, not {driver!r}"
            + did_you_mean(str(driver), drivers)
        )
    if self.ndim < 2:
        raise ShapeError(f"linalg_lstsq: takes matrices, and the tensor has shape {self.shape}")
    m, n = self.shape[-2:]
    vector = b.ndim == self.ndim - 1 and b.shape == self.shape[:-1]
    right = b.unsqueeze(-1) if vector else b
    if right.ndim < 2 or right.shape[-2] != m:
        raise ShapeError(f"linalg_lstsq: A has {m} rows, so b must have as many, and has shape {b.shape}")
    solution = F.linalg_pinv(self, rtol=rcond) @ right
    s = F.linalg_svdvals(self.detach())
    most = F.max(s, -1, True)[0] if s.shape[-1] else s
    rank = (s > _least(self, most, None, rcond)).sum(-1) if s.shape[-1] else s.sum(-1).to(int64)
    full = m > n and (self.is_meta or not self.numel() or bool((every_element(rank) == n).all().item()))
    left = self @ solution - right
    residuals = squared(left).sum(-2) if full else s.new_zeros((0,))
    answer = solution.squeeze(-1) if vector else solution
    return answer, residuals, rank, s.new_zeros((0,))


# ---------------------------------------------------------------------------------------------------------- products


def linalg_matrix_power(self: Tensor, n: int) -> Tensor:
    """By squaring."""
    _square("linalg_matrix_power", self)
    n = as_int("linalg_matrix_power", n, "n")
    if n < 0:
        return linalg_matrix_power(F.linalg_inv(self), -n)
    if n == 0:
        one = F.eye(self.shape[-1], dtype=self.dtype, device=self.device)
        return F.where(one == one, one, self)  # a result that depends on self, with a gradient of 0
    result, square = None, self
    while True:
        if n % 2:
            result = square if result is None else result @ square
        n //= 2
        if not n:
            break
        square = square @ square
    assert result is not None
    return result.clone() if result is self else result


def linalg_multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """By the split that costs least, found for each part of the chain; Cormen et al., section 14.2."""
    if len(tensors) < 2:
        raise ShapeError(f"linalg_multi_dot: takes at least 2 tensors, and is given {len(tensors)}")
    chain = list(tensors)
    row, column = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = chain[0].unsqueeze(0) if row else chain[0]
    chain[-1] = chain[-1].unsqueeze(1) if column else chain[-1]
    for i, x in enumerate(chain):
        if x.ndim != 2:
            ends = "a vector or a matrix" if i in (0, len(chain) - 1) else "a matrix"
            raise ShapeError(f"linalg_multi_dot: tensor {i} must be {ends}, and has shape {tensors[i].shape}")
        if i and chain[i - 1].shape[1] != x.shape[0]:
            raise ShapeError(
                f"linalg_multi_dot: tensors {i - 1} and {i} do not multiply: shapes {tensors[i - 1].shape} and "
                f"{tensors[i].shape}"
            )
    result = _chained(chain, _splits([chain[0].shape[0], *(x.shape[1] for x in chain)]), 0, len(chain) - 1)
    result = result.squeeze(-1) if column else result
    return result.squeeze(0) if row else result


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Returns for each part of a chain after which matrix to split it."""
    count = len(sizes) - 1
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(count)}
    best: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [(cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i, j], best[i, j] = min(options)
    return best


def _chained(chain: list[Tensor], best: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return chain[i]
    k = best[i, j]
    return _chained(chain, best, i, k) @ _chained(chain, best, k + 1, j)


# ------------------------------------------------------------------------------------------------------------- norms


def _of_dtype(op: str, self: Tensor, dtype: DType | None) -> Tensor:
    x = self if dtype is None else self.to(dtype)
    if not x.dtype.is_inexact:
        raise DTypeError(
            f"{op}: takes floating and complex tensors, and this one is {x.dtype.name}" + fix("x.to(tp.float32)")
        )
    return x


def linalg_matrix_norm(
    self: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The norms of the matrices in two dims."""
    given = _of_dtype("linalg_matrix_norm", self, dtype)
    dims = normalize_dims("linalg_matrix_norm", as_ints("linalg_matrix_norm", dim, "dim"), given.ndim)
    if len(dims) != 2:
        raise DimError(f"linalg_matrix_norm: dim must name two dims, and is {dim!r}")
    if given.ndim < 2:
        raise ShapeError(f"linalg_matrix_norm: takes matrices, and the tensor has shape {given.shape}")
    x = _wide(given)
    x = x.movedim(dims, (-2, -1))
    result = _matrix_norm("linalg_matrix_norm", x, ord)
    if keepdim:
        sizes = [1 if d in dims else size for d, size in enumerate(given.shape)]
        result = result.reshape(tuple(sizes))
    return result.to(given.dtype) if x.dtype is not given.dtype and x.dtype.itemsize != 2 else result


def _matrix_norm(op: str, x: Tensor, ord: Any) -> Tensor:
    if ord == "fro":
        return root(squared(x).sum((-2, -1)))
    if ord == "nuc":
        return F.linalg_svdvals(x).sum(-1)
    if ord in (2, -2):
        s = F.linalg_svdvals(x)
        return s.select(-1, 0 if ord == 2 else -1).clone()  # else all of them stay in memory
    if ord in (1, -1, INF, -INF):
        sums = x.abs().sum(-2 if abs(ord) == 1 else -1)
        return F.max(sums, -1)[0] if ord > 0 else -F.max(-sums, -1)[0]
    orders = ('"fro"', '"nuc"', "1", "-1", "2", "-2", "inf", "-inf")
    raise ValueRangeError(f"{op}: {ord!r} is no order of a matrix norm; there are {', '.join(orders)}")


def linalg_norm(
    self: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """A norm of vectors or of matrices, by the number of dims."""
    x = _of_dtype("linalg_norm", self, dtype)
    dims = None if dim is None else normalize_dims("linalg_norm", as_ints("linalg_norm", dim, "dim"), x.ndim)
    if dims is not None and len(dims) == 2 and ord is not None:
        return linalg_matrix_norm(x, ord, dims, keepdim)
    if dims is None and ord is not None and x.ndim == 2:
        return linalg_matrix_norm(x, ord, (0, 1), keepdim)
    if isinstance(ord, str):
        raise ShapeError(f"linalg_norm: ord={ord!r} is a norm of matrices, and the tensor has shape {x.shape}")
    if dims is None and ord is not None and x.ndim > 2:
        raise ShapeError(f"linalg_norm: with ord and without dim the tensor must have 1 or 2 dims, not {x.ndim}")
    if dims is not None and len(dims) > 2 and ord is not None:
        raise DimError(f"linalg_norm: dim must be an int or two, and is {dim!r}" + fix("leave ord out for all of them"))
    if isinstance(ord, complex):
        raise ArgumentError(f"linalg_norm: the order of a norm is a real number, not {ord!r}")
    every = tuple(range(x.ndim)) if dims is None else dims
    return _vector_norm(x, 2 if ord is None else ord, every, keepdim)


def _vector_norm(x: Tensor, ord: Any, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    kept = [d for d in range(x.ndim) if d not in dims]
    sizes = tuple(x.shape[d] for d in kept)
    rows = _wide(x).permute((*kept, *dims)).reshape((*sizes, math.prod(x.shape[d] for d in dims)))
    if ord == -INF:
        result = -F.max(-rows.abs(), -1)[0]
    elif ord < 0:
        result = (rows.abs() ** float(ord)).sum(-1) ** (1 / float(ord))
    else:
        result = _norm(rows, float(ord), -1, False)
    real = x.dtype.real_dtype
    result = result.to(real) if x.dtype.itemsize == 2 else result
    return result.reshape(tuple(1 if d in dims else n for d, n in enumerate(x.shape))) if keepdim else result


def linalg_cond(self: Tensor, p: Any = None) -> Tensor:
    """The quotient of singular values, or a product of norms."""
    if self.ndim < 2:
        raise ShapeError(f"linalg_cond: takes matrices, and the tensor has shape {self.shape}")
    if p is None or p in (2, -2):
        s = F.linalg_svdvals(self)
        largest, least = s.select(-1, 0), s.select(-1, -1)
        return least / largest if p == -2 else largest / least
    _square("linalg_cond", self)
    sign = F.linalg_slogdet(self.detach())[0]
    apart = (sign == 0).unsqueeze(-1).unsqueeze(-1)
    one = F.eye(self.shape[-1], dtype=self.dtype, device=self.device)
    inverse = F.linalg_inv(F.where(apart, one, self))
    product = _matrix_norm("linalg_cond", self, p) * _matrix_norm("linalg_cond", inverse, p)
    return F.where(sign == 0, INF, product)
