"""Pointwise kernels where NumPy can do better than the general ones: fewer passes, fewer dtype questions.

A small array costs what the calls cost, so a kernel here makes as few as it can, writes into its own temporaries, and
takes scalar operands as ready 0-d arrays (a Python scalar costs NumPy twice the operation).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_core.errors import DTypeError

BLOCK = 64 * 1024
"""Elements that a blocked kernel handles at once: few enough to stay in the cache, enough to hide the calls."""


FEW = 256
"""Elements up to which the number of calls decides, and not what they do."""


@quietly
def kernels(general: Kernels) -> Kernels:
    """Returns the replacements; ``general`` serves the dtypes that they leave out."""
    absolute, add, divide, exp, maximum, negative = np.absolute, np.add, np.divide, np.exp, np.maximum, np.negative
    greater_equal, power, sign = np.greater_equal, np.power, np.sign
    general_sigmoid, general_pow, general_sgn = general["sigmoid"], general["pow"], general["sgn"]
    single, double = np.dtype("float32"), np.dtype("float64")
    one = {dtype: np.ones((), dtype) for dtype in (single, double)}
    lowest, least = {single: -87.0, double: -708.0}, np.minimum.reduce

    class Zeros(dict[Any, Any]):
        def __missing__(self, dtype: Any) -> Any:
            if dtype.kind == "c":
                raise DTypeError(f"relu: complex numbers have no order, and the tensor is {dtype}")
            self[dtype] = zero = np.zeros((), dtype)
            return zero

    zeros = Zeros()

    def relu(self: Any) -> Any:
        return maximum(self, zeros[self.dtype])

    def sigmoid(self: Any) -> Any:
        """max(e, x >= 0) / (1 + e) with e = exp(-|x|): the numerator is 1 on the right and e on the left."""
        dtype = self.dtype
        if dtype is not single and dtype is not double:
            return general_sigmoid(self)
        if self.size <= FEW and dtype is single:
            e = exp(negative(self), dtype=double)
            return divide(one[double], add(e, one[double])).astype(single)
        if self.size > BLOCK and self.flags.c_contiguous:
            result = np.empty_like(self)
            flat, out = self.reshape(-1), result.reshape(-1)
            for start in range(0, flat.size, BLOCK):
                part = slice(start, start + BLOCK)
                logistic(flat[part], dtype, out[part])
            return result
        return logistic(self, dtype, None)

    def logistic(x: Any, dtype: Any, out: Any) -> Any:
        if x.size > FEW and least(x, None) >= lowest[dtype]:  # exp(-x) is finite, and one pass less for each sign
            e = negative(x, out)
            add(exp(e, e), one[dtype], e)
            return divide(one[dtype], e, e)
        e = absolute(x, out)
        e = negative(e, out) if e.ndim == 0 else negative(e, e)
        e = exp(e, out) if e.ndim == 0 else exp(e, e)
        top = maximum(e, greater_equal(x, zeros[dtype]), dtype=dtype)
        return divide(top, add(e, one[dtype]), out)

    def pow(self: Any, exponent: Any) -> Any:
        if self.dtype.kind == "b":
            return general_pow(self, exponent)
        try:
            return power(self, exponent)
        except ValueError:  # integers to negative powers
            return general_pow(self, exponent)

    def sgn(self: Any) -> Any:
        kind = self.dtype.kind
        return self.copy() if kind == "b" else general_sgn(self) if kind == "c" else sign(self)

    def clone(self: Any) -> Any:
        return self.copy()

    def conj(self: Any) -> Any:
        return self.conj() if self.dtype.kind == "c" else self.copy()

    def real(self: Any) -> Any:
        return self.real.copy()

    return {
        "relu": relu,
        "sigmoid": sigmoid,
        "pow": pow,
        "sgn": sgn,
        "clone": clone,
        "conj": conj,
        "real": real,
    }
