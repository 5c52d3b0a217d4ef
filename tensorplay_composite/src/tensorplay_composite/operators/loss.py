"""The cross entropy between logits and classes, and the likelihood of classes, with every option that PyTorch's have.

Implicit: they are made of ``log_softmax``, ``index`` and sums, so their gradients are theirs. The usual call (indices,
no weight) goes through ``_cross_entropy``, an operator that keeps nothing of the size of the logits.
"""

from __future__ import annotations

import math

from tensorplay_composite.operators.losses import check_reduction
from tensorplay_core.dispatch.integers import default_integer
from tensorplay_core.errors import DimError, DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element
from tensorplay_core.types.dtype import float32


def cross_entropy(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of logits (C), (N, C) or (N, C, …) with class indices or class probabilities.

    Raises:
        ShapeError: the shapes of ``self``, ``target`` and ``weight`` do not belong together.
        DTypeError: ``target`` is neither of integers nor, with the shape of ``self``, of floats.
        DimError: a class index that is not a class.
        ValueRangeError: an unknown ``reduction``, or ``label_smoothing`` outside 0 to 1.
        ArgumentError: ``size_average`` or ``reduce`` is given.
    """
    check_reduction("cross_entropy", reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ValueRangeError(f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}")
    _check("cross_entropy", self, target, weight, probabilities=True)
    if self.dtype.itemsize == 2:  # in float32, rounded once: the sum of the losses may be past what a half can hold
        target = target.to(float32) if target.dtype.is_floating_point else target
        weight = None if weight is None else weight.to(float32)
        loss = cross_entropy(self.to(float32), target, weight, None, ignore_index, None, reduction, label_smoothing)
        return loss.to(self.dtype)
    if target.dtype.is_floating_point:
        rows = _rows(F.log_softmax(self, 0 if self.ndim == 1 else 1))
        loss = _of_probabilities(rows, _rows(target), weight, reduction, label_smoothing)
    elif weight is None and self.dtype.is_floating_point:
        rows = _rows(self)
        places = target.reshape((rows.shape[0],))
        loss = F._cross_entropy(rows, places, ignore_index, label_smoothing)
        if reduction == "mean":
            loss = loss.sum() / F.ne(places, ignore_index).to(rows.dtype).sum()
        elif reduction == "sum":
            loss = loss.sum()
    else:
        rows = _rows(F.log_softmax(self, 0 if self.ndim == 1 else 1))
        places = _places("cross_entropy", target, rows)
        loss = _of_indices("cross_entropy", rows, places, weight, ignore_index, reduction, label_smoothing)
    return loss.reshape(_without_classes(self)) if reduction == "none" else loss


def nll_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of classes, of log-probabilities (C), (N, C) or (N, C, …).

    Raises:
        ShapeError: the shapes of ``self``, ``target`` and ``weight`` do not belong together.
        DTypeError: ``target`` is not of integers, or ``self`` is.
        DimError: a class index that is not a class.
        ValueRangeError: an unknown ``reduction``.
        ArgumentError: ``size_average`` or ``reduce`` is given.
    """
    check_reduction("nll_loss", reduction, size_average, reduce)
    if not self.dtype.is_floating_point:
        raise DTypeError(f"nll_loss: takes floating dtypes, not {self.dtype.name}" + fix("pass log-probabilities."))
    _check("nll_loss", self, target, weight, probabilities=False)
    log_p = self.to(float32) if self.dtype.itemsize == 2 else self
    weight = None if weight is None else weight.to(log_p.dtype)
    rows = _rows(log_p)
    loss = _of_indices("nll_loss", rows, _places("nll_loss", target, rows), weight, ignore_index, reduction, 0.0)
    return (loss.reshape(_without_classes(self)) if reduction == "none" else loss).to(self.dtype)


# ------------------------------------------------------------------------------------------------- the operator itself


def _cross_entropy(self: Tensor, indices: Tensor, ignore_index: int, label_smoothing: float) -> Tensor:
    """Each row's loss, 0 where its class is ``ignore_index``."""
    wide = self.to(float32) if self.dtype.itemsize == 2 else self
    places = _places("_cross_entropy", indices, wide)
    log_p = F.log_softmax(wide, 1)
    return _of_indices("cross_entropy", log_p, places, None, ignore_index, "none", label_smoothing).to(self.dtype)


def _cross_entropy_backward(
    grad_out: Tensor, self: Tensor, indices: Tensor, ignore_index: int, label_smoothing: float
) -> Tensor:
    """``grad_out * (softmax(self) - target)``."""
    wide = self.to(float32) if self.dtype.itemsize == 2 else self
    classes = self.shape[1]
    every = F.arange(0, classes, 1, dtype=indices.dtype, device=self.device)
    hot = (every == indices.unsqueeze(1)).to(wide.dtype) * (1 - label_smoothing) + label_smoothing / max(classes, 1)
    scale = F.where(indices == ignore_index, 0, grad_out.to(wide.dtype)).unsqueeze(1)
    slopes = F.softmax(wide, 1) - hot
    return F.where((indices == ignore_index).unsqueeze(1), 0, slopes * scale).to(self.dtype)


# ---------------------------------------------------------------------------------------------------------------- parts


def _rows(x: Tensor) -> Tensor:
    """Returns (C), (N, C) or (N, C, …) as rows of classes."""
    if x.ndim == 2:
        return x
    if x.ndim > 2:
        x = x.permute((0, *range(2, x.ndim), 1))
    classes = x.shape[-1]
    return x.reshape((math.prod(x.shape[:-1]), classes))


def _places(op: str, target: Tensor, rows: Tensor) -> Tensor:
    """Returns the classes, one for each row, as what a device counts with."""
    places = target.reshape((rows.shape[0],))
    integer = default_integer(target.device)
    return places if target.dtype is integer else places.to(integer)


def _without_classes(self: Tensor) -> tuple[int, ...]:
    dim = 0 if self.ndim == 1 else 1
    return (*self.shape[:dim], *self.shape[dim + 1 :])


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
    op: str,
    log_p: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    rows, classes = log_p.shape
    ignored = None
    if not rows or 0 <= ignore_index < classes or not _all_classes(target, classes):
        ignored = target == ignore_index
        target = F.where(ignored, 0, target)
        if rows and not _all_classes(target, classes):
            raise _no_class(op, target, classes, ignore_index)
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
    every = every_element(target)
    with_negatives_large = F.where(every < 0, classes - every, every)
    return bool(F.max(with_negatives_large).item() < classes)


def _no_class(op: str, target: Tensor, classes: int, ignore_index: int) -> DimError:
    wrong = next(place for place in every_element(target).reshape(-1).tolist() if not 0 <= place < classes)
    return DimError(
        f"{op}: target has class {wrong}, and self has {classes} classes, 0 to {classes - 1}"
        + fix(f"correct the labels; those to be left out have the value ignore_index={ignore_index}")
    )


def _check(op: str, self: Tensor, target: Tensor, weight: Tensor | None, *, probabilities: bool) -> None:
    if self.ndim == 0:
        raise ShapeError(f"{op}: self must be (C), (N, C) or (N, C, ...), and is a 0-d tensor")
    classes, places = self.shape[0 if self.ndim == 1 else 1], _without_classes(self)
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(f"{op}: weight must have one element a class, ({classes},), and has {weight.shape}")
    if target.dtype.is_floating_point and probabilities:
        if target.shape != self.shape:
            raise ShapeError(
                f"{op}: a target of probabilities must have the shape of self, {self.shape}, "
                f"and has {target.shape}" + fix("convert class indices with target.to(tp.int64)")
            )
    elif target.dtype.is_bool or not target.dtype.is_integral:
        wanted = "class indices or probabilities" if probabilities else "class indices"
        raise DTypeError(f"{op}: target must be {wanted}, not {target.dtype.name}")
    elif target.shape != places:
        hint = "one-hot targets are probabilities: target.to(tp.float32)" if target.shape == self.shape else ""
        raise ShapeError(
            f"{op}: for self of shape {self.shape} a target of class indices has shape {places}, "
            f"and this one has {target.shape}" + (fix(hint) if hint and probabilities else "")
        )
