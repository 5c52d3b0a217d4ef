"""Which calls are worth trying of the operators that gather, scatter and mask, and of views beyond reshaping.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.ops.shapes import RULES, Shaped
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_rules_more import INDEX, NOTHING, indices, other_integers
from tensorplay_core.testing.sample_specs import Sample

Rows = tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...]

_DIAGONAL: Rows = (
    ((3, 3), ()),
    ((2, 3), (1,)),
    ((3, 2), (-1,)),
    ((2, 3, 4), (0, 0, 2)),
    ((2, 3, 4), (1, -1, 0)),
    ((2, 3), (5,)),
    ((0, 3), ()),
)
_AS_STRIDED: Rows = (
    ((6,), ((2, 3), (3, 1))),
    ((2, 3), ((3, 2), (1, 3))),
    ((6,), ((2, 2), (2, 1), 1)),
    ((5,), ((3, 3), (1, 1))),
    ((4,), ((2, 3), (1, 0), 1)),
    ((3,), ((), (), 2)),
    ((5,), ((1, 2), (4, 2), 1)),
    ((4,), ((0, 2), (1, 1))),
    ((), ((2,), (0,))),
    ((0, 3), ((3, 0), (1, 1))),
)
_VIEWS: dict[str, Rows] = {
    "as_strided": _AS_STRIDED,
    "diagonal": _DIAGONAL,
    "unbind": (((2, 3), ()), ((2, 3), (1,)), ((2, 3, 2), (-1,)), ((3,), (0,)), ((2, 0), (0,))),
    "split_with_sizes": (
        ((5,), ((2, 3),)),
        ((2, 5), ((1, 0, 4), 1)),
        ((4, 2), ((3, 1), -2)),
        ((3,), ((3,),)),
        ((0, 2), ((0, 0),)),
        ((2, 3, 4), ((1, 2), 1)),
    ),
    "split.sizes": (
        ((5,), ((2, 3),)),
        ((2, 5), ((1, 0, 4), 1)),
        ((3,), ((3,), -1)),
        ((0, 2), ((1, 1), 1)),
        ((2, 3, 4), ((1, 2), 1)),
    ),
    "split": (((5,), (2,)), ((4, 2), (2, 0)), ((2, 5), (3, -1)), ((3,), (7,)), ((0, 2), (2,)), ((2, 3, 4), (2, 1))),
    "chunk": (((5,), (2,)), ((2, 6), (3, 1)), ((2, 5), (4, -1)), ((3,), (1,)), ((0, 2), (2,)), ((2, 3, 4), (2, 1))),
    "narrow": (
        ((5,), (0, 1, 3)),
        ((2, 5), (1, -3, 2)),
        ((2, 5), (-1, 0, 5)),
        ((3,), (0, 3, 0)),
        ((0, 2), (0, 0, 0)),
        ((2, 3, 4), (1, 1, 2)),
    ),
    "movedim": (
        ((2, 3, 4), (0, 2)),
        ((2, 3, 4), ((0, 1), (-1, 0))),
        ((2, 3), (-1, 0)),
        ((2, 0, 3), (1, 0)),
        ((3,), (0, 0)),
        ((), (0, -1)),
    ),
    "flatten": (((2, 3, 4), ()), ((2, 3, 4), (1,)), ((2, 3, 4), (0, -2)), ((3,), ()), ((), ()), ((2, 0, 3), (1,))),
    "unflatten": (
        ((2, 6), (1, (2, 3))),
        ((2, 6), (-1, (3, -1))),
        ((4,), (0, (2, 1, 2))),
        ((0, 3), (0, (0, 2))),
        ((2, 6, 3), (1, (2, 3))),
    ),
    "t": (((2, 3), ()), ((3,), ()), ((), ()), ((0, 3), ())),
    "flip": (
        ((2, 3), (0,)),
        ((2, 3), ((0, 1),)),
        ((2, 3), (-1,)),
        ((2, 3), ((),)),
        ((), (0,)),
        ((0, 3), (1,)),
        ((2, 3, 4), (1,)),
    ),
}


def view(make: Maker) -> Iterator[Sample]:
    """Views, each from its own rows; only those that do not speak of memory also of what lies in it with gaps."""
    name = make.schema.base_name
    rows = _VIEWS[name]
    for shape, rest in rows:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    if name == "as_strided":
        return
    for shape, rest in rows:
        if 0 not in shape and shape and shape[0] > 1:
            yield make.sample("strided", make.tensor(shape, "strided"), *rest)
            yield make.sample("expanded input", make.tensor(shape, "expanded"), *rest, smooth=False)
            break


_SCATTER: dict[str, Rows] = {
    "select_scatter": (((2, 3), (0, 1)), ((2, 3), (-1, -3)), ((3,), (0, 2)), ((2, 0), (0, 1)), ((2, 3, 4), (1, 2))),
    "slice_scatter": (
        ((5,), ()),
        ((5,), (0, 1, 4)),
        ((2, 5), (-1, None, None, 2)),
        ((5, 2), (0, -2)),
        ((5,), (0, 3, 1)),
        ((2, 5, 3), (1, 1, 4, 2)),
    ),
    "diagonal_scatter": _DIAGONAL,
    "as_strided_scatter": (
        ((6,), ((2, 3), (3, 1))),
        ((2, 3), ((3, 2), (1, 3))),
        ((6,), ((2, 2), (2, 1), 1)),
        ((3,), ((), (), 2)),
        ((4,), ((0, 2), (1, 1))),
        ((5,), ((1, 2), (4, 2), 1)),
    ),
}


def scatter_back(make: Maker) -> Iterator[Sample]:
    """A view written back: the value has the shape of the view."""
    rule = make.name.removesuffix("_scatter")
    for shape, rest in _SCATTER[make.name]:
        part: Any = RULES[rule](rule, Shaped(shape, make.dtype), *rest)
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), make.tensor(part, argument="src"), *rest)
    if make.name != "as_strided_scatter":
        shape, rest = _SCATTER[make.name][0]
        part = RULES[rule](rule, Shaped(shape, make.dtype), *rest)
        yield make.sample("strided", make.tensor(shape, "strided"), make.tensor(part, "strided", argument="src"), *rest)


def stack(make: Maker) -> Iterator[Sample]:
    """Lists of tensors of one shape."""
    rows: tuple[tuple[tuple[int, ...], int, tuple[Any, ...]], ...] = (
        ((2, 3), 2, ()),
        ((2, 3), 3, (1,)),
        ((3,), 2, (-1,)),
        ((), 2, (0,)),
        ((0, 2), 2, (1,)),
        ((2, 3, 4), 2, (1,)),
    )
    for shape, count, rest in rows:
        yield make.sample(f"{count} of {shape} {rest}", [make.tensor(shape) for _ in range(count)], *rest)
    yield make.sample("strided", [make.tensor((2, 3), "strided"), make.tensor((2, 3))], 1)


# ----------------------------------------------------------------------------------------- gathering and scattering


def index_put(make: Maker) -> Iterator[Sample]:
    """Values at index tensors: broadcast, repeated (where the last one stays, or all are added), at masks."""
    for shape, lists, result in INDEX:
        repeated = _repeats(lists)
        values = make.tensor(result, argument="values")
        yield make.sample(
            f"shape {shape} {lists}", make.tensor(shape), indices(make, lists), values, smooth=not repeated
        )
        yield make.sample(f"accumulate {shape} {lists}", make.tensor(shape), indices(make, lists), values, True)
    one = make.tensor((), argument="values")
    yield make.sample("one value", make.tensor((4, 3)), indices(make, [[0, 3]]), one)
    yield make.sample("a row", make.tensor((4, 3)), indices(make, [[0, 3]]), make.tensor((3,), argument="values"))
    yield make.sample("no index", make.tensor((3,)), [], make.tensor((3,), argument="values"))
    yield make.sample("strided", make.tensor((4, 3), "strided"), indices(make, [[3, 0]]), one)
    for other, name in other_integers(make):
        for add in (False, True):
            values = make.tensor((3,), argument="values")
            yield make.sample(f"{name} {add}", make.tensor((130,)), [other], values, add, smooth=False)
    many = make.integers([7 * i % 5 for i in range(100)])
    for add in (False, True):
        values = make.tensor((100,), argument="values")
        yield make.sample(f"many {add}", make.tensor((5,)), [many], values, add, smooth=False)
    for nothing in NOTHING:
        for add in (False, True):
            values = make.tensor((3,), argument="values")
            yield make.sample(f"no index {nothing} {add}", make.tensor((2, 3)), nothing, values, add)


def _repeats(lists: list[Any]) -> bool:
    """Whether a place is named twice, among the indices that are tried."""
    return lists in ([[1, 1, 3, 1]], [[-1, 0, -5]], [[[0, 1], [3, 0]]])


def nonzero(make: Maker) -> Iterator[Sample]:
    """Tensors with some zeros."""
    for shape in ((), (4,), (2, 3), (2, 0), (2, 1, 2)):
        yield make.sample(f"shape {shape}", make.tensor(shape, fill=(0, 1, 2)), smooth=False)
    yield make.sample("strided", make.tensor((4, 3), "strided", fill=(0, 1)), smooth=False)


def index_select(make: Maker) -> Iterator[Sample]:
    """Indices in any order, repeated, none."""
    rows: tuple[tuple[tuple[int, ...], int, Any], ...] = (
        ((4, 3), 0, [2, 0]),
        ((4, 3), -1, [1, 1, 0]),
        ((5,), 0, [3]),
        ((5,), 0, 2),
        ((4, 3), 1, []),
        ((), 0, [0]),
        ((0, 3), 1, [2, 0]),
        ((2, 3, 4), 1, [2, 0]),
    )
    for shape, dim, index in rows:
        yield make.sample(f"shape {shape} dim {dim} {index}", make.tensor(shape), dim, make.integers(index))
    yield make.sample("strided", make.tensor((4, 3), "strided"), 0, make.integers([3, 0]))
    for other, name in other_integers(make):
        yield make.sample(name, make.tensor((130,)), 0, other, smooth=False)


_GATHER: tuple[tuple[tuple[int, ...], int, Any], ...] = (
    ((2, 3), 1, [[0, 2], [1, 1]]),
    ((2, 3), 0, [[0, 1, 0]]),
    ((2, 3), -1, [[2]]),
    ((4,), 0, [3, 0]),
    ((), 0, 0),
    ((2, 3), 1, [[], []]),
    ((0,), 0, []),
    ((2, 3, 4), 1, [[[2, 0, 1, 1]], [[0, 2, 2, 1]]]),
)


def gather(make: Maker) -> Iterator[Sample]:
    """An index that is smaller than the tensor in other dims."""
    for shape, dim, index in _GATHER:
        yield make.sample(f"shape {shape} dim {dim} {index}", make.tensor(shape), dim, make.integers(index))
    yield make.sample("strided", make.tensor((4, 3), "strided"), 1, make.integers([[2, 0], [1, 1]]))
    for other, name in other_integers(make):
        yield make.sample(name, make.tensor((130,)), 0, other, smooth=False)


def scatter(make: Maker) -> Iterator[Sample]:
    """The same places, written to; a repeated place takes part in sums alone."""
    for shape, dim, index in _GATHER:
        places = make.integers(index)
        smooth = make.name == "scatter_add" or index != [[0, 2], [1, 1]]
        if make.schema.overload == "value":
            source: Any = make.number(2.5)
        else:
            source = make.tensor(places.shape, argument="src")
        yield make.sample(f"shape {shape} dim {dim} {index}", make.tensor(shape), dim, places, source, smooth=smooth)
    source = make.number(2.5) if make.schema.overload == "value" else make.tensor((2, 2), "strided", argument="src")
    yield make.sample("strided", make.tensor((4, 3), "strided"), 1, make.integers([[2, 0], [1, 0]]), source)
    if make.schema.overload != "value":
        large = make.tensor((3, 4), argument="src")
        yield make.sample("larger source", make.tensor((2, 3)), 1, make.integers([[0, 2], [1, 0]]), large)
    for other, name in other_integers(make):
        source = make.number(2.5) if make.schema.overload == "value" else make.tensor((3,), argument="src")
        yield make.sample(name, make.tensor((130,)), 0, other, source, smooth=False)


def take(make: Maker) -> Iterator[Sample]:
    """Places in C order."""
    rows: tuple[tuple[tuple[int, ...], Any], ...] = (
        ((2, 3), [5, 0, -1]),
        ((3,), [[0, 1], [2, 2]]),
        ((2, 3), 4),
        ((2, 3), []),
        ((), [0, 0]),
        ((0, 2), []),
    )
    for shape, index in rows:
        yield make.sample(f"shape {shape} {index}", make.tensor(shape), make.integers(index))
    for other, name in other_integers(make):
        yield make.sample(name, make.tensor((130,)), other, smooth=False)


_MASKED: tuple[tuple[tuple[int, ...], Any], ...] = (
    ((4,), [True, False, True, True]),
    ((2, 3), [[True, False, True], [False, False, True]]),
    ((2, 3), [True, False, True]),
    ((3,), [[True, False, True], [False, True, False]]),
    ((3,), [False, False, False]),
    ((), True),
    ((0, 3), [True, False, True]),
)


def masked(make: Maker) -> Iterator[Sample]:
    """Masks of the tensor's shape and others that broadcast."""
    for shape, mask in _MASKED:
        yield make.sample(f"shape {shape} {mask}", make.tensor(shape), make.integers(mask, "bool"), *_values(make))
    mask = make.integers([True, False, True], "bool")
    yield make.sample("strided", make.tensor((4, 3), "strided"), mask, *_values(make))


def _values(make: Maker) -> list[Any]:
    """What a masked operator writes."""
    if make.name == "masked_scatter":
        return [make.tensor((2, 4), argument="source")]
    if make.name == "masked_fill":
        return [make.number(2.5) if make.schema.overload == "Scalar" else make.tensor((), argument="value")]
    return []


BY_RULE = {
    **dict.fromkeys(("as_strided", "diagonal", "flip", "split_with_sizes", "unbind"), view),
    **dict.fromkeys(_SCATTER, scatter_back),
    "index_put": index_put,
    "unknown": nonzero,
}
BY_NAME = {
    **dict.fromkeys(("chunk", "flatten", "movedim", "narrow", "split", "t", "unflatten"), view),
    **dict.fromkeys(("masked_fill", "masked_scatter", "masked_select"), masked),
    **dict.fromkeys(("scatter", "scatter_add"), scatter),
    "argwhere": nonzero,
    "gather": gather,
    "index_put": index_put,
    "index_select": index_select,
    "stack": stack,
    "take": take,
}
