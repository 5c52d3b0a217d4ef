"""The losses between two tensors, with every option that PyTorch's have; those of classes are in :mod:`loss`.

Implicit: their gradients are those of the operators that they are made of, which is why some are written in an unusual
way. A square is written as a square where ``abs`` would do, so that its second derivative is right at 0; a logarithm is
taken of 1 where its factor is 0, since 0 times infinity is NaN in a gradient. Half precisions compute in float32.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from tensorplay_core.errors import ArgumentError, DTypeError, ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element
from tensorplay_core.types.dtype import DType, float32
from tensorplay_core.types.promotion import promote

REDUCTIONS = ("mean", "sum", "none")
FAR = 50
"""Where ``log(1 + exp(x))`` is ``x`` in every dtype."""


# ---------------------------------------------------------------------------------------------------------------- parts


def check_reduction(
    op: str,
    reduction: str,
    size_average: bool | None = None,
    reduce: bool | None = None,
    known: tuple[str, ...] = REDUCTIONS,
) -> None:
    """Refuses an unknown reduction, and the two arguments that it has replaced.

    Raises:
        ArgumentError: ``size_average`` or ``reduce`` is given.
        ValueRangeError: ``reduction`` is none of those that are known.
    """
    for name, value in (("size_average", size_average), ("reduce", reduce)):
        if value is not None:
            instead = "none" if reduce is False else "sum" if size_average is False else "mean"
            raise ArgumentError(f"{op}: {name} is not supported" + fix(f"pass reduction={instead!r}."))
    if reduction not in known:
        raise ValueRangeError(
            f"{op}: reduction must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, got {reduction!r}."
            f"{did_you_mean(str(reduction), known)}"
        )


def _wide(op: str, *tensors: Tensor | None) -> tuple[list[Any], DType]:
    """Returns tensors as they are computed with, and the dtype of the result; None stays None."""
    dtype: DType | None = None
    for one in tensors:
        if one is not None:
            dtype = one.dtype if dtype is None else promote(dtype, one.dtype)
    assert dtype is not None
    if not dtype.is_floating_point:
        raise DTypeError(f"{op}: takes floating dtypes, not {dtype.name}" + fix("convert with .to(tp.float32)."))
    compute = float32 if dtype.itemsize == 2 else dtype
    return [None if one is None else one.to(compute) for one in tensors], dtype


def _pair(op: str, self: Tensor, target: Tensor, *more: Tensor | None) -> tuple[list[Any], DType]:
    """Returns :func:`_wide` of tensors that are compared, and warns where that repeats one of them, as PyTorch does."""
    if self.shape != target.shape:
        warnings.warn(
            f"{op}: Using a target size ({target.shape}) that is different to the input size ({self.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            UserWarning,
            stacklevel=2,
        )
    return _wide(op, self, target, *more)


def _reduced(loss: Tensor, reduction: str, dtype: DType) -> Tensor:
    if reduction != "none":
        loss = loss.mean() if reduction == "mean" else loss.sum()
    return loss.to(dtype)


def _weighted(op: str, loss: Tensor, weight: Tensor | None, reduction: str, dtype: DType) -> Tensor:
    """Reduces a loss with a weight for each element, by which the mean is divided."""
    if weight is None:
        return _reduced(loss, reduction, dtype)
    if weight.shape != loss.shape:
        raise ShapeError(f"{op}: weight must have the shape of the losses, {loss.shape}, and has {weight.shape}")
    loss = loss * weight
    return (loss.sum() / weight.sum()).to(dtype) if reduction == "mean" else _reduced(loss, reduction, dtype)


def _positive_part(x: Tensor) -> Tensor:
    """``max(x, 0)`` with the gradient 1 at 0, as PyTorch's ``clamp`` has."""
    return F.where(x < 0, 0, x)


# ----------------------------------------------------------------------------------------------------------- regression


def mse_loss(
    self: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(self - target) ** 2``."""
    check_reduction("mse_loss", reduction, size_average, reduce)
    (x, t, w), dtype = _pair("mse_loss", self, target, weight)
    return _weighted("mse_loss", F.square(x - t), w, reduction, dtype)


def l1_loss(
    self: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``abs(self - target)``."""
    check_reduction("l1_loss", reduction, size_average, reduce)
    (x, t, w), dtype = _pair("l1_loss", self, target, weight)
    return _weighted("l1_loss", F.abs(x - t), w, reduction, dtype)


def smooth_l1_loss(
    self: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """A parabola up to ``beta``, and straight from there on."""
    check_reduction("smooth_l1_loss", reduction, size_average, reduce)
    if not beta >= 0:
        raise ValueRangeError(f"smooth_l1_loss: beta must be 0 or more, got {beta}")
    (x, t), dtype = _pair("smooth_l1_loss", self, target)
    loss = _parabola(x - t, beta) * (1 / beta) if beta else F.abs(x - t)
    return _reduced(loss, reduction, dtype)


def huber_loss(
    self: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """A parabola up to ``delta``, and straight from there on."""
    check_reduction("huber_loss", reduction)
    if not delta > 0:
        raise ValueRangeError(f"huber_loss: delta must be more than 0, got {delta}")
    (x, t, w), dtype = _pair("huber_loss", self, target, weight)
    loss = _parabola(x - t, delta)
    if w is not None:
        if w.shape != self.shape:
            raise ShapeError(f"huber_loss: weight must have the shape of the input, {self.shape}, and has {w.shape}")
        loss = loss * w
    return _reduced(loss, reduction, dtype)


def _parabola(d: Tensor, edge: float) -> Tensor:
    """``d ** 2 / 2`` up to the edge, straight from there on: ``c * (d - c / 2)``, whose slope is the limited ``c``."""
    c = F.clamp(d, -edge, edge)
    return c * (d - c * 0.5)


def gaussian_nll_loss(
    self: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-06, reduction: str = "mean"
) -> Tensor:
    """``0.5 * (log(var) + (self - target) ** 2 / var)``; the gradient ignores that ``var`` is at least ``eps``."""
    check_reduction("gaussian_nll_loss", reduction)
    if not eps > 0:
        raise ValueRangeError(f"gaussian_nll_loss: eps must be more than 0, got {eps}")
    (x, t, v), dtype = _pair("gaussian_nll_loss", self, target, var)
    if v.shape != x.shape:
        if v.shape == x.shape[:-1]:
            v = v.unsqueeze(-1)
        elif v.ndim != x.ndim or any(a != b and b != 1 for a, b in zip(x.shape, v.shape, strict=True)):
            raise ShapeError(
                f"gaussian_nll_loss: var is of incorrect size, {var.shape}, for an input of shape {self.shape}"
                + fix("give it the shape of the input, or one in which a size is 1 or the last one is missing.")
            )
    if v.numel() and not v.is_meta and F.max(-every_element(v)).item() > 0:
        raise ValueRangeError(
            "gaussian_nll_loss: var has negative entry/entries" + fix("pass variances, not logarithms.")
        )
    v = v + (F.maximum(v, eps) - v).detach()
    loss = (F.log(v) + F.square(x - t) / v) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction, dtype)


def poisson_nll_loss(
    self: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-08,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``exp(self) - target * self``, or that of the logarithm."""
    check_reduction("poisson_nll_loss", reduction, size_average, reduce)
    (x, t), dtype = _wide("poisson_nll_loss", self, target)
    loss = F.exp(x) - t * x if log_input else x - t * F.log(x + eps)
    if full:
        large = F.where(t > 1, t, 1)  # a gradient of what is not taken would be NaN
        stirling = large * F.log(large) - large + F.log(large * (2 * math.pi)) * 0.5
        loss = loss + F.where(t > 1, stirling, 0)
    return _reduced(loss, reduction, dtype)


# -------------------------------------------------------------------------------------------------------- probabilities


def binary_cross_entropy(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(target * log(self) + (1 - target) * log(1 - self))``."""
    op = "binary_cross_entropy"
    check_reduction(op, reduction, size_average, reduce)
    if self.shape != target.shape:
        raise ShapeError(f"{op}: target has shape {target.shape}, and the input {self.shape}; they must be the same")
    (x, t, w), dtype = _wide(op, self, target, weight)
    every = every_element(x)
    if x.numel() and not x.is_meta and not (F.max(every).item() <= 1 and F.max(-every).item() <= 0):
        raise ValueRangeError(
            f"{op}: all elements of input should be between 0 and 1"
            + fix("of logits take binary_cross_entropy_with_logits.")
        )
    loss = F._binary_cross_entropy(x, t)
    return _reduced(loss if w is None else loss * w, reduction, dtype)


def binary_cross_entropy_with_logits(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """``target * softplus(-self) * pos_weight + (1 - target) * softplus(self)``: no digit is lost to a difference."""
    op = "binary_cross_entropy_with_logits"
    check_reduction(op, reduction, size_average, reduce)
    if self.shape != target.shape:
        raise ShapeError(f"{op}: target has shape {target.shape}, and the input {self.shape}; they must be the same")
    (x, t, w, positive), dtype = _wide(op, self, target, weight, pos_weight)
    loss = F.softplus(-x, 1, FAR) * (t if positive is None else t * positive) + F.softplus(x, 1, FAR) * (1 - t)
    return _reduced(loss if w is None else loss * w, reduction, dtype)


def kl_div(
    self: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target * (log(target) - self)``, 0 where the target is 0."""
    check_reduction("kl_div", reduction, size_average, reduce, (*REDUCTIONS, "batchmean"))
    (x, t), dtype = _wide("kl_div", self, target)
    loss = F.exp(t) * (t - x) if log_target else t * F.log(F.where(t == 0, 1, t)) - t * x
    if reduction != "batchmean":
        return _reduced(loss, reduction, dtype)
    if not self.ndim:
        raise ShapeError("kl_div: 'batchmean' divides by the first size, and the input is 0-d" + fix("pass 'sum'."))
    return (loss.sum() / self.shape[0]).to(dtype)


# -------------------------------------------------------------------------------------------------------------- margins


def soft_margin_loss(
    self: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * self))``."""
    check_reduction("soft_margin_loss", reduction, size_average, reduce)
    (x, t), dtype = _wide("soft_margin_loss", self, target)
    return _reduced(F.softplus(-t * x, 1, FAR), reduction, dtype)


def hinge_embedding_loss(
    self: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``self`` for 1, the positive part of ``margin - self`` for -1."""
    check_reduction("hinge_embedding_loss", reduction, size_average, reduce)
    (x, t), dtype = _wide("hinge_embedding_loss", self, target)
    loss = F.where(t != 1, _positive_part(margin - x), 0) + F.where(t != -1, x, 0)
    return _reduced(loss, reduction, dtype)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The positive part of ``-target * (input1 - input2) + margin``."""
    check_reduction("margin_ranking_loss", reduction, size_average, reduce)
    if not input1.shape == input2.shape == target.shape:
        raise ShapeError(
            "margin_ranking_loss: all input tensors should have same size but got sizes "
            f"{input1.shape}, {input2.shape} and {target.shape}"
        )
    (a, b, t), dtype = _wide("margin_ranking_loss", input1, input2, target)
    return _reduced(_positive_part(-t * (a - b) + margin), reduction, dtype)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` for 1, the positive part of ``cos - margin`` for -1, of rows (N, D) or of two vectors."""
    op = "cosine_embedding_loss"
    check_reduction(op, reduction, size_average, reduce)
    if target.ndim > 1 or input1.ndim != target.ndim + 1 or input1.shape[:-1] != target.shape:
        raise ShapeError(
            f"{op}: takes inputs (N, D) with a target (N), or (D) with (), not {input1.shape}, {input2.shape} "
            f"and {target.shape}"
        )
    (a, b, t), dtype = _wide(op, input1, input2, target)
    sizes = (F.square(a).sum(-1) + 1e-12) * (F.square(b).sum(-1) + 1e-12)
    cos = (a * b).sum(-1) / F.sqrt(sizes)
    loss = F.where(t == 1, 1 - cos, 0) + F.where(t == -1, _positive_part(cos - margin), 0)
    return _reduced(loss, reduction, dtype)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The positive part of ``margin + d(anchor, positive) - d(anchor, negative)``."""
    op = "triplet_margin_loss"
    check_reduction(op, reduction, size_average, reduce)
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"{op}: All inputs should have same dimension but got {anchor.ndim}D, {positive.ndim}D and {negative.ndim}D"
        )
    if not anchor.ndim:
        raise ShapeError(f"{op}: distances are along the last dim, and the inputs are 0-d")
    if not p > 0:
        raise ValueRangeError(f"{op}: p must be more than 0, got {p}")
    (a, b, c), dtype = _wide(op, anchor, positive, negative)
    near, far = _distance(a, b, p, eps), _distance(a, c, p, eps)
    if swap:
        far = F.minimum(far, _distance(b, c, p, eps))
    return _reduced(_positive_part(near - far + margin), reduction, dtype)


def _distance(a: Tensor, b: Tensor, p: float, eps: float) -> Tensor:
    """The ``p``-norm of ``a - b + eps`` along the last dim."""
    d = a - b + eps
    if p == 2:
        return F.sqrt(F.square(d).sum(-1))
    size = F.abs(d)
    if p == 1:
        return size.sum(-1)
    return F.max(size, -1)[0] if p == math.inf else F.pow(F.pow(size, p).sum(-1), 1 / p)
