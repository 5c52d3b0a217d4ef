"""``erf``, ``erfc`` and what is made of them in float64, in blocks.

The general kernels compute each approximation of :mod:`tensorplay_composite.error_function` for every element. Here
the one near 0, where most numbers are, is computed for all of a block; the others where they are wanted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorplay_composite.error_function import (
    AT_ONE,
    FAR,
    FARTHER,
    LARGEST,
    MIDDLE,
    NEAR,
    NEAR_ZERO,
    NEARER,
    Functions,
    middle_part,
    ratio,
    tail,
)

DOUBLE = np.dtype("float64")
SHORT = 16 * 1024
"""Elements of a block of float64."""
ROOT_HALF, DENSITY = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
_USE = Functions(np.where, np.exp, np.absolute, 2.0**27 + 1)
_ABOVE, _BELOW = NEAR_ZERO


def _polynomial(coefficients: tuple[float, ...], x: Any, out: Any) -> None:
    """Writes a polynomial's values; the lowest power comes first."""
    np.multiply(x, coefficients[-1], out)
    for coefficient in coefficients[-2:0:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[0], out)


def _over_x(x: Any, square: Any, below: Any, out: Any) -> None:
    """Writes ``erf(x) - x`` for numbers near 0."""
    np.multiply(x, x, square)
    _polynomial(_BELOW, square, below)
    _polynomial(_ABOVE, square, out)
    np.divide(out, below, out)
    np.multiply(out, x, out)


def _from_near(size: Any, complement: bool) -> Any:
    """Returns ``erf``, or 1 less it, of numbers that are not near 0."""
    out = np.empty_like(size)
    middle, far = size < MIDDLE, size >= FAR
    some = size[middle]
    if some.size:
        part = middle_part(some)
        out[middle] = (1 - AT_ONE) - part if complement else AT_ONE + part
    for chosen, of in ((~(middle | far), NEARER), (far, FARTHER)):
        some = np.minimum(size[chosen], LARGEST)
        if some.size:
            rest = tail(some, ratio(of, 1 / (some * some)), _USE)
            out[chosen] = rest if complement else 1 - rest
    return out


def _others(x: Any, inner: Any, complement: bool, out: Any) -> None:
    """Writes what is not near 0, and NaN."""
    other = np.not_equal(inner, x)
    if other.any():
        values = x[other]
        result = _from_near(np.absolute(values), complement)
        out[other] = np.where(values < 0, 2 - result, result) if complement else np.copysign(result, values)


def erf_double_block(x: Any, inner: Any, square: Any, below: Any, out: Any) -> None:
    """The error function."""
    np.maximum(x, -NEAR, out=inner)
    np.minimum(inner, NEAR, out=inner)
    _over_x(inner, square, below, out)
    np.add(out, inner, out)
    _others(x, inner, False, out)


def erfc_double_block(x: Any, inner: Any, square: Any, below: Any, out: Any) -> None:
    """1 less it; from a quarter on a half less what is above one, which keeps the digits."""
    np.maximum(x, -NEAR, out=inner)
    np.minimum(inner, NEAR, out=inner)
    _over_x(inner, square, below, out)
    np.subtract(inner, 0.5, square)
    np.add(out, square, square)
    np.subtract(0.5, square, square)
    np.add(out, inner, below)
    np.subtract(1, below, out)
    np.copyto(out, square, where=np.greater_equal(inner, 0.25))
    _others(x, inner, True, out)


def gelu_double_block(x: Any, bounded: Any, argument: Any, inner: Any, square: Any, below: Any, out: Any) -> None:
    """X times the chance below it."""
    np.maximum(x, -40.0, out=bounded)
    np.multiply(bounded, -ROOT_HALF, argument)
    erfc_double_block(argument, inner, square, below, out)
    np.multiply(out, bounded, out)
    np.multiply(out, 0.5, out)


def gelu_slope_double_block(
    grad: Any, x: Any, bounded: Any, argument: Any, inner: Any, square: Any, below: Any, out: Any
) -> None:
    """The chance below x, and x times its density."""
    np.minimum(x, 40.0, out=bounded)
    np.maximum(bounded, -40.0, out=bounded)
    np.multiply(bounded, -ROOT_HALF, argument)
    erfc_double_block(argument, inner, square, below, out)
    np.multiply(out, 0.5, out)
    np.multiply(argument, argument, square)
    np.negative(square, square)
    np.exp(square, square)
    np.multiply(square, DENSITY, square)
    np.multiply(square, bounded, square)
    np.add(out, square, out)
    np.multiply(out, grad, out)
