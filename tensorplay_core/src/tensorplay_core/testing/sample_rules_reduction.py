"""Which calls are worth trying of reductions beyond sums, and of scans.

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


def special(make: Maker, dim: tuple[Any, ...] = ()) -> Iterator[Sample]:
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
    yield from special(make)


def count_nonzero(make: Maker) -> Iterator[Sample]:
    """Some zeros; the result never keeps a dim."""
    for shape in ((), (4,), (2, 3), (0, 3)):
        yield make.sample(f"shape {shape}", make.tensor(shape, fill=(0, 1, 2)), smooth=False)
    for dim in (0, -1, (0, 1), (), None, (1,)):
        yield make.sample(f"dim {dim}", make.tensor((2, 3, 2), fill=(0, 1, 2)), dim, smooth=False)
    yield make.sample("0-d dim", make.tensor(()), -1)
    yield make.sample("empty dim", make.tensor((0, 3)), 0)
    yield make.sample("strided", make.tensor((4, 3), "strided", fill=(0, 1)), 0, smooth=False)
    yield from special(make)


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
    yield from special(make, (-1,))
    yield make.sample("empty dim of 3", make.tensor((2, 0, 3)), 1, smooth=False)


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
    for dim in (1, -2) if overload else ():
        yield make.sample(f"dim {dim} of 3", make.tensor((2, 3, 4)), dim)
    args, kwargs = rows[overload][1]
    yield make.sample("strided", make.tensor((4, 3), "strided"), *args, **kwargs)
    yield make.sample("ties", make.tensor((4, 3), fill=(0, 1, 2, 3, 4, 5)), *args, **kwargs, smooth=False)
    yield make.sample("one value", make.tensor((4, 2), fill=(1.5,)), *args, **kwargs, smooth=False)
    along = (0,) if overload else ()
    yield make.sample("0-d", make.tensor(()), *along, smooth=False)
    yield make.sample("empty dim", make.tensor((0, 3)), *along, smooth=False)
    if overload:
        yield make.sample("empty result", make.tensor((0, 3)), 1)
    if overload == "correction":
        yield make.sample("a large mean", make.tensor((4,), fill=(1000.125, 1000.25, 1000.5)), smooth=False)
    if make.inexact:
        yield make.sample("nan", make.tensor((2, 3), fill=(1.0, math.nan, 2.0)), *args, **kwargs, smooth=False)
    if overload == "correction":
        yield make.sample("no correction is named", make.tensor((3, 4)), 0, correction=None)


_NORMS = (2, 1, 0, 3, 0.5, 1.5, -1, math.inf, -math.inf)


def norm(make: Maker) -> Iterator[Sample]:
    """Orders of every kind, and dims."""
    typed: dict[str, Any] = {"dtype": _wide(make)} if make.schema.overload == "dtype" else {}
    if make.schema.overload == "str":
        for dim in (None, 0, -1, (0, 1)):
            yield make.sample(f"dim {dim}", make.tensor((2, 3)), "fro", dim, dim is None)
        yield make.sample("dim 1 of 3", make.tensor((2, 3, 4)), "fro", 1)
        yield make.sample("0-d", make.tensor(()), "fro")
        yield make.sample("empty dim", make.tensor((0, 3)), "fro", 0, smooth=False)
        yield make.sample("empty result", make.tensor((0, 3)), "fro", 1)
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
    yield make.sample("zeros, order 0", make.tensor((2, 3), fill=(0, 1, 2)), 0, 1, smooth=False, **typed)
    if make.has("p"):
        yield make.sample("no order is named", make.tensor((2, 3)), None, 1, **typed)


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
        yield make.sample("dim 1 of 3", make.tensor((2, 3, 4)), 1)
    yield from special(make, dims[-1])
    yield make.sample("an odd number", make.tensor((5, 3)), *dims[0])


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
    yield make.sample("dim 1 of 3", make.tensor((2, 3, 4)), q(0.25, 0.75), 1)
    yield make.sample("0-d", make.tensor(()), q(0.5), 0)
    yield make.sample("strided", make.tensor((4, 3), "strided"), q(0.5, 0.125), 0)
    yield make.sample("ties", make.tensor((6,), fill=(0.0, 1.0, 2.0)), q(0.5, 0.625), smooth=False)
    for end in (0.0, 1.0, 0.5) if scalar else ():
        yield make.sample(f"at an element {end}", make.tensor((5,)), end)
    if not scalar:
        yield make.sample("one q", make.tensor((3, 4)), TensorSpec((), 0.375, make.dtype.name), 1)
    yield make.sample("nan", make.tensor((2, 3), fill=(1.0, math.nan, 2.0)), q(0.5, 1.0), 0, smooth=False)


# --------------------------------------------------------------------------------------------------------------- scans

ALONG: Rows = (
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
    for shape, dim in ALONG:
        yield make.sample(f"shape {shape} dim {dim[0]}", make.tensor(shape), *dim)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 0)
    exact = make.name in ("cumsum", "cumprod", "logcumsumexp")
    yield make.sample("ties", make.tensor((3, 5), fill=(0, 1, 2)), 1, smooth=exact)
    if make.has("dtype") and make.inexact:
        yield make.sample("dtype", make.tensor((2, 3)), 1, dtype=_wide(make))
    yield from special(make, (-1,))


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
        ((2, 4, 3), (1, 1)),
    )
    for shape, rest in rows:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    part = make.tensor((2, 1), argument="prepend")
    yield make.sample("joined", make.tensor((2, 3)), 1, -1, part, make.tensor((2, 2), argument="append"))
    yield make.sample("prepended", make.tensor((2, 3)), prepend=part)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 1, 0)


BY_RULE = {"norm": norm}
BY_NAME = {
    **dict.fromkeys(("all", "any"), truth),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"), scan),
    **dict.fromkeys(("linalg_vector_norm", "norm"), norm),
    **dict.fromkeys(("max", "min"), extreme),
    **dict.fromkeys(("nanmean", "nansum"), first.reduction),
    **dict.fromkeys(("std", "std_mean", "var", "var_mean"), spread),
    "aminmax": aminmax,
    "count_nonzero": count_nonzero,
    "diff": diff,
    "logsumexp": logsumexp,
    "median": median,
    "prod": prod,
    "quantile": quantile,
}
