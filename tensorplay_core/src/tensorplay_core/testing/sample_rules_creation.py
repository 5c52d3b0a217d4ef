"""Which calls are worth trying of divided ranges and of the places of triangles.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_rules_more import placed
from tensorplay_core.testing.sample_specs import Sample


def linspace(make: Maker) -> Iterator[Sample]:
    """Up and down, of one number and of none; with fractions where the dtype has them."""
    rows: list[tuple[Any, ...]] = [(0, 4, 5), (3, 0, 4), (1, 1, 3), (2, 5, 1), (2, 5, 0), (0, 6, 2)]
    if make.inexact:
        rows += [(0.5, 2.0, 4), (0, 1, 7), (-1.5, 2, 8)]
    base = (2.0,) if make.name == "logspace" and not make.inexact else ()  # powers of 10 soon leave int8
    for row in [(*row, *base) for row in rows]:
        yield make.sample(f"{row}", *row, **placed(make))
    yield make.sample("default dtype", 0, 1, 5, **placed(make, dtype=False))
    if make.name == "logspace":
        yield make.sample("base 2", 0, 4, 5, 2.0, **placed(make))
    if make.inexact:
        yield make.sample("one number with digits", 0.1, 2.0, 1, **placed(make))
    else:
        yield make.sample("ends between integers", 0.5, 5.75, 4, *base, **placed(make))
    if make.name == "logspace" and make.dtype.is_integral and make.dtype.itemsize < 8:
        bits = 8 * make.dtype.itemsize - make.dtype.is_signed
        yield make.sample("the largest number", 1, 1, 2, float(2**bits - 1), **placed(make))
        yield make.sample("the smallest number", 1, 1, 2, -float(2**bits) * make.dtype.is_signed, **placed(make))


def triangle(make: Maker) -> Iterator[Sample]:
    """Square and not, empty, with a diagonal inside and outside."""
    for row in ((3, 3), (2, 4), (4, 2), (3, 3, 1), (3, 4, -1), (2, 2, 5), (2, 2, -5), (0, 3), (2, 0), (3, 3, -2)):
        yield make.sample(f"{row}", *row, **placed(make))
    yield make.sample("default dtype", 3, 3, **placed(make, dtype=False))


BY_RULE = {"linspace": linspace, "triangle": triangle}
