"""Pools in NumPy: a padded copy, and a view of all windows of it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def each(value: Any, count: int) -> tuple[int, ...]:
    value = (value,) if isinstance(value, int) else tuple(value)
    return value * count if len(value) == 1 else value


def geometry(x: Any, dims: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    kernel = each(kernel, dims)
    stride = kernel if stride is None or stride == () else each(stride, dims)
    padding, dilation = each(padding, dims), each(dilation, dims)
    counts = []
    for n, k, s, p, d in zip(x.shape[-dims:], kernel, stride, padding, dilation, strict=True):
        exact = (n + 2 * p - d * (k - 1) - 1) / s + 1
        count = math.ceil(exact) if ceil_mode else math.floor(exact)
        counts.append(count - (ceil_mode and (count - 1) * s >= n + p))
    return kernel, stride, padding, dilation, counts


def windows(x: Any, dims: int, filler: Any, sizes: Any) -> Any:
    """(*outer, *windows, elements of a window), ``filler`` where there is padding."""
    kernel, stride, padding, dilation, counts = sizes
    ends = [(c - 1) * s + (k - 1) * d + 1 for c, s, k, d in zip(counts, stride, kernel, dilation, strict=True)]
    pads = [(p, max(0, e - n - p)) for p, e, n in zip(padding, ends, x.shape[-dims:], strict=True)]
    wide = np.pad(x, [(0, 0)] * (x.ndim - dims) + pads, constant_values=filler)
    cut = [
        wide[
            (
                ...,
                *(
                    slice(k * d, k * d + (c - 1) * s + 1, s)
                    for k, d, c, s in zip(at, dilation, counts, stride, strict=True)
                ),
            )
        ]
        for at in itertools.product(*map(range, kernel))
    ]
    return np.stack(cut, -1)


def lowest(x: Any) -> Any:
    return -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min


def places(x: Any, dims: int, sizes: Any) -> Any:
    found = windows(x, dims, lowest(x), sizes)
    size = math.prod(x.shape[-dims:])
    own = np.broadcast_to(np.arange(size).reshape(x.shape[-dims:]), x.shape)
    own = windows(own, dims, -1, sizes)
    real = own >= 0
    best = np.where(real, found, lowest(x)).max(-1, keepdims=True)
    hit = real & ((found == best) | (np.isnan(found) if x.dtype.kind == "f" else False))
    first = hit.argmax(-1)
    last = hit.shape[-1] - 1 - hit[..., ::-1].argmax(-1)
    which = np.where(np.isnan(best[..., 0]), last, first) if x.dtype.kind == "f" else first
    return np.take_along_axis(own, which[..., None], -1)[..., 0]


def max_pool(dims: int, indices: bool = False) -> Any:
    def reference(x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        sizes = geometry(x, dims, kernel, stride, padding, dilation, ceil_mode)
        values = windows(x, dims, lowest(x), sizes).max(-1)
        return (values, places(x, dims, sizes)) if indices else values

    return reference


def max_pool_backward(dims: int) -> Any:
    def reference(grad, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        where = places(x, dims, geometry(x, dims, kernel, stride, padding, dilation, ceil_mode))
        size = math.prod(x.shape[-dims:])
        result = np.zeros((x.size // size, size), np.result_type(grad, x))
        for row, at, values in zip(
            result, *(a.reshape(len(result), math.prod(a.shape[-dims:])) for a in (where, grad)), strict=True
        ):
            np.add.at(row, at, values)
        return result.reshape(x.shape)

    return reference


def counted(x: Any, dims: int, sizes: Any, include_pad: bool, override: Any) -> Any:
    if override is not None:
        return override
    ones = np.ones(x.shape[-dims:])
    if include_pad:
        ones = np.pad(ones, [(p, p) for p in sizes[2]], constant_values=1)
        sizes = (*sizes[:2], (0,) * dims, *sizes[3:])
    return windows(ones, dims, 0, sizes).sum(-1)


def avg_pool(dims: int) -> Any:
    def reference(x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        sizes = geometry(x, dims, kernel, stride, padding, 1, ceil_mode)
        return windows(x, dims, 0, sizes).sum(-1) / counted(x, dims, sizes, count_include_pad, divisor_override)

    return reference


def avg_pool_backward(dims: int) -> Any:
    def reference(grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
        sizes = geometry(x, dims, kernel, stride, padding, 1, ceil_mode)
        shares = grad / counted(x, dims, sizes, count_include_pad, divisor_override)
        size = math.prod(x.shape[-dims:])
        own = windows(np.arange(size).reshape(x.shape[-dims:]), dims, -1, sizes)
        result = np.zeros((x.size // size, size), shares.dtype)
        for row, values in zip(result, shares.reshape(len(result), *own.shape[:-1]), strict=True):
            every = np.broadcast_to(values[..., None], own.shape)
            np.add.at(row, own[own >= 0], every[own >= 0])
        return result.reshape(x.shape)

    return reference


def adaptive(dims: int) -> Any:
    def reference(x, output_size):
        for dim, m in zip(range(-dims, 0), each(output_size, dims), strict=True):
            n = x.shape[dim]
            cuts = [np.arange(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
            parts = [x.take(cut, axis=dim).mean(dim, keepdims=True) for cut in cuts]
            x = np.concatenate(parts, dim) if parts else x.take([], axis=dim)
        return x

    return reference


REFERENCES: dict[str, Any] = {
    **{f"max_pool{n}d": max_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": max_pool(n, True) for n in (1, 2, 3)},
    **{f"max_pool{n}d_backward": max_pool_backward(n) for n in (2, 3)},
    **{f"avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d_backward": avg_pool_backward(n) for n in (2, 3)},
    **{f"adaptive_avg_pool{n}d": adaptive(n) for n in (1, 2, 3)},
}

PROMISED: dict[str, Any] = {
    f"max_pool{n}d_with_indices": lambda dtype, args, kwargs: (dtype, "int64") for n in (1, 2, 3)
}
"""The dtypes of results that are not of one, by operator."""
