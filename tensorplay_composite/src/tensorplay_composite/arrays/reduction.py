"""Reductions: sums, means and largest elements over some or all dims.

Two promises of the contract are kept here: half precisions accumulate in float32 and round once, and NaN wins every
comparison. ``dtype=`` is left to the Composite kernels, which cast first.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, check_0d, dims_of, dtype_name, quietly
from tensorplay_core.errors import DTypeError, fix


@quietly
def sums(xp: Any, support: Support) -> Kernels:
    """Kernels that add up."""
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    add_up, asarray = support.sum, xp.asarray

    def sum(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        what, axis = kind[self.dtype], dims_of(dim)
        if self.ndim == 0:
            check_0d("sum", dim)
            axis = None
        if what == "half":
            return cast(add_up(cast(self, single), axis=axis, keepdims=keepdim), self.dtype)
        if what == "bool":
            self = cast(self, int64)
        dtype = int64 if what in ("bool", "int", "uint") else self.dtype
        return add_up(self, axis=axis, keepdims=keepdim, dtype=dtype)

    def mean(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        what, axis = kind[self.dtype], dims_of(dim)
        if what not in ("half", "float", "complex"):
            raise DTypeError(
                f"mean: the tensor is {dtype_name(self.dtype)}, and only floating and complex dtypes have a mean"
                + fix("x.mean(dtype=tp.float32)")
            )
        if self.ndim == 0:
            check_0d("mean", dim)
            axis = None
        wide = cast(self, single) if what == "half" else self
        total = add_up(wide, axis=axis, keepdims=keepdim)
        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        count = math.prod(self.shape[axis] for axis in axes)
        result = total / asarray(count, dtype=total.dtype)
        return cast(result, self.dtype) if what == "half" else result

    return {"sum": sum, "mean": mean}


@quietly
def extremes(xp: Any, support: Support) -> Kernels:
    """Kernels that look for the largest element."""
    kind, cast, int64, asarray = support.kind, support.cast, support.int64, xp.asarray

    def order(name: str, self: Any) -> str:
        what = kind[self.dtype]
        if what == "complex":
            raise DTypeError(f"{name}: complex numbers have no order, and the tensor is {dtype_name(self.dtype)}")
        return what

    def largest(self: Any, dim: Any, keepdim: bool) -> Any:
        """The module's max, made to take bool and to give NaN where there is one."""
        what = order("max", self)
        if what == "bool":
            return xp.any(self, axis=dim, keepdims=keepdim)
        if what not in ("half", "float"):
            return xp.max(self, axis=dim, keepdims=keepdim)
        missing = xp.isnan(self)
        result = xp.max(xp.where(missing, asarray(-math.inf, dtype=self.dtype), self), axis=dim, keepdims=keepdim)
        return xp.where(xp.any(missing, axis=dim, keepdims=keepdim), asarray(math.nan, dtype=self.dtype), result)

    def position(name: str, self: Any, dim: int | None, keepdim: bool) -> Any:
        """The first place of the largest element; NaN counts as larger than all others."""
        what = order(name, self)
        if what == "bool":
            self = cast(self, int64)
        elif what in ("half", "float"):
            # Where there is a NaN, the first 1 among 0s and 1s is the first NaN.
            missing = xp.isnan(self)
            self = xp.where(xp.any(missing, axis=dim, keepdims=True), cast(missing, self.dtype), self)
        return cast(xp.argmax(self, axis=dim, keepdims=keepdim), int64)

    def max(self: Any) -> Any:
        return largest(self, None, False)

    def max_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        if self.ndim == 0:
            check_0d("max", dim)
            return support.copy(self), xp.zeros((), dtype=int64)
        indices = position("max", self, dim, True)
        values = xp.take_along_axis(self, indices, axis=dim)
        return (values, indices) if keepdim else (xp.squeeze(values, axis=dim), xp.squeeze(indices, axis=dim))

    def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if self.ndim == 0:
            check_0d("argmax", dim)
            order("argmax", self)
            return xp.zeros((), dtype=int64)
        return position("argmax", self, dim, keepdim)

    return {"max": max, "max.dim": max_dim, "argmax": argmax}


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the reductions over ``xp``."""
    return {**sums(xp, support), **extremes(xp, support)}
