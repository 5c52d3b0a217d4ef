"""Convolutions and padding in NumPy: one product of slices for each place of the kernel."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def each(value: Any, count: int) -> tuple[int, ...]:
    value = (value,) if isinstance(value, int) else tuple(value)
    return value * count if len(value) == 1 else value


def cuts(place: Any, count: Any, stride: Any, dilation: Any) -> tuple[Any, ...]:
    found = [
        slice(k * d, k * d + (n - 1) * s + 1, s) for k, n, s, d in zip(place, count, stride, dilation, strict=True)
    ]
    return (slice(None), slice(None), *found)


def by_place(x: Any, w: Any, y: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Yields for each place of the kernel and group: views of the padded input, weight and result."""
    own, out = w.shape[1], w.shape[0] // groups
    for place in itertools.product(*map(range, w.shape[2:])):
        part = x[cuts(place, y.shape[2:], stride, dilation)]
        for g in range(groups):
            outs, ins = slice(g * out, (g + 1) * out), slice(g * own, (g + 1) * own)
            yield part[:, ins], w[(outs, slice(None), *place)], y[:, outs]


def around(x: Any, padding: Any) -> Any:
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])


def inside(x: Any, padding: Any) -> Any:
    return x[(..., *(slice(p, n - p) for p, n in zip(padding, x.shape[2:], strict=True)))]


def convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    count = w.ndim - 2
    stride, padding, dilation, more = (each(v, count) for v in (stride, padding, dilation, output_padding))
    dtype = np.result_type(x, w)
    extents = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    if transposed:
        rooms = [(n - 1) * s + e + m for n, s, e, m in zip(x.shape[2:], stride, extents, more, strict=True)]
        room = np.zeros((x.shape[0], w.shape[1] * groups, *rooms), dtype)
        for part, one, own in by_place(room, w, x, stride, padding, dilation, groups):
            part += np.einsum("no...,oc->nc...", own, one)
        y = inside(room, padding)
    else:
        wide = around(x, padding)
        sizes = [(n - e) // s + 1 for n, e, s in zip(wide.shape[2:], extents, stride, strict=True)]
        y = np.zeros((x.shape[0], w.shape[0], *sizes), dtype)
        for part, one, own in by_place(wide, w, y, stride, padding, dilation, groups):
            own += np.einsum("nc...,oc->no...", part, one)
    return y if bias is None else y + bias.reshape(-1, *(1,) * count)


def convolution_backward(g, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    source, result = (g, x) if transposed else (x, g)
    wide = around(source, padding)
    dx, dw = np.zeros_like(wide), np.zeros_like(w)
    pairs = zip(
        by_place(wide, dw, result, stride, padding, dilation, groups),
        by_place(dx, w, result, stride, padding, dilation, groups),
        strict=True,
    )
    for (part, weight, own), (spread, one, _) in pairs:
        left, right = (a.reshape(*a.shape[:2], np.prod(a.shape[2:], dtype=int)) for a in (own, part))
        weight += np.einsum("nol,ncl->oc", left, right)
        spread += np.einsum("no...,oc->nc...", own, one)
    if transposed:
        dx = convolution(g, w, None, stride, padding, dilation, False, each(0, w.ndim - 2), groups)
        dx = dx[(..., *(slice(n) for n in x.shape[2:]))]
    else:
        dx = inside(dx, padding)
    third = g.sum((0, *range(2, g.ndim)), dtype=g.dtype)
    return tuple(one if wanted else np.zeros(0) for one, wanted in zip((dx, dw, third), mask, strict=True))


def conv(count: int, transposed: bool = False) -> Any:
    def reference(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, output_padding=0):
        whole = x if x.ndim == count + 2 else x[None]
        if padding in ("same", "valid"):
            if padding == "same":
                reach = [d * (k - 1) for d, k in zip(each(dilation, count), w.shape[2:], strict=True)]
                whole = np.pad(whole, [(0, 0), (0, 0), *((r // 2, r - r // 2) for r in reach)])
            padding = 0
        y = convolution(whole, w, bias, stride, padding, dilation, transposed, output_padding, groups)
        return y if x.ndim == count + 2 else y[0]

    return reference


def constant_pad_nd(x: Any, pad: Any, value: Any = 0) -> Any:
    return padded(x, pad, mode="constant", constant_values=value)


def padded(x: Any, pad: Any, **how: Any) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    # The parts that are cut off are cut after the padding: the padding of a mode is of the whole tensor.
    y = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], **how) if pairs else x
    return y[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, y.shape, strict=True))]


def pad(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if mode == "constant":
        return constant_pad_nd(x, pad, value or 0)
    if 0 in x.shape:
        pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
        return np.zeros([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)])
    if mode == "circular":
        x, pad = constant_pad_nd(x, [min(n, 0) for n in pad]), [max(n, 0) for n in pad]
    return padded(x, pad, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))


REFERENCES: dict[str, Any] = {
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    **{f"conv{n}d{over}": conv(n) for n in (1, 2, 3) for over in ("", ".padding")},
    "conv_transpose1d": conv(1, True),
    **{f"conv_transpose{n}d.input": conv(n, True) for n in (2, 3)},
    "constant_pad_nd": constant_pad_nd,
    "pad": pad,
}
