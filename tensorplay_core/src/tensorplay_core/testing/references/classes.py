"""References of the likelihood of classes, and of the cross entropy row by row with its gradient."""

from __future__ import annotations

from typing import Any

from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.nn import _reduced as reduced_terms
from tensorplay_core.testing.references.nn import _Term, cross_entropy, softmax
from tensorplay_core.testing.references.reduction import groups
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, format_of, ulp_of


def nll_loss(
    self: Array,
    target: Array,
    weight: Array | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """Minus the log-probability of each class, times its weight."""
    if size_average is not None or reduce is not None:
        raise ValueError("reduction has replaced size_average and reduce")
    dim = 0 if self.ndim == 1 else 1
    form = format_of(self.dtype)
    assert form is not None
    losses, scales = [], []
    for row, label in zip(groups(self, [dim]), target.data, strict=True):
        if label == ignore_index:
            losses.append(_Term(0.0, 0.0))
            scales.append(0.0)
            continue
        if not 0 <= label < len(row):
            raise IndexError(f"class {label} of {len(row)}")
        w = 1.0 if weight is None else weight.data[label]
        losses.append(_Term(-row[label] * w, ulp_of(form, row[label] * w)))
        scales.append(float(w))
    return reduced_terms(losses, scales, reduction, (*self.shape[:dim], *self.shape[dim + 1 :]), self.dtype)


def cross_entropy_rows(self: Array, indices: Array, ignore_index: int, label_smoothing: float) -> Array:
    """The loss of each row."""
    return cross_entropy(self, indices, None, None, ignore_index, None, "none", label_smoothing)


def cross_entropy_rows_backward(
    grad_out: Array, self: Array, indices: Array, ignore_index: int, label_smoothing: float
) -> Array:
    """``grad_out * (softmax(x) - target)``."""
    chances = softmax(self, 1)
    unit, classes = accumulator_of(self.dtype).eps / 2, self.shape[1]
    slack = chances.slack or [0.0] * len(chances.data)
    values, errors = [], []
    for place, (p, s) in enumerate(zip(chances.data, slack, strict=True)):
        row, column = divmod(place, classes)
        label, g = indices.data[row], grad_out.data[row]
        if label == ignore_index:
            values.append(0.0)
            errors.append(0.0)
            continue
        hot = (1 - label_smoothing) * (column == label) + label_smoothing / classes
        values.append(g * (p - hot))
        errors.append(abs(g) * (s + 12 * unit * (p + hot)))
    return Array(self.shape, values, self.dtype, errors)


REFERENCES: dict[str, Reference] = {
    "_cross_entropy": Reference(cross_entropy_rows, budget(2)),
    "_cross_entropy_backward": Reference(cross_entropy_rows_backward, budget(2)),
    "nll_loss": Reference(nll_loss, budget(2)),
}
