"""References of the losses.

A loss of two tensors is a function of a pair of numbers and the sizes of the terms that it is made of: each of these is
rounded some times, so the sum of their sizes says how far a loss may be off, and the sum of the losses adds its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array, broadcast_shape
from tensorplay_core.testing.references.elementwise import budget, common_dtype, kinds, pointwise
from tensorplay_core.testing.references.reduction import groups
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import Format, accumulator_of
from tensorplay_core.testing.references.sums import growth, slack_of, total

_ROUNDINGS = 16.0
"""So many units of each term a loss may be off: an ``exp`` or ``log`` of four, the operations around it."""
Terms = Sequence[float]
Shape = tuple[int, ...]


def _log(x: float) -> float:
    return ieee.log(x) if x == x else x


def _softplus(x: float) -> float:
    return x if x != x else max(x, 0.0) + math.log1p(ieee.exp(-abs(x)))


def _finished(
    losses: list[tuple[float, float]],
    shape: Shape,
    dtype: str,
    reduction: str,
    scale: float | None = None,
    leading: int = 1,
) -> Array:
    """Reduces losses, each with its error; ``scale`` is what the mean divides by in place of the number of losses."""
    form = accumulator_of(dtype)
    values, errors = [v for v, _ in losses], [e if math.isfinite(e) else 0.0 for _, e in losses]
    if reduction == "none":
        return Array(shape, values, dtype, errors)
    size = float(total(values))
    error = sum(errors) + slack_of(values, form) + growth(values) * form.eps * sum(errors)
    if reduction == "sum":
        return Array((), [size], dtype, [error])
    count = float(len(values)) if scale is None else scale
    if reduction == "batchmean":
        count = float(leading)
    result = ieee.div(size, count)
    relative = growth(values) * form.eps / 2 if scale is not None else 0.0
    error = error / abs(count) + relative * abs(result) if count else 0.0
    return Array((), [result], dtype, [error if math.isfinite(error) else 0.0])


def _of_numbers(
    tensors: Sequence[Array | None], loss: Callable[..., Terms]
) -> tuple[list[tuple[float, float]], Shape, str]:
    """Returns each loss with its error, given a function that takes numbers and gives terms."""
    given = [a for a in tensors if a is not None]
    dtype = common_dtype(given).name
    shape = broadcast_shape(*[a.shape for a in given])
    count = math.prod(shape)
    columns: list[list[Any]] = [[None] * count if a is None else a.broadcast(shape) for a in tensors]
    unit = accumulator_of(dtype).eps / 2
    tiny = accumulator_of(dtype).tiny
    losses = []
    for numbers in zip(*columns, strict=True):
        terms = loss(*numbers)
        losses.append((sum(terms), _ROUNDINGS * unit * sum(map(abs, terms)) + tiny))
    return losses, shape, dtype


def _weighted(terms: Terms, weight: float | None) -> Terms:
    return terms if weight is None else [term * weight for term in terms]


def _refuse(size_average: Any, reduce: Any) -> None:
    if size_average is not None or reduce is not None:
        raise ValueError("reduction has replaced size_average and reduce")


def mse_loss(
    self: Array,
    target: Array,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Array | None = None,
) -> Array:
    """``(x - t) ** 2``."""
    _refuse(size_average, reduce)
    found = _of_numbers([self, target, weight], lambda x, t, w: _weighted([(x - t) ** 2], w))
    return _finished(*found, reduction, None if weight is None else float(total(weight.data)))


def l1_loss(
    self: Array,
    target: Array,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Array | None = None,
) -> Array:
    """``abs(x - t)``."""
    _refuse(size_average, reduce)
    found = _of_numbers([self, target, weight], lambda x, t, w: _weighted([abs(x - t)], w))
    return _finished(*found, reduction, None if weight is None else float(total(weight.data)))


def smooth_l1_loss(
    self: Array, target: Array, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
) -> Array:
    """A parabola and two straight lines."""
    _refuse(size_average, reduce)

    def loss(x: float, t: float) -> Terms:
        d = abs(x - t)
        return [d * d * 0.5 / beta] if d < beta else [d, -0.5 * beta]

    return _finished(*_of_numbers([self, target], loss), reduction)


def huber_loss(
    self: Array, target: Array, reduction: str = "mean", delta: float = 1.0, weight: Array | None = None
) -> Array:
    """A parabola and two straight lines."""

    def loss(x: float, t: float, w: float | None) -> Terms:
        d = abs(x - t)
        return _weighted([d * d * 0.5] if d <= delta else [delta * d, -0.5 * delta * delta], w)

    return _finished(*_of_numbers([self, target, weight], loss), reduction)


def gaussian_nll_loss(
    self: Array, target: Array, var: Array, full: bool = False, eps: float = 1e-06, reduction: str = "mean"
) -> Array:
    """``0.5 * (log(v) + (x - t) ** 2 / v)``."""
    if var.shape != self.shape and var.shape == self.shape[:-1]:
        var = Array((*var.shape, 1), var.data, var.dtype)
    constant = 0.5 * math.log(2 * math.pi) if full else 0.0

    def loss(x: float, t: float, v: float) -> Terms:
        v = v if v != v else max(v, eps)
        # log(1 + a small error) is as far off as that error.
        return [0.5 * _log(v), 0.5 * (x - t) ** 2 / v, constant, 0.25, -0.25]

    return _finished(*_of_numbers([self, target, var], loss), reduction)


def poisson_nll_loss(
    self: Array,
    target: Array,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-08,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """``exp(x) - t * x``, or that of the logarithm."""
    _refuse(size_average, reduce)

    def loss(x: float, t: float) -> Terms:
        # An error of x in the argument of exp is one of x * exp(x); of log, one of 1.
        e = ieee.exp(x)
        terms = [e, -t * x, abs(x) * e / 8, -abs(x) * e / 8] if log_input else [x, -t * _log(x + eps), t / 4, -t / 4]
        if full and t > 1:
            terms += [t * math.log(t), -t, 0.5 * math.log(2 * math.pi * t)]
        return terms

    return _finished(*_of_numbers([self, target], loss), reduction)


def bce_terms(x: float, t: float) -> Terms:
    """The two terms of a binary cross entropy of a probability."""
    no, yes = max(_log(1 - x) if x < 1 else -math.inf, -100.0), max(_log(x), -100.0)
    return [(t - 1) * no, -t * yes]


def _bce(x: float, t: float) -> float:
    no = max(math.log1p(-x), -100.0) if x < 1 else -100.0 if x == 1 else math.nan
    yes = max(_log(x), -100.0) if x >= 0 else math.nan
    return (t - 1) * no - t * yes


def _bce_error(form: Format, x: float, t: float, loss: float) -> float:
    terms = (abs((t - 1) * math.log1p(-x)) if x < 1 else abs(t - 1) * 100) + (
        abs(t * _log(x)) if x > 0 else abs(t) * 100
    )
    return _ROUNDINGS * form.eps / 2 * terms if math.isfinite(terms) else 0.0


def binary_cross_entropy(
    self: Array,
    target: Array,
    weight: Array | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """``-(t * log(x) + (1 - t) * log(1 - x))`` of probabilities."""
    _refuse(size_average, reduce)
    if not all(0 <= x <= 1 for x in self.data):
        raise ValueError("a probability is from 0 to 1")
    found = _of_numbers([self, target, weight], lambda x, t, w: _weighted(bce_terms(x, t), w))
    return _finished(*found, reduction)


def binary_cross_entropy_with_logits(
    self: Array,
    target: Array,
    weight: Array | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Array | None = None,
) -> Array:
    """The same of ``sigmoid(x)``."""
    _refuse(size_average, reduce)

    def loss(x: float, t: float, w: float | None, p: float | None) -> Terms:
        positive = t if p is None else t * p
        return _weighted([_softplus(-x) * positive, _softplus(x) * (1 - t)], w)

    return _finished(*_of_numbers([self, target, weight, pos_weight], loss), reduction)


def kl_div(
    self: Array,
    target: Array,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Array:
    """``t * (log(t) - x)``."""
    _refuse(size_average, reduce)

    def loss(x: float, t: float) -> Terms:
        if log_target:
            e = ieee.exp(t)
            return [e * t, -e * x, abs(t) * e * (abs(t) + abs(x)) / 8, -abs(t) * e * (abs(t) + abs(x)) / 8]
        return [0.0 if t == 0 else t * _log(t), -t * x]

    return _finished(*_of_numbers([self, target], loss), reduction, leading=self.shape[0] if self.shape else 1)


def soft_margin_loss(
    self: Array, target: Array, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Array:
    """``log(1 + exp(-t * x))``."""
    _refuse(size_average, reduce)

    def loss(x: float, t: float) -> Terms:
        value, size = _softplus(-t * x), abs(t * x)
        # An error of the argument is multiplied by the derivative, which is less than the value.
        return [value, value * size / 8, -value * size / 8] if math.isfinite(size) else [value]

    return _finished(*_of_numbers([self, target], loss), reduction)


def hinge_embedding_loss(
    self: Array,
    target: Array,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """``x`` for 1, the positive part of ``margin - x`` for -1."""
    _refuse(size_average, reduce)

    def loss(x: float, t: float) -> Terms:
        rest = margin - x
        hinge = [] if rest < 0 else [rest, abs(x) / 4, -abs(x) / 4]
        return [*(hinge if t != 1 else []), *([x] if t != -1 else [])] or [0.0]

    return _finished(*_of_numbers([self, target], loss), reduction)


def margin_ranking_loss(
    input1: Array,
    input2: Array,
    target: Array,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """The positive part of ``-t * (a - b) + margin``."""
    _refuse(size_average, reduce)

    def loss(a: float, b: float, t: float) -> Terms:
        value = -t * (a - b) + margin
        size = abs(t * (a - b)) / 4
        return [0.0 if value < 0 else value, size, -size]

    return _finished(*_of_numbers([input1, input2, target], loss), reduction)


def _rowwise(tensors: Sequence[Array]) -> tuple[list[list[list[float]]], str]:
    """Returns the rows along the last dim of each tensor, broadcast together, and the common dtype."""
    shape = broadcast_shape(*[a.shape for a in tensors])
    wide = [Array(shape, a.broadcast(shape), a.dtype) for a in tensors]
    return [groups(a, [len(shape) - 1]) for a in wide], common_dtype(list(tensors)).name


def cosine_embedding_loss(
    input1: Array,
    input2: Array,
    target: Array,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """``1 - cos`` for 1, the positive part of ``cos - margin`` for -1."""
    _refuse(size_average, reduce)
    (first, second), _ = _rowwise([input1, input2])
    dtype = common_dtype([input1, input2, target]).name
    unit = accumulator_of(dtype).eps / 2
    losses = []
    for a, b, t in zip(first, second, target.data, strict=True):
        size = math.sqrt((total([x * x for x in a]) + 1e-12) * (total([x * x for x in b]) + 1e-12))
        cos = total([x * y for x, y in zip(a, b, strict=True)]) / size
        spread = sum(abs(x * y) for x, y in zip(a, b, strict=True)) / size
        value = 1 - cos if t == 1 else max(cos - margin, 0.0) if t == -1 else 0.0
        losses.append((value, (_ROUNDINGS + 2 * growth(a)) * unit * (1 + spread)))
    return _finished(losses, target.shape, dtype, reduction)


def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """The positive part of ``margin + d(a, p) - d(a, n)``."""
    _refuse(size_average, reduce)
    (first, second, third), dtype = _rowwise([anchor, positive, negative])
    unit = accumulator_of(dtype).eps / 2

    def distance(a: list[float], b: list[float]) -> tuple[float, float]:
        rests = [abs(x - y + eps) for x, y in zip(a, b, strict=True)]
        value = max(rests) if p == math.inf else float(total([r**p for r in rests])) ** (1 / p)
        return value, (_ROUNDINGS * max(p if p < math.inf else 1, 1) + growth(rests)) * unit * (value + sum(rests))

    losses = []
    for a, b, c in zip(first, second, third, strict=True):
        near, near_error = distance(a, b)
        far, far_error = distance(a, c)
        if swap:
            far, far_error = min((far, far_error), distance(b, c))
        losses.append((max(near - far + margin, 0.0), near_error + far_error + 4 * unit * (near + far + abs(margin))))
    return _finished(losses, broadcast_shape(anchor.shape, positive.shape, negative.shape)[:-1], dtype, reduction)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "cosine_embedding_loss": cosine_embedding_loss,
    "gaussian_nll_loss": gaussian_nll_loss,
    "hinge_embedding_loss": hinge_embedding_loss,
    "huber_loss": huber_loss,
    "kl_div": kl_div,
    "l1_loss": l1_loss,
    "margin_ranking_loss": margin_ranking_loss,
    "mse_loss": mse_loss,
    "poisson_nll_loss": poisson_nll_loss,
    "smooth_l1_loss": smooth_l1_loss,
    "soft_margin_loss": soft_margin_loss,
    "triplet_margin_loss": triplet_margin_loss,
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, budget(2)) for name, fn in _FUNCTIONS.items()}
REFERENCES["_binary_cross_entropy"] = Reference(pointwise("float", kinds(_bce), _bce_error), budget(4))
