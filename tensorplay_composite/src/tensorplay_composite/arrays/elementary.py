"""Rounding, remainders, bounds, and the elementary functions beyond those of :mod:`pointwise`.

Nearly all are functions of the array API standard. What is written out here is what the standard leaves out (``fmod``,
``exp2``, the error functions), refuses (integers that are whole already, in some modules), or leaves to the module
(shifts by more bits than there are).
"""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

from tensorplay_composite import error_function
from tensorplay_composite.arrays._support import Kernels, Support, quietly, silent
from tensorplay_composite.arrays.pointwise import first

SPLITTERS = (2.0**27 + 1, 2.0**12 + 1)
"""What cuts a number of float64, and of float32, into two with half the digits each."""


@quietly
def rounding(xp: Any, support: Support) -> Kernels:
    """Kernels that round, and those of division with a remainder, of bounds and of signs."""
    kind, copy, boolean = support.kind, support.copy, support.boolean
    where, maximum, minimum, zeros = xp.where, xp.maximum, xp.minimum, xp.zeros
    absolute, remainder = xp.abs, xp.remainder
    copysign, signbit_of = xp.copysign, xp.signbit

    def whole(function: Any) -> Any:
        def rounded(self: Any) -> Any:
            return copy(self) if kind[self.dtype] in ("int", "uint") else function(self)

        return rounded

    def fmod(self: Any, other: Any) -> Any:
        """By the remainder of the sizes, which is exact; of integers, whose least has no size, by a correction."""
        if kind[self.dtype] in ("int", "uint"):
            rest = remainder(self, other)
            return where((rest != 0) & ((rest < 0) != (self < 0)), rest - other, rest)
        return copysign(remainder(absolute(self), absolute(other)), self)

    def clamp(self: Any, min: Any = None, max: Any = None) -> Any:
        if min is None and max is None:
            raise ValueError("no bound")  # the shape rule says it better
        if min is not None:
            self = maximum(self, min)
        return self if max is None else minimum(self, max)

    def signbit(self: Any) -> Any:
        what = kind[self.dtype]
        if what in ("bool", "uint"):
            return zeros(self.shape, dtype=boolean)
        return self < 0 if what == "int" else signbit_of(self)

    return {
        "floor": whole(xp.floor),
        "ceil": whole(xp.ceil),
        "trunc": whole(xp.trunc),
        "round": whole(xp.round),
        "floor_divide": xp.floor_divide,
        "remainder": remainder,
        "fmod": fmod,
        "clamp": clamp,
        "clamp_min": maximum,
        "clamp_max": minimum,
        "copysign": copysign,
        "signbit": signbit,
    }


@quietly
def transcendental(xp: Any, support: Support) -> Kernels:
    """Kernels of trigonometric, hyperbolic, exponential and error functions."""
    kind, cast, single, where, inf = support.kind, support.cast, support.single, xp.where, math.inf
    exp, asarray, power = xp.exp, xp.asarray, first(xp, "pow", "power")
    # JAX's is exp(x log 2), which is 62 units off in float32 where its power of 2 is 0.5.
    exp2_of_reals = xp.exp2 if support.numpy_rules else None

    def exp2(self: Any) -> Any:
        if kind[self.dtype] == "complex":
            zero = asarray(0, dtype=self.dtype)  # an infinite part times the other's 0 is NaN
            return where(xp.real(self) == -inf, zero, exp(self * asarray(0.69314718055994530942, dtype=self.dtype)))
        return power(asarray(2, dtype=self.dtype), self) if exp2_of_reals is None else exp2_of_reals(self)

    erf, erfc = error_functions(xp, support)

    def in_single(function: Any) -> Any:
        """A function that computes halves in float32, as NumPy does by itself."""

        def rounded_once(*arrays: Any) -> Any:
            dtype = arrays[0].dtype
            if kind[dtype] == "half":
                return cast(function(*[cast(array, single) for array in arrays]), dtype)
            return function(*arrays)

        return rounded_once

    made: Kernels = {
        "tan": xp.tan,
        "sinh": xp.sinh,
        "cosh": xp.cosh,
        "asin": first(xp, "asin", "arcsin"),
        "acos": first(xp, "acos", "arccos"),
        "atan": first(xp, "atan", "arctan"),
        "asinh": first(xp, "asinh", "arcsinh"),
        "acosh": first(xp, "acosh", "arccosh"),
        "atanh": first(xp, "atanh", "arctanh"),
        "atan2": first(xp, "atan2", "arctan2"),
        "hypot": xp.hypot,
        "exp2": exp2,
        "log2": xp.log2,
        "log10": xp.log10,
        "logaddexp": xp.logaddexp,
    }
    if not support.numpy_rules:
        made = {name: in_single(function) for name, function in made.items()}
    return {**made, "erf": erf, "erfc": erfc}


def error_functions(xp: Any, support: Support) -> tuple[Any, Any]:
    """Returns ``erf`` and ``erfc`` of arrays; they are no kernels yet where a warning is to be kept from the user."""
    made = _error_kernels(xp, support)
    return made["erf"], made["erfc"]


@quietly
def _error_kernels(xp: Any, support: Support) -> Kernels:
    kind, cast, single, where, asarray = support.kind, support.cast, support.single, xp.where, xp.asarray
    exp, absolute = xp.exp, xp.abs
    functions = _silenced(error_function)

    def choose(condition: Any, a: Any, b: Any) -> Any:
        """``where`` of arrays and numbers, whose dtype is that of the array: modules differ in what they make of it."""
        if a.__class__ is float:
            a = asarray(a, dtype=b.dtype)
        elif b.__class__ is float:
            b = asarray(b, dtype=a.dtype)
        return where(condition, a, b)

    def by(function: Any) -> Any:
        def error(self: Any) -> Any:
            dtype = self.dtype
            if kind[dtype] == "half":
                self = cast(self, single)
            use = error_function.Functions(choose, exp, absolute, SPLITTERS[self.dtype == single])
            result = function(self, use)
            return cast(result, dtype) if result.dtype != dtype else result

        return error

    return {"erf": by(functions["erf"]), "erfc": by(functions["erfc"])}


def _silenced(module: Any) -> dict[str, Any]:
    """Returns a module's functions such that none of them, nor what they call there, tells of a warning."""
    made = {name: silent(value) for name, value in vars(module).items() if isinstance(value, FunctionType)}
    for function in made.values():
        function.__globals__.update(made)
    return made


@quietly
def logical(xp: Any, support: Support) -> Kernels:
    """Kernels that look at bits, and those that ask which numbers are no ordinary ones."""
    kind, boolean = support.kind, support.boolean
    where, asarray, zeros, ones, iinfo = xp.where, xp.asarray, xp.zeros, xp.ones, xp.iinfo
    left, right = first(xp, "bitwise_left_shift", "left_shift"), first(xp, "bitwise_right_shift", "right_shift")

    def ordinary(function: Any, otherwise: Any) -> Any:
        def asked(self: Any) -> Any:
            if kind[self.dtype] in ("bool", "int", "uint"):
                return otherwise(self.shape, dtype=boolean)
            return function(self)

        return asked

    def possible(self: Any, other: Any) -> Any:
        return (other >= 0) & (other < asarray(iinfo(self.dtype).bits, dtype=other.dtype))

    def bitwise_left_shift(self: Any, other: Any) -> Any:
        fits, zero = possible(self, other), asarray(0, dtype=self.dtype)
        return where(fits, left(self, where(fits, other, zero)), zero)

    def bitwise_right_shift(self: Any, other: Any) -> Any:
        if kind[self.dtype] == "uint":  # no sign is left behind
            fits, zero = possible(self, other), asarray(0, dtype=self.dtype)
            return where(fits, right(self, where(fits, other, zero)), zero)
        last = asarray(iinfo(self.dtype).bits - 1, dtype=self.dtype)
        return right(self, where(possible(self, other), other, last))

    return {
        "isnan": ordinary(xp.isnan, zeros),
        "isinf": ordinary(xp.isinf, zeros),
        "isfinite": ordinary(xp.isfinite, ones),
        "bitwise_not": first(xp, "bitwise_invert", "invert"),
        "bitwise_and": xp.bitwise_and,
        "bitwise_or": xp.bitwise_or,
        "bitwise_xor": xp.bitwise_xor,
        "bitwise_left_shift": bitwise_left_shift,
        "bitwise_right_shift": bitwise_right_shift,
    }


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels over ``xp``."""
    return {**rounding(xp, support), **transcendental(xp, support), **logical(xp, support)}
