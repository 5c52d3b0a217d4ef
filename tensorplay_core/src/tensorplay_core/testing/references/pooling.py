"""References of pools: each window's elements in a list, one window after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tensorplay_core.testing.references.array import Array, Shape, strides_of
from tensorplay_core.testing.references.elementwise import budget, common_dtype
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of
from tensorplay_core.testing.references.sums import slack_of, total
from tensorplay_core.types.dtype import by_name


class Window(NamedTuple):
    """One window: the places of its elements in the input, and how many elements it counts with the padding's."""

    places: list[int]
    padded: int


def each(value: Any, count: int) -> Shape:
    """Returns a number for each dim."""
    listed = (value,) if isinstance(value, int) else tuple(value)
    return listed * count if len(listed) == 1 else listed


def windows(
    shape: Shape, dims: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Shape, list[Window]]:
    """Returns the result's shape, and the windows in C order of it."""
    kernel = each(kernel, dims)
    stride = kernel if stride is None or stride == () else each(stride, dims)
    padding, dilation = each(padding, dims), each(dilation, dims)
    outer, sizes = shape[: len(shape) - dims], shape[len(shape) - dims :]
    count = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        number = (-(-room // s) if ceil_mode else room // s) + 1
        count.append(number - 1 if ceil_mode and (number - 1) * s >= n + p else number)
    steps = strides_of(shape)
    found = []
    for place in itertools.product(*map(range, (*outer, *count))):
        start = sum(i * step for i, step in zip(place, steps[: len(outer)], strict=False))
        spans, padded = [], 1
        for i, n, k, s, p, d in zip(place[len(outer) :], sizes, kernel, stride, padding, dilation, strict=True):
            first = i * s - p
            spans.append([first + j * d for j in range(k) if 0 <= first + j * d < n])
            padded *= min(first + k, n + p) - first
        inner = [
            start + sum(i * step for i, step in zip(at, steps[len(outer) :], strict=True))
            for at in itertools.product(*spans)
        ]
        found.append(Window(inner, padded))
    return (*outer, *count), found


def _largest(data: Sequence[Any], places: Sequence[int]) -> int:
    """Returns the place of the largest element, the first of several; of NaNs the last."""
    missing = [place for place in places if data[place] != data[place]]
    return missing[-1] if missing else max(places, key=lambda place: data[place])


def _max_pool(dims: int) -> Callable[..., Array]:
    def reference(
        self: Array, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Array:
        shape, found = windows(self.shape, dims, kernel_size, stride, padding, dilation, ceil_mode)
        return Array(shape, [self.data[_largest(self.data, one.places)] for one in found], self.dtype)

    return reference


def _with_indices(dims: int) -> Callable[..., tuple[Array, Array]]:
    def reference(self: Array, *sizes: Any) -> tuple[Array, Array]:
        shape, found = windows(self.shape, dims, *_filled(sizes))
        inner = max(1, math.prod(self.shape[self.ndim - dims :]))
        places = [_largest(self.data, one.places) for one in found]
        values = Array(shape, [self.data[place] for place in places], self.dtype)
        return values, Array(shape, [place % inner for place in places], "int64")

    return reference


def _filled(sizes: Sequence[Any]) -> tuple[Any, ...]:
    return (*sizes, *((), 0, 1, False)[len(sizes) - 1 :])


def _gathered(shape: Shape, pairs: Iterator[tuple[int, Any]], dtype: str) -> Array:
    """Adds values at places."""
    terms: list[list[Any]] = [[] for _ in range(math.prod(shape))]
    for place, value in pairs:
        terms[place].append(value)
    zero = 0j if by_name(dtype).is_complex else 0.0 if by_name(dtype).is_inexact else 0
    data = [total(row) if row else zero for row in terms]
    if not by_name(dtype).is_inexact:
        return Array(shape, data, dtype).rounded()
    rounding = [slack_of(row, accumulator_of(dtype)) for row in terms]
    return Array(shape, data, dtype, rounding)


def _max_pool_backward(dims: int) -> Callable[..., Array]:
    def reference(grad_output: Array, self: Array, *sizes: Any) -> Array:
        dtype = common_dtype([grad_output, self]).name
        _, found = windows(self.shape, dims, *_filled(sizes))
        places = (_largest(self.data, one.places) for one in found)
        return _gathered(self.shape, zip(places, grad_output.data, strict=True), dtype)

    return reference


def _avg_pool(dims: int) -> Callable[..., Array]:
    def reference(
        self: Array,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        shape, found = windows(self.shape, dims, kernel_size, stride, padding, 1, ceil_mode)
        rows = [[self.data[place] for place in one.places] for one in found]
        return _means(shape, rows, [_divisor(one, count_include_pad, divisor_override) for one in found], self.dtype)

    return reference


def _divisor(window: Window, include_pad: bool, override: int | None) -> int:
    return override or (window.padded if include_pad else len(window.places))


def _means(shape: Shape, rows: list[list[Any]], divisors: list[int], dtype: str) -> Array:
    form = accumulator_of(dtype)
    data = [total(row) / n for row, n in zip(rows, divisors, strict=True)]
    slack = [slack_of(row, form) / abs(n) for row, n in zip(rows, divisors, strict=True)]
    return Array(shape, data, dtype, [2 * s for s in slack] if by_name(dtype).is_complex else slack)


def _avg_pool_backward(dims: int) -> Callable[..., Array]:
    def reference(
        grad_output: Array,
        self: Array,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Array:
        dtype = common_dtype([grad_output, self]).name
        _, found = windows(self.shape, dims, kernel_size, stride, padding, 1, ceil_mode)
        form = accumulator_of(dtype)
        pairs = []
        for one, value in zip(found, grad_output.data, strict=True):
            share = value / _divisor(one, count_include_pad, divisor_override)
            pairs += [(place, share) for place in one.places]
        result = _gathered(self.shape, iter(pairs), dtype)
        assert result.slack is not None
        # Each share was rounded once when it was divided.
        counts = [0.0] * len(result.data)
        for place, share in pairs:
            size = abs(share)
            counts[place] += form.eps * size if math.isfinite(size) else 0.0
        slack = [2 * (s + c) for s, c in zip(result.slack, counts, strict=True)]
        return Array(result.shape, result.data, dtype, slack)

    return reference


def _adaptive(dims: int) -> Callable[..., Array]:
    def reference(self: Array, output_size: Any) -> Array:
        wanted, outer = each(output_size, dims), self.shape[: self.ndim - dims]
        sizes, steps = self.shape[self.ndim - dims :], strides_of(self.shape)
        rows = []
        for place in itertools.product(*map(range, (*outer, *wanted))):
            start = sum(i * step for i, step in zip(place, steps[: len(outer)], strict=False))
            spans = [
                range(i * n // m, -(-(i + 1) * n // m))
                for i, n, m in zip(place[len(outer) :], sizes, wanted, strict=True)
            ]
            rows.append(
                [
                    self.data[start + sum(i * step for i, step in zip(at, steps[len(outer) :], strict=True))]
                    for at in itertools.product(*spans)
                ]
            )
        result = _means((*outer, *wanted), rows, [len(row) for row in rows], self.dtype)
        assert result.slack is not None
        # A mean of means along each dim rounds once more for each.
        eps = accumulator_of(self.dtype).eps
        more = [dims * eps * sum(map(abs, row)) / len(row) for row in rows]
        slack = [s + (m if math.isfinite(m) else 0.0) for s, m in zip(result.slack, more, strict=True)]
        return Array(result.shape, result.data, self.dtype, slack)

    return reference


REFERENCES: dict[str, Reference] = {
    **{f"max_pool{n}d": Reference(_max_pool(n), {}) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": Reference(_with_indices(n), {}) for n in (1, 2, 3)},
    **{f"max_pool{n}d_backward": Reference(_max_pool_backward(n), budget(1, half=2)) for n in (2, 3)},
    **{f"avg_pool{n}d": Reference(_avg_pool(n), budget(2)) for n in (1, 2, 3)},
    **{f"avg_pool{n}d_backward": Reference(_avg_pool_backward(n), budget(2)) for n in (2, 3)},
    **{f"adaptive_avg_pool{n}d": Reference(_adaptive(n), budget(2)) for n in (1, 2, 3)},
}
