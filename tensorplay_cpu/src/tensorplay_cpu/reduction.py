"""Reductions and normalised exponentials through the ufuncs' own ``reduce``, without NumPy's Python wrappers.

``numpy.sum`` of four elements takes 2.5 times what ``numpy.add.reduce`` takes. ``out=...``, where this NumPy has it,
makes a full reduction return an array at once rather than a scalar that must become one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly

_AS_ARRAY: dict[str, Any] = {"out": ...} if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else {}


@quietly
def kernels(general: Kernels) -> Kernels:
    """Returns the replacements; ``general`` serves the dtypes that they leave out."""
    total, largest, exp, log, subtract, divide = (
        np.add.reduce,
        np.maximum.reduce,
        np.exp,
        np.log,
        np.subtract,
        np.divide,
    )
    single, double, int64, array = np.dtype("float32"), np.dtype("float64"), np.dtype("int64"), np.asarray
    general_sum, general_mean, as_array = general["sum"], general["mean"], _AS_ARRAY
    general_softmax, general_log_softmax, general_max_dim = (
        general["softmax"],
        general["log_softmax"],
        general["max.dim"],
    )
    general_max, general_argmax = general["max"], general["argmax"]

    def sum(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        dtype = self.dtype
        if dtype is single or dtype is double:
            if dim is None or dim.__class__ is int:
                return total(self, dim, None, keepdims=keepdim, **as_array)
            if self.ndim:
                return total(self, tuple(dim) or None, None, keepdims=keepdim, **as_array)
        return general_sum(self, dim, keepdim)

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
            return divide(total(self, axis, None, keepdims=keepdim, **as_array), array(count, dtype), **as_array)
        return general_mean(self, dim, keepdim)

    def max(self: Any) -> Any:
        if self.dtype.kind == "c":
            return general_max(self)
        return largest(self, None, **as_array)

    def max_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        # With no tie between 0.0 and -0.0 to tell apart, the largest value is the value at the index.
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_max_dim(self, dim, keepdim)
        indices = self.argmax(dim, keepdims=keepdim)
        return largest(self, dim, keepdims=keepdim, **as_array), array(indices, int64)

    def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if self.ndim == 0 or self.dtype.kind == "c":
            return general_argmax(self, dim, keepdim)
        return array(self.argmax(dim, keepdims=keepdim), int64)

    def softmax(self: Any, dim: int) -> Any:
        dtype = self.dtype
        if (dtype is not single and dtype is not double) or self.size == 0 or self.ndim == 0:
            return general_softmax(self, dim)
        result = subtract(self, largest(self, dim, keepdims=True))
        exp(result, result)
        return divide(result, total(result, dim, keepdims=True), result)

    def log_softmax(self: Any, dim: int) -> Any:
        dtype = self.dtype
        if (dtype is not single and dtype is not double) or self.size == 0 or self.ndim == 0:
            return general_log_softmax(self, dim)
        result = subtract(self, largest(self, dim, keepdims=True))
        scale = total(exp(result), dim, keepdims=True)
        return subtract(result, log(scale, scale), result)

    return {
        "sum": sum,
        "mean": mean,
        "max": max,
        "max.dim": max_dim,
        "argmax": argmax,
        "softmax": softmax,
        "log_softmax": log_softmax,
    }
