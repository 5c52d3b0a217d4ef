"""Windows as columns, pixels and resizing in NumPy: reshapes, takes, and interpolation by np.interp's definition."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def each(value: Any, count: int) -> tuple[Any, ...]:
    value = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return value * count if len(value) == 1 else value


def cut(wide: Any, kernel: Any, dilation: Any, stride: Any) -> Any:
    """Yields the view of each place in the windows over the last two dims."""
    counts = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(wide.shape[-2:], kernel, dilation, stride, strict=True)
    ]
    for y, x in itertools.product(*map(range, kernel)):
        rows = slice(y * dilation[0], y * dilation[0] + (counts[0] - 1) * stride[0] + 1, stride[0])
        columns = slice(x * dilation[1], x * dilation[1] + (counts[1] - 1) * stride[1] + 1, stride[1])
        yield wide[..., rows, columns]


def im2col(x, kernel, dilation, padding, stride):
    kernel, dilation, padding, stride = (each(v, 2) for v in (kernel, dilation, padding, stride))
    wide = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding])
    found = np.stack(list(cut(wide, kernel, dilation, stride)), -3)
    count = math.prod(found.shape[-2:])
    return found.reshape(*x.shape[:-3], x.shape[-3] * math.prod(kernel), count)


def col2im(x, size, kernel, dilation, padding, stride):
    kernel, dilation, padding, stride, size = (each(v, 2) for v in (kernel, dilation, padding, stride, size))
    channels = x.shape[-2] // math.prod(kernel)
    wide = np.zeros((*x.shape[:-2], channels, *(n + 2 * p for n, p in zip(size, padding, strict=True))), x.dtype)
    parts = list(cut(wide, kernel, dilation, stride))
    x = x.reshape(*x.shape[:-2], channels, len(parts), *parts[0].shape[-2:])
    for i, part in enumerate(parts):
        part += x[..., i, :, :]
    return wide[..., padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]


def pixel_shuffle(x, r):
    *outer, c, h, w = x.shape
    y = x.reshape(*outer, c // r**2, r, r, h, w)
    y = np.moveaxis(y, (-4, -3), (-3, -1))
    return y.reshape(*outer, c // r**2, h * r, w * r)


def pixel_unshuffle(x, r):
    *outer, c, h, w = x.shape
    y = x.reshape(*outer, c, h // r, r, w // r, r)
    y = np.moveaxis(y, (-3, -1), (-4, -3))
    return y.reshape(*outer, c * r**2, h // r, w // r)


def interpolate(
    x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False
):
    dims = x.ndim - 2
    factors = each(scale_factor, dims)
    sizes = (
        each(size, dims) if size is not None else [math.floor(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]
    )
    for dim, m, factor in zip(range(2, x.ndim), sizes, factors, strict=True):
        n = x.shape[dim]
        step = 1 / factor if factor and not recompute_scale_factor else n / m
        if mode == "area":
            cuts = [np.arange(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
            x = np.concatenate([x.take(c, axis=dim).mean(dim, keepdims=True) for c in cuts], dim)
        elif mode.startswith("nearest"):
            shift = 0.5 if mode == "nearest-exact" else 0
            x = x.take(np.minimum(np.floor((np.arange(m) + shift) * step).astype(int), n - 1), axis=dim)
        else:
            at = np.linspace(0, n - 1, m) if align_corners else np.clip((np.arange(m) + 0.5) * step - 0.5, 0, n - 1)
            at = np.zeros(1) if align_corners and m == 1 else at
            x = (
                np.apply_along_axis(lambda row, at=at, n=n: np.interp(at, np.arange(n), row), dim, x)
                if x.size
                else np.zeros((*x.shape[:dim], m, *x.shape[dim + 1 :]))
            )
    return x


REFERENCES: dict[str, Any] = {
    "im2col": im2col,
    "col2im": col2im,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "interpolate": interpolate,
}
