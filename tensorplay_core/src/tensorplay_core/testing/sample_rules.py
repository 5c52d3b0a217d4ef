"""Which calls are worth trying, by shape rule: pointwise operators, reductions, views and joins.

Each function is one table. It tries what goes wrong in practice: 0-d and empty tensors, sizes of 1, negative dims,
repeated values, NaN, memory that is not contiguous. Indexing, linear algebra and creation are in
:mod:`tensorplay_core.testing.sample_rules_more`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Named, Sample

_SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5)
_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (2, 3)),
    ((), ()),
    ((2, 3), ()),
    ((), (3,)),
    ((3, 1), (1, 4)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((1, 1), (1,)),
    ((0, 3), (1, 3)),
    ((2, 1), (0,)),
)


def _special(make: Maker) -> tuple[Any, ...]:
    return tuple(map(complex, _SPECIAL)) if make.dtype.is_complex else _SPECIAL


def same(make: Maker) -> Iterator[Sample]:
    """One tensor in, the same shape out."""
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 0, 3)):
        yield make.sample(f"shape {shape}", make.tensor(shape))
    yield make.sample("strided", make.tensor((4, 3), "strided"))
    yield make.sample("expanded", make.tensor((3, 2), "expanded"), smooth=False)
    yield make.sample("zeros", make.tensor((4,), fill=(0, 1, 2)), smooth=False)
    if make.inexact:
        yield make.sample("special values", make.tensor((6,), fill=_special(make)), smooth=False)
    if make.has("dtype"):
        for name in ("float32", "int64"):
            yield make.sample(f"dtype {name}", make.tensor((3,)), dtype=Named("dtype", name), smooth=False)


def broadcast(make: Maker) -> Iterator[Sample]:
    """Several tensors that broadcast together."""
    names = [argument.name for argument in make.tensors]

    def tensors(
        a: tuple[int, ...], b: tuple[int, ...], layouts: tuple[str, str] = ("c", "c"), **more: Any
    ) -> list[Any]:
        shapes = [(a, b)[i % 2] for i in range(len(names))]
        return [make.tensor(s, layouts[i % 2], argument=names[i], **more) for i, s in enumerate(shapes)]

    for a, b in _PAIRS:
        yield make.sample(f"shapes {a} {b}", *tensors(a, b))
    yield make.sample("strided", *tensors((4, 3), (4, 3), ("strided", "c")))
    yield make.sample("expanded", *tensors((4, 3), (4, 3), ("c", "expanded")), smooth=False)
    yield make.sample("ties", *tensors((6,), (6,), fill=(1, 2)), smooth=False)
    if len(names) < 2:
        return
    yield make.sample("scalar", *tensors((2, 3), (2, 3))[:-1], make.number(2.5))
    if make.inexact:
        yield make.sample("special values", *tensors((6,), (6, 1), fill=_special(make)), smooth=False)
        integers = make.tensor((2, 3), argument=names[-1], dtype="int64")
        yield make.sample("mixed dtypes", *tensors((2, 3), (2, 3))[:-1], integers, smooth=False)
    if make.has("alpha"):
        yield make.sample("alpha", *tensors((2, 3), (3,)), alpha=make.number(2))


def write(make: Maker) -> Iterator[Sample]:
    """Writes into the first tensor; the source broadcasts to it."""
    if len(make.tensors) < 2:
        for shape in ((), (3,), (2, 3), (0, 3)):
            yield make.sample(f"shape {shape}", make.tensor(shape))
        yield make.sample("strided", make.tensor((4, 3), "strided"))
        return
    for a, b in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((), ()), ((0, 3), (1, 3))):
        yield make.sample(f"shapes {a} {b}", make.tensor(a), make.tensor(b))
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((4, 3)))
    yield make.sample("mixed dtypes", make.tensor((3,)), make.tensor((3,), dtype="int64"), smooth=False)


def reduction(make: Maker) -> Iterator[Sample]:
    """Over all dims, one dim or several, kept or not."""
    dim = make.schema.argument("dim")
    for shape in ((), (3,), (2, 3), (1, 1)):
        yield make.sample(f"shape {shape}", make.tensor(shape))
    yield make.sample("strided", make.tensor((4, 3), "strided"))
    yield make.sample("ties", make.tensor((8,), fill=(1, 2)), smooth=False)
    if make.inexact:
        fill = (1.0, math.nan, 2.0)
        yield make.sample("nan", make.tensor((6,), fill=fill), smooth=False)
    if make.inexact and not make.dtype.is_complex:
        yield make.sample("infinite", make.tensor((6,), fill=(math.inf, -math.inf, 1.0)), smooth=False)
        yield make.sample("one infinite", make.tensor((3,), fill=(-1.0, -math.inf, 2.0)), smooth=False)
    if make.has("dtype") and make.inexact:
        wide = "complex128" if make.dtype.is_complex else "float64"
        yield make.sample("dtype", make.tensor((2, 3)), dtype=Named("dtype", wide))
    if dim is None:
        return
    dims: list[Any] = [0, -1, 1]
    if dim.type.is_list:
        dims += [*[None] * dim.type.is_optional, (), (1,), (0, 1), (0, -1)]
        if make.name not in ("amax", "amin"):
            yield make.sample("empty dim", make.tensor((0, 3)), 0, smooth=False)
    for value in dims:
        for keepdim in (False, True):
            yield make.sample(f"dim {value} keepdim {keepdim}", make.tensor((2, 3, 2)), value, keepdim)
    yield make.sample("0-d dim 0", make.tensor(()), 0)
    yield make.sample("0-d dim -1 keepdim", make.tensor(()), -1, True)
    yield make.sample("empty result", make.tensor((0, 3)), 1)
    yield make.sample("strided dim 0", make.tensor((4, 3), "strided"), 0)
    yield make.sample("ties along a dim", make.tensor((3, 4), fill=(1, 2)), 1, smooth=False)


def max_dim(make: Maker) -> Iterator[Sample]:
    """Over one dim, which must be given."""
    for dim in (0, 1, -1):
        for keepdim in (False, True):
            yield make.sample(f"dim {dim} keepdim {keepdim}", make.tensor((2, 3, 2)), dim, keepdim)
    yield make.sample("0-d", make.tensor(()), 0)
    yield make.sample("empty result", make.tensor((0, 3)), 1)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 0)
    yield make.sample("ties", make.tensor((3, 4), fill=(1, 2)), 1, smooth=False)
    if make.inexact:
        yield make.sample("nan", make.tensor((2, 3), fill=(1.0, math.nan, 2.0)), 1, smooth=False)


def dimwise(make: Maker) -> Iterator[Sample]:
    """Along one dim, the shape stays."""
    for shape, dim in (((3,), 0), ((2, 3), 0), ((2, 3), -1), ((2, 3, 2), 1), ((), 0), ((0, 3), 1), ((3, 0), 1)):
        yield make.sample(f"shape {shape} dim {dim}", make.tensor(shape), dim)
    yield make.sample("strided", make.tensor((4, 3), "strided"), 0)
    yield make.sample("large", make.tensor((3,), fill=(1000, 1001, -1000)), 0, smooth=False)
    yield make.sample("infinite", make.tensor((2, 3), fill=(-math.inf, 1.0, 2.0)), 0, smooth=False)
    if make.has("dtype"):
        yield make.sample("dtype", make.tensor((2, 3)), 1, dtype=Named("dtype", "float64"))


# A view's table: (shape, further arguments).
_VIEWS: dict[str, tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...]] = {
    "reshape": (
        ((2, 3), ((3, 2),)),
        ((2, 3), ((-1,),)),
        ((2, 3), ((1, -1, 2),)),
        ((), ((1, 1),)),
        ((1,), ((),)),
        ((0, 3), ((3, 0),)),
        ((0, 3), ((-1, 3),)),
    ),
    "permute": (
        ((2, 3), ((1, 0),)),
        ((2, 3, 4), ((2, 0, 1),)),
        ((2, 3, 4), ((-1, 0, -2),)),
        ((), ((),)),
        ((0, 3), ((1, 0),)),
    ),
    "transpose": (
        ((2, 3), (0, 1)),
        ((2, 3, 4), (-1, 0)),
        ((2, 3, 4), (0, 1)),
        ((2, 3), (1, 1)),
        ((), (0, -1)),
        ((0, 3), (0, 1)),
    ),
    "expand": (
        ((1, 3), ((2, 3),)),
        ((3, 1), ((-1, 4),)),
        ((2, 1), ((3, -1, 4),)),
        ((3,), ((2, 3),)),
        ((), ((2, 2),)),
        ((1,), ((0,),)),
        ((0, 3), ((2, 0, 3),)),
        ((2, 3), ((2, 3),)),
    ),
    "squeeze": (
        ((1, 3, 1), ()),
        ((1, 3, 1), (0,)),
        ((1, 3, 1), (-1,)),
        ((1, 3, 1), ((0, 2),)),
        ((2, 3), (0,)),
        ((), (0,)),
        ((1, 0), ()),
    ),
    "unsqueeze": (((2, 3), (0,)), ((2, 3), (-1,)), ((2, 3), (1,)), ((2, 3, 4), (1,)), ((), (0,)), ((0, 3), (-3,))),
    "select": (((2, 3), (0, 1)), ((2, 3), (-1, -3)), ((3,), (0, 2)), ((2, 3, 2), (1, 0)), ((2, 0), (0, 1))),
    "slice": (
        ((5,), ()),
        ((5,), (0, 1, 4)),
        ((5,), (0, None, None, 2)),
        ((2, 5), (-1, -3, None)),
        ((5,), (0, 3, 1)),
        ((5,), (0, -99, 99, 3)),
        ((0, 3), (0, 0, 2)),
        ((2, 5, 3), (1, 1, 4)),
    ),
}


def view(make: Maker) -> Iterator[Sample]:
    """The shape operators, each from its own rows."""
    rows = _VIEWS[make.rule or ""]
    for shape, rest in rows:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    for shape, rest in rows:
        if len(shape) > 1 and 0 not in shape and shape[0] > 1:
            yield make.sample("strided", make.tensor(shape, "strided"), *rest)
            yield make.sample("expanded input", make.tensor(shape, "expanded"), *rest, smooth=False)
            break


def cat(make: Maker) -> Iterator[Sample]:
    """Lists of tensors."""
    rows: tuple[tuple[tuple[tuple[int, ...], ...], tuple[Any, ...]], ...] = (
        (((2, 3), (1, 3)), ()),
        (((2, 3), (2, 1), (2, 2)), (1,)),
        (((2, 3), (2, 3)), (-2,)),
        (((3,),), (0,)),
        (((0, 3), (2, 3)), (0,)),
        (((2, 0), (2, 0)), (1,)),
        (((0,), (2, 3), (2, 1)), (1,)),
        (((0,), (0,)), (0,)),
        (((2, 1, 4), (2, 3, 4)), (1,)),
    )
    for shapes, rest in rows:
        yield make.sample(f"shapes {shapes} {rest}", [make.tensor(shape) for shape in shapes], *rest)
    yield make.sample("strided", [make.tensor((2, 3), "strided"), make.tensor((2, 3))], 1)
    if make.inexact:
        mixed = [make.tensor((2,)), make.tensor((3,), dtype="int64")]
        yield make.sample("mixed dtypes", mixed, smooth=False)
