"""Losses, normalization, attention and dropout: where PyTorch differs, and what computes the same."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

DIFFERENT: dict[tuple[str, str], str] = {}
DIFFERENT |= {
    (
        "embedding_dense_backward",
        f"shape {shape} padding {padding} counts True",
    ): "PyTorch's second gradient forgets counts"
    for shape in ((4,), (2, 2), (), (0,), (1, 3))
    for padding in (-1, 0)
}
DIFFERENT["binary_cross_entropy", "equal elements and zeros"] = (
    "the gradient of a target is that of the logarithms, which are at least -100; PyTorch's is infinite"
)
DIFFERENT["native_dropout", "shape (0, 2)"] = "the mask of nothing is bool too; PyTorch's has the input's dtype"
DIFFERENT["cosine_embedding_loss", "rows of zeros"] = "PyTorch rounds the 1e-12 under a length to single precision"
DIFFERENT["kl_div", "targets of 0"] = "the gradient of a target of 0 is a number; PyTorch's is NaN"
HALF = (
    *("_attention", "_attention_backward"),
    *("_standardize", "_standardize_backward", "_binary_cross_entropy", "_cross_entropy", "_cross_entropy_backward"),
    *("binary_cross_entropy", "cosine_embedding_loss", "embedding", "_embedding", "embedding_dense_backward", "kl_div"),
    *("gaussian_nll_loss", "nll_loss", "poisson_nll_loss", "triplet_margin_loss", "scaled_dot_product_attention"),
    *("binary_cross_entropy_with_logits", "soft_margin_loss"),
)
DIFFERENT_DTYPES: dict[tuple[str, str], str] = {
    **{
        (name, dtype): "PyTorch rounds what it computes on the way to the half precision; here that is done once"
        for name in (*HALF, *(f"{reduced}_norm" for reduced in ("layer", "rms", "group", "instance", "batch")))
        for dtype in ("float16", "bfloat16")
    },
}


def standardized(x: Any, weight: Any, bias: Any, dim: Any, eps: float) -> Any:
    mean, var = x.mean(dim, True), x.var(dim, unbiased=False, keepdim=True)
    y = (x - mean) * torch.rsqrt(var + eps) * (1 if weight is None else weight)
    return (y if bias is None else y + bias), mean, var


def standardized_backward(
    grad: Any, x: Any, mean: Any, var: Any, weight: Any, dim: Any, affine: Any, eps: float, mask: Any
) -> Any:
    rstd = torch.rsqrt(var + eps)
    h = (x - mean) * rstd
    g = grad if weight is None else grad * weight
    sizes = (1,) * (x.ndim - len(affine)) + tuple(affine)
    over = [d for d, n in enumerate(sizes) if n == 1]
    sums = [one.sum(over, True) if over else one * 1 for one in (grad * h, grad)]
    sums = [one.reshape(affine) if wanted else one for one, wanted in zip(sums, mask[1:], strict=True)]
    results = (g - g.mean(dim, True) - h * (g * h).mean(dim, True)) * rstd, *sums
    return tuple(one if wanted else one.reshape(-1)[:0] for one, wanted in zip(results, mask, strict=True))


def attended(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, **options: Any) -> Any:
    """The composed form, since the fused one has no second gradient."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, **options)


def reduced_loss(loss: Any, reduction: str) -> Any:
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def cross_entropy_backward(grad: Any, x: Any, target: Any, ignored: int, smoothing: float) -> Any:
    kept = (target != ignored)[:, None]
    hot = torch.nn.functional.one_hot(torch.where(target == ignored, 0, target), x.shape[1]).to(x.dtype)
    return (torch.softmax(x, 1) - hot * (1 - smoothing) - smoothing / x.shape[1]) * grad[:, None] * kept


def attended_backward(
    grad: Any, q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float = 1.0
) -> Any:
    unit = torch.eye(k.shape[-2], dtype=v.dtype).expand(*v.shape[:-2], -1, -1)
    p = attended(q, k, unit, mask, is_causal, scale=scale)
    d = grad @ v.mT
    e = p * (d - (d * p).sum(-1, True)) * scale
    return e @ k, e.mT @ q, p.mT @ grad


def embedded_backward(grad: Any, indices: Any, count: int, padding: int, by_count: bool) -> Any:
    places = indices.reshape(-1)
    rows = grad.reshape(places.numel(), grad.shape[-1]) * (places != padding)[:, None]
    result = torch.zeros(count, grad.shape[-1], dtype=grad.dtype).index_add(0, places, rows)
    return result / torch.bincount(places, minlength=count).clamp(min=1)[:, None] if by_count else result


FUNCTIONAL = (
    *("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "gaussian_nll_loss"),
    *("hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "nll_loss"),
    *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
    *("embedding", "one_hot", "softmin", "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d"),
)
"""Operators that torch.nn.functional has with other arguments than torch."""
REFERENCES: dict[str, Any] = {
    **{name: getattr(torch.nn.functional, name) for name in FUNCTIONAL},
    "_standardize": standardized,
    "scaled_dot_product_attention": attended,
    "soft_margin_loss": lambda x, t, reduction="mean": reduced_loss(
        torch.nn.functional.softplus(-t * x, 1, 50), reduction
    ),
    "_standardize_backward": standardized_backward,
    "_binary_cross_entropy": lambda x, t: torch.nn.functional.binary_cross_entropy(
        *torch.broadcast_tensors(*[torch.as_tensor(a, dtype=x.dtype) for a in (x, t)]), reduction="none"
    ),
    "_cross_entropy": lambda x, t, ignored, smoothing: torch.nn.functional.cross_entropy(
        x, t, ignore_index=ignored, label_smoothing=smoothing, reduction="none"
    ),
    "_cross_entropy_backward": cross_entropy_backward,
    "_embedding": lambda weight, indices, padding, by_count: torch.nn.functional.embedding(
        indices, weight, padding if padding >= 0 else None, scale_grad_by_freq=by_count
    ),
    "_attention": lambda q, k, v, mask, is_causal, scale: attended(q, k, v, mask, is_causal, scale=scale),
    "_attention_backward": attended_backward,
    "embedding_dense_backward": embedded_backward,  # the derivative of PyTorch's own refuses some shapes
    "native_dropout_backward": torch.ops.aten.native_dropout_backward,
    "cross_entropy": torch.nn.functional.cross_entropy,
}
