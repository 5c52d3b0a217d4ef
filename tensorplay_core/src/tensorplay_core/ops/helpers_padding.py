"""What the formulas of padding call."""

from __future__ import annotations

from collections.abc import Sequence

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor


def constant_pad_nd_backward(grad: Tensor, pad: Sequence[int]) -> Tensor:
    """The part of a gradient that is not of the padding; what was cut off gets 0."""
    return F.constant_pad_nd(grad, [-n for n in pad])


def windows_size(shape: Sequence[int]) -> tuple[int, ...]:
    """The last two sizes, those that windows slide over."""
    return tuple(shape[-2:])
