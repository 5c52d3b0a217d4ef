"""Which calls are worth trying of the pointwise operators that ask more than that their shapes broadcast.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing import sample_rules as first
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample


def bitwise(make: Maker) -> Iterator[Sample]:
    """Integers and bool; shifts by more bits than there are, and by fewer than none."""
    if len(make.tensors) == 1:
        yield from first.same(make)
        return
    yield from first.broadcast(make)
    if "shift" in make.name:
        yield make.sample("far", make.tensor((4,), fill=(1, 2, 100)), make.integers([0, 7, 8, 100], make.dtype.name))
        if make.dtype.is_signed:
            signed = make.integers([-5, -128, 5, 1], make.dtype.name)
            yield make.sample("negative", signed, make.integers([1, -1, 64, 3], make.dtype.name))


def clamp(make: Maker) -> Iterator[Sample]:
    """Numbers and tensors as bounds, one or both; bounds that contradict, and NaN."""
    x = make.tensor
    for shape in ((), (3,), (2, 3), (0, 3)):
        yield make.sample(f"shape {shape}", x(shape), x(shape, argument="min"), x(shape, argument="max"))
    yield make.sample("lower", x((2, 3)), x((3,), argument="min"), None)
    yield make.sample("upper", x((2, 3)), None, x((2, 1), argument="max"))
    yield make.sample("numbers", x((2, 3)), make.number(1), make.number(2))
    yield make.sample("number and tensor", x((3,)), make.number(1), x((3,), argument="max"), smooth=False)
    yield make.sample("contradiction", x((3,)), make.number(3), make.number(1))
    yield make.sample("grows", x((3,)), x((2, 1), argument="min"), x((1, 3), argument="max"))
    yield make.sample("strided", x((4, 3), "strided"), make.number(1), None)
    yield make.sample("expanded", x((3, 2), "expanded"), make.number(1), make.number(2), smooth=False)
    yield make.sample("ties", x((6,), fill=(1, 2, 3)), make.number(1), make.number(2), smooth=False)
    if make.inexact:
        special = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5)
        yield make.sample("special values", x((6,), fill=special), -1.0, 1.0, smooth=False)
        yield make.sample("special bounds", x((3,)), x((3,), fill=(math.nan, -math.inf, 0.0)), None, smooth=False)


def gelu(make: Maker) -> Iterator[Sample]:
    """Both approximations, and the tails."""
    base = first.same if len(make.tensors) == 1 else first.broadcast
    for sample in base(make):
        for approximate in ("none", "tanh"):
            yield Sample(sample.args, {"approximate": approximate}, f"{sample.name}, {approximate}", sample.smooth)
    tails = make.tensor((6,), fill=(-12, -6, -3, 6, 12, 30)) if make.dtype.is_signed else make.tensor((2,))
    others = [make.tensor(tails.shape)] * (len(make.tensors) - 1)
    for approximate in ("none", "tanh"):
        yield make.sample(f"tails, {approximate}", *others, tails, smooth=False, approximate=approximate)


def with_numbers(*rows: tuple[float, ...]) -> Any:
    """Returns a table: that of ``same`` with the defaults, then other numbers."""

    def table(make: Maker) -> Iterator[Sample]:
        yield from first.same(make)
        for row in rows:
            numbers = [make.number(n) if make.dtype.is_integral else n for n in row]
            yield make.sample(f"numbers {row}", make.tensor((2, 3)), *numbers)

    return table


def rounding_mode(make: Maker) -> Iterator[Sample]:
    """Each way of rounding."""
    for sample in first.broadcast(make):
        for mode in ("trunc", "floor"):
            yield Sample(sample.args, {"rounding_mode": mode}, f"{sample.name}, {mode}", False)
    if make.inexact:  # of integers it is another dtype than for every other mode
        yield make.sample("unrounded", make.tensor((3,)), make.tensor((3,), argument="other"), rounding_mode=None)


def round_decimals(make: Maker) -> Iterator[Sample]:
    """Places behind the point and before it."""
    for sample in first.same(make):
        for decimals in (0, 1, -1):
            yield Sample(sample.args, {"decimals": decimals}, f"{sample.name}, {decimals}", False)


def nan_to_num(make: Maker) -> Iterator[Sample]:
    """With numbers of one's own; without them infinities become what each dtype has, which no reference here knows."""
    yield from (sample for sample in first.same(make) if sample.name != "special values")
    yield make.sample("numbers", make.tensor((3,)), 1.5, 2.5, -2.5)
    if make.inexact:
        fill = (math.nan, math.inf, -math.inf, 1.5)
        yield make.sample("replaced", make.tensor((4,), fill=fill), 1.5, 2.5, -2.5, smooth=False)
        yield make.sample("nan", make.tensor((4,), fill=(math.nan, 1.5)), smooth=False)


def log10(make: Maker) -> Iterator[Sample]:
    """Of complex numbers finite ones: beside an infinite part, the finite one is off by a unit in NumPy."""
    for sample in first.same(make):
        if not make.dtype.is_complex or sample.name != "special values":
            yield sample


def logit(make: Maker) -> Iterator[Sample]:
    """With and without ``eps``."""
    yield from first.same(make)
    yield make.sample("eps", make.tensor((3,)), 0.0625)
    fill = (0, 1, 0.5, 0.25) if make.inexact else (0, 1)
    yield make.sample("beyond eps", make.tensor((4,), fill=fill), 0.3, smooth=False)


def isclose(make: Maker) -> Iterator[Sample]:
    """Tolerances, infinities, and NaN that is equal to NaN."""
    yield from first.broadcast(make)
    a, b = make.tensor((6,), fill=(1, 2, 3)), make.tensor((6,), fill=(1, 2, 4))
    yield make.sample("tolerances", a, b, 0.25, 0.5)
    yield make.sample("exact", a, b, 0.0, 0.0)
    if make.inexact:
        special = (math.nan, math.inf, -math.inf, 1.0)
        fill = [*map(complex, special)] if make.dtype.is_complex else special
        pair = make.tensor((4,), fill=fill), make.tensor((4,), fill=fill)
        yield make.sample("equal nan", *pair, 1e-5, 1e-8, True, smooth=False)


def prelu(make: Maker) -> Iterator[Sample]:
    """One weight, and one for each channel."""
    for shape, weight in (((), ()), ((3,), (1,)), ((2, 3), (3,)), ((2, 3), ()), ((2, 3, 2), (3,)), ((0, 3), (3,))):
        yield make.sample(f"shape {shape} {weight}", make.tensor(shape), make.tensor(weight, argument="weight"))
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((3,), argument="weight"))
    yield make.sample("zeros", make.tensor((4,), fill=(0, 1, 2)), make.tensor((1,), argument="weight"), smooth=False)


def glu(make: Maker) -> Iterator[Sample]:
    """Along each dim of even size."""
    for shape, dim in (((4,), -1), ((2, 4), 1), ((4, 3), 0), ((2, 6, 3), 1), ((0, 4), -1), ((2, 0), 1)):
        yield make.sample(f"shape {shape} dim {dim}", make.tensor(shape), dim)
    yield make.sample("strided", make.tensor((4, 2), "strided"))


BY_RULE = {
    "bitwise": bitwise,
    "celu": with_numbers((2.0,)),
    "clamp": clamp,
    "gelu": gelu,
    "glu": glu,
    "hardtanh": with_numbers((0.0, 2.0), (-3.0, -2.0)),
    "prelu": prelu,
    "shrink": with_numbers((0.0,), (1.0,)),
}
BY_NAME = {
    "div.Tensor_mode": rounding_mode,
    "isclose": isclose,
    "log10": log10,
    "logit": logit,
    "nan_to_num": nan_to_num,
    "round.decimals": round_decimals,
    "threshold": with_numbers((1.0, 4.0), (-1.0, 0.0)),
}
