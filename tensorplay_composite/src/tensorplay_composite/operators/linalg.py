"""Linear algebra in terms of ``matmul``, sums and views.

The products of given numbers of dims, what is added to them and triangles run below autograd, for a device without
kernels of its own; their shape rules have looked at the arguments. The rest runs with autograd active.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import ArgumentError, DimError, ShapeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import shapes_linalg as rules
from tensorplay_core.ops.shape_checks import Shaped, as_ints, broadcast_shapes, normalize_dim, normalize_dims
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32

# ------------------------------------------------------------------------------------------------------------ products


def mm(self: Tensor, mat2: Tensor) -> Tensor:
    """The matrix product of two matrices, of two batches of them, of a matrix and a vector, or of two vectors."""
    return F.matmul(self, mat2)


def mv(self: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    return F.matmul(self, vec)


def dot(self: Tensor, tensor: Tensor) -> Tensor:
    """The sum of products."""
    return F.matmul(self, tensor)


def vdot(self: Tensor, other: Tensor) -> Tensor:
    """The sum of products with the first conjugated."""
    return F.matmul(self.conj(), other)


def outer(self: Tensor, vec2: Tensor) -> Tensor:
    """A column times a row."""
    return self.unsqueeze(1) * vec2


def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * self + alpha * (mat1 @ mat2)``."""
    rules.addmm("addmm", *_shaped(self, mat1, mat2), beta=beta, alpha=alpha)
    return _added(self, mat1, mat2, beta, alpha)


def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * self + alpha * (batch1 @ batch2)``."""
    rules.baddbmm("baddbmm", *_shaped(self, batch1, batch2), beta=beta, alpha=alpha)
    return _added(self, batch1, batch2, beta, alpha)


def addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * self + alpha * (mat @ vec)``."""
    rules.addmv("addmv", *_shaped(self, mat, vec), beta=beta, alpha=alpha)
    return _added(self, mat, vec, beta, alpha)


def _shaped(*tensors: Tensor) -> list[Shaped]:
    """What a shape rule looks at: a Composite kernel may be the first that sees a call."""
    return [Shaped(x.shape, x.dtype) for x in tensors]


def _added(self: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> Tensor:
    dtype = self.dtype
    self, a, b = _wide(self), _wide(a), _wide(b)
    product = F.matmul(a, b)
    if alpha != 1:
        product = product * alpha
    if beta != 0:
        product = product + (self if beta == 1 else self * beta)
    return product.to(dtype)


def _wide(x: Tensor) -> Tensor:
    """A half precision in float32, anything else as it is."""
    return x.to(float32) if x.dtype.itemsize == 2 and x.dtype.is_floating_point else x


# ----------------------------------------------------------------------------------------------- triangles, diagonals


def tril(self: Tensor, diagonal: int = 0) -> Tensor:
    """Zero where the column is further right than the row."""
    return F.where(_columns_less_rows(self) <= diagonal, self, self.new_zeros(()))


def triu(self: Tensor, diagonal: int = 0) -> Tensor:
    """Zero where the column is further left than the row."""
    return F.where(_columns_less_rows(self) >= diagonal, self, self.new_zeros(()))


def _columns_less_rows(self: Tensor) -> Tensor:
    rows, columns = self.shape[-2:]
    return F.arange(columns, device=self.device) - F.arange(rows, device=self.device).unsqueeze(1)


def trace(self: Tensor) -> Tensor:
    """The sum of the diagonal."""
    if self.ndim != 2:
        raise ShapeError(
            f"trace: takes a matrix, and the tensor has shape {self.shape}"
            + (fix("x.diagonal(0, -2, -1).sum(-1) gives those of a batch") if self.ndim > 2 else "")
        )
    return self.diagonal().sum()


def diag(self: Tensor, diagonal: int = 0) -> Tensor:
    """A diagonal matrix of a vector; the diagonal of a matrix."""
    if self.ndim == 1:
        return diag_embed(self, diagonal)
    if self.ndim == 2:
        return self.diagonal(diagonal).clone()
    raise ShapeError(
        f"diag: takes a vector or a matrix, and the tensor has shape {self.shape}"
        + fix("diag_embed and diagonal take batches")
    )


def diag_embed(self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with ``self`` on a diagonal."""
    if not self.ndim:
        raise ShapeError("diag_embed: takes a tensor with at least one dim, and this one is 0-d" + fix("x.reshape(1)"))
    size, ndim = self.shape[-1] + abs(offset), self.ndim + 1
    first = normalize_dim("diag_embed", dim1, ndim, name="dim1", of="the result")
    second = normalize_dim("diag_embed", dim2, ndim, name="dim2", of="the result")
    if first == second:
        raise DimError(f"diag_embed: dim1 and dim2 must be two dims, and are {dim1} and {dim2}")
    sizes = list(self.shape[:-1])
    for dim in sorted((first, second)):
        sizes.insert(dim, size)
    return F.diagonal_scatter(self.new_zeros(tuple(sizes)), self, offset, first, second)


# ---------------------------------------------------------------------------------------------- products of any dims


def kron(self: Tensor, other: Tensor) -> Tensor:
    """Each element of the one times the whole of the other."""
    ndim = max(self.ndim, other.ndim)
    a, b = (1,) * (ndim - self.ndim) + self.shape, (1,) * (ndim - other.ndim) + other.shape
    left = self.reshape(tuple(size for n in a for size in (n, 1)))
    right = other.reshape(tuple(size for n in b for size in (1, n)))
    return (left * right).reshape(tuple(n * m for n, m in zip(a, b, strict=True)))


def linalg_cross(self: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """``a[1] b[2] - a[2] b[1]`` and so on around."""
    return _cross("linalg_cross", self, other, dim)


def cross(self: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Along the first dim of size 3, unless it is given."""
    if dim is None:
        shape = broadcast_shapes("cross", self.shape, other.shape)
        if 3 not in shape:
            raise ShapeError(f"cross: takes vectors of 3 elements, and no dim of {shape} has size 3")
        dim = shape.index(3) - len(shape)
    return _cross("cross", self, other, dim)


def _cross(op: str, self: Tensor, other: Tensor, dim: int) -> Tensor:
    if self.ndim != other.ndim:
        raise ShapeError(
            f"{op}: both tensors must have as many dims, and have shapes {self.shape} and {other.shape}"
            + fix("put dims of size 1 in front: x.unsqueeze(0)")
        )
    if not self.ndim:
        raise ShapeError(f"{op}: takes vectors of 3 elements, and the tensors are 0-d")
    d = normalize_dim(op, dim, self.ndim)
    if self.shape[d] != 3 or other.shape[d] != 3:
        raise ShapeError(
            f"{op}: takes vectors of 3 elements along dim {dim}, and has {self.shape[d]} and {other.shape[d]} there"
        )
    broadcast_shapes(op, self.shape, other.shape)
    half = self.dtype
    x, y = _wide(self), _wide(other)
    a, b = (([t.select(d, i) for i in range(3)]) for t in (x, y))
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    result = F.stack(parts, d)
    return result.to(half) if half.is_floating_point and half.itemsize == 2 and other.dtype is half else result


def tensordot(self: Tensor, other: Tensor, dims_self: Any, dims_other: Any) -> Tensor:
    """One matrix product: the dims that are summed over are moved together."""
    if len(dims_self) != len(dims_other):
        raise ShapeError(
            f"tensordot: both tensors must have as many dims to sum over, and dims names {list(dims_self)} and "
            f"{list(dims_other)}"
        )
    first = (
        normalize_dims("tensordot", as_ints("tensordot", dims_self, "dims"), self.ndim, name="dims")
        if dims_self
        else ()
    )
    second = (
        normalize_dims("tensordot", as_ints("tensordot", dims_other, "dims"), other.ndim, name="dims")
        if dims_other
        else ()
    )
    if first and not (self.ndim and other.ndim):
        raise ShapeError(f"tensordot: a 0-d tensor has no dims to sum over, and dims names {list(dims_self)}")
    for a, b in zip(first, second, strict=True):
        if self.shape[a] != other.shape[b] and 1 not in (self.shape[a], other.shape[b]):
            raise ShapeError(
                f"tensordot: dim {a} of the first tensor has size {self.shape[a]}, and dim {b} of the second, which "
                f"goes with it, {other.shape[b]}: shapes {self.shape} and {other.shape}"
            )
        if self.shape[a] == 1 != other.shape[b]:
            other = other.sum(b, True).to(other.dtype)
        elif other.shape[b] == 1 != self.shape[a]:
            self = self.sum(a, True).to(self.dtype)
    left = [d for d in range(self.ndim) if d not in first]
    right = [d for d in range(other.ndim) if d not in second]
    sizes = tuple(self.shape[d] for d in left) + tuple(other.shape[d] for d in right)
    inner = 1
    for d in first:
        inner *= self.shape[d]
    rows, columns = 1, 1
    for d in left:
        rows *= self.shape[d]
    for d in right:
        columns *= other.shape[d]
    x = self.permute((*left, *first)).reshape((rows, inner))
    y = other.permute((*second, *right)).reshape((inner, columns))
    return F.matmul(x, y).reshape(sizes)


# ----------------------------------------------------------------------------------------------------------- distances


def _norm(x: Tensor, p: float, dim: int, keepdim: bool) -> Tensor:
    """The p-norm along one dim, whose gradient is 0 where the norm is."""
    if p == 2:
        return root(squared(x).sum(dim, keepdim))
    size = x.abs()
    if p == 1:
        return size.sum(dim, keepdim)
    if p == float("inf"):
        return F.max(size, dim, keepdim)[0]
    if p == 0:
        return (size != 0).to(size.dtype).sum(dim, keepdim) + 0 * F.where(size == size, 0, size).sum(dim, keepdim)
    if p < 0:
        raise ArgumentError(f"a norm of order {p} is none: p must not be negative")
    total = powered(size, p).sum(dim, keepdim)
    return powered(total, 1 / p)


def squared(x: Tensor) -> Tensor:
    """The squares of absolute values, without a kink at 0."""
    return (x * x.conj()).real() if x.is_complex() else F.square(x)


def root(x: Tensor) -> Tensor:
    """The square root, whose gradient at 0 is 0 and not infinite."""
    zero = x == 0
    return F.where(zero, 0, F.sqrt(F.where(zero, 1, x)))


def powered(x: Tensor, exponent: float) -> Tensor:
    """``x ** exponent`` of numbers that are not negative, whose gradient at 0 is 0."""
    zero = x == 0
    return F.where(zero, 0, F.where(zero, 1, x) ** exponent)
