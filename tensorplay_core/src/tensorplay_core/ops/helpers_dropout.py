"""What the derivatives of dropout are written in."""

from __future__ import annotations

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor


def dropout_gradient(grad: Tensor, mask: Tensor, p: float, train: bool | None) -> Tensor:
    """The gradient of dropout: that of what stayed, scaled as it was."""
    if train is False:
        return grad
    return F.native_dropout_backward(grad, mask, 1 / (1 - p) if p < 1 else 0.0)
