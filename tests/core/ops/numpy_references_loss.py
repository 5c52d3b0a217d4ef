"""Definitions of the losses in NumPy, for test_values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def reduced(loss: Any, reduction: str, scale: Any = None) -> Any:
    if reduction == "none":
        return loss
    if reduction == "batchmean":
        return loss.sum() / loss.shape[0]
    return loss.sum() if reduction == "sum" else loss.sum() / (loss.size if scale is None else scale)


def weighted(function: Any, divides: bool) -> Any:
    def loss(x: Any, t: Any, weight: Any = None, reduction: str = "mean", **options: Any) -> Any:
        losses = function(x, t, **options)
        if weight is None:
            return reduced(losses, reduction)
        return reduced(losses * weight, reduction, weight.sum() if divides else None)

    return loss


def smooth_l1(x: Any, t: Any, beta: float = 1.0) -> Any:
    d = np.abs(x - t)
    return np.where(d < beta, 0.5 * d * d / (beta or 1), d - 0.5 * beta)


def huber(x: Any, t: Any, delta: float = 1.0) -> Any:
    d = np.abs(x - t)
    return np.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def bce(x: Any, t: Any) -> Any:
    return -t * np.maximum(np.log(x), -100) - (1 - t) * np.maximum(np.log1p(-x), -100)


def bce_with_logits(x: Any, t: Any, pos_weight: Any = 1.0) -> Any:
    return t * pos_weight * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)


def kl_div(x: Any, t: Any, log_target: bool = False) -> Any:
    if log_target:
        return np.exp(t) * (t - x)
    return np.where(t == 0, 0, t * np.log(np.where(t == 0, 1, t))) - t * x


def poisson(x: Any, t: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8) -> Any:
    loss = np.exp(x) - t * x if log_input else x - t * np.log(x + eps)
    stirling = t * np.log(np.maximum(t, 1)) - t + 0.5 * np.log(2 * np.pi * np.maximum(t, 1))
    return loss + np.where(t > 1, stirling, 0) * full


def hinge(x: Any, t: Any, margin: float = 1.0) -> Any:
    return np.where(t == 1, x, np.where(t == -1, np.maximum(margin - x, 0), x + np.maximum(margin - x, 0)))


def gaussian(x: Any, t: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    var = var[..., None] if var.shape == x.shape[:-1] != x.shape else var
    v = np.maximum(var, eps)
    return reduced(0.5 * (np.log(v) + (x - t) ** 2 / v) + full * 0.5 * math.log(2 * math.pi), reduction)


def margin_ranking(a: Any, b: Any, t: Any, margin: float = 0, reduction: str = "mean") -> Any:
    return reduced(np.maximum(-t * (a - b) + margin, 0), reduction)


def cosine_embedding(a: Any, b: Any, t: Any, margin: float = 0, reduction: str = "mean") -> Any:
    cos = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
    return reduced(np.where(t == 1, 1 - cos, np.where(t == -1, np.maximum(cos - margin, 0), 0)), reduction)


def triplet(
    a: Any, p_: Any, n: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False, reduction="mean"
) -> Any:
    near, far = (np.linalg.norm(a - other + eps, p, axis=-1) for other in (p_, n))
    if swap:
        far = np.minimum(far, np.linalg.norm(p_ - n + eps, p, axis=-1))
    return reduced(np.maximum(near - far + margin, 0), reduction)


def nll(x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    rows = np.moveaxis(x, 0 if x.ndim == 1 else 1, -1)
    kept = target != ignore_index
    places = np.where(kept, target, 0)
    w = kept * (1.0 if weight is None else weight[places])
    return reduced(-np.take_along_axis(rows, places[..., None], -1)[..., 0] * w, reduction, w.sum())


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


def hot(x: Any, target: Any, smoothing: float) -> Any:
    return (np.arange(x.shape[1]) == target[:, None]) * (1 - smoothing) + smoothing / x.shape[1]


def rows(x: Any, target: Any, ignore_index: int, smoothing: float) -> Any:
    return -(np.log(softmax(x)) * hot(x, target, smoothing)).sum(1) * (target != ignore_index)


def rows_backward(grad: Any, x: Any, target: Any, ignore_index: int, smoothing: float) -> Any:
    return (softmax(x) - hot(x, target, smoothing)) * (grad * (target != ignore_index))[:, None]


def softmin(x: Any, dim: int, dtype: Any = None) -> Any:
    e = np.exp(x.min(dim, keepdims=True) - x) if x.ndim and x.size else np.exp(x - x)
    return e / e.sum(dim, keepdims=True) if x.ndim else e / e


REFERENCES: dict[str, Any] = {
    "_binary_cross_entropy": bce,
    "_cross_entropy": rows,
    "_cross_entropy_backward": rows_backward,
    "binary_cross_entropy": weighted(bce, False),
    "binary_cross_entropy_with_logits": weighted(bce_with_logits, False),
    "cosine_embedding_loss": cosine_embedding,
    "gaussian_nll_loss": gaussian,
    "hinge_embedding_loss": weighted(hinge, False),
    "huber_loss": weighted(huber, False),
    "kl_div": weighted(kl_div, False),
    "l1_loss": weighted(lambda x, t: np.abs(x - t), True),
    "margin_ranking_loss": margin_ranking,
    "mse_loss": weighted(lambda x, t: (x - t) ** 2, True),
    "nll_loss": nll,
    "poisson_nll_loss": weighted(poisson, False),
    "smooth_l1_loss": weighted(smooth_l1, False),
    "soft_margin_loss": weighted(lambda x, t: np.logaddexp(0, -t * x), False),
    "softmin": softmin,
    "triplet_margin_loss": triplet,
}
