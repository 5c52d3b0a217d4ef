"""References of windows as columns, channels as pixels, and resizing: where each element of the result comes from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.references.array import Array, Shape, strides_of
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.pooling import REFERENCES as POOLS
from tensorplay_core.testing.references.pooling import each
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, round_to
from tensorplay_core.testing.references.sums import slack_of, total
from tensorplay_core.types.dtype import by_name


def _pairs(
    shape: Shape, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape
) -> Iterator[tuple[int, int | None]]:
    """Yields for each element of the columns of (N, C, H, W) its place in the input; None in the padding."""
    dims = zip(shape[2:], kernel, dilation, padding, stride, strict=True)
    count = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in dims]
    steps = strides_of(shape)
    every = itertools.product(*map(range, (*shape[:2], *kernel, *count)))
    for number, (n, c, ky, kx, y, x) in enumerate(every):
        at = [i * s - p + k * d for i, k, s, p, d in zip((y, x), (ky, kx), stride, padding, dilation, strict=True)]
        inside = all(0 <= a < size for a, size in zip(at, shape[2:], strict=True))
        yield number, sum(i * step for i, step in zip((n, c, *at), steps, strict=True)) if inside else None


def _columns(shape: Shape, sizes: tuple[Any, ...]) -> tuple[Shape, list[tuple[int, int | None]]]:
    kernel, dilation, padding, stride = (each(size, 2) for size in sizes)
    found = [*_pairs(shape, kernel, dilation, padding, stride)]
    rows = shape[1] * kernel[0] * kernel[1]
    dims = zip(shape[2:], kernel, dilation, padding, stride, strict=True)
    windows = math.prod((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in dims)
    return (shape[0], rows, windows), found


def im2col(self: Array, *sizes: Any) -> Array:
    """Windows as columns."""
    shape, found = _columns(self.shape if self.ndim == 4 else (1, *self.shape), sizes)
    zero = round_to([0], self.dtype)[0]
    data = [zero if place is None else self.data[place] for _, place in found]
    return Array(shape if self.ndim == 4 else shape[1:], data, self.dtype)


def col2im(self: Array, output_size: Any, *sizes: Any) -> Array:
    """Columns added back."""
    kernel = each(sizes[0], 2)
    whole = self.shape if self.ndim == 3 else (1, *self.shape)
    shape = (whole[0], whole[1] // (kernel[0] * kernel[1]), *each(output_size, 2))
    terms: list[list[Any]] = [[] for _ in range(math.prod(shape))]
    for number, place in _columns(shape, sizes)[1]:
        if place is not None:
            terms[place].append(self.data[number])
    form = by_name(self.dtype)
    zero = 0j if form.is_complex else 0.0 if form.is_inexact else 0
    data = [total(row) if row else zero for row in terms]
    result = shape if self.ndim == 3 else shape[1:]
    if not form.is_inexact:
        return Array(result, round_to(data, self.dtype), self.dtype)
    slack = [slack_of(row, accumulator_of(self.dtype)) for row in terms]
    return Array(result, data, self.dtype, [2 * s for s in slack] if form.is_complex else slack)


def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    """Channels as pixels."""
    r, steps = upscale_factor, strides_of(self.shape)
    *outer, channels, height, width = self.shape
    shape = (*outer, channels // (r * r), height * r, width * r)
    data = []
    for *batch, c, y, x in itertools.product(*map(range, shape)):
        source = (*batch, (c * r + y % r) * r + x % r, y // r, x // r)
        data.append(self.data[sum(i * step for i, step in zip(source, steps, strict=True))])
    return Array(shape, data, self.dtype)


def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    """Pixels as channels."""
    r, steps = downscale_factor, strides_of(self.shape)
    *outer, channels, height, width = self.shape
    shape = (*outer, channels * r * r, height // r, width // r)
    data = []
    for *batch, c, y, x in itertools.product(*map(range, shape)):
        source = (*batch, c // (r * r), y * r + c // r % r, x * r + c % r)
        data.append(self.data[sum(i * step for i, step in zip(source, steps, strict=True))])
    return Array(shape, data, self.dtype)


def _sources(n: int, m: int, scale: float | None, mode: str, corners: bool) -> list[list[tuple[int, float]]]:
    """Returns for each place along a dim the places that are read, with their weights."""
    step = 1 / scale if scale else n / m
    if mode.startswith("nearest"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        return [[(min(math.floor((i + shift) * step), n - 1), 1.0)] for i in range(m)]
    found = []
    for i in range(m):
        at = i * (n - 1) / (m - 1) if corners and m > 1 else 0.0 if corners else max((i + 0.5) * step - 0.5, 0.0)
        low = min(math.floor(at), n - 1)
        high = min(low + 1, n - 1)
        found.append([(low, 1 - min(at - low, 1.0)), (high, min(at - low, 1.0))])
    return found


def interpolate(
    self: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    """A tensor resized."""
    dims = self.ndim - 2
    scales: list[float | None] = [None] * dims
    if size is not None:
        sizes = each(size, dims)
    else:
        factors = [scale_factor] * dims if isinstance(scale_factor, float) else list(scale_factor)
        sizes = tuple(math.floor(n * f) for n, f in zip(self.shape[2:], factors, strict=True))
        scales = scales if recompute_scale_factor else [*factors]
    if mode == "area":
        return POOLS[f"adaptive_avg_pool{dims}d"](self, sizes)[0]
    along = [
        _sources(n, m, s, mode, bool(align_corners)) for n, m, s in zip(self.shape[2:], sizes, scales, strict=True)
    ]
    steps, data, slack = strides_of(self.shape), [], []
    for n, c, *place in itertools.product(*map(range, (*self.shape[:2], *sizes))):
        value, error = 0.0, 0.0
        chosen = [sources[i] for sources, i in zip(along, place, strict=True)]
        if mode.startswith("nearest"):
            at = (n, c, *(rows[0][0] for rows in chosen))
            data.append(self.data[sum(i * step for i, step in zip(at, steps, strict=True))])
            continue
        for corner in itertools.product(*chosen):
            at = (n, c, *(where for where, _ in corner))
            term = math.prod(w for _, w in corner) * self.data[sum(i * step for i, step in zip(at, steps, strict=True))]
            value += term
            error += abs(term)
        data.append(value)
        slack.append(4 * dims * accumulator_of(self.dtype).eps * error)
    return Array((*self.shape[:2], *sizes), data, self.dtype, slack or None)


REFERENCES: dict[str, Reference] = {
    "im2col": Reference(im2col, {}),
    "col2im": Reference(col2im, budget(1)),
    "pixel_shuffle": Reference(pixel_shuffle, {}, bits=True),
    "pixel_unshuffle": Reference(pixel_unshuffle, {}, bits=True),
    "interpolate": Reference(interpolate, budget(2)),
}
