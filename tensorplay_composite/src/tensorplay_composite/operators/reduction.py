"""Composite reductions: the forms with ``dtype=``, and those that are made of a sum or of the largest element.

The smallest element is the largest of the elements turned around, which no number of any dtype is lost by.
"""

from __future__ import annotations

import math

from tensorplay_core.errors import DTypeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.helpers_reduction import Shape
from tensorplay_core.ops.shape_checks import Shaped, normalize_dims
from tensorplay_core.ops.shapes import RULES
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import DType, float32, get_default_dtype

Dims = int | tuple[int, ...] | list[int] | None


def sum(self: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum of the elements cast to ``dtype``."""
    if dtype is None:
        return self.sum(dim, keepdim)
    # An integer sum is int64 whatever goes in, so the result is cast too.
    return self.to(dtype).sum(dim, keepdim).to(dtype)


def mean(self: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum divided by the number of elements; half precisions accumulate in float32."""
    result = self.dtype if dtype is None else dtype
    if not (result.is_floating_point or result.is_complex):
        raise DTypeError(
            f"mean: the result would be {result.name}, and only floating and complex dtypes have a mean"
            + fix("pass dtype=tp.float32")
        )
    wide = self.to(float32 if result.itemsize == 2 else result)
    total = wide.sum(dim, keepdim)  # first, for it refuses a dim that there is not
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        dims: tuple[int, ...] = tuple(range(self.ndim))
    else:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
    count = math.prod(self.shape[d] for d in dims) if self.ndim else 1
    return (total / count).to(result)


# ------------------------------------------------------------------------------------------------- products and counts


def as_rows(op: str, self: Tensor, dim: Dims, keepdim: bool, *, empty_is_all: bool = True) -> tuple[Tensor, Shape]:
    """Returns a tensor with the reduced dims joined as its last, and the shape of the reduction."""
    whole = dim is None or (empty_is_all and not isinstance(dim, int) and len(dim) == 0)
    reduced = tuple(range(self.ndim)) if whole else normalize_dims(op, dim, self.ndim)
    if not self.ndim:
        return self.reshape(1), ()
    kept = [d for d in range(self.ndim) if d not in reduced]
    rows = self.permute([*kept, *reduced]).reshape(
        (*(self.shape[d] for d in kept), math.prod(self.shape[d] for d in reduced))
    )
    return rows, tuple(1 if d in reduced else n for d, n in enumerate(self.shape) if keepdim or d not in reduced)


def prod(self: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The product of halves of each row, until one element is left of it."""
    if dtype is not None:
        return self.to(dtype).prod(dim, keepdim).to(dtype)
    result = self.dtype if self.dtype.is_inexact else F.arange(0, device=self.device).dtype
    wide = self.to(float32) if self.dtype.is_inexact and self.dtype.itemsize == 2 else self.to(result)
    x, shape = as_rows("prod", wide, dim, keepdim)
    if not x.shape[-1]:
        return F.ones(shape, dtype=result, device=self.device)
    while (size := x.shape[-1]) > 1:
        half = size // 2
        product = F.slice(x, -1, 0, half) * F.slice(x, -1, half, 2 * half)
        x = F.cat([product, F.slice(x, -1, 2 * half, size)], -1) if size % 2 else product
    result_ = x.reshape(shape).to(result)
    return result_.clone() if wide is self else result_


def any(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether some element is not zero."""
    return _truths("any", self.ne(0), dim, keepdim)


def all(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether no element is zero."""
    return _truths("all", self.eq(0), dim, keepdim).eq(False)


def _truths(op: str, hits: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    if dim is not None and not isinstance(dim, int) and len(dim) == 0:
        return hits  # no dim is reduced
    return hits.sum(dim, keepdim).ne(0)


def count_nonzero(self: Tensor, dim: Dims = None) -> Tensor:
    """The sum of a mask."""
    return self.ne(0).sum(dim)


def nansum(self: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum with zeros for NaN."""
    return F.where(self == self, self, 0).sum(dim, keepdim, dtype=dtype)


def nanmean(self: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum of what is not NaN over how many there are."""
    result = self.dtype if dtype is None else dtype
    if not result.is_inexact:
        raise DTypeError(f"nanmean: integers have no mean, and the dtype is {result.name}" + fix("x.to(tp.float32)"))
    known = self == self
    wide = F.where(known, self, 0).to(float32 if result.itemsize == 2 else result)
    return (wide.sum(dim, keepdim) / known.sum(dim, keepdim)).to(result)


# ------------------------------------------------------------------------------------------------------------ extremes


def max_other(self: Tensor, other: Tensor) -> Tensor:
    """The larger of two elements."""
    return F.maximum(self, other)


def min_other(self: Tensor, other: Tensor) -> Tensor:
    """The smaller of two elements."""
    return F.minimum(self, other)


def _turned(x: Tensor) -> Tensor:
    """Returns numbers in the opposite order: ``-x``, of integers ``-1 - x``, which has a number for each."""
    if x.dtype.is_bool:
        return x.eq(False)
    return -x if x.dtype.is_inexact else x * -1 - 1


def min(self: Tensor) -> Tensor:
    """The smallest element."""
    return _turned(F.max(_turned(self)))


def min_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest element along a dim, and its first place."""
    RULES["max_dim"]("min", Shaped(self.shape, self.dtype), dim, keepdim)
    values, indices = F.max(_turned(self), dim, keepdim)
    return _turned(values), indices


def argmin(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first place of the smallest element."""
    return F.argmax(_turned(self), dim, keepdim)


def amax(self: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The largest elements over some dims."""
    RULES["reduction"]("amax", Shaped(self.shape, self.dtype), dim, keepdim)
    rows, shape = as_rows("amax", self, dim, keepdim)
    if not rows.numel():
        return F.zeros(shape, dtype=self.dtype, device=self.device)
    return F.max(rows, -1)[0].reshape(shape)


def amin(self: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The smallest elements over some dims."""
    return _turned(amax(_turned(self), dim, keepdim))


def aminmax(self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Both."""
    dims: int | tuple[int, ...] = () if dim is None else dim
    return F.amin(self, dims, keepdim), F.amax(self, dims, keepdim)


def logsumexp(self: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x - max))) + max``; an infinite largest element is taken away from nothing."""
    result = self.dtype if self.dtype.is_inexact else get_default_dtype()
    wide = self.to(float32 if result.itemsize == 2 else result)
    if not wide.numel():
        return F.log(wide.sum(dim, keepdim)).to(result)
    largest = amax(wide, dim, True)
    base = F.where(abs(largest) == math.inf, 0, largest)
    total = F.log(F.exp(wide - base).sum(dim, True)) + base
    return (total if keepdim else total.reshape(as_rows("logsumexp", wide, dim, False)[1])).to(result)
