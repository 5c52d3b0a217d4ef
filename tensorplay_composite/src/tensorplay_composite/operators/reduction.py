"""Composite reductions: the forms with ``dtype=``, and a mean made of a sum."""

from __future__ import annotations

import math

from tensorplay_core.errors import DTypeError, fix
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import DType, float32

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
