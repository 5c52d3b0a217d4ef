"""References of the normalisations.

Their slack follows the errors of the usual computation: the mean is rounded, so is what is left when it is taken away,
its squares add their errors, and so on to the gradients. Half precisions compute in float32 and round once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tensorplay_core.testing.references.array import Array, broadcast_shape
from tensorplay_core.testing.references.elementwise import budget, common_dtype
from tensorplay_core.testing.references.reduction import groups
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import FORMATS, Format, accumulator_of
from tensorplay_core.testing.references.sums import growth, slack_of, total
from tensorplay_core.testing.references.views import dims_of

_SAFETY = 2.0
"""The bounds are of first order."""


class _Row(NamedTuple):
    """What is averaged together: mean, variance and the normalised elements, each with its error."""

    mean: float
    var: float
    values: list[float]
    mean_error: float
    var_error: float
    errors: list[float]


def _scaled(d: float, error: float, var: float, var_error: float, eps: float, unit: float) -> tuple[float, float]:
    """Returns ``d / sqrt(var + eps)`` and its error."""
    size = var + eps
    if not size > 0:
        return (math.nan if not d or size < 0 or size != size else math.copysign(math.inf, d)), 0.0
    rstd = 1 / math.sqrt(size)
    rstd_error = rstd * ((var_error / size + unit) / 2 + 3 * unit)
    return d * rstd, error * rstd + abs(d) * rstd_error + unit * abs(d * rstd)


def _row(x: list[float], eps: float, form: Format) -> _Row:
    unit, count = form.eps / 2, len(x)
    if not count:
        return _Row(math.nan, math.nan, [], 0.0, 0.0, [])
    mean = total(x) / count
    mean_error = slack_of(x, form) / count + unit * abs(mean)
    rests = [value - mean for value in x]
    rest_errors = [mean_error + unit * abs(d) for d in rests]
    squares = [d * d for d in rests]
    var = total(squares) / count
    var_error = sum(2 * abs(d) * e + e * e for d, e in zip(rests, rest_errors, strict=True)) / count
    var_error += (growth(squares) + 3) * unit * var
    pairs = [_scaled(d, e, var, var_error, eps, unit) for d, e in zip(rests, rest_errors, strict=True)]
    return _Row(mean, var, [v for v, _ in pairs], mean_error, var_error, [e for _, e in pairs])


def _where(shape: Sequence[int], dims: list[int]) -> list[list[int]]:
    """Returns the places in C order of what is averaged together, one list for each average in C order."""
    return groups(Array(tuple(shape), list(range(math.prod(shape))), "int64"), dims)


def _kept(shape: Sequence[int], dims: list[int]) -> tuple[int, ...]:
    return tuple(1 if d in dims else n for d, n in enumerate(shape))


def _slack(errors: list[float]) -> list[float]:
    return [_SAFETY * e if math.isfinite(e) else 0.0 for e in errors]


def standardize(
    input: Array, weight: Array | None, bias: Array | None, dim: Sequence[int], eps: float
) -> tuple[Array, Array, Array]:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, the mean and the biased variance."""
    dtype = common_dtype([a for a in (input, weight, bias) if a is not None]).name
    form, dims, shape = accumulator_of(dtype), dims_of(list(dim), input.ndim), input.shape
    unit, count = form.eps / 2, len(input.data)
    values, errors, rows = [0.0] * count, [0.0] * count, []
    for places in _where(shape, dims):
        row = _row([input.data[p] for p in places], eps, form)
        rows.append(row)
        for place, value, error in zip(places, row.values, row.errors, strict=True):
            values[place], errors[place] = value, error
    if weight is not None:
        scale = weight.broadcast(shape)
        values = [v * w for v, w in zip(values, scale, strict=True)]
        errors = [e * abs(w) + 2 * unit * abs(v) for e, v, w in zip(errors, values, scale, strict=True)]
    if bias is not None:
        values = [v + b for v, b in zip(values, bias.broadcast(shape), strict=True)]
        errors = [e + unit * abs(v) for e, v in zip(errors, values, strict=True)]
    kept = _kept(shape, dims)
    return (
        Array(shape, values, dtype, _slack(errors)),
        Array(kept, [row.mean for row in rows], dtype, _slack([row.mean_error for row in rows])),
        Array(kept, [row.var for row in rows], dtype, _slack([row.var_error for row in rows])),
    )


def standardize_backward(
    grad_out: Array,
    input: Array,
    mean: Array,
    var: Array,
    weight: Array | None,
    dim: Sequence[int],
    affine: Sequence[int],
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Array, Array, Array]:
    """The gradients of ``standardize`` for its input, its weight and its bias, with the statistics that are given."""
    dtype = common_dtype([a for a in (grad_out, input, mean, var, weight) if a is not None]).name
    form, dims, shape = accumulator_of(dtype), dims_of(list(dim), input.ndim), input.shape
    unit = form.eps / 2
    means, variances = mean.broadcast(shape), var.broadcast(shape)
    h, h_errors = [], []
    for x, m, v in zip(input.data, means, variances, strict=True):
        value, error = _scaled(x - m, unit * abs(x - m), v, 0.0, eps, unit)
        h.append(value)
        h_errors.append(error)
    nothing = Array((0,), [], dtype)
    weight_grad, bias_grad = nothing, nothing
    sizes = (1,) * (len(shape) - len(affine)) + tuple(affine)
    over = [d for d, n in enumerate(sizes) if n == 1]
    places_of_sums = _where(shape, over)
    if output_mask[1]:
        terms = [[grad_out.data[p] * h[p] for p in places] for places in places_of_sums]
        errors = [sum(abs(grad_out.data[p]) * h_errors[p] for p in places) for places in places_of_sums]
        errors = [e + _sum_error(row, form) for e, row in zip(errors, terms, strict=True)]
        weight_grad = Array(tuple(affine), [float(total(row)) for row in terms], dtype, _slack(errors))
    if output_mask[2]:
        terms = [[grad_out.data[p] for p in places] for places in places_of_sums]
        bias_grad = Array(
            tuple(affine), [float(total(row)) for row in terms], dtype, [slack_of(t, form) for t in terms]
        )
    if not output_mask[0]:
        return nothing, weight_grad, bias_grad
    scale = [1.0] * len(h) if weight is None else weight.broadcast(shape)
    g = [a * w for a, w in zip(grad_out.data, scale, strict=True)]
    values, errors = [0.0] * len(h), [0.0] * len(h)
    for places in _where(shape, dims):
        count = len(places)
        row, products = [g[p] for p in places], [g[p] * h[p] for p in places]
        average, projection = total(row) / count, total(products) / count
        average_error = (_sum_error(row, form) + unit * abs(average)) / count
        projection_error = (_sum_error(products, form) + sum(abs(g[p]) * h_errors[p] for p in places)) / count
        for p in places:
            rest = g[p] - average - h[p] * projection
            sizes_of_terms = abs(g[p]) + abs(average) + abs(h[p] * projection)
            error = average_error + abs(h[p]) * projection_error + h_errors[p] * abs(projection)
            values[p], errors[p] = _scaled(rest, error + 4 * unit * sizes_of_terms, variances[p], 0.0, eps, unit)
    return Array(shape, values, dtype, _slack(errors)), weight_grad, bias_grad


def _sum_error(terms: list[float], form: Format) -> float:
    """How far a sum of products may be off: each is rounded, and the sum is."""
    return slack_of(terms, form) + form.eps * sum(map(abs, terms))


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
) -> Array:
    """Over the last dims."""
    dims = list(range(input.ndim - len(normalized_shape), input.ndim))
    return standardize(input, weight, bias, dims, eps)[0].cast(input.dtype)


def rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    """``x / sqrt(mean(x ** 2) + eps) * weight`` over the last dims; ``eps`` is the dtype's where it is None."""
    form, shape = accumulator_of(input.dtype), input.shape
    unit, count = form.eps / 2, len(input.data)
    eps = FORMATS[input.dtype].eps if eps is None else eps
    values, errors = [0.0] * count, [0.0] * count
    for places in _where(shape, list(range(input.ndim - len(normalized_shape), input.ndim))):
        squares = [input.data[p] ** 2 for p in places]
        mean = total(squares) / len(squares) if squares else math.nan
        error = (growth(squares) + 3) * unit * mean
        for p in places:
            values[p], errors[p] = _scaled(input.data[p], 0.0, mean, error, eps, unit)
    if weight is not None:
        scale = weight.broadcast(shape)
        values = [v * w for v, w in zip(values, scale, strict=True)]
        errors = [e * abs(w) + 2 * unit * abs(v) for e, v, w in zip(errors, values, scale, strict=True)]
    return Array(shape, values, input.dtype, _slack(errors))


def group_norm(
    input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-05
) -> Array:
    """Over groups of channels, and over what follows them."""
    examples, channels, *rest = input.shape
    view = (examples, num_groups, channels // num_groups, math.prod(rest))
    affine = (num_groups, channels // num_groups, 1)
    w, b = (None if a is None else Array(affine, a.data, a.dtype) for a in (weight, bias))
    found = standardize(Array(view, input.data, input.dtype), w, b, [2, 3], eps)[0]
    return Array(input.shape, found.data, input.dtype, found.slack)


def instance_norm(
    input: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Array:
    """Each channel of each example."""
    if not use_input_stats:
        assert running_mean is not None
        assert running_var is not None
        return _by_statistics(input, running_mean, running_var, weight, bias, eps)
    return group_norm(input, input.shape[1], weight, bias, eps)


def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Array:
    """Each channel, over all examples or by the statistics that are given."""
    if not training:
        assert running_mean is not None
        assert running_var is not None
        return _by_statistics(input, running_mean, running_var, weight, bias, eps)
    dims = [d for d in range(input.ndim) if d != 1]
    w, b = (_channels(a, input.ndim) for a in (weight, bias))
    return standardize(input, w, b, dims, eps)[0].cast(input.dtype)


def _channels(one: Array | None, ndim: int) -> Array | None:
    return None if one is None else Array((len(one.data), *(1,) * (ndim - 2)), one.data, one.dtype)


def _by_statistics(
    input: Array, mean: Array, var: Array, weight: Array | None, bias: Array | None, eps: float
) -> Array:
    unit, shape = accumulator_of(input.dtype).eps / 2, input.shape
    assert broadcast_shape(shape) == shape
    given: list[Any] = [_channels(a, input.ndim) for a in (mean, var, weight, bias)]
    means, variances = given[0].broadcast(shape), given[1].broadcast(shape)
    scale = [1.0] * len(input.data) if weight is None else given[2].broadcast(shape)
    shift = [0.0] * len(input.data) if bias is None else given[3].broadcast(shape)
    values, errors = [], []
    for x, m, v, w, b in zip(input.data, means, variances, scale, shift, strict=True):
        # As everywhere, a kernel may take x * slope + (b - m * slope): one product an element, of larger numbers.
        h, error = _scaled(x - m, 3 * unit * (abs(x) + abs(m)), v, 0.0, eps, unit)
        values.append(h * w + b)
        errors.append(error * abs(w) + 3 * unit * abs(h * w) + unit * abs(h * w + b))
    return Array(shape, values, input.dtype, _slack(errors))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_standardize": standardize,
    "_standardize_backward": standardize_backward,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, budget(2)) for name, fn in _FUNCTIONS.items()}
