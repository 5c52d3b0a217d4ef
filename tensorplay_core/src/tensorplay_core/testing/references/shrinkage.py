"""References of further activations: bounds, shrinkages, ``gelu`` and its gradient, those with a shape of their own.

As in :mod:`activation`, each is computed in a form that loses no digits, and a slack says what a kernel may lose.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.activation import _activation, _number, _underflow
from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import as_array, budget, common_dtype, kinds, pointwise
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import Format
from tensorplay_core.types.dtype import by_name, get_default_dtype

SCALE, CUBIC = math.sqrt(8 / math.pi), 0.044715


def _integers(self: Array, *numbers: Any) -> bool:
    """Whether a call computes in integers: the tensor has them, and so are the numbers."""
    return not by_name(self.dtype).is_inexact and not any(isinstance(n, float) for n in numbers)


def hardtanh(self: Array, min_val: Any = -1, max_val: Any = 1) -> Array:
    """Between two bounds."""
    if _integers(self, min_val, max_val):
        return _activation(self, float, keeps=lambda x: min_val if x < min_val else max_val if x > max_val else x)
    low, high = _number(min_val, self), _number(max_val, self)
    return _activation(self, lambda x: low if x < low else high if x > high else x)


def relu6(self: Array) -> Array:
    """Between 0 and 6."""
    return _activation(self, lambda x: 0.0 if x < 0 else 6.0 if x > 6 else x, keeps=lambda x: min(max(x, 0), 6))


def threshold(self: Array, threshold: Any, value: Any) -> Array:
    """``value`` up to a threshold."""
    if _integers(self, threshold, value):
        return _activation(self, float, keeps=lambda x: value if x <= threshold else x)
    limit, instead = _number(threshold, self), _number(value, self)
    return _activation(self, lambda x: instead if x <= limit else x)


def celu(self: Array, alpha: Any = 1.0) -> Array:
    """``alpha * (exp(x / alpha) - 1)`` up to 0."""
    scale = _number(alpha, self)

    def slack(form: Format, x: float, y: float) -> float:
        """The quotient is rounded before the exponential function of it is taken."""
        return form.eps * abs(x) * ieee.exp(x / scale) if x < 0 and math.isfinite(x) else 0.0

    return _activation(self, lambda x: x if x > 0 else scale * ieee.expm1(x / scale), slack)


def hardshrink(self: Array, lambd: Any = 0.5) -> Array:
    """0 between two bounds, which belong to it."""
    bound = _number(lambd, self)
    return _activation(self, lambda x: 0.0 if -bound <= x <= bound else x)


def softshrink(self: Array, lambd: Any = 0.5) -> Array:
    """Towards 0 by a distance."""
    distance = _number(lambd, self)

    def function(x: float) -> float:
        return x - distance if x > distance else x + distance if x < -distance else x * 0

    return _activation(self, function, lambda form, x, y: form.eps * distance)


def tanhshrink(self: Array) -> Array:
    """``x - tanh(x)``, which cancels."""

    def slack(form: Format, x: float, y: float) -> float:
        return 4 * form.eps * min(abs(x), 1.0)

    return _activation(self, lambda x: x - math.tanh(x), slack)


def log_sigmoid(self: Array) -> Array:
    """``log(sigmoid(x))``."""
    return _activation(self, lambda x: min(x, 0.0) - math.log1p(math.exp(-abs(x))) if x == x else x, _underflow)


# -------------------------------------------------------------------------------------------------------------- gelu


def _below(x: float) -> float:
    """The chance that a normal number is below one."""
    return math.erfc(-x * math.sqrt(0.5)) / 2


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi) if abs(x) < 40 else 0.0


def _tanh_argument(x: float) -> float:
    return SCALE * x * (1 + CUBIC * x * x)


def _gelu(x: float, approximate: str) -> float:
    if x != x or x == math.inf:
        return x
    if x < -40:
        return 0.0
    return x * (_below(x) if approximate == "none" else ieee.sigmoid(_tanh_argument(x)))


def _gelu_slope(x: float, approximate: str) -> float:
    if x != x or abs(x) > 40:
        return x if x != x else float(x > 0)
    if approximate == "none":
        return _below(x) + x * _density(x)
    v = _tanh_argument(x)
    right, left = ieee.sigmoid(v), ieee.sigmoid(-v)
    return right + x * right * left * SCALE * (1 + 3 * CUBIC * x * x)


def gelu(self: Array, *, approximate: str = "none") -> Array:
    """``x`` times a chance; an error of the exponent in its tail is one of the result, times the exponent."""

    def slack(form: Format, x: float, y: float) -> float:
        exponent = x * x if approximate == "none" else abs(_tanh_argument(x))
        return form.eps * (4 + 2 * exponent) * abs(y) + abs(x) * 4 * form.tiny if abs(x) < 40 else 0.0

    return _activation(self, lambda x: _gelu(x, approximate), slack)


def gelu_backward(grad_output: Any, self: Any, *, approximate: str = "none") -> Array:
    """A gradient times the slope, which is a sum of two terms."""

    def slack(form: Format, g: float, x: float, y: float) -> float:
        if not (abs(x) < 40 and math.isfinite(g)):
            return 0.0
        exponent = x * x if approximate == "none" else abs(_tanh_argument(x)) + x * x
        terms = _below(x) + abs(x) * (_density(x) if approximate == "none" else ieee.sigmoid(-abs(_tanh_argument(x))))
        return abs(g) * (form.eps * (8 + 4 * exponent) * terms * (1 + x * x) + 8 * form.tiny)

    return pointwise("float", kinds(lambda g, x: g * _gelu_slope(x, approximate)), slack)(grad_output, self)


# --------------------------------------------------------------------------------------------------- of another shape


def prelu(self: Array, weight: Array) -> Array:
    """``weight * x`` up to 0, with a weight for each channel."""
    dtype = common_dtype([self, weight]).name
    x, w = as_array(self, dtype), as_array(weight, dtype)
    inner = math.prod(x.shape[2:])
    channels = len(w.data)
    data = [v if v > 0 else v * w.data[i // inner % channels if channels > 1 else 0] for i, v in enumerate(x.data)]
    if by_name(dtype).is_bool:
        data = [bool(v) for v in data]
    return Array(x.shape, data, dtype)


def glu(self: Array, dim: int = -1) -> Array:
    """One half times the logistic function of the other."""
    x = self if by_name(self.dtype).is_inexact else self.cast(get_default_dtype().name)
    dim %= len(x.shape)
    half, inner = x.shape[dim] // 2, math.prod(x.shape[dim + 1 :])
    block = half * inner
    data = []
    for i in range(math.prod(x.shape) // 2):
        outer, place = divmod(i, block)
        a, b = x.data[2 * outer * block + place], x.data[(2 * outer + 1) * block + place]
        data.append(ieee.cmul(a, ieee.csigmoid(b)) if isinstance(a, complex) else a * ieee.sigmoid(b))
    return Array((*x.shape[:dim], half, *x.shape[dim + 1 :]), data, x.dtype)


REFERENCES: dict[str, Reference] = {
    "hardtanh": Reference(hardtanh, {}),
    "relu6": Reference(relu6, {}),
    "threshold": Reference(threshold, {}),
    "celu": Reference(celu, budget(8)),
    "hardshrink": Reference(hardshrink, {}),
    "softshrink": Reference(softshrink, budget(0.5)),
    "tanhshrink": Reference(tanhshrink, budget(2)),
    "log_sigmoid": Reference(log_sigmoid, budget(8)),
    "gelu": Reference(gelu, budget(8)),
    "gelu_backward": Reference(gelu_backward, budget(8)),
    "prelu": Reference(prelu, budget(0.5, complex=4)),
    "glu": Reference(glu, budget(8, complex=64)),
}
