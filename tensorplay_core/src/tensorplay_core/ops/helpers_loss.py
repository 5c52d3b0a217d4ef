"""What the derivatives of the losses are written in."""

from __future__ import annotations

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor


def cross_entropy_double_backward(
    grad: Tensor, grad_out: Tensor, self: Tensor, indices: Tensor, ignore_index: int, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The gradients of ``grad_out * (softmax(self) - target)`` for ``grad_out`` and ``self``."""
    # What multiplies grad_out is the operator's own result for ones; of ignored rows it is 0.
    ones = grad_out * 0 + 1
    slopes = F._cross_entropy_backward(ones, self, indices, ignore_index, label_smoothing)
    p = F.softmax(self, 1)
    scale = F.where(indices == ignore_index, 0, grad_out).unsqueeze(1)
    return (grad * slopes).sum(1), scale * p * (grad - (grad * p).sum(1, True))
