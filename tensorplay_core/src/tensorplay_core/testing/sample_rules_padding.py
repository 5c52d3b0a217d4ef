"""Which calls of padding are worth trying.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.ops.shape_checks import Shaped
from tensorplay_core.ops.shapes_padding import im2col
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


# shape, kernel_size, dilation, padding, stride; and for col2im the size that it fills
_WINDOWS: dict[str, tuple[Shape, tuple[Any, ...]]] = {
    "plain": ((1, 2, 3, 2), (2, 1, 0, 1)),
    "one sample": ((1, 2, 3), ((1, 2), 1, 0, 1)),
    "all arguments": ((1, 1, 4, 3), ((2, 1), (2, 1), (1, 0), (1, 2))),
    "empty batch": ((0, 2, 2, 2), (2, 1, 0, 1)),
}


def windows(make: Maker) -> Iterator[Sample]:
    """Windows as columns, and back."""
    back = make.name == "col2im"
    for name, (shape, sizes) in _WINDOWS.items():
        size = (shape[-2:],) if back else ()
        cut = im2col("im2col", Shaped(shape), *sizes) if back else shape
        yield make.sample(name, make.tensor(cut), *size, *sizes)
        if name == "plain":
            layout = make.tensor((4, *cut[1:]), "strided")
            yield make.sample("strided", layout, *size, *sizes)
            yield make.sample("ties", make.tensor(cut, fill=(0, 1, 1)), *size, *sizes, smooth=False)


def pixels(make: Maker) -> Iterator[Sample]:
    """Channels as pixels, and back."""
    down = make.name == "pixel_unshuffle"
    rows: tuple[tuple[Shape, int], ...] = (((4, 1, 2), 2), ((2, 4, 1, 1), 2), ((1, 2, 2), 1), ((0, 9, 1, 2), 3))
    for shape, factor in rows:
        *outer, channels, height, width = shape
        square = factor * factor
        turned = (*outer, channels // square, height * factor, width * factor)
        yield make.sample(f"shape {shape} factor {factor}", make.tensor(turned if down else shape), factor)
    layout = (4, 2, 2) if down else (4, 1, 2)
    yield make.sample("strided", make.tensor(layout, "strided"), 2)


_RESIZED: tuple[tuple[Shape, dict[str, Any]], ...] = (
    ((1, 1, 3), {"size": 5}),
    ((1, 2, 2), {"scale_factor": 2.0}),
    ((1, 1, 2, 3), {"size": (3, 2)}),
    ((1, 1, 4, 2), {"scale_factor": (0.5, 3.0), "mode": "nearest"}),
    ((1, 1, 5), {"scale_factor": 0.6, "recompute_scale_factor": True}),
    ((1, 1, 3), {"size": 4, "mode": "nearest-exact"}),
    ((1, 1, 1, 2, 2), {"size": (2, 1, 3)}),
    ((0, 1, 2), {"size": 3}),
)
_BETWEEN: tuple[tuple[Shape, dict[str, Any]], ...] = (
    ((1, 1, 3), {"size": 5, "mode": "linear"}),
    ((1, 1, 3), {"size": 5, "mode": "linear", "align_corners": True}),
    ((1, 1, 2, 3), {"size": (3, 2), "mode": "bilinear", "align_corners": False}),
    ((1, 1, 2, 3), {"scale_factor": 2.0, "mode": "bilinear"}),
    ((1, 1, 2, 3), {"scale_factor": (1.7, 1.0), "mode": "bilinear"}),
    ((1, 1, 2, 2), {"size": (1, 4), "mode": "bilinear", "align_corners": True}),
    ((1, 1, 1, 2, 2), {"size": (2, 3, 1), "mode": "trilinear"}),
    ((1, 1, 3, 4), {"size": 2, "mode": "area"}),
    ((0, 1, 2), {"size": 3, "mode": "linear"}),
)


def interpolate(make: Maker) -> Iterator[Sample]:
    """Resizing up and down, by size and by scale."""
    for shape, given in _RESIZED + (_BETWEEN if make.dtype.is_floating_point else ()):
        told = " ".join(f"{name} {value}" for name, value in given.items())
        yield make.sample(f"shape {shape} {told}", make.tensor(shape), **given)
    yield make.sample("strided", make.tensor((4, 1, 3), "strided"), size=6)


BY_RULE = {"constant_pad_nd": constant, "im2col": windows, "col2im": windows}
BY_NAME = {"pad": pad, "pixel_shuffle": pixels, "pixel_unshuffle": pixels, "interpolate": interpolate}
