"""References of convolutions: every product of an element, a place of the kernel and a window, one by one.

A convolution and its two gradients read the same triples (element of the result, of the input, of the weight); each
sums products of two of them at the place of the third.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array, Shape, strides_of
from tensorplay_core.testing.references.elementwise import as_array, budget, common_dtype
from tensorplay_core.testing.references.linalg import slack_of_products
from tensorplay_core.testing.references.padding import constant_pad_nd
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, round_to
from tensorplay_core.testing.references.sums import total
from tensorplay_core.types.dtype import by_name

Triples = list[tuple[int, int, int]]


def triples(x: Shape, w: Shape, y: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int) -> Triples:
    """Returns the places in the result, the input and the weight that belong together, in C order."""
    return [*_triples(x, w, y, stride, padding, dilation, groups)]


def _triples(
    x: Shape, w: Shape, y: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Iterator[tuple[int, int, int]]:
    own, (xs, ws) = w[1], (strides_of(shape) for shape in (x, w))
    # For each dim, and each place of the result along it: where the input and the weight are read, from their starts.
    read = [
        [[(at * xs[d], i * ws[d]) for i in range(w[d]) if 0 <= (at := p * s - pad + i * g) < x[d]] for p in range(y[d])]
        for d, (s, pad, g) in enumerate(zip(stride, padding, dilation, strict=True), 2)
    ]
    for window, (n, o, *place) in enumerate(itertools.product(*map(range, y))):
        group = o // (w[0] // groups)
        pairs = [*itertools.product(*[along[p] for along, p in zip(read, place, strict=True)])]
        for c in range(own if pairs else 0):
            one, other = n * xs[0] + (group * own + c) * xs[1], o * ws[0] + c * ws[1]
            for pair in pairs:
                yield window, one + sum([a for a, _ in pair]), other + sum([b for _, b in pair])


def _summed(shape: Shape, pairs: Iterator[tuple[int, Any, Any]], added: list[Any] | None, dtype: str) -> Array:
    """Sums products at places; ``added`` are further terms, one for each element."""
    form = by_name(dtype)
    times: Callable[[Any, Any], Any] = ieee.cmul if form.is_complex else operator.mul
    count = 1
    for size in shape:
        count *= size
    terms: list[list[Any]] = [[] if added is None else [added[i]] for i in range(count)]
    for place, a, b in pairs:
        terms[place].append(times(a, b))
    zero = 0j if form.is_complex else 0.0 if form.is_inexact else 0
    data = [total(row) if row else zero for row in terms]
    if not form.is_inexact:
        return Array(shape, round_to(data, dtype), dtype)
    factor = 2 if form.is_complex else 1
    slack = [factor * slack_of_products(row, accumulator_of(dtype)) for row in terms]
    return Array(shape, data, dtype, slack)


def _result_shape(
    x: Shape, w: Shape, stride: Shape, padding: Shape, dilation: Shape, transposed: bool, more: Shape, groups: int
) -> Shape:
    sizes = []
    for size, k, s, p, d, m in zip(x[2:], w[2:], stride, padding, dilation, more, strict=True):
        extent = d * (k - 1) + 1
        sizes.append((size - 1) * s - 2 * p + extent + m if transposed else (size + 2 * p - extent) // s + 1)
    return (x[0], w[1] * groups if transposed else w[0], *sizes)


def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
) -> Array:
    """The general convolution."""
    dtype = common_dtype([one for one in (input, weight, bias) if one is not None]).name
    x, w = as_array(input, dtype), as_array(weight, dtype)
    y = _result_shape(x.shape, w.shape, stride, padding, dilation, transposed, output_padding, groups)
    added = None
    if bias is not None:
        values = as_array(bias, dtype).data
        added = [values[place[1]] for place in itertools.product(*map(range, y))]
    sizes = (stride, padding, dilation, groups)
    if transposed:  # the input has the role of the result
        found = triples(y, w.shape, x.shape, *sizes)
        return _summed(y, ((b, x.data[a], w.data[c]) for a, b, c in found), added, dtype)
    found = triples(x.shape, w.shape, y, *sizes)
    return _summed(y, ((a, x.data[b], w.data[c]) for a, b, c in found), added, dtype)


def convolution_backward(
    grad_output: Array,
    input: Array,
    weight: Array,
    bias_sizes: Any,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Array, Array, Array]:
    """The three gradients; those that are left out have no elements."""
    dtype = common_dtype([grad_output, input, weight]).name
    g, x, w = (as_array(one, dtype) for one in (grad_output, input, weight))
    sizes = (stride, padding, dilation, groups)
    first = second = third = Array((0,), [], dtype)
    if transposed:
        found = triples(g.shape, w.shape, x.shape, *sizes)
        if output_mask[0]:
            first = _summed(x.shape, ((a, g.data[b], w.data[c]) for a, b, c in found), None, dtype)
        if output_mask[1]:
            second = _summed(w.shape, ((c, x.data[a], g.data[b]) for a, b, c in found), None, dtype)
    else:
        found = triples(x.shape, w.shape, g.shape, *sizes)
        if output_mask[0]:
            first = _summed(x.shape, ((b, g.data[a], w.data[c]) for a, b, c in found), None, dtype)
        if output_mask[1]:
            second = _summed(w.shape, ((c, x.data[b], g.data[a]) for a, b, c in found), None, dtype)
    if output_mask[2]:
        places = [place[1] for place in itertools.product(*map(range, g.shape))]
        one = 1 + 0j if by_name(dtype).is_complex else 1
        pairs = ((place, value, one) for place, value in zip(places, g.data, strict=True))
        third = _summed(g.shape[1:2], pairs, None, dtype)
    return first, second, third


def _each(value: Any, count: int) -> Shape:
    return (value,) * count if isinstance(value, int) else tuple(value) * (count if len(value) == 1 else 1)


def _of(count: int, *, transposed: bool = False) -> Callable[..., Array]:
    """Returns the convolution over so many dims, of a batch or of one sample."""

    def conv(
        input: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any, **named: Any
    ) -> Array:
        names = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
        given = {"output_padding": 0, "dilation": 1, "groups": 1, **dict(zip(names, rest, strict=False)), **named}
        x = input if input.ndim == count + 2 else Array((1, *input.shape), input.data, input.dtype)
        steps, gaps = _each(stride, count), _each(given["dilation"], count)
        if padding in ("valid", "same"):
            reach = [g * (k - 1) if padding == "same" else 0 for g, k in zip(gaps, weight.shape[2:], strict=True)]
            x = constant_pad_nd(x, [n for r in reversed(reach) for n in (r // 2, r - r // 2)])
            padding = 0
        sizes = (steps, _each(padding, count), gaps, transposed, _each(given["output_padding"], count), given["groups"])
        y = convolution(x, weight, bias, *sizes)
        return y if input.ndim == count + 2 else Array(y.shape[1:], y.data, y.dtype, y.slack)

    return conv


_BUDGET = budget(1)

REFERENCES: dict[str, Reference] = {
    "convolution": Reference(convolution, _BUDGET),
    "convolution_backward": Reference(convolution_backward, _BUDGET),
    **{f"conv{n}d{over}": Reference(_of(n), _BUDGET) for n in (1, 2, 3) for over in ("", ".padding")},
    "conv_transpose1d": Reference(_of(1, transposed=True), _BUDGET),
    **{f"conv_transpose{n}d.input": Reference(_of(n, transposed=True), _BUDGET) for n in (2, 3)},
}
