"""Elementary functions where NumPy can do better than the general kernels: its ufuncs, and normal chances in blocks.

What float32 needs of the normal distribution comes from one approximation: the chance ``q`` that a normal number is
above a, which is ``exp(-a**2 / 2)`` times a smooth factor, here ``t * P(t)`` with ``t = 1 / (1 + RATE * a)`` and P a
polynomial that was fitted by weighted least squares until its largest relative error, 5e-8, was least. A few numbers
are computed by Python's own ``math``, which makes fewer calls of them. NumPy's minimum and maximum take five times as
long as a sum, so a block is bounded only where its largest number asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_composite.arrays._support import silent
from tensorplay_composite.arrays.activation import CUBIC, FARTHEST, SCALE
from tensorplay_cpu import error_function
from tensorplay_cpu.blocks import in_blocks
from tensorplay_cpu.error_function import DOUBLE, SHORT

FEW = 24
"""Elements up to which a loop in Python is faster than the calls of NumPy that a polynomial takes."""
NARROW = 64 * 1024
"""Elements of a block of these functions, which need more memory each than others."""
SINGLE = np.dtype("float32")
BLOCKED = (SINGLE, DOUBLE)


def constants(*values: float) -> list[Any]:
    """Returns numbers as 0-d arrays, of which NumPy makes less than of Python's numbers."""
    return [np.array(value, SINGLE) for value in values]


RATE = 0.35
OVER_RATE, ONE, ZERO, HALF, MINUS_HALF, FAR, NEARLY = constants(1 / RATE, 1.0, 0.0, 0.5, -0.5, FARTHEST, -FARTHEST)
TAIL = (
    -0.029163763603642187,
    0.14406004629990857,
    -0.2559003754508263,
    0.15939130318749792,
    -0.023262795600174403,
    0.1055743924990676,
    0.11981559353679194,
    0.13986432412219157,
    0.13962125900652436,
)
"""P, the highest power first."""
SCALED_TAIL = constants(*[value / RATE ** (len(TAIL) - k) for k, value in enumerate(TAIL)])
"""``t P(t) / u``, the highest power of ``u = RATE * t = 1 / (1 / RATE + a)`` first."""
DENSITY, CUBIC_PART, SLOPE_PART, NEGATIVE_SCALE, STEEPNESS = constants(
    1 / math.sqrt(2 * math.pi), CUBIC, 3 * CUBIC, -SCALE, SCALE
)
# erf(x) is x times this ratio of polynomials of x**2 up to 4, where it is 1: the one of Eigen's MathFunctionsImpl.h.
LAST, FIRST = constants(4.0, -4.0)
ERF_ABOVE = constants(
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
ERF_BELOW = constants(
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)
ROOT, SPLITTER, BEYOND = constants(math.sqrt(2), 2.0**12 + 1, 12.0)


def polynomial(coefficients: list[Any], x: Any, out: Any) -> None:
    """Writes a polynomial's values."""
    np.multiply(x, coefficients[0], out)
    for coefficient in coefficients[1:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[-1], out)


def factor(size: Any, t: Any, out: Any) -> None:
    """Writes what the chance above a number is, over ``exp(-size**2 / 2)``; ``t`` is overwritten."""
    np.add(size, OVER_RATE, t)
    np.divide(ONE, t, t)
    polynomial(SCALED_TAIL, t, out)
    np.multiply(out, t, out)


def bounded_size(x: Any, size: Any) -> bool:
    """Writes ``|x|``, or FAR where it is more; returns whether none is, nor NaN."""
    np.absolute(x, size)
    if np.maximum.reduce(size, None) <= FARTHEST:
        return True
    np.minimum(size, FAR, out=size)
    return False


def above(size: Any, t: Any, density: Any, out: Any) -> None:
    """Writes the chance above a number; ``density`` becomes ``exp(-size**2 / 2)``."""
    factor(size, t, out)
    np.square(size, density)
    np.multiply(density, MINUS_HALF, density)
    np.exp(density, density)
    np.multiply(out, density, out)


def gelu_block(x: Any, size: Any, t: Any, chance: Any, out: Any) -> None:
    """``max(x, 0)`` less ``|x|`` times the chance beyond it."""
    near = bounded_size(x, size)
    above(size, t, out, chance)
    np.multiply(chance, size, chance)
    if near:  # x + |x| is 2 x or 0
        np.add(x, size, out)
        np.multiply(out, HALF, out)
    else:
        np.maximum(x, ZERO, out=out)
    np.subtract(out, chance, out)


def gelu_slope_block(grad: Any, x: Any, size: Any, t: Any, chance: Any, out: Any) -> None:
    """The chance below x, which is ``h + (1 - 2 h) q`` with h 1 on the right and 0 on the left, plus x p(x)."""
    bounded_size(x, size)
    above(size, t, out, chance)
    np.multiply(out, size, out)
    np.multiply(out, DENSITY, out)
    np.subtract(out, chance, out)  # of the left the negative: |x| p(x) - q
    np.greater_equal(x, ZERO, t)
    np.add(t, t, size)
    np.subtract(size, ONE, size)
    np.multiply(out, size, out)
    np.add(out, t, out)
    np.multiply(out, grad, out)


def logistic_argument(x: Any, square: Any, scale: Any, out: Any) -> None:
    """Writes ``scale * x * (1 + CUBIC * x**2)``."""
    np.multiply(x, x, square)
    np.multiply(square, CUBIC_PART, out)
    np.add(out, ONE, out)
    np.multiply(out, x, out)
    np.multiply(out, scale, out)


def tanh_gelu_block(x: Any, bounded: Any, v: Any, out: Any) -> None:
    """``x / (1 + exp(-v))``; of numbers below -40, whose exponential is infinite, the quotient is that of -40."""
    np.maximum(x, NEARLY, out=bounded)
    logistic_argument(bounded, out, NEGATIVE_SCALE, v)
    np.exp(v, v)
    np.add(v, ONE, v)
    np.divide(bounded, v, out)


def tanh_gelu_slope_block(grad: Any, x: Any, bounded: Any, right: Any, left: Any, out: Any) -> None:
    """``s + x s (1 - s) v'`` with s the logistic function of v, and 1 - s that of -v."""
    np.maximum(x, NEARLY, out=bounded)
    np.minimum(bounded, FAR, out=bounded)
    logistic_argument(bounded, out, NEGATIVE_SCALE, right)
    np.negative(right, left)
    for v in (right, left):
        np.exp(v, v)
        np.add(v, ONE, v)
        np.divide(ONE, v, v)
    np.multiply(out, SLOPE_PART, out)  # still the square
    np.add(out, ONE, out)
    np.multiply(out, STEEPNESS, out)
    np.multiply(out, bounded, out)
    np.multiply(out, left, out)
    np.add(out, ONE, out)
    np.multiply(out, right, out)
    np.multiply(out, grad, out)


def erf_block(x: Any, bounded: Any, square: Any, below: Any, out: Any) -> None:
    """A ratio of polynomials."""
    np.maximum(x, FIRST, out=bounded)
    np.minimum(bounded, LAST, out=bounded)
    np.multiply(bounded, bounded, square)
    polynomial(ERF_BELOW, square, below)
    polynomial(ERF_ABOVE, square, out)
    np.multiply(out, bounded, out)
    np.divide(out, below, out)


def erfc_block(x: Any, size: Any, high: Any, chance: Any, out: Any) -> None:
    """Twice a chance; the square in the exponent is that of a number with half the digits, and a rest."""
    np.absolute(x, size)
    np.minimum(size, BEYOND, out=size)
    np.multiply(size, ROOT, high)
    factor(high, out, chance)
    np.multiply(size, SPLITTER, high)
    np.subtract(high, size, out)
    np.subtract(high, out, high)
    np.subtract(high, size, out)
    np.add(size, high, size)
    np.multiply(size, out, out)
    np.exp(out, out)
    np.multiply(chance, out, chance)
    np.multiply(high, high, high)
    np.negative(high, high)
    np.exp(high, high)
    np.multiply(chance, high, chance)
    np.add(chance, chance, chance)
    np.less(x, ZERO, high)  # 1 on the left, where the result is 2 less that of the size
    np.add(high, high, size)
    np.subtract(ONE, size, out)
    np.multiply(out, chance, out)
    np.add(out, size, out)


@quietly
def kernels(general: Kernels) -> Kernels:
    """Returns the replacements; ``general`` serves the dtypes that they leave out."""
    rint, root = np.rint, math.sqrt(0.5)
    clip, maximum, minimum = np._core.umath.clip, np.maximum, np.minimum  # type: ignore[attr-defined]
    error, complement = math.erf, math.erfc
    blocks = {**globals(), **vars(error_function)}
    quiet = {name: silent(value) for name, value in blocks.items() if name.endswith("_block")}

    def blocked(name: str, registers: int, small: Callable[..., float] | None, double: int = 0) -> Any:
        """Returns a kernel that runs in blocks with so many registers, in float64 where ``double`` says how many."""
        otherwise = general.get(name)
        forms: dict[Any, tuple[Any, list[Any], int]] = {SINGLE: (quiet[f"{name}_block"], [SINGLE] * registers, NARROW)}
        if double:
            forms[DOUBLE] = quiet[f"{name}_double_block"], [DOUBLE] * double, SHORT

        def kernel(*arrays: Any) -> Any:
            first = arrays[0]
            dtype = first.dtype
            if dtype not in forms:
                return otherwise(*arrays)  # type: ignore[misc]
            if small is not None and first.size <= FEW:
                result = np.array([small(x) for x in first.reshape(-1).tolist()], dtype).reshape(first.shape)
                return result if first.flags.c_contiguous else np.positive(result, out=np.positive(first))
            if not any(a.ndim for a in arrays):  # the blocks choose elements, and so need a dim
                return kernel(*[a.reshape(1) for a in arrays]).reshape(())
            function, wanted, limit = forms[dtype]
            return in_blocks(function, arrays, (), wanted, (dtype,), limit)[0]

        return kernel

    def few_gelu(x: float) -> float:
        if x <= -FARTHEST:
            return -0.0
        return x * complement(-x * root) / 2

    exact, exact_slope = blocked("gelu", 3, few_gelu, 5), blocked("gelu_slope", 3, None, 5)
    by_tanh, by_tanh_slope = blocked("tanh_gelu", 2, None), blocked("tanh_gelu_slope", 3, None)
    general_gelu, general_slope = general["gelu"], general["gelu_backward"]

    def gelu(self: Any, *, approximate: str = "none") -> Any:
        if approximate == "none" and self.dtype in BLOCKED:
            return exact(self)
        if approximate == "tanh" and self.dtype is SINGLE:
            return by_tanh(self)
        return general_gelu(self, approximate=approximate)

    def gelu_backward(grad_output: Any, self: Any, *, approximate: str = "none") -> Any:
        if approximate == "none" and self.dtype in BLOCKED:
            return exact_slope(grad_output, self)
        if approximate == "tanh" and self.dtype is SINGLE:
            return by_tanh_slope(grad_output, self)
        return general_slope(grad_output, self, approximate=approximate)

    blocked_erf, blocked_erfc = blocked("erf", 3, error, 3), blocked("erfc", 3, complement, 3)

    def erf(self: Any) -> Any:
        return blocked_erf(self)

    def erfc(self: Any) -> Any:
        return blocked_erfc(self)

    def round(self: Any) -> Any:
        return self.copy() if self.dtype.kind in "iu" else rint(self)

    def clamp(self: Any, min: Any = None, max: Any = None) -> Any:
        if min is None:
            return minimum(self, max)
        return maximum(self, min) if max is None else clip(self, min, max)

    def lerp(self: Any, end: Any, weight: Any) -> Any:
        """With one weight for all, as mostly, one of the two formulas is enough."""
        dtype = self.dtype
        if dtype.itemsize == 2 and dtype.kind in "fV":
            return lerp(self.astype(SINGLE), end.astype(SINGLE), weight.astype(SINGLE)).astype(dtype)
        difference = end - self
        if weight.ndim:
            near = np.absolute(weight) < 0.5
            return np.where(near, self + weight * difference, end - difference * (1 - weight))
        out = difference if difference.ndim else None
        if abs(weight) < 0.5:
            return np.add(self, np.multiply(difference, weight, out), out)
        return np.subtract(end, np.multiply(difference, (1 - weight).astype(dtype), out), out)

    def exp2(self: Any) -> Any:
        return general["exp2"](self) if self.dtype.kind == "c" else np.exp2(self)

    return {
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "round": round,
        "lerp": lerp,
        "clamp": clamp,
        "signbit": np.signbit,
        "erf": erf,
        "erfc": erfc,
        "gelu": gelu,
        "gelu_backward": gelu_backward,
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
        "logical_not": np.logical_not,
        "isnan": np.isnan,
        "isinf": np.isinf,
        "isfinite": np.isfinite,
        "bitwise_left_shift": np.left_shift,
        "bitwise_right_shift": np.right_shift,
    }
