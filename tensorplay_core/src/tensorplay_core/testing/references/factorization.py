"""References of decompositions, of what is solved with them, and of norms of matrices.

A result may be off by what a backward stable algorithm explains: a small multiple of the roundoff times the condition
of the problem, which is that of the matrix, or its norm over the least gap between eigenvalues or singular values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references import matrices as m
from tensorplay_core.testing.references.array import Array, Shape, broadcast_shape, strides_of
from tensorplay_core.testing.references.elementwise import as_array, budget, common_dtype
from tensorplay_core.testing.references.products import contraction, norm
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import UNSPECIFIED, accumulator_of, round_to
from tensorplay_core.types.dtype import by_name

LOOSE = 24
"""How many roundings an element of a row of a small decomposition amounts to."""


def items(self: Array) -> list[m.Matrix]:
    """The matrices of a batch."""
    rows, columns = self.shape[-2:]
    count = math.prod(self.shape[:-2])
    return [
        [self.data[(k * rows + i) * columns : (k * rows + i + 1) * columns] for i in range(rows)] for k in range(count)
    ]


def real_of(dtype: str) -> str:
    """The dtype of absolute values."""
    return by_name(dtype).real_dtype.name


def gathered(found: Sequence[m.Matrix], shape: Shape, dtype: str, conditions: Sequence[float]) -> Array:
    """Makes a batch of matrices one array; each may be off by its condition in roundoffs of its largest element."""
    unit = accumulator_of(dtype).eps
    data: list[Any] = []
    slack: list[float] = []
    for matrix, condition in zip(found, conditions, strict=True):
        elements = [x for row in matrix for x in row]
        sizes = [abs(x) for x in elements if x is not UNSPECIFIED and x == x]
        data += elements
        slack += [LOOSE * unit * min(condition, 1e15) * max(sizes, default=0.0)] * len(elements)
    return Array(shape, _kind(data, dtype), dtype, slack)


def _kind(data: list[Any], dtype: str) -> list[Any]:
    python = complex if by_name(dtype).is_complex else float
    return [x if x is UNSPECIFIED else python(x) for x in data]


def _hermitian(a: m.Matrix, upper: bool) -> m.Matrix:
    """The Hermitian matrix of one triangle."""
    n = len(a)
    low = m.adjoint(a, n, n) if upper else a
    return [
        [low[i][j] if i > j else low[j][i].conjugate() if i < j else low[i][i].real for j in range(n)] for i in range(n)
    ]


# ------------------------------------------------------------------------------------------------------------- Cholesky


def cholesky_ex(self: Array, *, upper: bool = False, check_errors: bool = False) -> tuple[Array, Array]:
    """A factor of each matrix, NaN where there is none, and the order of the leading minor that is not positive."""
    n, found, info, conditions = self.shape[-1], [], [], []
    for a in items(self):
        full = _hermitian(a, upper)
        low, minor = m.cholesky(full)
        low = [[UNSPECIFIED] * n for _ in range(n)] if minor else low
        found.append(m.adjoint(low, n, n) if upper and not minor else low)
        info.append(minor)
        conditions.append(1.0 if minor else m.condition(full))
    return gathered(found, self.shape, self.dtype, conditions), Array(self.shape[:-2], info, "int32")


def cholesky(self: Array, *, upper: bool = False) -> Array:
    """A factor of each matrix."""
    return cholesky_ex(self, upper=upper)[0]


# -------------------------------------------------------------------------------------------------------------- solving


def _spread(self: Array, batch: Shape) -> list[m.Matrix]:
    shape = (*batch, *self.shape[-2:])
    return items(Array(shape, self.broadcast(shape), self.dtype))


def solve(A: Array, B: Array, *, left: bool = True, shaped: Callable[[m.Matrix], m.Matrix] = lambda a: a) -> Array:
    """The X of ``A @ X = B``; ``shaped`` makes of each matrix what is solved with."""
    dtype = common_dtype([A, B]).name
    a, b = as_array(A, dtype), as_array(B, dtype)
    if b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1]):
        column = solve(a, Array((*b.shape, 1), b.data, dtype), shaped=shaped)
        return Array(column.shape[:-1], column.data, dtype, column.slack)
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    rows, columns = b.shape[-2:]
    found, conditions = [], []
    for one, right in zip(_spread(a, batch), _spread(b, batch), strict=True):
        one = shaped(one)
        if not left:
            one, right = ([*map(list, zip(*x, strict=True))] for x in (one, right))
        x, _ = m.solve(one, right)
        found.append(x if left else [[x[j][i] for j in range(columns)] for i in range(rows)])
        conditions.append(m.condition(one))
    return gathered(found, (*batch, rows, columns), dtype, conditions)


def solve_triangular(self: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Array:
    """One triangle of each matrix, with ones on the diagonal where that is not read."""

    def shaped(a: m.Matrix) -> m.Matrix:
        return [
            [1.0 if i == j and unitriangular else x if i == j or (j > i) == upper else 0.0 for j, x in enumerate(row)]
            for i, row in enumerate(a)
        ]

    return solve(self, B, left=left, shaped=shaped)


def inv(A: Array) -> Array:
    """Solved for the identity."""
    found = [m.solve(a, m.identity(len(a)))[0] for a in items(A)]
    return gathered(found, A.shape, A.dtype, [m.condition(a) for a in items(A)])


def _of_factor(factor: Array, upper: bool) -> Array:
    n, found = factor.shape[-1], []
    for a in items(factor):
        low = m.adjoint(a, n, n) if upper else a
        low = [[x if j <= i else 0.0 for j, x in enumerate(row)] for i, row in enumerate(low)]
        found.append(m.product(low, m.adjoint(low, n, n), n))
    return gathered(found, factor.shape, factor.dtype, [1.0] * len(found))


def cholesky_solve(self: Array, input2: Array, upper: bool = False) -> Array:
    """Solved with the product of the factor and its conjugate transpose."""
    return solve(_of_factor(input2, upper), self)


def cholesky_inverse(self: Array, upper: bool = False) -> Array:
    """The inverse of that product."""
    return inv(_of_factor(self, upper))


# --------------------------------------------------------------------------------------------------------- determinants


def slogdet(A: Array) -> tuple[Array, Array]:
    """A sign, and the logarithm of the absolute value."""
    dtype, real, unit = A.dtype, real_of(A.dtype), accumulator_of(A.dtype).eps
    dets = [m.solve(a, m.identity(len(a)))[1] for a in items(A)]
    slack = [LOOSE * unit * min(m.condition(a), 1e15) for a in items(A)]
    signs = _kind([m.phase(d) for d in dets], dtype)
    batch = A.shape[:-2]
    return Array(batch, signs, dtype, slack), Array(batch, [m.log(abs(d)) for d in dets], real, slack)


def det(A: Array) -> Array:
    """The product of pivots."""
    unit = accumulator_of(A.dtype).eps
    dets = [m.solve(a, m.identity(len(a)))[1] for a in items(A)]
    sizes = [math.prod(max(map(abs, row)) for row in a) * len(a) for a in items(A)]
    return Array(A.shape[:-2], _kind(dets, A.dtype), A.dtype, [LOOSE * unit * s for s in sizes])


def logdet(self: Array) -> Array:
    """The logarithm, with the angle of a complex determinant."""
    sign, size = slogdet(self)
    data = [m.log(s) + x if by_name(self.dtype).is_complex else x if s > 0 else math.nan
            for s, x in zip(sign.data, size.data, strict=True)]  # fmt: skip
    return Array(size.shape, data, self.dtype, size.slack)


# ----------------------------------------------------------------------------------------- eigenvalues, singular values


def _gap(values: Sequence[float], size: float) -> float:
    """The size of a matrix over the least distance of two of its values."""
    least = min((abs(x - y) for x, y in itertools.combinations(values, 2)), default=size)
    return size / least if least else 1e15


def eigh(self: Array, UPLO: str = "L") -> tuple[Array, Array]:
    """Values in ascending order, and vectors with their phase settled."""
    n, values, vectors, slack, gaps = self.shape[-1], [], [], [], []
    unit = accumulator_of(self.dtype).eps
    for a in items(self):
        full = _hermitian(a, UPLO.upper() == "U")
        found, columns = m.eigh(full)
        values += found
        slack += [LOOSE * unit * m.norm(full)] * n
        columns = [m.settled(column) for column in columns]
        vectors.append([[columns[j][i] for j in range(n)] for i in range(n)])
        gaps.append(_gap(found, m.norm(full)))
    return Array(self.shape[:-1], values, real_of(self.dtype), slack), gathered(vectors, self.shape, self.dtype, gaps)


def svd(A: Array, full_matrices: bool = True, *, driver: str | None = None) -> tuple[Array, Array, Array]:
    """Left vectors, values in descending order, and right vectors; with one more of either to make it square."""
    *batch, rows, columns = A.shape
    k = min(rows, columns)
    us, values, vhs, slack, gaps = [], [], [], [], []
    unit = accumulator_of(A.dtype).eps
    for a in items(A):
        u, s, v = m.svd(a, rows, columns)
        size = max(s, default=0.0)
        values += s
        slack += [LOOSE * unit * size] * k
        gaps.append(max(_gap(s, size), size / min(s) if size else 1.0) if s else 1.0)
        u, v = (_whole(x, n, full_matrices) for x, n in ((u, rows), (v, columns)))
        us.append([[u[j][i] for j in range(len(u))] for i in range(rows)])
        vhs.append([[x if x is UNSPECIFIED else x.conjugate() for x in row] for row in v])
    width, height = (rows, columns) if full_matrices else (k, k)
    return (
        gathered(us, (*batch, rows, width), A.dtype, gaps),
        Array((*batch, k), values, real_of(A.dtype), slack),
        gathered(vhs, (*batch, height, columns), A.dtype, gaps),
    )


def _whole(vectors: m.Matrix, size: int, full: bool) -> m.Matrix:
    """Adds what makes vectors a basis: one more is known, several are any."""
    more = size - len(vectors)
    if not full or not more:
        return vectors
    return m.completed(vectors, size) if more == 1 else [*vectors, *[[UNSPECIFIED] * size for _ in range(more)]]


def qr(A: Array, mode: str = "reduced") -> tuple[Array, Array]:
    """What LAPACK's reflections give."""
    *batch, rows, columns = A.shape
    k = rows if mode == "complete" else min(rows, columns)
    qs, rs, conditions = [], [], []
    for a in items(A):
        q, r = m.qr(a, rows, columns)
        qs.append([row[:k] for row in q])
        rs.append(r[:k])
        s = m.svd([row[: min(rows, columns)] for row in a], rows, min(rows, columns))[1]
        conditions.append(max(s, default=1.0) / (min(s, default=1.0) or 1e-15))
    upper = gathered(rs, (*batch, k, columns), A.dtype, conditions)
    return (Array((0,), [], A.dtype) if mode == "r" else gathered(qs, (*batch, rows, k), A.dtype, conditions)), upper


# ------------------------------------------------------------------------------------------------------- least squares


def pinv(self: Array, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Array:
    """One over each singular value that counts."""
    *batch, rows, columns = self.shape
    relative = rtol if rtol is not None else 0.0 if atol else max(rows, columns) * accumulator_of(self.dtype).eps
    found, conditions = [], []
    for a in items(self):
        u, s, v = m.svd(a, rows, columns)
        largest = max(s, default=0.0)
        kept = [k for k, x in enumerate(s) if x > max(largest * relative, atol or 0.0)]
        found.append([
            [sum((v[k][i] / s[k] * u[k][j].conjugate() for k in kept), 0.0) for j in range(rows)]
            for i in range(columns)
        ])  # fmt: skip
        conditions.append(largest / min((s[k] for k in kept), default=1.0) if kept else 1.0)
    return gathered(found, (*batch, columns, rows), self.dtype, conditions)


def lstsq(self: Array, b: Array, rcond: float | None = None, *, driver: str | None = None) -> tuple[Array, ...]:
    """The pseudo-inverse times the right side, and the squares of what is left."""
    *batch, rows, columns = self.shape
    width = b.shape[-1]
    inverse = pinv(self, rtol=rcond)
    unit, real = accumulator_of(self.dtype).eps, real_of(self.dtype)
    found, conditions, left, slack = [], [], [], []
    for a, p, right in zip(items(self), items(inverse), items(b), strict=True):
        x = m.product(p, right, width)
        rest = m.product(a, x, width)
        found.append(x)
        conditions.append(m.norm(a) * m.norm(p) * (1 + m.norm(a) * m.norm(p)))
        for j in range(width):
            left.append(math.fsum(abs(rest[i][j] - right[i][j]) ** 2 for i in range(rows)))
            slack.append(LOOSE * unit * conditions[-1] * sum(abs(right[i][j]) ** 2 for i in range(rows)))
    rank = Array(tuple(batch), [min(rows, columns)] * len(found), "int64")
    shape = (*batch, width) if rows > columns else (0,)
    residuals = Array(shape, left if rows > columns else [], real, slack if rows > columns else [])
    return gathered(found, (*batch, columns, width), self.dtype, conditions), residuals, rank, Array((0,), [], real)


# ------------------------------------------------------------------------------------------------------ products, norms


def matrix_power(self: Array, n: int) -> Array:
    """One product for each power."""
    if n < 0:
        inverse = inv(self)
        result = matrix_power(Array(inverse.shape, inverse.data, self.dtype), -n)
        worst = max((m.condition(a) for a in items(self)), default=1.0) * -n
        size = max(map(abs, result.data), default=0.0)
        return Array(
            result.shape,
            result.data,
            self.dtype,
            [LOOSE * accumulator_of(self.dtype).eps * worst * size] * len(result.data),
        )
    size = self.shape[-1]
    found, scales = [], []
    for a in items(self):
        power: m.Matrix = [[type(a[0][0])(i == j) for j in range(size)] for i in range(size)]
        scale = 1.0
        for _ in range(n):
            power = [
                [sum((x * a[k][j] for k, x in enumerate(row)), type(a[0][0])(0)) for j in range(size)] for row in power
            ]
            scale *= m.norm(a)
        found.append(power)
        scales.append(scale)
    data = [x for matrix in found for row in matrix for x in row]
    if not by_name(self.dtype).is_inexact:
        return Array(self.shape, round_to(data, self.dtype), self.dtype)
    unit = _unit(self.dtype)
    slack = [4 * n * unit * s for s, matrix in zip(scales, found, strict=True) for row in matrix for _ in row]
    return Array(self.shape, data, self.dtype, slack)


def _unit(dtype: str) -> float:
    """The roundoff of a dtype whose results are rounded to it after each step."""
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, accumulator_of(dtype).eps)


def multi_dot(tensors: Sequence[Array]) -> Array:
    """One equation for the whole chain."""
    labels: list[list[Any]] = []
    for k, tensor in enumerate(tensors):
        labels.append([k + (tensor.ndim == 1 and k == 0)] if tensor.ndim == 1 else [k, k + 1])
    ends = [label for label in (0, len(tensors)) if any(label in one for one in labels)]
    return contraction(labels, ends, tensors)


def _dims_first(self: Array, dims: Sequence[int]) -> tuple[Shape, list[list[Any]]]:
    """The shape that is left, and for each place in it the elements over some dims."""
    kept = [d for d in range(self.ndim) if d not in dims]
    strides = strides_of(self.shape)
    groups = []
    for index in itertools.product(*(range(self.shape[d]) for d in kept)):
        start = sum(i * strides[d] for i, d in zip(index, kept, strict=True))
        over = itertools.product(*(range(self.shape[d]) for d in dims))
        groups.append([
            self.data[start + sum(i * strides[d] for i, d in zip(more, dims, strict=True))] for more in over
        ])  # fmt: skip
    return tuple(self.shape[d] for d in kept), groups


def _kept(shape: Shape, self: Array, dims: Sequence[int], keepdim: bool) -> Shape:
    return tuple(1 if d in dims else n for d, n in enumerate(self.shape)) if keepdim else shape


def matrix_norm(self: Array, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *,
                dtype: str | None = None) -> Array:  # fmt: skip
    """By definition, over the matrices in two dims."""
    dims = [d % self.ndim for d in dim]
    shape, groups = _dims_first(self, dims)
    columns = self.shape[dims[1]]
    rows = [[group[i : i + columns] for i in range(0, len(group), columns or 1)] for group in groups]
    data = [_matrix_norm(matrix, columns, ord) for matrix in rows]
    unit = accumulator_of(self.dtype).eps
    slack = [LOOSE * unit * norm(group, 2) for group in groups]
    return Array(_kept(shape, self, dims, keepdim), data, real_of(self.dtype), slack)


def _matrix_norm(a: m.Matrix, columns: int, ord: Any) -> float:
    if ord == "fro":
        return norm([x for row in a for x in row], 2)
    if ord in ("nuc", 2, -2):
        s = m.svd(a, len(a), columns)[1]
        return math.fsum(s) if ord == "nuc" else s[0] if ord == 2 else s[-1]
    lines = [[row[j] for row in a] for j in range(columns)] if abs(ord) == 1 else a
    sums = [math.fsum(map(abs, line)) for line in lines]
    return max(sums) if ord > 0 else min(sums)


def linalg_norm(self: Array, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
                dtype: str | None = None) -> Array:  # fmt: skip
    """Of vectors, or of matrices where two dims are meant and an order is given."""
    dims = [*range(self.ndim)] if dim is None else [dim] if isinstance(dim, int) else [*dim]
    if ord is not None and len(dims) == 2:
        return matrix_norm(self, ord, dims, keepdim)
    dims = [d % self.ndim for d in dims]
    shape, groups = _dims_first(self, dims)
    data = [_vector_norm(group, 2 if ord is None else ord) for group in groups]
    return Array(_kept(shape, self, dims, keepdim), data, real_of(self.dtype))


def _vector_norm(values: list[Any], ord: float) -> float:
    if ord == -math.inf:
        return float(min(map(abs, values)))
    return float(math.fsum(abs(v) ** ord for v in values) ** (1 / ord)) if ord < 0 else norm(values, ord)


def cond(self: Array, p: Any = None) -> Array:
    """The quotient of singular values, or the product of two norms."""
    *batch, rows, columns = self.shape
    data, slack = [], []
    unit = accumulator_of(self.dtype).eps
    for a in items(self):
        if p in (None, 2, -2):
            s = m.svd(a, rows, columns)[1]
            value, scale = (s[-1] / s[0] if p == -2 else s[0] / s[-1]), s[0] / s[-1]
        else:
            inverse = m.solve(a, m.identity(rows))[0]
            value = _matrix_norm(a, columns, p) * _matrix_norm(inverse, rows, p)
            scale = m.condition(a)
        data.append(value)
        slack.append(LOOSE * unit * scale * value)
    return Array(tuple(batch), data, real_of(self.dtype), slack)


REFERENCES: dict[str, Reference] = {
    "cholesky_inverse": Reference(cholesky_inverse, budget(4)),
    "cholesky_solve": Reference(cholesky_solve, budget(4)),
    "det": Reference(det, budget(8)),
    "inverse": Reference(inv, budget(4)),
    "linalg_cholesky": Reference(cholesky, budget(4)),
    "linalg_cholesky_ex": Reference(cholesky_ex, budget(4)),
    **dict.fromkeys(("linalg_cond", "linalg_cond.p_str"), Reference(cond, budget(8))),
    "linalg_det": Reference(det, budget(8)),
    "linalg_eigh": Reference(eigh, budget(4)),
    "linalg_eigvalsh": Reference(lambda self, UPLO="L": eigh(self, UPLO)[0], budget(4)),
    "linalg_inv": Reference(inv, budget(4)),
    "linalg_lstsq": Reference(lstsq, budget(4)),
    **dict.fromkeys(("linalg_matrix_norm", "linalg_matrix_norm.str_ord"), Reference(matrix_norm, budget(8))),
    "linalg_matrix_power": Reference(matrix_power, budget(2)),
    "linalg_multi_dot": Reference(multi_dot, budget(1)),
    **dict.fromkeys(("linalg_norm", "linalg_norm.ord_str"), Reference(linalg_norm, budget(16))),
    "linalg_pinv": Reference(lambda self, rcond, hermitian=False: pinv(self, rtol=rcond), budget(4)),
    "linalg_pinv.atol_rtol_float": Reference(pinv, budget(4)),
    "linalg_qr": Reference(qr, budget(4)),
    "linalg_slogdet": Reference(slogdet, budget(8)),
    "linalg_solve": Reference(lambda A, B, *, left=True: solve(A, B, left=left), budget(4)),
    "linalg_solve_triangular": Reference(solve_triangular, budget(4)),
    "linalg_svd": Reference(svd, budget(4)),
    "linalg_svdvals": Reference(lambda A, *, driver=None: svd(A, False)[1], budget(4)),
    "logdet": Reference(logdet, budget(8)),
    "slogdet": Reference(slogdet, budget(8)),
}
