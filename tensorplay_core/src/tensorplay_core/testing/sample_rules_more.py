"""Which calls are worth trying, by shape rule: indexing and its gradients, linear algebra, creation, losses.

The other tables, and what they are for, are in :mod:`sample_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.ops.shapes import RULES, Shaped
from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Named, Sample

# (shape, the indices as nested lists or None, the shape of the result)
INDEX: tuple[tuple[tuple[int, ...], list[Any], tuple[int, ...]], ...] = (
    ((5,), [[0, 2, 4]], (3,)),
    ((5,), [[1, 1, 3, 1]], (4,)),
    ((5,), [[-1, 0, -5]], (3,)),
    ((4, 3), [[[0, 1], [3, 0]]], (2, 2, 3)),
    ((4, 3), [2], (3,)),
    ((4, 3), [[0, 3], [2, 1]], (2,)),
    ((4, 3), [[[0], [3]], [0, 2]], (2, 2)),
    ((4, 3), [None, [2, 0]], (4, 2)),
    ((2, 3, 4), [[0, 1], None, [3, 3]], (2, 3)),
    ((2, 3, 4), [None, [0, 2], [1, 1]], (2, 2)),
    ((4, 3), [[]], (0, 3)),
    ((4,), [[True, False, True, True]], (3,)),
    ((2, 3), [[[True, False, True], [False, False, True]]], (3,)),
    ((4,), [[False] * 4], (0,)),
    ((0, 3), [None, [2, 0]], (0, 2)),
    ((2, 3), [True], (1, 2, 3)),
    ((2, 3), [False], (0, 2, 3)),
    ((2, 3), [True, [1, 0]], (2, 3)),
)

NOTHING: tuple[list[None], ...] = ([], [None], [None, None])
"""Indices that take all there is."""


def indices(make: Maker, lists: list[Any]) -> list[Any]:
    """Index tensors of nested lists; bools make a mask."""
    return [None if one is None else make.integers(one, "bool" if _is_mask(one) else "int64") for one in lists]


OTHER_INTEGERS = {"uint8": [129, 0, 3], "int8": [-1, 127, -128], "uint64": [2, 129, 0], "int32": [-130, -1, 3]}
"""Indices of other dtypes into 130 elements, a number that 8 bits do not hold."""


def other_integers(make: Maker) -> Iterator[tuple[Any, str]]:
    """Indices of other integer dtypes, with what to call them."""
    for dtype, numbers in OTHER_INTEGERS.items():
        yield make.integers(numbers, dtype), f"{dtype} indices"


def _is_mask(data: Any) -> bool:
    while isinstance(data, list) and data:
        data = data[0]
    return isinstance(data, bool)


def index(make: Maker) -> Iterator[Sample]:
    """Index tensors: repeated, negative, broadcast, apart, empty, 0-d, and masks."""
    for shape, lists, _ in INDEX:
        yield make.sample(f"shape {shape} {lists}", make.tensor(shape), indices(make, lists))
    yield make.sample("strided", make.tensor((4, 3), "strided"), indices(make, [[3, 0, 3]]))
    for other, name in other_integers(make):
        yield make.sample(name, make.tensor((130,)), [other], smooth=False)
    for nothing in NOTHING:
        yield make.sample(f"no index {nothing}", make.tensor((2, 3)), nothing)


def input_sizes(make: Maker) -> Iterator[Sample]:
    """The gradients of index, select and slice."""
    if make.name == "index_backward":
        for shape, lists, result in INDEX:
            grad = make.tensor(result, argument="grad")
            yield make.sample(f"sizes {shape} {lists}", grad, shape, indices(make, lists))
        for other, name in other_integers(make):
            yield make.sample(name, make.tensor((3,), argument="grad"), (130,), [other], smooth=False)
        for nothing in NOTHING:
            yield make.sample(f"no index {nothing}", make.tensor((2, 3), argument="grad"), (2, 3), nothing)
        return
    rows: dict[str, tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...]] = {
        "select_backward": (
            ((2, 3), (0, 1)),
            ((2, 3), (-1, -3)),
            ((3,), (0, 2)),
            ((2, 0), (0, 1)),
            ((2, 3, 4), (1, 2)),
            ((3, 2), (0, -1)),
        ),
        "slice_backward": (
            ((5,), (0, 1, 4, 1)),
            ((5,), (0, None, None, 2)),
            ((2, 5), (-1, -3, None, 1)),
            ((5,), (0, 3, 1, 1)),
            ((5, 2), (0, -99, 99, 3)),
            ((2, 5, 3), (1, 1, 4, 2)),
        ),
    }
    rule = make.name.removesuffix("_backward")
    for shape, rest in rows.get(make.name, ()):
        taken: Any = RULES[rule](rule, Shaped(shape, make.dtype), *rest)
        yield make.sample(f"sizes {shape} {rest}", make.tensor(taken, argument="grad"), shape, *rest)


def matmul(make: Maker) -> Iterator[Sample]:
    """Vectors, matrices, batches, and batches that broadcast."""
    rows: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 2, 3), (3,)),
        ((1, 1), (1, 1)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
    )
    for a, b in rows:
        yield make.sample(f"shapes {a} {b}", make.tensor(a), make.tensor(b, argument="other"))
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((3, 4), "strided"))
    yield make.sample("expanded", make.tensor((4, 3), "expanded"), make.tensor((3, 2)), smooth=False)


def linear(make: Maker) -> Iterator[Sample]:
    """With and without a bias, over any leading dims."""
    for shape in ((4, 3), (3,), (2, 4, 3), (0, 3)):
        for bias in (False, True):
            tensors = [make.tensor(shape), make.tensor((2, 3)), *([make.tensor((2,))] if bias else [])]
            yield make.sample(f"shape {shape} bias {bias}", *tensors)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((2, 3), "strided"), None)


def placed(make: Maker, *, dtype: bool = True) -> dict[str, Any]:
    """The keywords of a creation operator."""
    given: dict[str, Any] = {}
    if make.has("dtype") and dtype:
        given["dtype"] = Named("dtype", make.dtype.name)
    if make.has("device"):
        given["device"] = Named("device", "")
    return given


def sized(make: Maker) -> Iterator[Sample]:
    """Creation by size."""
    rest = [make.number(3)] if make.has("fill_value") else []
    for size in ((), (3,), (2, 3), (0, 2), (1, 1, 1)):
        yield make.sample(f"size {size}", size, *rest, **placed(make))
    yield make.sample("default dtype", (2,), *rest, **placed(make, dtype=False))


def arange(make: Maker) -> Iterator[Sample]:
    """Ranges up and down, empty, and with fractions; the dtype is left to the arguments."""
    rows = ((0, 5, 1), (2, 11, 3), (5, 0, -2), (3, 3, 1), (0.0, 1.0, 0.25), (1, 2, 0.5), (-1.5, 2.0, 1))
    for row in rows:
        yield make.sample(f"{row}", *row, **placed(make, dtype=False))
    for row in ((1.0, 1.0, 0.5), (2.0, 0.5, -0.5)):
        yield make.sample(f"{row}", *row, **placed(make, dtype=False))


def eye(make: Maker) -> Iterator[Sample]:
    """Square and not."""
    for row in ((3,), (2, 3), (3, 2), (0,), (2, 0), (1, 1)):
        yield make.sample(f"{row}", *row, **placed(make))


def randperm(make: Maker) -> Iterator[Sample]:
    """Permutations of none, one and several."""
    for n in (0, 1, 5):
        yield make.sample(f"n {n}", n, **placed(make, dtype=False))


def cross_entropy(make: Maker) -> Iterator[Sample]:
    """Class indices and probabilities, weights, the index that is ignored, smoothing."""
    logits = make.tensor((3, 4))
    classes = make.integers([1, 0, 3])
    weight = make.integers([0.5, 1.0, 2.0, 0.25], make.dtype.name)
    yield make.sample("classes", logits, classes)
    for reduction in ("none", "sum", "mean"):
        yield make.sample(f"reduction {reduction}", logits, classes, reduction=reduction)
        yield make.sample(f"weight, {reduction}", logits, classes, weight, reduction=reduction)
    yield make.sample("ignore_index", logits, make.integers([1, -100, 3]))
    yield make.sample("ignore_index 0", logits, make.integers([1, 0, 3]), ignore_index=0)
    yield make.sample("label_smoothing", logits, classes, label_smoothing=0.25)
    yield make.sample("no examples", make.tensor((0, 4)), make.integers([]), reduction="sum")
    yield make.sample("one example", make.tensor((4,)), make.integers(2))
    yield make.sample("pixels", make.tensor((2, 3, 2)), make.integers([[0, 2], [1, 1]]))
    probabilities = [[0.5, 0.25, 0.25, 0.0], [0.25] * 4, [0.0, 1.0, 0.0, 0.0]]
    yield make.sample("probabilities", logits, make.integers(probabilities, make.dtype.name))
