"""Reductions and normalised exponentials through the ufuncs' own ``reduce``, without NumPy's Python wrappers.

``numpy.sum`` of four elements takes 2.5 times what ``numpy.add.reduce`` takes. ``out=...``, where this NumPy has it,
makes a full reduction return an array at once rather than a scalar that must become one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly

_HAS_ELLIPSIS = np.lib.NumpyVersion(np.__version__) >= "2.3.0"
"""Whether ufuncs take ``out=...``; on an older NumPy the general kernels serve what relies on it."""

FEW, MANY = 32, 256
"""Columns up to which, and rows from which, extremes are found column by column."""
PLAIN = tuple(np.dtype(name) for name in ("float32", "float64", "int32", "int64"))
_REMEMBERED = 4096
"""How many element counts are kept as ready arrays."""


@quietly
def sums(general: Kernels) -> Kernels:
    """``sum`` and ``mean`` of float32 and float64."""
    total, divide, array = np.add.reduce, np.divide, np.asarray
    single, double = np.dtype("float32"), np.dtype("float64")
    general_sum, general_mean = general["sum"], general["mean"]

    def sum(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        dtype = self.dtype
        if dtype is single or dtype is double:
            if dim is None or dim.__class__ is int:
                return total(self, dim, None, keepdims=keepdim, out=...)
            if self.ndim:
                return total(self, tuple(dim) or None, None, keepdims=keepdim, out=...)
        return general_sum(self, dim, keepdim)

    counts: dict[tuple[int, Any], Any] = {}

    def as_count(count: int, dtype: Any) -> Any:
        """A count as a 0-d array: a Python number would cost the division twice its time."""
        result = counts.get((count, dtype))
        if result is None:
            result = array(count, dtype)
            if len(counts) < _REMEMBERED:
                counts[count, dtype] = result
        return result

    def mean(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        dtype = self.dtype
        if (dtype is single or dtype is double) and self.ndim:
            axis: Any = dim
            if dim is None:
                count = self.size
            elif dim.__class__ is int:
                count = self.shape[dim]
            else:
                axis = tuple(dim) or None
                count = math.prod([self.shape[d] for d in axis]) if axis else self.size
            result = total(self, axis, None, keepdims=keepdim, out=...)
            return divide(result, as_count(count, dtype), result)
        return general_mean(self, dim, keepdim)

    general_nansum = general["nansum"]

    def nansum(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if self.dtype is single or self.dtype is double:
            result = sum(self, dim, keepdim)
            if not (result != result).any():  # a NaN would have reached the sum
                return result
        return general_nansum(self, dim, keepdim)

    return {"sum": sum, "mean": mean, "nansum": nansum} if _HAS_ELLIPSIS else {}


@quietly
def extremes(general: Kernels) -> Kernels:
    """The largest and smallest elements of everything that has an order."""
    largest, smallest, array, int64 = np.maximum.reduce, np.minimum.reduce, np.asarray, np.dtype("int64")
    general_max, general_max_dim, general_argmax = general["max"], general["max.dim"], general["argmax"]
    general_min, general_min_dim, general_argmin = general["min"], general["min.dim"], general["argmin"]
    general_amax, general_amin = general["amax"], general["amin"]

    def has_few_columns(self: Any, dim: int) -> bool:
        """Whether rows are short and many: NumPy reduces one after the other, and columns all at once."""
        shape = self.shape
        return len(shape) == 2 and dim in (1, -1) and 0 < shape[1] <= FEW < MANY <= shape[0] and self.dtype in PLAIN

    def by_columns(self: Any, extreme: Any, keepdim: bool) -> tuple[Any, Any]:
        columns = np.ascontiguousarray(self.T)
        values = extreme(columns, 0)
        hits = columns == values
        if (values != values).any():
            hits |= columns != columns
        indices = np.empty(values.shape, int64)
        for j in range(len(columns) - 1, -1, -1):  # the first of equal elements comes last, and stays
            np.copyto(indices, j, where=hits[j])
        return (values[:, None], indices[:, None]) if keepdim else (values, indices)

    def max(self: Any) -> Any:
        if self.dtype.kind == "c":
            return general_max(self)
        return largest(self, None, out=...)

    def max_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        # The largest value is the value at the index, up to the sign of a zero.
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_max_dim(self, dim, keepdim)
        if has_few_columns(self, dim):
            return by_columns(self, largest, keepdim)
        indices = self.argmax(dim, keepdims=keepdim)
        return largest(self, dim, keepdims=keepdim, out=...), array(indices, int64)

    def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_argmax(self, dim, keepdim)
        return array(self.argmax(dim, keepdims=keepdim), int64)

    def min(self: Any) -> Any:
        if self.dtype.kind == "c":
            return general_min(self)
        return smallest(self, None, out=...)

    def min_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_min_dim(self, dim, keepdim)
        if has_few_columns(self, dim):
            return by_columns(self, smallest, keepdim)
        indices = self.argmin(dim, keepdims=keepdim)
        return smallest(self, dim, keepdims=keepdim, out=...), array(indices, int64)

    def argmin(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_argmin(self, dim, keepdim)
        return array(self.argmin(dim, keepdims=keepdim), int64)

    def amax(self: Any, dim: Any = (), keepdim: bool = False) -> Any:
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_amax(self, dim, keepdim)
        return largest(self, dim if dim.__class__ is int else tuple(dim) or None, keepdims=keepdim, out=...)

    def amin(self: Any, dim: Any = (), keepdim: bool = False) -> Any:
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_amin(self, dim, keepdim)
        return smallest(self, dim if dim.__class__ is int else tuple(dim) or None, keepdims=keepdim, out=...)

    made: Kernels = {"argmax": argmax, "argmin": argmin}
    valued: Kernels = {"max": max, "max.dim": max_dim, "min": min, "min.dim": min_dim, "amax": amax, "amin": amin}
    return {**made, **valued} if _HAS_ELLIPSIS else made


@quietly
def exponentials(general: Kernels) -> Kernels:
    """``softmax`` and ``log_softmax`` of float32 and float64, in one array of temporaries."""
    total, largest, exp, log = np.add.reduce, np.maximum.reduce, np.exp, np.log
    subtract, divide, single, double = np.subtract, np.divide, np.dtype("float32"), np.dtype("float64")
    general_softmax, general_log_softmax = general["softmax"], general["log_softmax"]

    def softmax(self: Any, dim: int) -> Any:
        dtype = self.dtype
        if (dtype is not single and dtype is not double) or not self.size or not self.ndim or dim.__class__ is not int:
            return general_softmax(self, dim)
        result = subtract(self, largest(self, dim, keepdims=True))
        exp(result, result)
        return divide(result, total(result, dim, keepdims=True), result)

    def log_softmax(self: Any, dim: int) -> Any:
        dtype = self.dtype
        if (dtype is not single and dtype is not double) or not self.size or not self.ndim or dim.__class__ is not int:
            return general_log_softmax(self, dim)
        result = subtract(self, largest(self, dim, keepdims=True))
        scale = total(exp(result), dim, keepdims=True)
        return subtract(result, log(scale, scale), result)

    return {"softmax": softmax, "log_softmax": log_softmax}


def kernels(general: Kernels) -> Kernels:
    """Returns the replacements; ``general`` serves the dtypes that they leave out."""
    return {**sums(general), **extremes(general), **exponentials(general)}
