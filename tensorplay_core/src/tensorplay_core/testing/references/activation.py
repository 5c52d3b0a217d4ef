"""References of the activations: what their formulas mean, in forms that lose no digits.

The contract's ``math`` is not read here, or it would be compared with itself. Kernels compute step by step in float32
or float64, so where a step cancels or multiplies an error, a slack says by how much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import FORMATS, Format, accumulator_of, round_to
from tensorplay_core.types.dtype import by_name, get_default_dtype

_Slack = Callable[[Format, float, float], float]


def _activation(
    self: Array,
    function: Callable[[float], float],
    slack: _Slack | None = None,
    keeps: Callable[[int], int] | None = None,
) -> Array:
    """Applies a function of floats; integers become the default float dtype unless ``keeps`` computes in them."""
    dtype = by_name(self.dtype)
    if dtype.is_complex:
        raise TypeError(f"activations take real numbers, not {self.dtype}")
    if not dtype.is_floating_point:
        if keeps is not None:
            return Array(self.shape, round_to([*map(keeps, self.data)], self.dtype), self.dtype)
        self = self.cast(get_default_dtype().name)
    data = [*map(function, self.data)]
    form = accumulator_of(self.dtype)
    extra = None if slack is None else [slack(form, x, y) for x, y in zip(self.data, data, strict=True)]
    return Array(self.shape, data, self.dtype, extra)


def _number(value: Any, self: Array) -> float:
    """Returns a number as the dtype has it that a kernel computes in."""
    dtype = by_name(self.dtype)
    name = dtype.name if dtype.is_floating_point else get_default_dtype().name
    wide = "float64" if accumulator_of(name) is FORMATS["float64"] else "float32"
    return float(round_to([float(value)], wide)[0])


def _underflow(form: Format, x: float, y: float) -> float:
    """A factor of ``x`` may have underflowed: it was rounded to a subnormal number, or to 0."""
    return abs(x) * form.tiny if math.isfinite(x) else 0.0


def softplus(self: Array, beta: Any = 1, threshold: Any = 20) -> Array:
    """``log(1 + exp(beta * x)) / beta``; ``x`` where ``beta * x`` is above ``threshold``."""
    factor, limit = _number(beta, self), _number(threshold, self)
    product = _product(self)

    def function(x: float) -> float:
        z = product(x, factor)
        return x if z > limit else ieee.div(ieee.softplus(x * factor), factor)

    def slack(form: Format, x: float, y: float) -> float:
        """``exp`` multiplies the rounding of ``beta * x`` by its size."""
        z = abs(x * factor)
        return form.eps * z * abs(y) if math.isfinite(z) and math.isfinite(y) else 0.0

    return _activation(self, function, slack)


def _product(self: Array) -> Callable[[float, float], float]:
    """Returns multiplication in the format that a kernel computes in: on which side of a threshold is decided by it."""
    if accumulator_of(self.dtype) is FORMATS["float64"]:
        return lambda a, b: a * b
    return lambda a, b: float(round_to([a * b], "float32")[0])


def silu(self: Array) -> Array:
    """``x * sigmoid(x)``."""
    return _activation(self, lambda x: x * ieee.sigmoid(x), _underflow)


def _mish(x: float) -> float:
    """``tanh(log(1 + e))`` is ``e (e + 2) / (e (e + 2) + 2)``, with ``e = exp(x)``; 1 in float64 above 20."""
    if x > 20:
        return x
    e = ieee.exp(x)
    square = e * (e + 2)
    return x * (square / (square + 2))


def mish(self: Array) -> Array:
    """``x * tanh(softplus(x))``."""
    return _activation(self, _mish, _underflow)


def softsign(self: Array) -> Array:
    """``x / (1 + abs(x))``."""
    return _activation(self, lambda x: ieee.div(x, 1 + abs(x)))


def elu(self: Array, alpha: Any = 1.0) -> Array:
    """``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    scale = _number(alpha, self)
    return _activation(self, lambda x: x if x > 0 else scale * ieee.expm1(x))


def leaky_relu(self: Array, negative_slope: Any = 0.01) -> Array:
    """``x`` where it is positive, ``negative_slope * x`` elsewhere."""
    if not isinstance(negative_slope, float) and not by_name(self.dtype).is_inexact:
        return _activation(self, float, keeps=lambda x: x if x > 0 else x * negative_slope)
    slope = _number(negative_slope, self)
    return _activation(self, lambda x: x if x > 0 else x * slope)


# Klambauer et al. 2017, https://arxiv.org/abs/1706.02515, appendix A.
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def selu(self: Array) -> Array:
    """``scale * elu(x, alpha)``."""
    return _activation(self, lambda x: _SELU_SCALE * (x if x > 0 else _SELU_ALPHA * ieee.expm1(x)))


def hardsigmoid(self: Array) -> Array:
    """0 up to -3, 1 from 3, and a straight line between."""

    def function(x: float) -> float:
        return 0.0 if x <= -3 else 1.0 if x >= 3 else (x + 3) / 6

    def slack(form: Format, x: float, y: float) -> float:
        """``x / 6`` was rounded, and 1/2 may have been added to it, which cancels near -3."""
        return form.eps / 2 if -3 < x < 3 else 0.0

    return _activation(self, function, slack)


def hardswish(self: Array) -> Array:
    """``x * hardsigmoid(x)``."""

    def function(x: float) -> float:
        return 0.0 if x <= -3 else x if x >= 3 else x * (x + 3) / 6

    return _activation(self, function)


REFERENCES: dict[str, Reference] = {
    "softplus": Reference(softplus, budget(8)),
    "silu": Reference(silu, budget(8)),
    "mish": Reference(mish, budget(12)),
    "softsign": Reference(softsign, budget(2)),
    "elu": Reference(elu, budget(8)),
    "leaky_relu": Reference(leaky_relu, budget(2)),
    "selu": Reference(selu, budget(8)),
    "hardsigmoid": Reference(hardsigmoid, budget(2)),
    "hardswish": Reference(hardswish, budget(4)),
}
