"""Which calls of pools are worth trying: overlapping and spaced windows, padding, windows that reach beyond the end.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.ops.shapes_pooling import pool
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample

Shape = tuple[int, ...]

# sizes, and kernel_size, stride, padding, dilation, ceil_mode
_MAX: dict[int, dict[str, tuple[Shape, tuple[Any, ...]]]] = {
    1: {
        "plain": ((2, 5), (2,)),
        "overlapping": ((1, 1, 5), (3, 1, 1)),
        "all arguments": ((1, 6), (2, 2, 1, 2, True)),
        "channels": ((2, 3, 3), (2, 1)),
        "empty batch": ((0, 1, 3), (2,)),
    },
    2: {
        "plain": ((1, 1, 4, 4), (2,)),
        "one sample": ((2, 2, 3), ((1, 2), (1, 1))),
        "overlapping": ((1, 1, 4, 3), (3, 1, 1)),
        "spaced": ((1, 1, 5, 3), ((1, 2), (3, 2))),
        "ceil_mode": ((1, 1, 3, 5), (2, 2, 0, 1, True)),
        "dilation": ((1, 1, 5, 3), (2, (2, 1), (1, 0), (2, 1), True)),
        "no stride": ((1, 2, 2, 3), (2, ())),
        "channels": ((2, 3, 2, 3), (2, 1)),
        "empty batch": ((0, 2, 3, 3), (2,)),
    },
    3: {
        "plain": ((1, 2, 2, 2, 2), (2,)),
        "all arguments": ((1, 2, 3, 3), ((1, 2, 2), (1, 1, 2), (0, 1, 1), (1, 1, 2), True)),
        "channels": ((2, 3, 2, 1, 2), ((2, 1, 2), 1)),
        "empty batch": ((0, 1, 2, 2, 2), (2,)),
    },
}
# the same with kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
_AVG: dict[int, dict[str, tuple[Shape, tuple[Any, ...]]]] = {
    1: {
        "plain": ((2, 5), (2,)),
        "all arguments": ((1, 1, 6), (3, 2, 1, True, False)),
        "ceil_mode": ((1, 6), (3, 2, 1, True)),
        "channels": ((2, 3, 3), (2, 1)),
        "empty batch": ((0, 1, 3), (2,)),
    },
    2: {
        "plain": ((1, 1, 4, 4), (2, (), 0, False, True, None)),
        "one sample": ((2, 2, 3), ((1, 2), (1, 1), 0, False, True, None)),
        "padding": ((1, 1, 3, 2), (3, 1, 1, False, True, None)),
        "padding left out": ((1, 1, 3, 2), (3, 1, 1, False, False, None)),
        "ceil_mode": ((1, 1, 4, 3), (2, (3, 2), (1, 0), True, True, None)),
        "ceil_mode, padding left out": ((1, 1, 4, 3), (2, (3, 2), (1, 0), True, False, None)),
        "divisor": ((1, 2, 3, 2), (2, 1, 0, False, True, 3)),
        "channels": ((2, 3, 2, 3), (2, 1, 0, False, True, None)),
        "empty batch": ((0, 2, 3, 3), (2, (), 0, False, True, None)),
    },
    3: {
        "plain": ((1, 2, 2, 2, 2), (2, (), 0, False, True, None)),
        "all arguments": ((1, 2, 3, 3), ((1, 2, 3), (1, 2, 2), (0, 1, 1), True, False, None)),
        "divisor": ((1, 2, 1, 2), ((2, 1, 1), 1, 0, False, True, -2)),
        "channels": ((2, 3, 2, 1, 2), ((2, 1, 2), 1, 0, False, True, None)),
        "empty batch": ((0, 1, 2, 2, 2), (2, (), 0, False, True, None)),
    },
}


def _rows(make: Maker) -> tuple[int, dict[str, tuple[Shape, tuple[Any, ...]]]]:
    name = make.name
    dims = int(name[name.index("pool") + 4])
    return dims, (_MAX if name.startswith("max") else _AVG)[dims]


def pools(make: Maker) -> Iterator[Sample]:
    """The pools themselves."""
    dims, rows = _rows(make)
    for name, (shape, sizes) in rows.items():
        yield make.sample(name, make.tensor(shape), *sizes)
    shape, sizes = rows["plain"]
    layout = (4, *shape[1:])
    yield make.sample("strided", make.tensor(layout, "strided"), *sizes)
    yield make.sample("expanded", make.tensor(layout, "expanded"), *sizes, smooth=False)
    yield make.sample("ties", make.tensor(shape, fill=(1, 2, 0)), *sizes, smooth=False)
    if make.inexact:
        fill = (1.0, math.nan, 2.0, -math.inf) if make.name.startswith("max") else (1.0, math.nan, 2.0)
        yield make.sample("nan", make.tensor(shape, fill=fill), *sizes, smooth=False)
    if make.inexact and not make.dtype.is_complex:
        yield make.sample("infinite", make.tensor(shape, fill=(-math.inf, -math.inf, 1.0)), *sizes, smooth=False)
    one = (1,) * (dims - 1)
    yield make.sample("three in a row", make.tensor((1, 1, 4, *one)), (3, *one), 1, *sizes[2:])


def backward(make: Maker) -> Iterator[Sample]:
    """Their gradients, of the same calls."""
    dims, rows = _rows(make)
    maximum = make.name.startswith("max")
    for name, (shape, sizes) in rows.items():
        given = sizes if maximum else (*sizes[:3], 1, sizes[3])
        found = pool(make.name, shape, dims, *(*given, *((), 0, 1, False)[len(given) - 1 :]))
        grad = make.tensor(found.shape, argument="grad_output")
        yield make.sample(name, grad, make.tensor(shape), *sizes)
        if name == "overlapping" or (name in ("plain", "channels") and maximum):
            ties = make.tensor(shape, fill=(1, 0, 1))
            yield make.sample(f"{name}, ties", grad, ties, *sizes, smooth=False)
            if make.inexact:
                fill = make.tensor(shape, fill=(1.0, math.nan, 2.0))
                yield make.sample(f"{name}, nan", grad, fill, *sizes, smooth=False)
        if name == "plain":
            two, out = (2, *shape[1:]), (2, *found.shape[1:])
            grad = make.tensor(out, "strided", argument="grad_output")
            yield make.sample("strided", grad, make.tensor(two, "strided"), *sizes)
    if maximum:  # the last place of a window is the first of the next, and has the largest element of both
        one = (1,) * (dims - 1)
        x = make.tensor((1, 1, 13, *one), fill=(*(0,) * 6, 2, *(0,) * 6))
        grad = make.tensor((1, 1, 2, *one), argument="grad_output")
        sizes = ((3, *one), (6, *(2 for _ in one)), 0, (3, *one), False)
        yield make.sample("an element of two windows", grad, x, *sizes, smooth=False)
        x = make.tensor((1, 1, 31, *one), fill=(*(0,) * 15, 1, *(0,) * 15))
        grad = make.tensor((1, 1, 16, *one), argument="grad_output", fill=(1, *(2**-11,) * 14, 1))
        yield make.sample("an element of many windows", grad, x, (16, *one), 1, 0, 1, False, smooth=False)


_ADAPTIVE: dict[int, tuple[tuple[Shape, Any], ...]] = {
    1: (((1, 5), 2), ((1, 1, 4), 2), ((1, 3), 1), ((2, 3), (5,)), ((1, 3), 0), ((0, 2, 3), 2)),
    2: (
        ((1, 1, 3, 5), 2),
        ((1, 2, 3), (2, 1)),
        ((1, 1, 2, 3), 1),
        ((1, 4, 2), (2, 2)),
        ((1, 2, 2), (0, 2)),
        ((0, 1, 2, 2), 3),
    ),
    3: (((1, 1, 2, 3, 2), (2, 2, 1)), ((1, 2, 2, 2), 1), ((0, 1, 2, 2, 2), 1)),
}


def adaptive(make: Maker) -> Iterator[Sample]:
    """Results of a given size: that divides the input's, that does not, larger ones, 1 and 0."""
    for shape, size in _ADAPTIVE[int(make.name[-2])]:
        yield make.sample(f"shape {shape} to {size}", make.tensor(shape), size)
    shape, size = _ADAPTIVE[int(make.name[-2])][0]
    yield make.sample("strided", make.tensor((4, *shape[1:]), "strided"), size)


BY_RULE = {
    **dict.fromkeys(("max_pool", "max_pool_with_indices", "avg_pool"), pools),
    **dict.fromkeys(("pool_backward", "avg_pool_backward"), backward),
}
BY_NAME = {
    **dict.fromkeys(("max_pool1d", "max_pool1d_with_indices", "avg_pool1d"), pools),
    **{f"adaptive_avg_pool{n}d": adaptive for n in (1, 2, 3)},
}
