"""References of normalised exponentials and of the cross entropy.

Their slack follows the errors of the usual computation: the difference from the largest element is rounded, ``exp``
multiplies that error by the difference, and the sum adds its own. Half precisions compute in float32 and round once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import budget, common_dtype
from tensorplay_core.testing.references.reduction import groups
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, format_of, ulp_of
from tensorplay_core.testing.references.sums import growth, slack_of, total
from tensorplay_core.testing.references.views import dim_of
from tensorplay_core.types.dtype import by_name

_EXP = 8.0
"""Four units in the last place of ``exp``, in unit roundoffs."""


class _Row(NamedTuple):
    """One row of a softmax: the differences from its largest element, their exponentials, and relative errors."""

    differences: list[float]
    exponentials: list[float]
    size: float
    log_size: float
    roundings: list[float]


def _row(x: list[float]) -> _Row:
    """Takes a row apart; all is NaN where an element is NaN or the largest is infinite."""
    largest = math.nan if any(value != value for value in x) else max(x)
    differences = [value - largest for value in x]
    exponentials = [ieee.exp(d) for d in differences]
    size = total(exponentials)
    finite = [abs(d) if math.isfinite(d) else 0.0 for d in differences]
    spread = sum(e * f for e, f in zip(exponentials, finite, strict=True)) / size if size == size else 0.0
    common = spread + growth(exponentials) + _EXP
    # The sum is 1 and the rest: log1p keeps the digits of a small logarithm.
    log_size = math.nan
    if size == size:
        top = differences.index(0.0)
        log_size = math.log1p(total(exponentials[:top] + exponentials[top + 1 :]))
    return _Row(differences, exponentials, size, log_size, [f + common for f in finite])


def _normalised(self: Array, dim: int, dtype: str | None) -> tuple[Array, list[_Row], list[int]]:
    """Returns the array in its dtype, its rows along a dim, and for each element in C order where it is in them."""
    self = self if dtype is None else self.cast(dtype)
    if not by_name(self.dtype).is_floating_point:
        raise TypeError(f"only floating dtypes are normalised, and the dtype is {self.dtype}")
    d = dim_of(dim, self.ndim)
    dims = [d] if self.ndim else []
    numbers = Array(self.shape, list(range(len(self.data))), "int64")
    order = [place for row in groups(numbers, dims) for place in row]
    rows = [_row(row) for row in groups(self, dims) if row]
    return self, rows, order


def _placed(values: Sequence[float], order: Sequence[int]) -> list[float]:
    """Puts values that are in the order of rows into C order."""
    result = [0.0] * len(order)
    for place, value in zip(order, values, strict=True):
        result[place] = value
    return result


def softmax(self: Array, dim: int, *, dtype: str | None = None) -> Array:
    """``exp(x) / sum(exp(x))`` along ``dim``."""
    self, rows, order = _normalised(self, dim, dtype)
    form = accumulator_of(self.dtype)
    values = [e / row.size for row in rows for e in row.exponentials]
    errors = [error for row in rows for error in row.roundings]
    # exp may underflow where the kernel flushes what is not a normal number.
    slack = [form.tiny + form.eps / 2 * e * v if v == v else 0.0 for v, e in zip(values, errors, strict=True)]
    return Array(self.shape, _placed(values, order), self.dtype, _placed(slack, order))


def log_softmax(self: Array, dim: int, *, dtype: str | None = None) -> Array:
    """``x - log(sum(exp(x)))`` along ``dim``."""
    self, rows, order = _normalised(self, dim, dtype)
    unit = accumulator_of(self.dtype).eps / 2
    values = [x - row.log_size for row in rows for x in row.differences]
    slack = [unit * (error + 2 * row.log_size) for row in rows for error in row.roundings]
    slack = [s if s == s else 0.0 for s in slack]
    return Array(self.shape, _placed(values, order), self.dtype, _placed(slack, order))


# ------------------------------------------------------------------------------------------------------ cross entropy


class _Term(NamedTuple):
    """A number, and how far it may be off."""

    value: float
    error: float


def cross_entropy(
    self: Array,
    target: Array,
    weight: Array | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """The cross entropy of logits (C), (N, C) or (N, C, …) with class indices or class probabilities."""
    probabilities = by_name(target.dtype).is_floating_point
    taking_part = [self, *([target] if probabilities else []), *([] if weight is None else [weight])]
    dtype = common_dtype(taking_part).name
    dim = 0 if self.ndim == 1 else 1
    classes = self.shape[dim]
    log_p = _rows(log_softmax(self, dim), dim)
    weights = [1.0] * classes if weight is None else weight.data
    losses: list[_Term]
    if probabilities:
        chances = [[value for value, _ in row] for row in _rows(target, dim)]
        smoothed = [[p * (1 - label_smoothing) + label_smoothing / max(classes, 1) for p in row] for row in chances]
        losses = [_loss(row, p, weights, dtype) for row, p in zip(log_p, smoothed, strict=True)]
        scales = [1.0] * len(losses)
    else:
        losses, scales = [], []
        for row, label in zip(log_p, target.data, strict=True):
            ignored = label == ignore_index
            if not ignored and not 0 <= label < classes:
                raise IndexError(f"class {label} of {classes}")
            hot = [label_smoothing / classes + (1 - label_smoothing) * (c == label) for c in range(classes)]
            hot = hot if label_smoothing else [float(c == label) for c in range(classes)]
            losses.append(_Term(0.0, 0.0) if ignored else _loss(row, hot, weights, dtype, skip=not label_smoothing))
            scales.append(0.0 if ignored else float(weights[label]))
    shape = (*self.shape[:dim], *self.shape[dim + 1 :])
    return _reduced(losses, scales, reduction, shape, dtype)


def _rows(self: Array, dim: int) -> list[list[_Term]]:
    """Returns the rows along a dim, in C order of the other dims, with the error of each rounded element."""
    form = format_of(self.dtype)
    assert form is not None
    slack = self.slack or [0.0] * len(self.data)
    terms = [_Term(x, s + ulp_of(form, x)) for x, s in zip(self.data, slack, strict=True)]
    return groups(Array(self.shape, terms, self.dtype), [dim])


def _loss(row: list[_Term], hot: list[float], weights: Sequence[float], dtype: str, skip: bool = False) -> _Term:
    """Returns the loss of one row for class probabilities; with ``skip``, those that are 0 are not looked at."""
    rows = [(x, p, w) for x, p, w in zip(row, hot, weights, strict=True) if p or not skip]
    terms = [-(x.value * p * w) for x, p, w in rows]
    form = format_of(dtype)
    assert form is not None
    value = float(total(terms))
    if not math.isfinite(value):
        return _Term(value, 0.0)
    # Each term is a product of rounded numbers, of which the dtype keeps the digits that it has.
    error = sum(x.error * p * w + 3 * ulp_of(form, t) for (x, p, w), t in zip(rows, terms, strict=True))
    return _Term(value, error + slack_of(terms, accumulator_of(dtype)) + ulp_of(form, value))


def _reduced(losses: list[_Term], scales: list[float], reduction: str, shape: tuple[int, ...], dtype: str) -> Array:
    values = [term.value for term in losses]
    if reduction == "none":
        return Array(shape, values, dtype, [term.error for term in losses])
    size = float(total(values))
    error = sum(term.error for term in losses) + slack_of(values, accumulator_of(dtype))
    if reduction == "sum":
        return Array((), [size], dtype, [error])
    scale = float(total(scales))
    return Array((), [ieee.div(size, scale)], dtype, [error / scale if scale else 0.0])


def softmin(self: Array, dim: int, *, dtype: str | None = None) -> Array:
    """``softmax(-x)``."""
    self = self if dtype is None else self.cast(dtype)
    return softmax(Array(self.shape, [-x for x in self.data], self.dtype), dim)


REFERENCES: dict[str, Reference] = {
    "cross_entropy": Reference(cross_entropy, budget(2)),
    "log_softmax": Reference(log_softmax, budget(2)),
    "softmax": Reference(softmax, budget(8)),
    "softmin": Reference(softmin, budget(8)),
}
