"""Functions that derivative formulas of pointwise operators call: written in operators, so they can be differentiated.

Each is a formula that would have to be written twice in a record, or that depends on which arguments are there.
"""

from __future__ import annotations

import math

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32


def clamp_backward(grad: Tensor, self: Tensor, min: Tensor | None, max: Tensor | None) -> Tensor:
    """The gradient of ``clamp`` with respect to what is bounded: 1 between the bounds, and on them."""
    if min is not None:
        grad = F.where(self >= min, grad, 0)
    return grad if max is None else F.where(self <= max, grad, 0)


def clamp_backward_min(grad: Tensor, self: Tensor, min: Tensor, max: Tensor | None) -> Tensor:
    """The gradient of ``clamp`` with respect to its lower bound, which counts where it is not above the upper one."""
    grad = F.where(self < min, grad, 0)
    return grad if max is None else F.where(min < max, grad, 0)


def clamp_backward_max(grad: Tensor, self: Tensor, min: Tensor | None, max: Tensor) -> Tensor:
    """The gradient of ``clamp`` with respect to its upper bound, which also counts wherever the bounds contradict."""
    above = F.where(self > max, grad, 0)
    return above if min is None else F.where(max < min, grad, above)


def nonzero(length: Tensor) -> Tensor:
    """A length to divide by: 1 in the place of 0."""
    return F.where(length == 0, 1, length)


def nonzero_length(x: Tensor, y: Tensor) -> Tensor:
    """The length of a vector to divide by: 1 in the place of 0."""
    return nonzero(F.hypot(x, y))


def whole_quotient(self: Tensor, other: Tensor) -> Tensor:
    """A quotient rounded towards 0, of which every derivative is 0."""
    return F.trunc(F.div(self.detach(), other.detach()))


def xlogy_slope(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """A gradient times ``log(other)``; 0 where ``self`` is 0 and the logarithm is not finite."""
    other = other.to(grad.dtype)
    return grad * F.log(F.where((self == 0) & (other <= 0), 1, other))


def logit_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """A gradient over ``x (1 - x)``: NaN beyond [0, 1], or 0 beyond [eps, 1 - eps] where there is an eps."""
    low = 0.0 if eps is None else eps
    inside = (self >= low) & (self <= 1 - low)
    x = F.where(inside, self, 0.5)
    return F.where(inside, grad / (x * (1 - x)), math.nan if eps is None else 0.0)


def sinc_slope(self: Tensor) -> Tensor:
    """The derivative of ``sinc``, ``pi * (cos(t) - sin(t) / t) / t`` with ``t = pi * x``; its series near 0.

    The series is that of the sine over its argument, term by term: ``(-1)**k * 2k / (2k + 1)! * t**(2k - 1)``.
    """
    if self.dtype.itemsize == 2:
        return sinc_slope(self.to(float32)).to(self.dtype)
    t = self * math.pi
    near = abs(t) < 1
    far = F.where(near, 1, t)
    square = F.where(near, t * t, 0)
    total = square * (20 / math.factorial(21))
    for k in range(9, 0, -1):
        total = (total + (-1) ** k * 2 * k / math.factorial(2 * k + 1)) * (square if k > 1 else 1)
    return math.pi * F.where(near, total * t, (F.cos(far) - F.sin(far) / far) / far)


def gelu_second(grad: Tensor, self: Tensor, approximate: str) -> Tensor:
    """A gradient times the second derivative of ``gelu``.

    That of ``x * P(x)`` is ``(2 - x**2) * p(x)`` with the normal density p. With tanh, ``x * s(v)`` where s is the
    logistic function and ``v = sqrt(8 / pi) * (x + 0.044715 * x**3)``. Beyond 30 both are 0, whatever overflows there.
    """
    if self.dtype.itemsize == 2:
        return gelu_second(grad.to(float32), self.to(float32), approximate).to(grad.dtype)
    x = F.clamp(self, -30.0, 30.0)
    if approximate == "none":
        return grad * ((2 - x * x) * F.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi)))
    scale, cubic = math.sqrt(8 / math.pi), 0.044715
    v = scale * x * (1 + cubic * x * x)
    first, second = scale * (1 + 3 * cubic * x * x), scale * 6 * cubic * x
    slope = F.sigmoid(v) * F.sigmoid(-v)
    return grad * (slope * (2 * first + x * (second - first * first * F.tanh(0.5 * v))))
