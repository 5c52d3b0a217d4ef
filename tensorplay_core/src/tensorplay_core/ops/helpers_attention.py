"""What the derivatives of embeddings are written in."""

from __future__ import annotations

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor


def embedding_gradient_rows(grad: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """The gradient of ``embedding_dense_backward``: rows read back, weighted as they were written."""
    rows = F.index(grad, [indices])
    if scale_grad_by_freq:
        ones = F.ones(indices.shape, dtype=grad.dtype, device=grad.device)
        counts = F.index_backward(ones, grad.shape[:1], [indices])
        rows = rows / F.index(counts, [indices]).unsqueeze(-1)
    return rows if padding_idx < 0 else F.where((indices == padding_idx).unsqueeze(-1), 0, rows)
