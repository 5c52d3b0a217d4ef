"""Pointwise kernels: one array function each, the module's own ufunc wherever its meaning is the contract's.

Inputs arrive promoted to one dtype, scalars as 0-d arrays. What is written out here is what array modules disagree on:
integer powers, signs and conjugates of every dtype, and a logistic function that is accurate at both ends.
"""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, dtype_name, quietly
from tensorplay_core.errors import DTypeError


def first(xp: Any, *names: str) -> Any:
    """Returns the first of ``names`` that the module has: the standard's spelling, then NumPy's older one."""
    for name in names:
        found = getattr(xp, name, None)
        if found is not None:
            return found
    raise AttributeError(f"the array module {xp.__name__!r} has none of {', '.join(names)}")


@quietly
def arithmetic(xp: Any, support: Support) -> Kernels:
    """Kernels of arithmetic and comparison, and of ``where`` and ``clone``."""
    kind, cast, copy = support.kind, support.cast, support.copy
    power = first(xp, "pow", "power")
    where, asarray = xp.where, xp.asarray
    either, both = xp.logical_or, xp.logical_and

    def for_bool(function: Any, instead: Any, count: int = 2) -> Any:
        return function if support.numpy_rules else support.takes_bool(function, instead, count)

    def pow(self: Any, exponent: Any) -> Any:
        """As PyTorch: an integer to a negative power is 0, except for 1 and -1."""
        what = kind[self.dtype]
        if what == "bool":
            return self | ~exponent
        if what != "int":
            return power(self, exponent)
        negative = exponent < 0
        zero, one = asarray(0, dtype=self.dtype), asarray(1, dtype=self.dtype)
        exponent = where(negative, zero - exponent, exponent)
        # The most negative exponent is its own negation, and even: any even number does.
        exponent = where(exponent < 0, asarray(2, dtype=self.dtype), exponent)
        result = power(self, exponent)
        return where(negative & (self != one) & (self != zero - one), zero, result)

    def real(self: Any) -> Any:
        return copy(xp.real(self) if kind[self.dtype] == "complex" else self)

    def conj(self: Any) -> Any:
        return xp.conj(self) if kind[self.dtype] == "complex" else copy(self)

    def clone(self: Any) -> Any:
        return copy(self)

    def sgn(self: Any) -> Any:
        what = kind[self.dtype]
        if what == "bool":
            return copy(self)
        if what != "complex":
            return xp.sign(self)
        size = xp.abs(self)
        return self / cast(where(size == 0, size + 1, size), self.dtype)

    return {
        "add": for_bool(xp.add, either),
        "sub": xp.subtract,
        "mul": for_bool(xp.multiply, both),
        "div": xp.divide,
        "pow": pow,
        "neg": xp.negative,
        "abs": for_bool(xp.abs, copy, 1),
        "sgn": sgn,
        "conj": conj,
        "real": real,
        "eq": xp.equal,
        "ne": xp.not_equal,
        "lt": for_bool(xp.less, lambda a, b: both(~a, b)),
        "le": for_bool(xp.less_equal, lambda a, b: either(~a, b)),
        "gt": for_bool(xp.greater, lambda a, b: both(a, ~b)),
        "ge": for_bool(xp.greater_equal, lambda a, b: either(a, ~b)),
        "maximum": for_bool(xp.maximum, either),
        "minimum": for_bool(xp.minimum, both),
        "where": where,
        "clone": clone,
    }


@quietly
def transcendental(xp: Any, support: Support) -> Kernels:
    """Kernels of the exponential family and of ``relu``."""
    kind, cast, single = support.kind, support.cast, support.single
    exp, where, asarray = xp.exp, xp.where, xp.asarray
    log, log1p_of_reals = xp.log, xp.log1p
    angle = first(xp, "atan2", "arctan2")

    def log1p(self: Any) -> Any:
        """Keeps the digits of small complex numbers: half the real one's of x (2 + x) + y², and i atan2(y, 1 + x)."""
        if kind[self.dtype] != "complex":
            return log1p_of_reals(self)
        x, y = xp.real(self), xp.imag(self)
        near = xp.abs(x) + xp.abs(y) < 0.5
        size = where(near, log1p_of_reals(x * (2 + x) + y * y) / 2, log(xp.abs(1 + self)))
        return cast(size, self.dtype) + cast(angle(y, 1 + x), self.dtype) * asarray(1j, dtype=self.dtype)

    def sigmoid(self: Any) -> Any:
        """1 / (1 + exp(-x)) with exp(-|x|), which never overflows, so that both ends keep their relative accuracy."""
        what, dtype = kind[self.dtype], self.dtype
        if what == "half":
            self = cast(self, single)
        positive = (xp.real(self) if what == "complex" else self) >= 0
        small = exp(where(positive, -self, self))
        result = where(positive, asarray(1, dtype=small.dtype), small) / (1 + small)
        return cast(result, dtype) if what == "half" else result

    def relu(self: Any) -> Any:
        what = kind[self.dtype]
        if what == "complex":
            raise DTypeError(f"relu: complex numbers have no order, and the tensor is {dtype_name(self.dtype)}")
        zero = asarray(0, dtype=self.dtype)
        return xp.maximum(self, zero)

    return {
        "exp": exp,
        "expm1": xp.expm1,
        "log": log,
        "log1p": log1p,
        "sin": xp.sin,
        "cos": xp.cos,
        "sqrt": xp.sqrt,
        "tanh": xp.tanh,
        "sigmoid": sigmoid,
        "relu": relu,
    }


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the pointwise kernels over ``xp``."""
    return {**arithmetic(xp, support), **transcendental(xp, support)}
