"""The cross entropy between logits and classes, with every option that PyTorch's has.

Implicit: it is made of ``log_softmax``, ``index`` and sums, so its gradient is theirs. The usual call (indices, no
weight, nothing ignored, no smoothing) takes the shortest road through :func:`_of_indices`.
"""

from __future__ import annotations

import math

from tensorplay_core.dispatch.integers import default_integer
from tensorplay_core.errors import DimError, DTypeError, ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32

REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of logits (C), (N, C) or (N, C, …) with class indices or class probabilities.

    Raises:
        ShapeError: the shapes of ``self``, ``target`` and ``weight`` do not belong together.
        DTypeError: ``target`` is neither of integers nor, with the shape of ``self``, of floats.
        DimError: a class index that is not a class.
        ValueRangeError: an unknown ``reduction``, or ``label_smoothing`` outside 0 to 1.
    """
    _check(self, target, weight, reduction, label_smoothing)
    if self.dtype.itemsize == 2:  # in float32, rounded once: the sum of the losses may be past what a half can hold
        target = target.to(float32) if target.dtype.is_floating_point else target
        weight = None if weight is None else weight.to(float32)
        loss = cross_entropy(self.to(float32), target, weight, ignore_index, reduction, label_smoothing)
        return loss.to(self.dtype)
    dim = 0 if self.ndim == 1 else 1
    classes = self.shape[dim]
    log_p = F.log_softmax(self, dim)
    if self.ndim > 2:
        log_p = log_p.permute((0, *range(2, self.ndim), 1))
    rows = math.prod(self.shape) // classes if classes else math.prod(target.shape)
    log_p = log_p.reshape((rows, classes))
    if target.dtype.is_floating_point:
        if self.ndim > 2:
            target = target.permute((0, *range(2, self.ndim), 1))
        loss = _of_probabilities(log_p, target.reshape((rows, classes)), weight, reduction, label_smoothing)
    else:
        places = target.reshape((rows,))
        integer = default_integer(target.device)
        if target.dtype is not integer:
            places = places.to(integer)
        loss = _of_indices(log_p, places, weight, ignore_index, reduction, label_smoothing)
    if reduction != "none":
        return loss
    return loss.reshape((*self.shape[:dim], *self.shape[dim + 1 :]))


def _of_probabilities(
    log_p: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / max(log_p.shape[1], 1)
    product = log_p * target
    if weight is not None:
        product = product * weight
    if reduction == "none":
        return -product.sum(1)
    return -product.sum() if reduction == "sum" else -product.sum() / log_p.shape[0]


def _of_indices(
    log_p: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    rows, classes = log_p.shape
    ignored = None
    if not rows or 0 <= ignore_index < classes or not _all_classes(target, classes):
        ignored = target == ignore_index
        target = F.where(ignored, 0, target)
        if rows and not _all_classes(target, classes):
            raise _no_class(target, classes, ignore_index)
    picked = F.index(log_p, [F.arange(0, rows, 1, dtype=default_integer(log_p.device), device=log_p.device), target])
    if weight is None and ignored is None and not label_smoothing:
        return -picked if reduction == "none" else -picked.mean() if reduction == "mean" else -picked.sum()
    scale = None if weight is None else F.index(weight, [target])
    loss = -picked if scale is None else -picked * scale
    if label_smoothing:
        every = -(log_p if weight is None else log_p * weight).sum(1)
        loss = loss * (1 - label_smoothing) + every * (label_smoothing / classes)
    if ignored is not None:
        loss = F.where(ignored, 0, loss)
        scale = F.where(ignored, 0, 1 if scale is None else scale).to(log_p.dtype)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return loss.mean() if scale is None else loss.sum() / scale.sum()


def _all_classes(target: Tensor, classes: int) -> bool:
    """Whether every element is a class, found with one number read from the device; taken as given without data."""
    if target.is_meta:
        return True
    with_negatives_large = F.where(target < 0, classes - target, target)
    return bool(F.max(with_negatives_large).item() < classes)


def _no_class(target: Tensor, classes: int, ignore_index: int) -> DimError:
    wrong = next(place for place in target.tolist() if not 0 <= place < classes)
    return DimError(
        f"cross_entropy: target has class {wrong}, and self has {classes} classes, 0 to {classes - 1}"
        + fix(f"correct the labels; those to be left out have the value ignore_index={ignore_index}")
    )


def _check(self: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float) -> None:
    if reduction not in REDUCTIONS:
        raise ValueRangeError(
            f"cross_entropy: reduction must be {', '.join(map(repr, REDUCTIONS[:-1]))} or {REDUCTIONS[-1]!r}, "
            f"got {reduction!r}.{did_you_mean(str(reduction), REDUCTIONS)}"
        )
    if not 0 <= label_smoothing <= 1:
        raise ValueRangeError(f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}")
    if self.ndim == 0:
        raise ShapeError("cross_entropy: self must be (C), (N, C) or (N, C, ...), and is a 0-d tensor")
    dim = 0 if self.ndim == 1 else 1
    classes, places = self.shape[dim], (*self.shape[:dim], *self.shape[dim + 1 :])
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(f"cross_entropy: weight must have one element a class, ({classes},), and has {weight.shape}")
    if target.dtype.is_floating_point:
        if target.shape != self.shape:
            raise ShapeError(
                f"cross_entropy: a target of probabilities must have the shape of self, {self.shape}, "
                f"and has {target.shape}" + fix("convert class indices with target.to(tp.int64)")
            )
    elif target.dtype.is_bool or target.dtype.is_complex:
        raise DTypeError(f"cross_entropy: target must be class indices or probabilities, not {target.dtype.name}")
    elif target.shape != places:
        hint = "one-hot targets are probabilities: target.to(tp.float32)" if target.shape == self.shape else ""
        raise ShapeError(
            f"cross_entropy: for self of shape {self.shape} a target of class indices has shape {places}, "
            f"and this one has {target.shape}" + (fix(hint) if hint else "")
        )
