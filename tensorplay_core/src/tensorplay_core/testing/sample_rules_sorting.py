"""Which calls are worth trying of sorting, of selecting by order, of searching in what is sorted, and of counting.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_rules_reduction import ALONG, Rows, special
from tensorplay_core.testing.sample_specs import Sample, TensorSpec


def sort(make: Maker) -> Iterator[Sample]:
    """Both orders; ``stable`` where the overload asks for it."""
    named = {"stable": True} if make.schema.overload == "stable" else {}
    for shape, (dim,) in ALONG:
        for descending in (False, True):
            yield _sorted(make, f"shape {shape} dim {dim} {descending}", make.tensor(shape), dim, descending, named)
    yield _sorted(make, "strided", make.tensor((4, 3), "strided"), 0, True, named)
    for descending in (False, True):
        yield _sorted(make, f"ties {descending}", make.tensor((20,), fill=(0, 1, 2)), -1, descending, named, False)
        if make.inexact:
            fill = (1.0, math.nan, -math.inf, math.inf, -0.0, 0.0)
            nans = make.tensor((3, 7), fill=fill)
            yield _sorted(make, f"special values {descending}", nans, 1, descending, named, False)


def _sorted(
    make: Maker, name: str, x: TensorSpec, dim: int, descending: bool, named: dict[str, Any], smooth: bool = True
) -> Sample:
    if named:
        return make.sample(name, x, dim=dim, descending=descending, smooth=smooth, **named)
    return make.sample(name, x, dim, descending, smooth=smooth)


def msort(make: Maker) -> Iterator[Sample]:
    """Along the first dim."""
    for shape in ((), (5,), (4, 3), (0, 2)):
        yield make.sample(f"shape {shape}", make.tensor(shape))
    yield make.sample("strided", make.tensor((4, 3), "strided"))
    yield make.sample("ties", make.tensor((6,), fill=(0, 1)), smooth=False)
    yield from special(make)


def topk(make: Maker) -> Iterator[Sample]:
    """None, some and all, from both ends."""
    rows: Rows = (
        ((5,), (2,)),
        ((3, 4), (3, 0)),
        ((3, 4), (1, -1, False)),
        ((2, 5, 2), (2, 1, True)),
        ((5,), (5,)),
        ((5,), (0,)),
        ((), (1, 0)),
        ((0, 3), (2, 1)),
    )
    for shape, rest in rows:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 2, 0)
    for largest in (True, False):
        yield make.sample(f"ties {largest}", make.tensor((12,), fill=(0, 1, 2)), 5, 0, largest, smooth=False)
        if make.inexact:
            fill = (1.0, math.nan, -math.inf, math.inf, 0.0)
            yield make.sample(f"special {largest}", make.tensor((3, 7), fill=fill), 3, 1, largest, smooth=False)


def kthvalue(make: Maker) -> Iterator[Sample]:
    """From the first to the last."""
    rows: Rows = (
        ((5,), (1,)),
        ((5,), (5, 0)),
        ((3, 4), (2, 0)),
        ((3, 4), (3, -1, True)),
        ((2, 3, 4), (2, 1)),
        ((), (1,)),
        ((0, 3), (2, 1)),
    )
    for shape, rest in rows:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 2, 0)
    yield make.sample("ties", make.tensor((8,), fill=(0, 1)), 3, smooth=False)
    if make.inexact:
        yield make.sample("nan", make.tensor((2, 3), fill=(1.0, math.nan, 2.0)), 3, 1, smooth=False)


def _ordered(make: Maker, shape: tuple[int, ...], step: float = 1) -> TensorSpec:
    """Rows that are sorted: 0 and some of the next numbers, each twice."""
    python: Any = float if make.inexact else bool if make.dtype.is_bool else int
    row = [python(i // 2 * step) for i in range(shape[-1])]
    data: Any = row if len(shape) == 1 else [row] * shape[0]
    return TensorSpec(shape, data, make.dtype.name)


def searchsorted(make: Maker) -> Iterator[Sample]:
    """One sequence for values of any shape, and a sequence for each row."""
    if make.schema.overload == "Scalar":
        for value in (0, 1, 2):
            yield make.sample(f"{value}", _ordered(make, (6,)), value)
        yield make.sample("right", _ordered(make, (6,)), 1, right=True)
        return
    fill = (0, 1, 2, 3)
    for shape in ((), (5,), (2, 3), (0,), (2, 0)):
        yield make.sample(f"values {shape}", _ordered(make, (6,)), make.tensor(shape, fill=fill), smooth=False)
    rows, values = _ordered(make, (2, 5)), make.tensor((2, 4), fill=fill)
    yield make.sample("rows", rows, values, smooth=False)
    yield make.sample("right", _ordered(make, (5,)), values, right=True, smooth=False)
    yield make.sample("rows, right", rows, values, right=True, smooth=False)
    yield make.sample("side", rows, values, side="right", smooth=False)
    yield make.sample("left side", rows, values, side="left", smooth=False)
    yield make.sample("int32", rows, values, out_int32=True, smooth=False)
    yield make.sample("nothing to search", _ordered(make, (0,)), values, smooth=False)
    backwards = TensorSpec((5,), _ordered(make, (5,)).data[::-1], make.dtype.name)
    order = make.integers([4, 3, 2, 1, 0])
    yield make.sample("sorter", backwards, values, sorter=order, smooth=False)
    yield make.sample("strided", _ordered(make, (6,)), make.tensor((4, 3), "strided", fill=fill), smooth=False)
    pages = TensorSpec((2, 3, 5), [rows.data[:1] * 3] * 2, make.dtype.name)
    yield make.sample("pages of rows", pages, make.tensor((2, 3, 4), fill=fill), smooth=False)
    if make.inexact:
        nan = make.tensor((4,), fill=(math.nan, math.inf, -math.inf, 1.0))
        yield make.sample("special values", _ordered(make, (6,)), nan, smooth=False)


def bucketize(make: Maker) -> Iterator[Sample]:
    """Boundaries come second."""
    if make.schema.overload == "Scalar":
        for value in (0, 1, 2):
            yield make.sample(f"{value}", value, _ordered(make, (6,)))
        yield make.sample("right", 1, _ordered(make, (6,)), right=True)
        return
    fill = (0, 1, 2, 3)
    for shape in ((), (5,), (2, 3), (0,)):
        yield make.sample(f"values {shape}", make.tensor(shape, fill=fill), _ordered(make, (6,)), smooth=False)
    values = make.tensor((2, 4), "strided", fill=fill)
    yield make.sample("right", values, _ordered(make, (5,)), right=True, smooth=False)
    yield make.sample("int32", values, _ordered(make, (5,)), out_int32=True, smooth=False)


def bincount(make: Maker) -> Iterator[Sample]:
    """With gaps, with weights, and longer than it must be."""
    fill = (0, 1, 2, 5)
    x = make.tensor((7,), fill=fill)
    yield make.sample("plain", x, smooth=False)
    yield make.sample("minlength", x, None, 9, smooth=False)
    yield make.sample("nothing", make.tensor((0,)), None, 3, smooth=False)
    yield make.sample("strided", make.tensor((4,), "strided", fill=fill), smooth=False)
    for dtype in ("float64", "float32", "int64"):
        weights = make.tensor((7,), argument="weights", dtype=dtype)
        yield make.sample(f"{dtype} weights", x, weights, smooth=False)
    yield make.sample("no weights", make.tensor((0,)), make.tensor((0,), dtype="float64"), 2, smooth=False)
    yield make.sample("nothing at all", make.tensor((0,)), smooth=False)


def unique(make: Maker) -> Iterator[Sample]:
    """Elements, with all that can be asked for, and with nothing else."""
    names = [a.name for a in make.schema.arguments if a.name.startswith("return_")]
    everything = dict.fromkeys(names, True)
    fill = (2, 0, 1, 3)
    for shape in ((), (4,), (9,), (2, 3), (0,), (2, 0), (1,)):
        yield make.sample(f"shape {shape}", make.tensor(shape, fill=fill), smooth=False, **everything)
    yield make.sample("values alone", make.tensor((8,), fill=fill), smooth=False)
    for name in names:
        yield make.sample(name, make.tensor((8,), fill=fill), smooth=False, **{name: True})
    yield make.sample("strided", make.tensor((4, 3), "strided", fill=fill), smooth=False, **everything)
    yield make.sample("expanded", make.tensor((4, 3), "expanded", fill=fill), smooth=False, **everything)
    yield make.sample("all the same", make.tensor((5,), fill=(1,)), smooth=False, **everything)
    if make.inexact:
        yield make.sample("all different", make.tensor((2, 3)), **everything)
        fill_ = (math.nan, 1.0, -0.0, math.nan, 0.0, 1.0)
        yield make.sample("special values", make.tensor((6,), fill=fill_), smooth=False, **everything)


def _slices(make: Maker, everything: dict[str, Any]) -> Iterator[Sample]:
    """Along a dim, where slices are equal, or differ late or early."""
    for shape, dim in (((4,), 0), ((6, 2), 0), ((2, 6), -1), ((2, 4, 2), 1), ((0, 3), 0), ((1, 3), 0), ((4, 1), 0)):
        x = make.tensor(shape, fill=(0, 1))
        yield make.sample(f"shape {shape} dim {dim}", x, dim=dim, smooth=False, **everything)
    yield make.sample("slices alone", make.tensor((5, 2), fill=(0, 1)), dim=0, smooth=False)
    yield make.sample("strided slices", make.tensor((4, 3), "strided", fill=(0, 1)), dim=1, smooth=False, **everything)
    yield make.sample("equal slices", make.tensor((3, 4), "expanded"), dim=0, smooth=False, **everything)
    if make.inexact:
        yield make.sample("different slices", make.tensor((3, 2)), dim=0, **everything)
        nan = make.tensor((4, 2), fill=(1.0, math.nan))
        yield make.sample("slices with nan", nan, dim=0, smooth=False, **everything)


def unique_dim(make: Maker) -> Iterator[Sample]:
    """Slices, with one of what can be asked for."""
    yield from _slices(make, {"return_inverse": True, "return_counts": True})
    for name in ("return_inverse", "return_counts"):
        yield make.sample(name, make.tensor((5, 2), fill=(0, 1)), 0, smooth=False, **{name: True})


BY_RULE = {"bincount": bincount, "searchsorted": searchsorted, "topk": topk}
BY_NAME = {
    "_unique2": unique,
    **dict.fromkeys(("argsort", "sort"), sort),
    "bucketize": bucketize,
    "kthvalue": kthvalue,
    "msort": msort,
    "searchsorted": searchsorted,
    **dict.fromkeys(("unique_dim", "unique_dim_consecutive"), unique_dim),
}
