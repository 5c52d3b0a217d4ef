"""Composite activations: those with a shape of their own, and ``gelu`` for devices without a kernel of it."""

from __future__ import annotations

import math

from tensorplay_composite.arrays.activation import CUBIC, FARTHEST, SCALE
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import shapes_pointwise as rules
from tensorplay_core.ops.shape_checks import Shaped
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32, get_default_dtype
from tensorplay_core.types.promotion import promote


def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """The weights stand along dim 1, that of the channels."""
    rules.prelu("prelu", Shaped(self.shape, self.dtype), Shaped(weight.shape, weight.dtype))
    if weight.ndim == 1 and self.ndim > 1:
        weight = weight.reshape((-1, *([1] * (self.ndim - 2))))
    elif weight.ndim == 1 and self.ndim == 0:
        weight = weight.reshape(())
    return F.where(self > 0, self, self * weight)


def glu(self: Tensor, dim: int = -1) -> Tensor:
    """The first half times the logistic function of the second."""
    rules.glu("glu", Shaped(self.shape, self.dtype), dim)
    if not self.dtype.is_inexact:
        self = self.to(get_default_dtype())
    dtype, dim = self.dtype, dim % self.ndim
    half = self.shape[dim] // 2
    wide = self.to(float32) if dtype.itemsize == 2 else self  # rounded once
    result = F.narrow(wide, dim, 0, half) * F.sigmoid(F.narrow(wide, dim, half, half))
    return result.to(dtype) if wide is not self else result


def gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    """See :mod:`tensorplay_composite.arrays.activation`."""
    dtype = self.dtype
    rules.check_approximation("gelu", approximate)
    if not dtype.is_inexact:
        return gelu(self.to(get_default_dtype()), approximate=approximate)
    if dtype.itemsize == 2:
        return gelu(self.to(float32), approximate=approximate).to(dtype)
    x = F.clamp_min(self, -FARTHEST)
    if approximate == "none":
        return x * F.erfc(x * -math.sqrt(0.5)) * 0.5
    return x * F.sigmoid(x * (1 + CUBIC * x * x) * SCALE)


def gelu_backward(grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    """See :mod:`tensorplay_composite.arrays.activation`."""
    dtype = promote(grad_output.dtype, self.dtype)
    rules.check_approximation("gelu_backward", approximate)
    if dtype.itemsize == 2:
        return gelu_backward(grad_output.to(float32), self.to(float32), approximate=approximate).to(dtype)
    x = F.clamp(self.to(dtype) if dtype.is_inexact else self, -FARTHEST, FARTHEST)
    if approximate == "none":
        density = F.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return grad_output * (F.erfc(x * -math.sqrt(0.5)) * 0.5 + x * density)
    v = x * (1 + CUBIC * x * x) * SCALE
    slope = F.sigmoid(v) * F.sigmoid(-v)
    return grad_output * (F.sigmoid(v) + x * slope * (1 + 3 * CUBIC * x * x) * SCALE)
