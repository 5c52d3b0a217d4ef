"""Which calls are worth trying of what repeats, turns, joins and divides, and of writes along an index.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_rules_more import other_integers
from tensorplay_core.testing.sample_specs import Sample

Rows = tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...]

_ROWS: dict[str, Rows] = {
    "repeat": (
        ((2, 3), ((2, 1),)),
        ((3,), ((2, 2),)),
        ((1,), ((3,),)),
        ((), ((),)),
        ((), ((2,),)),
        ((2, 3), ((1, 1),)),
        ((2,), ((0,),)),
        ((0, 3), ((2, 2),)),
        ((2, 1, 2), ((1, 3, 2),)),
    ),
    "tile": (
        ((2, 3), ((2,),)),
        ((2, 3), ((),)),
        ((3,), ((2, 2),)),
        ((), ((2, 1),)),
        ((2, 0), ((1, 2),)),
        ((2, 3, 4), ((1, 3, 2),)),
    ),
    "repeat_interleave.self_int": (
        ((2, 3), (2, 1)),
        ((2, 3), (2,)),
        ((3,), (3, -1)),
        ((2, 3), (0, 0)),
        ((), (2,)),
        ((), (2, 0)),
        ((0, 2), (2, 1)),
        ((2, 3, 4), (2, 1)),
    ),
    "roll": (
        ((5,), (2,)),
        ((2, 3), (1,)),
        ((2, 3), (1, 0)),
        ((2, 3), (-1, -1)),
        ((2, 3), ((1, 2), (0, 1))),
        ((2, 3), ((1, 4, 1), (1, 1, 0))),
        ((4,), (9, 0)),
        ((), (1,)),
        ((), (1, 0)),
        ((0, 3), (1, 1)),
        ((2, 3, 4), (1, 1)),
        ((2, 3, 4), ((1, -1), (1, 0))),
        ((3, 1), (1, 0)),
    ),
    "rot90": (
        ((2, 3), ()),
        ((2, 3), (2,)),
        ((2, 3), (-1,)),
        ((2, 3), (4,)),
        ((2, 3, 2), (1, (1, 2))),
        ((2, 3, 2), (3, (-1, 0))),
        ((0, 3), ()),
    ),
    "fliplr": (((2, 3), ()), ((2, 3, 2), ()), ((2, 0), ()), ((1, 1), ())),
    "flipud": (((2, 3), ()), ((3,), ()), ((0, 2), ()), ((1, 1), ())),
    "broadcast_to": (
        ((1, 3), ((2, 3),)),
        ((3,), ((2, 3),)),
        ((), ((2,),)),
        ((2, 3), ((2, 3),)),
        ((1,), ((0,),)),
        ((0, 1), ((0, 2),)),
    ),
    "ravel": (((2, 3), ()), ((3,), ()), ((), ()), ((0, 3), ())),
    "unfold": (
        ((5,), (0, 2, 1)),
        ((7,), (0, 3, 2)),
        ((2, 5), (-1, 2, 3)),
        ((4, 2), (0, 2, 2)),
        ((3,), (0, 3, 1)),
        ((3,), (0, 0, 1)),
        ((), (0, 1, 1)),
        ((0, 3), (1, 2, 1)),
        ((2, 5, 3), (1, 3, 2)),
        ((2, 5, 3), (-2, 2, 1)),
    ),
    **dict.fromkeys(
        ("atleast_1d", "atleast_2d", "atleast_3d"),
        (((), ()), ((3,), ()), ((2, 3), ()), ((2, 3, 2), ()), ((0,), ()), ((2, 1, 2, 1), ())),
    ),
    "tensor_split.sections": (
        ((5,), (2,)),
        ((2, 5), (3, 1)),
        ((3,), (5, -1)),
        ((0, 2), (2,)),
        ((4,), (1,)),
        ((2, 5, 3), (3, 1)),
    ),
    "tensor_split.indices": (
        ((5,), ((1, 3),)),
        ((2, 5), ((2,), -1)),
        ((5,), ((3, 1),)),
        ((4,), ((-1, 9),)),
        ((4,), ((),)),
        ((0, 2), ((1,), 0)),
        ((2, 5, 3), ((1, 3), 1)),
    ),
    "hsplit.int": (((4,), (2,)), ((2, 4), (2,)), ((2, 3, 2), (3,)), ((2, 0), (2,))),
    "hsplit.array": (((4,), ((1,),)), ((2, 4), ((1, 3),)), ((2, 0), ((1,),)), ((3,), ((),))),
    "vsplit.int": (((4, 2), (2,)), ((3, 1), (3,)), ((0, 2), (2,)), ((2, 3, 2), (1,))),
    "vsplit.array": (((4, 2), ((1,),)), ((3, 1), ((1, 2),)), ((0, 2), ((1,),))),
    "dsplit.int": (((1, 2, 4), (2,)), ((2, 1, 3), (3,)), ((1, 2, 0), (2,))),
    "dsplit.array": (((1, 2, 4), ((1,),)), ((2, 1, 3), ((1, 2),)), ((1, 2, 0), ((1,),))),
}
_JOINED = (((2, 3), (2, 3)), ((3,), (3,)), ((), ()), ((2, 1, 2), (2, 1, 2)), ((2, 0), (2, 0)))
_PAIRS: dict[str, tuple[tuple[tuple[int, ...], ...], ...]] = {
    "hstack": (*_JOINED, ((2, 3), (2, 1)), ((3,), (2,)), ((), (2,))),
    "vstack": (*_JOINED, ((2, 3), (1, 3)), ((3,), (2, 3))),
    "dstack": (*_JOINED, ((2, 3, 1), (2, 3, 2)), ((1, 3), (3,))),
    "column_stack": (*_JOINED, ((2, 3), (2,)), ((), (1, 2))),
}


def rows(make: Maker) -> Iterator[Sample]:
    """Each operator from its own rows, and once from memory with gaps and once from memory that repeats."""
    names = (make.schema.base_name, make.name.removesuffix("_"), make.rule)
    table = next(_ROWS[name] for name in names if name in _ROWS)
    for shape, rest in table:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    for shape, rest in table:
        if 0 not in shape and shape and shape[0] > 1:
            yield make.sample("strided", make.tensor(shape, "strided"), *rest)
            yield make.sample("expanded input", make.tensor(shape, "expanded"), *rest, smooth=False)
            break


def joined(make: Maker) -> Iterator[Sample]:
    """Lists of tensors of one number of dims, and of different ones where they join."""
    for shapes in _PAIRS[make.name]:
        yield make.sample(f"shapes {shapes}", [make.tensor(shape) for shape in shapes])
    yield make.sample("one", [make.tensor((2, 3))])
    yield make.sample("strided", [make.tensor((2, 3), "strided"), make.tensor((2, 3))])
    if make.inexact:
        yield make.sample("mixed dtypes", [make.tensor((2,)), make.tensor((2,), dtype="int64")], smooth=False)


def counts(make: Maker) -> Iterator[Sample]:
    """Numbers of repeats, 0 among them."""
    for numbers in ([1, 2, 0, 3], [0], [], [2, 2]):
        yield make.sample(f"{numbers}", make.integers(numbers), smooth=False)
    yield make.sample("int32", make.integers([1, 2], "int32"), smooth=False)
    yield make.sample("output_size", make.integers([1, 2]), output_size=3, smooth=False)
    for dtype in ("uint8", "int8", "uint64"):
        yield make.sample(dtype, make.integers([100, 0, 127, 2], dtype), smooth=False)
    yield make.sample("one number", make.integers(3), smooth=False)
    yield make.sample("output_size of nothing", make.integers([]), output_size=0, smooth=False)


def repeat_interleave(make: Maker) -> Iterator[Sample]:
    """One number for all, or one for each, 0 among them; and the indices alone."""
    if make.schema.overload != "self_Tensor":
        yield from rows(make) if make.schema.overload == "self_int" else counts(make)
        return
    table: tuple[tuple[tuple[int, ...], Any, tuple[Any, ...]], ...] = (
        ((2, 3), [1, 2, 0], (1,)),
        ((2, 3), [2, 1], (0,)),
        ((2, 2), [1, 0, 2, 1], ()),
        ((3,), [2], (-1,)),
        ((3,), 2, (0,)),
        ((), [2], ()),
        ((0, 3), [1, 2, 1], (1,)),
        ((0,), [], (0,)),
        ((2, 3, 4), [1, 2, 0], (1,)),
    )
    for shape, numbers, rest in table:
        yield make.sample(f"shape {shape} {numbers} {rest}", make.tensor(shape), make.integers(numbers), *rest)
    yield make.sample("output_size", make.tensor((2, 3)), make.integers([1, 2]), 0, output_size=3)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.integers([1, 0, 2]), 1)


# ---------------------------------------------------------------------------------------------------- along an index


_SLICES: tuple[tuple[tuple[int, ...], int, Any], ...] = (
    ((4, 3), 0, [2, 0]),
    ((4, 3), 1, [1, 1, 0]),
    ((4, 3), -1, [2]),
    ((5,), 0, [0, -1]),
    ((5,), 0, 2),
    ((4, 3), 0, []),
    ((), 0, [0]),
    ((0, 3), 1, [2, 0]),
    ((2, 3, 2), 1, [2, 0]),
)


def slices(make: Maker) -> Iterator[Sample]:
    """Slices of a source at indices in any order; only sums have a gradient where an index is repeated."""
    fill = make.name.startswith("index_fill")
    adds = make.name.startswith("index_add")
    for shape, dim, index in _SLICES:
        picked = make.integers(index)
        count = len(index) if isinstance(index, list) else 1
        size = tuple(count if d == dim % len(shape) else n for d, n in enumerate(shape)) if shape else ()
        rest = [_filling(make)] if fill else [make.tensor(size, argument="source")]
        name = f"shape {shape} dim {dim} {index}"
        yield make.sample(name, make.tensor(shape), dim, picked, *rest, smooth=adds or fill or index != [1, 1, 0])
    rest = [_filling(make)] if fill else [make.tensor((2, 3), "strided", argument="source")]
    yield make.sample("strided", make.tensor((4, 3), "strided"), 0, make.integers([3, 0], "int32"), *rest)
    if adds and not make.dtype.is_bool:
        source = make.tensor((3, 3), argument="source")
        yield make.sample("alpha", make.tensor((4, 3)), 0, make.integers([3, 0, 3]), source, alpha=make.number(2))
    for other, name in other_integers(make):
        rest = [_filling(make)] if fill else [make.tensor((3,), argument="source")]
        yield make.sample(name, make.tensor((130,)), 0, other, *rest, smooth=False)


def _filling(make: Maker) -> Any:
    return make.number(2.5) if make.schema.overload == "int_Scalar" else make.tensor((), argument="value")


def put(make: Maker) -> Iterator[Sample]:
    """Places in C order, with repeats where they are added."""
    table: tuple[tuple[tuple[int, ...], Any], ...] = (
        ((2, 3), [5, 0, -2]),
        ((3,), [[0, 1]]),
        ((2, 3), 4),
        ((2, 3), []),
        ((), [0]),
    )
    for shape, index in table:
        places = make.integers(index)
        source = make.tensor(places.shape, argument="source")
        yield make.sample(f"shape {shape} {index}", make.tensor(shape), places, source)
        yield make.sample(f"accumulate {shape} {index}", make.tensor(shape), places, source, True)
    source = make.tensor((3,), argument="source")
    yield make.sample("repeated", make.tensor((2, 3)), make.integers([1, 1, 4]), source, True)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.integers([7, 1, 2]), source)
    for other, name in other_integers(make):
        yield make.sample(name, make.tensor((130,)), other, source, smooth=False)


def take_along_dim(make: Maker) -> Iterator[Sample]:
    """Indices that broadcast, and indices of all dims seen as one."""
    table: tuple[tuple[tuple[int, ...], Any, tuple[Any, ...]], ...] = (
        ((2, 3), [[2, 0], [1, 1]], (1,)),
        ((2, 3), [[2]], (1,)),
        ((1, 3), [[2, 0], [1, 1]], (-1,)),
        ((2, 3), [[0, 1, 0]], (0,)),
        ((2, 3), [5, 0], ()),
        ((2, 3), [[1], [4]], ()),
        ((4,), [3, -1], (0,)),
        ((2, 3), [[], []], (1,)),
        ((0, 3), [[1, 2]], (1,)),
        ((), 0, (0,)),
        ((), [0, 0], ()),
        ((2, 3, 4), [[[2], [0]], [[1], [1]]], (1,)),
    )
    for shape, index, rest in table:
        yield make.sample(f"shape {shape} {index} {rest}", make.tensor(shape), make.integers(index), *rest)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.integers([[2, 0]]), 1)
    for other, name in other_integers(make):
        yield make.sample(name, make.tensor((130,)), other, 0, smooth=False)


_SCATTERED: tuple[tuple[tuple[int, ...], int, Any], ...] = (
    ((2, 3), 1, [[0, 2], [1, 1]]),
    ((2, 3), 0, [[0, 1, 0], [0, 0, 0]]),
    ((2, 3), -1, [[2]]),
    ((4,), 0, [3, 0, 3, 3, 0]),
    ((), 0, 0),
    ((2, 3), 1, [[], []]),
    ((0,), 0, []),
    ((2, 3, 4), 1, [[[2, 0, 1, 1]], [[0, 2, 2, 1]]]),
)


def scatter_reduce(make: Maker) -> Iterator[Sample]:
    """Every reduction, with and without what was there; places that come once, often, and not at all."""
    kinds = ["sum", "prod", "mean"] if make.dtype.is_complex else ["sum", "prod", "mean", "amax", "amin"]
    for reduce in kinds:
        for shape, dim, index in _SCATTERED:
            places = make.integers(index)
            source = make.tensor(places.shape, argument="src", fill=_distinct(make, reduce, 8))
            whole = {"include_self": False} if index in ([[0, 2], [1, 1]], [3, 0, 3, 3, 0]) else {}
            for more in ({}, whole) if whole else ({},):
                name = f"{reduce} {shape} dim {dim} {index} {more}"
                own = make.tensor(shape, fill=_distinct(make, reduce, 8, 0.25))
                yield make.sample(name, own, dim, places, source, reduce, **more)
        large = make.tensor((3, 4), argument="src", fill=_distinct(make, reduce, 12))
        own = make.tensor((2, 3), fill=_distinct(make, reduce, 6, 0.25))
        yield make.sample(f"{reduce} larger source", own, 1, make.integers([[0, 2], [1, 0]]), large, reduce)
        zeros = make.tensor((4,), argument="src", fill=(0, 0, 2))
        yield make.sample(
            f"{reduce} zeros", make.tensor((3,)), 0, make.integers([0, 0, 0, 1]), zeros, reduce, smooth=reduce == "prod"
        )
        source = make.tensor((2, 2), "strided", argument="src", fill=_distinct(make, reduce, 4))
        own = make.tensor((4, 3), "strided", fill=_distinct(make, reduce, 12, 0.25))
        yield make.sample(f"{reduce} strided", own, 1, make.integers([[2, 0], [1, 1]]), source, reduce)
    if make.inexact and not make.dtype.is_complex:
        special = make.tensor((3,), argument="src", fill=(float("nan"), float("inf"), 1.0))
        for reduce in ("amax", "amin", "sum"):
            yield make.sample(
                f"{reduce} special values",
                make.tensor((3,)),
                0,
                make.integers([0, 1, 0]),
                special,
                reduce,
                smooth=False,
            )
        ties = make.tensor((4,), argument="src", fill=(1, 2))
        own = make.tensor((2,), fill=(2,))
        yield make.sample("amax ties", own, 0, make.integers([0, 0, 1, 1]), ties, "amax", smooth=False)
    for reduce in kinds:
        own = make.tensor((3,), fill=_distinct(make, reduce, 3, 0.25))
        one = make.tensor((), argument="src", fill=_distinct(make, reduce, 1))
        yield make.sample(f"{reduce} 0-d source", own, 0, make.integers([1]), one, reduce)
    for other, name in other_integers(make):
        source = make.tensor((3,), argument="src")
        yield make.sample(name, make.tensor((130,)), 0, other, source, "sum", smooth=False)
    pairs = make.tensor((2, 2), argument="src")
    yield make.sample("rows of two", make.tensor((3, 2)), 0, make.integers([[0, -1], [2, -3]]), pairs, "sum")


def _distinct(make: Maker, reduce: str, count: int, offset: float = 0.0) -> list[float] | None:
    """Numbers none of which equals another, where the extremes are looked for; any others elsewhere."""
    if reduce not in ("amax", "amin") or not make.inexact:
        return None
    return [(-1) ** k * (0.5 * k + 0.5) + offset for k in range(count)]


BY_RULE = {
    **dict.fromkeys(("roll", "unfold"), rows),
    "repeat_interleave": counts,
    "scatter_reduce": scatter_reduce,
}
BY_NAME = {
    **{name.partition(".")[0]: rows for name in _ROWS if not name.startswith(("repeat_int", "roll", "unfold"))},
    **dict.fromkeys(_PAIRS, joined),
    "repeat_interleave": repeat_interleave,
    **dict.fromkeys(("index_add", "index_copy", "index_fill"), slices),
    "put": put,
    "take_along_dim": take_along_dim,
    "scatter_reduce": scatter_reduce,
}
