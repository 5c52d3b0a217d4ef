"""Which calls are worth trying of the operators that draw random numbers.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_rules_more import placed
from tensorplay_core.testing.sample_specs import Sample

_SIZES = ((), (3,), (2, 3), (0, 2), (1, 1, 1))


def randint(make: Maker) -> Iterator[Sample]:
    """Intervals of many and of one, in every dtype that has their integers."""
    ends = (0, 2) if make.dtype.is_bool else (1, 7)
    for size in _SIZES:
        yield make.sample(f"size {size}", *ends, size, **placed(make))
    if not make.dtype.is_bool and make.dtype.kind != "u":
        yield make.sample("negative", -5, -1, (4,), **placed(make))
    yield make.sample("one", 1, 2, (4,), **placed(make))
    yield make.sample("default dtype", 0, 10, (4,), **placed(make, dtype=False))
    if make.dtype.is_signed and make.dtype.itemsize > 1:
        yield make.sample("on both sides of 0", -5, 200, (4,), **placed(make))


def normal(make: Maker) -> Iterator[Sample]:
    """Means and deviations, each a number or a tensor; a deviation of 0 too."""
    overload = make.schema.overload
    if overload == "float_float":
        for size in _SIZES:
            yield make.sample(f"size {size}", 1.5, 0.5, size, **placed(make))
        yield make.sample("default dtype", 0.0, 1.0, (2,), **placed(make, dtype=False))
        return
    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((2, 3), (2, 3)),
        ((), ()),
        ((2, 3), (3,)),
        ((3, 1), (1, 2)),
        ((0, 3), (3,)),
    )
    for a, b in pairs:
        mean: Any = make.tensor(a, argument="mean") if overload.startswith("Tensor") else 1.0
        std: Any = make.tensor(b, argument="std", fill=(0.5, 1.0)) if overload.endswith("Tensor") else 0.5
        yield make.sample(f"shapes {a} {b}", mean, std)
    strided: Any = make.tensor((4, 3), "strided", fill=(0.5, 1.0))
    mean = strided if overload.startswith("Tensor") else 1.0
    yield make.sample("strided", mean, strided if overload.endswith("Tensor") else 0.5)


def bernoulli(make: Maker) -> Iterator[Sample]:
    """Probabilities, 0 and 1 among them."""
    rest = [0.25] if make.schema.overload == "p" else []
    for shape in ((), (4,), (2, 3), (2, 0)):
        yield make.sample(f"shape {shape}", make.tensor(shape, fill=(0, 1, 0.5)), *rest, smooth=False)
    yield make.sample("strided", make.tensor((4, 3), "strided", fill=(0, 1, 0.5)), *rest, smooth=False)


def multinomial(make: Maker) -> Iterator[Sample]:
    """Rows and one row, with and without replacement."""
    for shape in ((4,), (2, 3), (0, 3)):
        for rest in ((2,), (1, False), (5, True), (shape[-1],)):
            yield make.sample(f"shape {shape} {rest}", make.tensor(shape, fill=(1, 2, 0.5)), *rest, smooth=False)
    yield make.sample("strided", make.tensor((4, 3), "strided", fill=(1, 2, 0.5)), 2, smooth=False)
    yield make.sample("less than 1 in all", make.tensor((3,), fill=(0.125, 0.25, 0.5)), 2, smooth=False)
    if make.dtype.name == "float64":
        yield make.sample("small", make.tensor((3,), fill=(1e-300, 2e-300, 3e-300)), 2, smooth=False)


def draw(make: Maker) -> Iterator[Sample]:
    """Tensors to fill."""
    table: dict[str, tuple[tuple[Any, ...], ...]] = {
        "uniform_": ((), (-2.0, 3.0), (1.0, 1.0)),
        "normal_": ((), (2.0, 0.5), (1.0, 0.0)),
        "bernoulli_.float": ((), (0.25,), (1.0,)),
        "exponential_": ((), (2.0,)),
        "geometric_": ((0.5,), (1.0,)),
        "random_.from": ((0, 2), (0, None), (1, 2)),
        "random_.to": ((2,), (1,)),
        "random_": ((),),
    }
    name = make.schema.base_name
    if name == "bernoulli_.Tensor":
        for a, b in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((), ()), ((0, 3), (3,))):
            p = make.tensor(b, argument="p", fill=(0, 1, 0.5), dtype=make.dtype.name if make.inexact else "float32")
            yield make.sample(f"shapes {a} {b}", make.tensor(a), p, smooth=False)
        return
    for rest in table[name]:
        for shape in ((), (3,), (2, 3), (0, 3)):
            yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
        yield make.sample(f"strided {rest}", make.tensor((4, 3), "strided"), *rest)
    if name == "random_.from" and make.dtype.is_signed:
        yield make.sample("from below 0 to the largest", make.tensor((3,)), -5, None)


BY_RULE = {
    "bernoulli": bernoulli,
    "draw": draw,
    "multinomial": multinomial,
    "normal": normal,
    "normal_sized": normal,
    "randint": randint,
}
