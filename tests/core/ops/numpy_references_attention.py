"""Definitions of embeddings, attention and dropout in NumPy, for test_values; dropout drops everything here."""

from __future__ import annotations

from typing import Any

import numpy as np


def embedding_dense_backward(grad: Any, indices: Any, count: int, padding: int, by_count: bool) -> Any:
    result = np.zeros((count, grad.shape[-1]), grad.dtype)
    np.add.at(result, indices, grad)
    if by_count:
        result = result / np.maximum(np.bincount(indices.reshape(-1), minlength=count), 1)[:, None]
    if padding >= 0:
        result[padding] = 0
    return result


def one_hot(x: Any, count: int = -1) -> Any:
    return (x[..., None] == np.arange(x.max() + 1 if count == -1 else count)).astype("int64")


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: Any = None, enable_gqa: bool = False
) -> Any:
    if enable_gqa:
        k, v = (np.repeat(one, q.shape[-3] // one.shape[-3], axis=-3) for one in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.where(top == -np.inf, 0, np.exp(scores - top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def attention_backward(grad: Any, q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    unit = np.broadcast_to(np.eye(k.shape[-2]), (*k.shape[:-2], k.shape[-2], k.shape[-2]))
    p = attention(q, k, unit, mask, is_causal, scale)
    d = grad @ np.swapaxes(v, -1, -2)
    e = p * (d - (d * p).sum(-1, keepdims=True)) * scale
    return e @ k, np.swapaxes(e, -1, -2) @ q, np.swapaxes(p, -1, -2) @ grad


REFERENCES: dict[str, Any] = {
    "_attention": attention,
    "_attention_backward": attention_backward,
    "_embedding": lambda weight, indices, padding, by_count: weight[indices],
    "embedding": lambda indices, weight, **options: weight[indices],
    "embedding_dense_backward": embedding_dense_backward,
    "native_dropout": lambda x, p, train: (x * (not train), np.full(x.shape, not train)),
    "native_dropout_backward": lambda grad, mask, scale: grad * mask * scale,
    "one_hot": one_hot,
    "scaled_dot_product_attention": attention,
    **{
        name: lambda x, p, training: x * 0
        for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout")
    },
}

PROMISED: dict[str, Any] = {
    "native_dropout": lambda dtype, args, kwargs: (dtype, "bool"),
    "one_hot": lambda dtype, args, kwargs: "int64",
}
"""The result's dtype where no rule of the contract says it, by operator."""
