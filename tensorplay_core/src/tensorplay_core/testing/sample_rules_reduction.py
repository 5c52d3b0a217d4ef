"""Which calls are worth trying of reductions beyond sums, of scans, and of sorting and searching.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing import sample_rules as first
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Named, Sample, TensorSpec

Rows = tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...]


def _special(make: Maker, dim: tuple[Any, ...] = ()) -> Iterator[Sample]:
    """NaN and infinities, of a dtype that has them."""
    if make.inexact:
        yield make.sample("nan", make.tensor((2, 3), fill=(1.0, math.nan, 2.0)), *dim, smooth=False)
    if make.inexact and not make.dtype.is_complex:
        fill = (-math.inf, 1.0, math.inf, -math.inf)
        yield make.sample("infinite", make.tensor((2, 4), fill=fill), *dim, smooth=False)
        yield make.sample("only -inf", make.tensor((2, 3), fill=(-math.inf,)), *dim, smooth=False)


def _wide(make: Maker) -> Named:
    return Named("dtype", "complex128" if make.dtype.is_complex else "float64")


# ---------------------------------------------------------------------------------------------------------- reductions


def extreme(make: Maker) -> Iterator[Sample]:
    """``max`` and ``min``: of all, along a dim, or of two."""
    tables = {"": first.reduction, "dim": first.max_dim, "other": first.broadcast}
    for sample in tables[make.schema.overload](make):
        if sample.name != "scalar":  # among overloads a number is never a tensor
            yield sample


def aminmax(make: Maker) -> Iterator[Sample]:
    """Dims by name alone."""
    for shape in ((), (3,), (2, 3)):
        yield make.sample(f"shape {shape}", make.tensor(shape))
    for dim in (0, -1):
        for keepdim in (False, True):
            yield make.sample(f"dim {dim} keepdim {keepdim}", make.tensor((2, 3, 2)), dim=dim, keepdim=keepdim)
    yield make.sample("keepdim", make.tensor((2, 3)), keepdim=True)
    yield make.sample("empty result", make.tensor((0, 3)), dim=1)
    yield make.sample("ties", make.tensor((6,), fill=(0, 1)), smooth=False)
    yield from _special(make)


def count_nonzero(make: Maker) -> Iterator[Sample]:
    """Some zeros; the result never keeps a dim."""
    for shape in ((), (4,), (2, 3), (0, 3)):
        yield make.sample(f"shape {shape}", make.tensor(shape, fill=(0, 1, 2)), smooth=False)
    for dim in (0, -1, (0, 1), (), None, (1,)):
        yield make.sample(f"dim {dim}", make.tensor((2, 3, 2), fill=(0, 1, 2)), dim, smooth=False)
    yield make.sample("0-d dim", make.tensor(()), -1)
    yield make.sample("empty dim", make.tensor((0, 3)), 0)
    yield make.sample("strided", make.tensor((4, 3), "strided", fill=(0, 1)), 0, smooth=False)
    yield from _special(make)


def truth(make: Maker) -> Iterator[Sample]:
    """``any`` and ``all``: what sums are tried with, and zeros."""
    yield from first.reduction(make)
    yield make.sample("zeros", make.tensor((4,), fill=(0,)), smooth=False)
    yield make.sample("a zero", make.tensor((3, 4), fill=(0, 1, 2)), 1, smooth=False)


def prod(make: Maker) -> Iterator[Sample]:
    """What sums are tried with, and zeros, whose gradients are the products of the others."""
    yield from first.reduction(make)
    for zeros in (1, 2):
        spec = make.tensor((4,))
        python = type(spec.data[0])
        data = [python(0)] * zeros + spec.data[zeros:]
        yield make.sample(f"{zeros} of the elements 0", TensorSpec((4,), data, spec.dtype))
    yield make.sample("of nothing", make.tensor((2, 0)))


def logsumexp(make: Maker) -> Iterator[Sample]:
    """Dims are demanded."""
    for shape, dim in (((), 0), ((3,), -1), ((2, 3), 0), ((2, 3), (0, 1)), ((2, 3, 2), (0, -1)), ((2, 3), [1])):
        for keepdim in (False, True):
            yield make.sample(f"shape {shape} dim {dim} keepdim {keepdim}", make.tensor(shape), dim, keepdim)
    yield make.sample("empty result", make.tensor((0, 3)), 1)
    yield make.sample("empty dim", make.tensor((0, 3)), 0, smooth=False)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 0)
    yield make.sample("zeros", make.tensor((3, 4), fill=(0, 1)), 1)
    if make.inexact:
        yield make.sample("large", make.tensor((3,), fill=(1000.0, 1001.0, -1000.0)), 0, smooth=False)
    yield from _special(make, (-1,))


def spread(make: Maker) -> Iterator[Sample]:
    """Variances and what is made of them, by overload."""
    overload = make.schema.overload
    rows: dict[str, tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]] = {
        "": (((), {}), ((False,), {})),
        "dim": (((0,), {}), ((-1, False), {}), (((0, 1), True, True), {}), ((None, False), {})),
        "correction": (
            ((), {}),
            ((0,), {"correction": 0}),
            ((-1,), {"keepdim": True}),
            (((0, 1),), {"correction": 0.5}),
            ((None,), {"correction": 0, "keepdim": True}),
            (((),), {}),
        ),
    }
    for args, kwargs in rows[overload]:
        yield make.sample(f"{args} {kwargs}", make.tensor((3, 4)), *args, **kwargs)
    args, kwargs = rows[overload][1]
    yield make.sample("strided", make.tensor((4, 3), "strided"), *args, **kwargs)
    yield make.sample("ties", make.tensor((4, 3), fill=(0, 1, 2, 3, 4, 5)), *args, **kwargs, smooth=False)
    yield make.sample("one value", make.tensor((4, 2), fill=(1.5,)), *args, **kwargs, smooth=False)
    if overload != "dim":
        yield make.sample("0-d", make.tensor(()), smooth=False)
    if overload == "correction":
        yield make.sample("empty dim", make.tensor((0, 3)), 0, smooth=False)
        yield make.sample("empty result", make.tensor((0, 3)), 1)
        yield make.sample("a large mean", make.tensor((4,), fill=(1000.125, 1000.25, 1000.5)), smooth=False)
    if make.inexact:
        yield make.sample("nan", make.tensor((2, 3), fill=(1.0, math.nan, 2.0)), *args, **kwargs, smooth=False)


_NORMS = (2, 1, 0, 3, 0.5, 1.5, -1, math.inf, -math.inf)


def norm(make: Maker) -> Iterator[Sample]:
    """Orders of every kind, and dims."""
    typed: dict[str, Any] = {"dtype": _wide(make)} if make.schema.overload == "dtype" else {}
    if make.schema.overload == "str":
        for dim in (None, 0, (0, 1)):
            yield make.sample(f"dim {dim}", make.tensor((2, 3)), "fro", dim, dim is None)
        yield make.sample("zeros", make.tensor((2, 3), fill=(0,)), "fro", smooth=False)
        return
    for order in _NORMS:
        yield make.sample(f"order {order}", make.tensor((2, 3)), order, **typed)
    dims: tuple[Any, ...] = (0, -1, (0, 2), None, ())
    for dim in dims:
        for keepdim in (False, True):
            yield make.sample(f"dim {dim} keepdim {keepdim}", make.tensor((2, 3, 2)), 2, dim, keepdim, **typed)
    if not typed and make.has("dtype"):
        yield make.sample("dtype", make.tensor((2, 3)), 3, dtype=_wide(make))
    yield make.sample("0-d", make.tensor(()), 3, **typed)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 1, 0, **typed)
    yield make.sample("empty dim", make.tensor((0, 3)), 1, 0, smooth=False, **typed)
    yield make.sample("empty result", make.tensor((0, 3)), math.inf, 1, **typed)
    for order in (2, 1, 3, 1.5, 0.5, math.inf):
        yield make.sample(f"zeros, order {order}", make.tensor((2, 3), fill=(0,)), order, smooth=False, **typed)
    yield make.sample("ties", make.tensor((6,), fill=(0, 1, -1)), math.inf, smooth=False, **typed)
    if make.inexact:
        fill = (1.0, math.nan, 2.0)
        yield make.sample("nan", make.tensor((2, 3), fill=fill), 2, 0, smooth=False, **typed)
        yield make.sample("nan, order inf", make.tensor((2, 3), fill=fill), math.inf, 0, smooth=False, **typed)


def median(make: Maker) -> Iterator[Sample]:
    """Even and odd numbers of elements."""
    dims: tuple[tuple[Any, ...], ...] = ((0,), (-1,), (1, True)) if make.schema.overload else ((),)
    for shape in ((3, 4), (4, 3), (1, 2)):
        for dim in dims:
            yield make.sample(f"shape {shape} {dim}", make.tensor(shape), *dim)
    yield make.sample("0-d", make.tensor(()), *dims[0])
    yield make.sample("strided", make.tensor((4, 3), "strided"), *dims[0])
    yield make.sample("ties", make.tensor((8,), fill=(0, 1)), *dims[0], smooth=False)
    if make.schema.overload:
        yield make.sample("empty result", make.tensor((0, 3)), 1)
    yield from _special(make, dims[-1])


def quantile(make: Maker) -> Iterator[Sample]:
    """Every interpolation, between elements and at them."""
    scalar = make.schema.overload == "scalar"

    def q(*values: float) -> Any:
        return values[0] if scalar else TensorSpec((len(values),), list(values), make.dtype.name)

    for way in ("linear", "lower", "higher", "midpoint", "nearest"):
        yield make.sample(f"{way}", make.tensor((6,)), q(0.375, 0.625, 0.3125), interpolation=way)
    for dim in (0, -1, None):
        for keepdim in (False, True):
            yield make.sample(f"dim {dim} keepdim {keepdim}", make.tensor((3, 4)), q(0.25, 0.75), dim, keepdim)
    yield make.sample("0-d", make.tensor(()), q(0.5), 0)
    yield make.sample("strided", make.tensor((4, 3), "strided"), q(0.5, 0.125), 0)
    yield make.sample("ties", make.tensor((6,), fill=(0.0, 1.0, 2.0)), q(0.5, 0.625), smooth=False)
    for end in (0.0, 1.0, 0.5) if scalar else ():
        yield make.sample(f"at an element {end}", make.tensor((5,)), end)
    if not scalar:
        yield make.sample("one q", make.tensor((3, 4)), TensorSpec((), 0.375, make.dtype.name), 1)
    yield make.sample("nan", make.tensor((2, 3), fill=(1.0, math.nan, 2.0)), q(0.5, 1.0), 0, smooth=False)


# --------------------------------------------------------------------------------------------------------------- scans

_ALONG: Rows = (
    ((3,), (0,)),
    ((2, 3), (0,)),
    ((2, 3), (-1,)),
    ((2, 3, 2), (1,)),
    ((), (0,)),
    ((0, 3), (1,)),
    ((3, 0), (1,)),
    ((1, 2), (0,)),
    ((9,), (-1,)),
)


def scan(make: Maker) -> Iterator[Sample]:
    """Along one dim, the shape stays."""
    for shape, dim in _ALONG:
        yield make.sample(f"shape {shape} dim {dim[0]}", make.tensor(shape), *dim)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 0)
    exact = make.name in ("cumsum", "cumprod", "logcumsumexp")
    yield make.sample("ties", make.tensor((3, 5), fill=(0, 1, 2)), 1, smooth=exact)
    if make.has("dtype") and make.inexact:
        yield make.sample("dtype", make.tensor((2, 3)), 1, dtype=_wide(make))
    yield from _special(make, (-1,))


def diff(make: Maker) -> Iterator[Sample]:
    """Once and more often, with parts joined on."""
    rows: Rows = (
        ((4,), ()),
        ((3, 4), ()),
        ((3, 4), (1, 0)),
        ((2, 5), (2,)),
        ((2, 3), (5,)),
        ((3,), (0,)),
        ((0, 3), ()),
    )
    for shape, rest in rows:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    part = make.tensor((2, 1), argument="prepend")
    yield make.sample("joined", make.tensor((2, 3)), 1, -1, part, make.tensor((2, 2), argument="append"))
    yield make.sample("prepended", make.tensor((2, 3)), prepend=part)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 1, 0)


# ------------------------------------------------------------------------------------------------------------- sorting


def sort(make: Maker) -> Iterator[Sample]:
    """Both orders; ``stable`` where the overload asks for it."""
    named = {"stable": True} if make.schema.overload == "stable" else {}
    for shape, (dim,) in _ALONG:
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
    yield from _special(make)


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
    rows: Rows = (((5,), (1,)), ((5,), (5, 0)), ((3, 4), (2, 0)), ((3, 4), (3, -1, True)), ((), (1,)), ((0, 3), (2, 1)))
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


BY_RULE = {"bincount": bincount, "norm": norm, "searchsorted": searchsorted, "topk": topk}
BY_NAME = {
    **dict.fromkeys(("all", "any"), truth),
    **dict.fromkeys(("argsort", "sort"), sort),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"), scan),
    **dict.fromkeys(("linalg_vector_norm", "norm"), norm),
    **dict.fromkeys(("max", "min"), extreme),
    **dict.fromkeys(("nanmean", "nansum"), first.reduction),
    **dict.fromkeys(("std", "std_mean", "var", "var_mean"), spread),
    "aminmax": aminmax,
    "bucketize": bucketize,
    "count_nonzero": count_nonzero,
    "diff": diff,
    "kthvalue": kthvalue,
    "logsumexp": logsumexp,
    "median": median,
    "msort": msort,
    "prod": prod,
    "quantile": quantile,
    "searchsorted": searchsorted,
}
