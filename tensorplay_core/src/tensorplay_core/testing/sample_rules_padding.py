"""Which calls of padding are worth trying.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample

Shape = tuple[int, ...]

_PADS: tuple[tuple[Shape, Shape], ...] = (
    ((3,), (1, 2)),
    ((2, 3), (1, 0)),
    ((2, 3), (0, 1, 2, 0)),
    ((2, 3), (-1, 1)),
    ((2, 3), (-1, -1, 2, -1)),
    ((2, 1, 3), (1, 1, 0, 0, 1, 0)),
    ((), ()),
    ((2, 3), ()),
    ((0, 3), (1, 1)),
    ((0, 3), (0, 0, 2, 1)),
    ((3,), (-3, 0)),
)


def constant(make: Maker) -> Iterator[Sample]:
    """Constants around, and parts cut off."""
    by_name = make.name == "pad"
    for shape, pad in _PADS:
        yield make.sample(f"shape {shape} pad {pad}", make.tensor(shape), pad)
    rest: list[Any] = ["constant", 2.0] if by_name else [make.number(2)]
    yield make.sample("value", make.tensor((2, 3)), (1, 2, 0, 1), *rest)
    yield make.sample("strided", make.tensor((4, 3), "strided"), (1, 1))
    yield make.sample("expanded", make.tensor((4, 3), "expanded"), (1, 1, 1, 0), smooth=False)


# mode: shape, pad
_MODES: dict[str, tuple[tuple[Shape, Shape], ...]] = {
    "reflect": (((1, 4), (3, 2)), ((1, 2, 3, 4), (1, 2, 2, 0)), ((2, 3), (-1, 1)), ((0, 2, 3), (1, 1))),
    "replicate": (
        ((1, 2), (3, 1)),
        ((1, 1, 2, 3), (1, 0, 2, 4)),
        ((2, 3), (1, -1)),
        ((1, 2, 2, 2), (1, 1, 0, 1, 1, 0)),
    ),
    "circular": (((1, 3), (3, 1)), ((1, 1, 2, 3), (1, 2, 2, 1)), ((2, 3), (2, -1)), ((1, 1, 3), (0, 2))),
}


def pad(make: Maker) -> Iterator[Sample]:
    """The four modes."""
    yield from constant(make)
    for mode, rows in _MODES.items():
        for shape, pads in rows:
            yield make.sample(f"{mode} shape {shape} pad {pads}", make.tensor(shape), pads, mode)
        yield make.sample(f"{mode} strided", make.tensor((4, 3), "strided"), (1, 1), mode)


BY_RULE = {"constant_pad_nd": constant}
BY_NAME = {"pad": pad}
