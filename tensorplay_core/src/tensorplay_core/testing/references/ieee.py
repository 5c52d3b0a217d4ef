"""Elementary functions of one number as IEEE 754 and C's Annex G have them: infinities and NaN where Python raises.

Complex functions have the branch cuts of cmath, which are C's. Which part of a complex result that is not finite is NaN
and which infinite is agreed on nowhere, so here it is NaN in both.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

_NAN = complex(math.nan, math.nan)


def exp(x: float) -> float:
    """``e ** x``."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def expm1(x: float) -> float:
    """``exp(x) - 1``."""
    try:
        return math.expm1(x)
    except OverflowError:
        return math.inf


def log(x: float) -> float:
    """The natural logarithm; NaN below 0."""
    try:
        return math.log(x)
    except ValueError:
        return math.nan if x else -math.inf


def log1p(x: float) -> float:
    """``log(1 + x)``."""
    try:
        return math.log1p(x)
    except ValueError:
        return -math.inf if x == -1 else math.nan


def sin(x: float) -> float:
    """The sine; NaN at the infinities."""
    try:
        return math.sin(x)
    except ValueError:
        return math.nan


def cos(x: float) -> float:
    """The cosine; NaN at the infinities."""
    try:
        return math.cos(x)
    except ValueError:
        return math.nan


def sqrt(x: float) -> float:
    """The square root; NaN below 0, -0.0 at -0.0."""
    try:
        return math.sqrt(x)
    except ValueError:
        return math.nan


def sigmoid(x: float) -> float:
    """The logistic function, with its relative accuracy at both ends."""
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    small = math.exp(x)
    return small / (1 + small)


def softplus(x: float) -> float:
    """``log(1 + exp(x))``, which is ``x`` plus what vanishes above."""
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


def div(a: float, b: float) -> float:
    """``a / b``; a signed infinity for division by a signed zero."""
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def pow(a: float, b: float) -> float:
    """``a ** b`` as C's ``pow``: the sign of an odd power, 1 for a power 0 of anything, NaN for a root below 0."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and _odd(b) else math.inf
    except ValueError:
        if a:
            return math.nan
        return math.copysign(math.inf, a) if _odd(b) else math.inf


def _odd(x: float) -> bool:
    """Whether a number is an odd integer; ``%`` would round what is next to one."""
    return abs(math.fmod(x, 2)) == 1


def maximum(a: float, b: float) -> float:
    """The larger one; NaN if either is."""
    return a if a > b or a != a else b


def minimum(a: float, b: float) -> float:
    """The smaller one; NaN if either is."""
    return a if a < b or a != a else b


def sign(x: float) -> float:
    """1, -1, 0, or NaN."""
    return 1.0 if x > 0 else -1.0 if x < 0 else x


# ------------------------------------------------------------------------------------------------------------- complex


def complete(function: Callable[..., complex]) -> Callable[..., complex]:
    """Returns a complex function that gives NaN where the one of cmath raises."""

    def completed(*values: complex) -> complex:
        try:
            return function(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return _NAN

    return completed


@complete
def cexpm1(z: complex) -> complex:
    """``exp(z) - 1``, from the real functions that do not lose digits near 0."""
    half = math.sin(z.imag / 2)
    return complex(
        math.expm1(z.real) * math.cos(z.imag) - 2 * half * half,
        math.exp(z.real) * math.sin(z.imag),
    )


@complete
def clog1p(z: complex) -> complex:
    """``log(1 + z)``, with ``log1p`` of the squared modulus less 1."""
    x, y = z.real, z.imag
    if cabs(z) > 0.5:
        return cmath.log(complex(1 + x, y))  # 1 + z would lose the sign of a zero, which says on which side of the cut
    return complex(math.log1p(math.fsum((2 * x, x * x, y * y))) / 2, math.atan2(y, 1 + x))


@complete
def csigmoid(z: complex) -> complex:
    """The logistic function."""
    if z.real >= 0:
        return 1 / (1 + cmath.exp(-z))
    small = cmath.exp(z)
    return small / (1 + small)


def cabs(z: complex) -> float:
    """The modulus: infinite if either part is, even beside NaN.

    Python's ``abs`` may raise for NaN after any function of cmath has overflowed, as it reads a stale error number.
    """
    return math.hypot(z.real, z.imag)


@complete
def csign(z: complex) -> complex:
    """``z / abs(z)``, 0 at 0."""
    size = cabs(z)
    return z / size if size else z


cexp = complete(cmath.exp)
clog = complete(cmath.log)
csin = complete(cmath.sin)
ccos = complete(cmath.cos)
csqrt = complete(cmath.sqrt)
tanh = math.tanh
ctanh = complete(cmath.tanh)
cmul = complete(lambda a, b: a * b)
cdiv = complete(lambda a, b: a / b)
cpow: Callable[[Any, Any], complex] = complete(lambda a, b: a**b)
