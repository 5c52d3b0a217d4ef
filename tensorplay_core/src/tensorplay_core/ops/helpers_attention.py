"""What the derivatives of embeddings and attention are written in.

With the weights ``p = softmax(s)`` of the scores ``s = scale * query @ key.T + mask``, with ``d = grad @ value.T`` and
``e = p * (d - sum(d * p))``, which is the gradient of ``s``, those of attention are ``scale * e @ key``,
``scale * e.T @ query`` and ``p.T @ grad``. The weights are themselves the attention of the unit matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor

Maybe = Tensor | None


def embedding_gradient_rows(grad: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """The gradient of ``embedding_dense_backward``: rows read back, weighted as they were written."""
    rows = F.index(grad, [indices])
    if scale_grad_by_freq:
        ones = F.ones(indices.shape, dtype=grad.dtype, device=grad.device)
        counts = F.index_backward(ones, grad.shape[:1], [indices])
        rows = rows / F.index(counts, [indices]).unsqueeze(-1)
    return rows if padding_idx < 0 else F.where((indices == padding_idx).unsqueeze(-1), 0, rows)


def attention_mask_gradient(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor, is_causal: bool, scale: float
) -> Tensor:
    """The gradient of ``_attention`` for a mask that is added."""
    p = _weights(query, key, value, attn_mask, is_causal, scale)
    return _through_softmax(grad @ value.transpose(-2, -1), p)


def attention_double_backward(
    grads: Sequence[Maybe],
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Maybe,
    is_causal: bool,
    scale: float,
) -> tuple[Maybe, Maybe, Maybe, Maybe, Maybe]:
    """The gradients of ``_attention_backward``, given ``u``, ``w`` and ``x``, those of its three results."""
    u, w, x = grads
    p = _weights(query, key, value, attn_mask, is_causal, scale)
    to_grad: Maybe = None
    to_query: Maybe = None
    to_key: Maybe = None
    to_value: Maybe = None
    to_p: Maybe = None
    to_e: Maybe = None  # without the scale
    if u is not None:
        to_e = u @ key.transpose(-2, -1)
    if w is not None:
        part = query @ w.transpose(-2, -1)
        to_e = part if to_e is None else to_e + part
    if to_e is not None:
        a = to_e * scale
        d = grad_out @ value.transpose(-2, -1)
        to_d = _through_softmax(a, p)
        to_grad, to_value = to_d @ value, to_d.transpose(-2, -1) @ grad_out
        e = _through_softmax(d, p) * scale
        to_query = None if w is None else e @ w
        to_key = None if u is None else e.transpose(-2, -1) @ u
        to_p = a * (d - (d * p).sum(-1, True)) - d * (a * p).sum(-1, True)
    if x is not None:
        part = grad_out @ x.transpose(-2, -1)
        to_p = part if to_p is None else to_p + part
        to_grad = p @ x if to_grad is None else to_grad + p @ x
    if to_p is None:
        return None, None, None, None, None
    to_scores = _through_softmax(to_p, p)
    scaled = to_scores * scale
    more_query, more_key = scaled @ key, scaled.transpose(-2, -1) @ query
    to_query = more_query if to_query is None else to_query + more_query
    to_key = more_key if to_key is None else to_key + more_key
    return to_grad, to_query, to_key, to_value, None if attn_mask is None else to_scores


def _weights(query: Tensor, key: Tensor, value: Tensor, attn_mask: Maybe, is_causal: bool, scale: float) -> Tensor:
    size = key.shape[-2]
    unit = F.eye(size, dtype=value.dtype, device=value.device).expand((*value.shape[:-2], size, size))
    return F._attention(query, key, unit, attn_mask, is_causal, scale)


def _through_softmax(grad: Tensor, p: Tensor) -> Tensor:
    return p * (grad - (grad * p).sum(-1, True))
