"""Reductions: sums, products, means, truth, and largest and smallest elements over some or all dims.

Two promises of the contract are kept here: half precisions accumulate in float32 and round once, and NaN wins every
comparison. ``dtype=`` is left to the Composite kernels, which cast first.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays import statistics
from tensorplay_composite.arrays._support import Kernels, Support, check_0d, dims_of, dtype_name, quietly
from tensorplay_core.errors import DTypeError, fix


@quietly
def sums(xp: Any, support: Support) -> Kernels:
    """Kernels that add up."""
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    add_up, asarray = support.sum, xp.asarray
    multiply = xp.multiply.reduce if support.numpy_rules else xp.prod  # the former is no frame of NumPy's, which warns

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

    def nansum(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if kind[self.dtype] in ("half", "float"):
            self = xp.where(xp.isnan(self), asarray(0, dtype=self.dtype), self)
        return sum(self, dim, keepdim)

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

    def prod(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        what, axis = kind[self.dtype], dims_of(dim)
        if self.ndim == 0:
            check_0d("prod", dim)
            axis = None
        if what == "half":
            return cast(multiply(cast(self, single), axis=axis, keepdims=keepdim), self.dtype)
        dtype = int64 if what in ("bool", "int", "uint") else self.dtype
        return multiply(cast(self, int64) if what == "bool" else self, axis=axis, dtype=dtype, keepdims=keepdim)

    return {"sum": sum, "nansum": nansum, "mean": mean, "prod": prod}


@quietly
def truth(xp: Any, support: Support) -> Kernels:
    """Kernels that ask which elements are not zero."""
    kind, cast, add_up, int64 = support.kind, support.cast, support.sum, support.int64

    def mask(array: Any) -> Any:
        return array if kind[array.dtype] == "bool" else array != 0

    def asked(name: str, test: Any, self: Any, dim: Any, keepdim: bool) -> Any:
        if dim is not None and not isinstance(dim, int) and not len(dim):
            return support.copy(mask(self))  # no dim is reduced, as in PyTorch
        axis = dims_of(dim)
        if self.ndim == 0:
            check_0d(name, dim)
            axis = None
        return test(mask(self), axis=axis, keepdims=keepdim)

    def any(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return asked("any", xp.any, self, dim, keepdim)

    def all(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return asked("all", xp.all, self, dim, keepdim)

    def count_nonzero(self: Any, dim: Any = None) -> Any:
        axis = dims_of(dim)
        if self.ndim == 0:
            check_0d("count_nonzero", dim)
            axis = None
        return add_up(cast(mask(self), int64), axis=axis, dtype=int64, keepdims=False)

    return {"any": any, "all": all, "count_nonzero": count_nonzero}


@quietly
def extremes(xp: Any, support: Support) -> Kernels:
    """Kernels that look for the largest or the smallest element; :func:`extreme` among them is no operator."""
    kind, cast, int64, asarray = support.kind, support.cast, support.int64, xp.asarray

    def order(name: str, self: Any) -> str:
        what = kind[self.dtype]
        if what == "complex":
            raise DTypeError(f"{name}: complex numbers have no order, and the tensor is {dtype_name(self.dtype)}")
        return what

    def extreme(name: str, self: Any, dim: Any, keepdim: bool, largest: bool) -> Any:
        """The module's max or min, made to take bool and to give NaN where there is one."""
        what = order(name, self)
        if what == "bool":
            return (xp.any if largest else xp.all)(self, axis=dim, keepdims=keepdim)
        find, last = (xp.max, -math.inf) if largest else (xp.min, math.inf)
        if what not in ("half", "float"):
            return find(self, axis=dim, keepdims=keepdim)
        missing = xp.isnan(self)
        result = find(xp.where(missing, asarray(last, dtype=self.dtype), self), axis=dim, keepdims=keepdim)
        return xp.where(xp.any(missing, axis=dim, keepdims=keepdim), asarray(math.nan, dtype=self.dtype), result)

    def position(name: str, self: Any, dim: int | None, keepdim: bool, largest: bool) -> Any:
        """The first place of the largest or smallest element; NaN counts as further than all others."""
        what, find = order(name, self), xp.argmax if largest else xp.argmin
        if what == "bool":
            self = cast(self, int64)
        elif what in ("half", "float"):
            # Where there is a NaN, the first 1 among 0s, or -1, is the first NaN.
            missing = xp.isnan(self)
            marks = cast(missing, self.dtype)
            marks = marks if largest else -marks
            self = xp.where(xp.any(missing, axis=dim, keepdims=True), marks, self)
        return cast(find(self, axis=dim, keepdims=keepdim), int64)

    def along(name: str, self: Any, dim: int, keepdim: bool, largest: bool) -> tuple[Any, Any]:
        if self.ndim == 0:
            check_0d(name, dim)
            order(name, self)
            return support.copy(self), xp.zeros((), dtype=int64)
        indices = position(name, self, dim, True, largest)
        values = xp.take_along_axis(self, indices, axis=dim)
        return (values, indices) if keepdim else (xp.squeeze(values, axis=dim), xp.squeeze(indices, axis=dim))

    def place(name: str, self: Any, dim: int | None, keepdim: bool, largest: bool) -> Any:
        if self.ndim == 0:
            check_0d(name, dim)
            order(name, self)
            return xp.zeros((), dtype=int64)
        return position(name, self, dim, keepdim, largest)

    def over(name: str, self: Any, dim: Any, keepdim: bool, largest: bool) -> Any:
        axis = dims_of(dim)
        if self.ndim == 0:
            check_0d(name, dim)
            axis = None
        return extreme(name, self, axis, keepdim, largest)

    def max(self: Any) -> Any:
        return extreme("max", self, None, False, True)

    def min(self: Any) -> Any:
        return extreme("min", self, None, False, False)

    def max_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        return along("max", self, dim, keepdim, True)

    def min_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        return along("min", self, dim, keepdim, False)

    def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return place("argmax", self, dim, keepdim, True)

    def argmin(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return place("argmin", self, dim, keepdim, False)

    def amax(self: Any, dim: Any = (), keepdim: bool = False) -> Any:
        return over("amax", self, dim, keepdim, True)

    def amin(self: Any, dim: Any = (), keepdim: bool = False) -> Any:
        return over("amin", self, dim, keepdim, False)

    made: Kernels = {"max": max, "min": min, "max.dim": max_dim, "min.dim": min_dim}
    return {**made, "argmax": argmax, "argmin": argmin, "amax": amax, "amin": amin, "": extreme}


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the reductions over ``xp``."""
    made = extremes(xp, support)
    extreme = made.pop("")
    return {**sums(xp, support), **truth(xp, support), **made, **statistics.kernels(xp, support, extreme)}
