"""Which calls of the operators of linear algebra are worth trying: products, triangles, equations and distances.

Decompositions, whose matrices must have properties, are in :mod:`sample_rules_factorization`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample, TensorSpec

Shape = tuple[int, ...]

_PRODUCTS: dict[str, tuple[tuple[Shape, Shape], ...]] = {
    "mm": (((2, 3), (3, 4)), ((1, 1), (1, 1)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((4, 3), (3, 1))),
    "bmm": (((2, 2, 3), (2, 3, 4)), ((0, 2, 3), (0, 3, 2)), ((2, 1, 0), (2, 0, 3)), ((1, 3, 3), (1, 3, 3))),
    "mv": (((2, 3), (3,)), ((1, 1), (1,)), ((2, 0), (0,)), ((0, 3), (3,))),
    "dot": (((3,), (3,)), ((1,), (1,)), ((0,), (0,))),
    "outer": (((3,), (2,)), ((1,), (1,)), ((0,), (2,)), ((2,), (0,))),
}


def product(make: Maker) -> Iterator[Sample]:
    """Two tensors of given numbers of dims."""
    rows = _PRODUCTS[make.rule or ""]
    second = make.tensors[1].name
    for a, b in rows:
        yield make.sample(f"shapes {a} {b}", make.tensor(a), make.tensor(b, argument=second))
    a, b = rows[0]
    yield make.sample("strided", make.tensor(a, "strided"), make.tensor(b, "strided", argument=second))
    yield make.sample("expanded", make.tensor(a, "expanded"), make.tensor(b, argument=second), smooth=False)
    yield make.sample("ties", make.tensor(a, fill=(0, 1, 2)), make.tensor(b, fill=(0, 1, 1)), smooth=False)
    if make.inexact:
        yield make.sample("nan", make.tensor(a, fill=(float("nan"), 1.0)), make.tensor(b), smooth=False)


_ADDED: dict[str, tuple[tuple[Shape, Shape, Shape], ...]] = {
    "addmm": (
        ((2, 4), (2, 3), (3, 4)),
        ((4,), (2, 3), (3, 4)),
        ((2, 1), (2, 3), (3, 4)),
        ((), (2, 3), (3, 2)),
        ((2, 3), (2, 0), (0, 3)),
        ((0, 2), (0, 3), (3, 2)),
        ((1, 1), (1, 1), (1, 1)),
    ),
    "baddbmm": (
        ((2, 2, 4), (2, 2, 3), (2, 3, 4)),
        ((2, 1), (2, 2, 3), (2, 3, 4)),
        ((), (1, 2, 3), (1, 3, 2)),
        ((0, 2, 2), (0, 2, 3), (0, 3, 2)),
        ((2, 1, 1), (2, 1, 0), (2, 0, 1)),
    ),
    "addmv": (
        ((2,), (2, 3), (3,)),
        ((1,), (2, 3), (3,)),
        ((), (2, 3), (3,)),
        ((0,), (0, 3), (3,)),
        ((2,), (2, 0), (0,)),
    ),
}


def added(make: Maker) -> Iterator[Sample]:
    """A product and what is added to it, with factors of both."""
    first, second = (argument.name for argument in make.tensors[1:])

    def tensors(row: tuple[Shape, Shape, Shape], layout: str = "c", **more: Any) -> list[Any]:
        names = ("self", first, second)
        return [make.tensor(s, layout, argument=n, **more) for s, n in zip(row, names, strict=True)]

    rows = _ADDED[make.rule or ""]
    for row in rows:
        yield make.sample(f"shapes {row}", *tensors(row))
    yield make.sample("strided", *tensors(rows[0], "strided"))
    yield make.sample("ties", *tensors(rows[0], fill=(0, 1, 1, 2)), smooth=False)
    yield make.sample("alpha and beta", *tensors(rows[0]), beta=make.number(2), alpha=make.number(3))
    yield make.sample("beta 0", *tensors(rows[1]), beta=0, alpha=make.number(2))
    yield make.sample("alpha 0", *tensors(rows[0]), alpha=0)
    if make.inexact:
        nothing = make.tensor(rows[0][0], fill=(float("nan"), float("inf")))
        yield make.sample("beta 0 and nan", nothing, *tensors(rows[0])[1:], beta=0, smooth=False)
    if make.dtype.is_complex:
        yield make.sample("complex factors", *tensors(rows[0]), beta=1j, alpha=2 - 1j)


def matrices(make: Maker) -> Iterator[Sample]:
    """Triangles: diagonals inside and outside of the matrix, batches, matrices that are not square."""
    for shape, diagonal in (
        *(((3, 4), k) for k in (0, 1, -1, 5, -5)),
        ((4, 2), 0),
        ((2, 3, 3), -1),
        ((2, 2, 2, 3), 1),
        ((0, 3), 0),
        ((3, 0), 1),
        ((0, 2, 2), 0),
        ((1, 1), 0),
        ((1, 1), -1),
    ):
        yield make.sample(f"shape {shape} diagonal {diagonal}", make.tensor(shape), diagonal)
    yield make.sample("strided", make.tensor((4, 3), "strided"))
    yield make.sample("expanded", make.tensor((3, 3), "expanded"), smooth=False)
    yield make.sample("ties", make.tensor((3, 3), fill=(0, 1, 1, 2)), smooth=False)
    if make.inexact:
        yield make.sample("nan is not multiplied", make.tensor((3, 3), fill=(float("nan"), 1.0)), smooth=False)


def trace(make: Maker) -> Iterator[Sample]:
    """Square matrices and others."""
    for shape in ((3, 3), (2, 4), (4, 2), (1, 1), (0, 0), (0, 3)):
        yield make.sample(f"shape {shape}", make.tensor(shape))
    yield make.sample("strided", make.tensor((3, 3), "strided"))


def diag(make: Maker) -> Iterator[Sample]:
    """Vectors and matrices, and diagonals beside the main one."""
    for shape, k in (((3,), 0), ((2,), 2), ((2,), -1), ((0,), 0), ((0,), 1), ((3, 4), 0), ((3, 3), 1), ((4, 2), -2)):
        yield make.sample(f"shape {shape} diagonal {k}", make.tensor(shape), k)
    yield make.sample("strided", make.tensor((3, 3), "strided"))


def diag_embed(make: Maker) -> Iterator[Sample]:
    """Batches, offsets, and other dims than the last two."""
    rows: tuple[tuple[Shape, tuple[Any, ...]], ...] = (
        ((3,), ()),
        ((2, 3), ()),
        ((2, 2), (1,)),
        ((2, 2), (-2,)),
        ((2, 3), (0, 0, 2)),
        ((2, 3), (1, -1, 0)),
        ((0,), ()),
        ((2, 0), (1,)),
        ((1,), (0, 0, 1)),
        ((2, 3, 4), (1, 1, -2)),
    )
    for shape, rest in rows:
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    yield make.sample("strided", make.tensor((3, 2), "strided"))


_PAIRS: dict[str, tuple[tuple[Shape, Shape], ...]] = {
    "kron": (((2, 3), (2, 2)), ((2,), (3,)), ((2, 2), (3,)), ((2,), (2, 3)), ((), (2,)), ((), ()), ((0, 2), (2, 1)),
             ((2, 1, 2), (2, 1))),
    "linalg_cross": (((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (1, 3)), ((1, 1, 3), (2, 2, 3)), ((0, 3), (0, 3))),
    "cross": (((3,), (3,)), ((2, 3), (2, 3)), ((3, 2), (3, 2)), ((3, 3), (3, 3)), ((0, 3), (0, 3))),
}  # fmt: skip


def pairs(make: Maker) -> Iterator[Sample]:
    """Two tensors of any dims."""
    name = make.name
    for a, b in _PAIRS[name]:
        yield make.sample(f"shapes {a} {b}", make.tensor(a), make.tensor(b, argument="other"))
    a, b = _PAIRS[name][1]
    yield make.sample("strided", make.tensor(a, "strided"), make.tensor(b, argument="other"))
    if name == "linalg_cross":
        yield make.sample("dim 0", make.tensor((3, 2)), make.tensor((3, 2)), dim=0)
        yield make.sample("dim -2", make.tensor((2, 3, 1)), make.tensor((2, 3, 1)), dim=-2)
    if name == "cross":
        yield make.sample("dim 1", make.tensor((3, 3)), make.tensor((3, 3)), 1)
        yield make.sample("dim -1", make.tensor((3, 3)), make.tensor((3, 3)), -1)
        yield make.sample("dim 1 of 3", make.tensor((2, 3, 4)), make.tensor((2, 3, 4)), 1)


def tensordot(make: Maker) -> Iterator[Sample]:
    """No dims, one, several, in another order, negative ones, and empty tensors."""
    rows: tuple[tuple[Shape, Shape, list[int], list[int]], ...] = (
        ((2, 3), (3, 2), [1], [0]),
        ((2, 3, 4), (4, 3), [2, 1], [0, 1]),
        ((2, 3), (2, 3), [0, 1], [0, 1]),
        ((2, 2), (3,), [], []),
        ((2, 3), (4, 2), [-2], [-1]),
        ((2, 0), (0, 3), [1], [0]),
        ((0, 2), (2, 3), [1], [0]),
        ((2, 3), (1, 2), [1], [0]),
        ((), (), [], []),
    )
    for a, b, first, second in rows:
        tensors = make.tensor(a), make.tensor(b, argument="other")
        yield make.sample(f"shapes {a} {b} dims {first} {second}", *tensors, first, second)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((3, 2), "strided"), [1], [0])


EQUATIONS: tuple[tuple[str, tuple[Shape, ...]], ...] = (
    ("ij,jk->ik", ((2, 3), (3, 2))),
    ("ij,jk", ((2, 3), (3, 2))),
    ("ji", ((2, 3),)),
    ("ij->ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij->i", ((2, 3),)),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("iij->ji", ((2, 2, 3),)),
    ("i,j->ij", ((2,), (3,))),
    ("i,i->i", ((3,), (3,))),
    ("i,i", ((3,), (3,))),
    ("bij,bjk->bik", ((2, 2, 3), (2, 3, 2))),
    ("bij,kj->bki", ((2, 2, 3), (2, 3))),
    ("...ij,...jk->...ik", ((2, 1, 2, 3), (3, 3, 2))),
    ("...i,i", ((2, 3), (3,))),
    ("i...->...", ((2, 3),)),
    ("...,...", ((2, 3), (3,))),
    ("a b, b -> a", ((2, 3), (3,))),
    ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 2))),
    ("i,ij,j", ((2,), (2, 3), (3,))),
    ("ij,j->i", ((2, 1), (3,))),
    ("iK,Kj", ((2, 3), (3, 2))),
    ("...->...", ((),)),
    (",->", ((), ())),
    ("ij,jk->ik", ((2, 0), (0, 3))),
    ("ij->j", ((0, 3),)),
)


def einsum(make: Maker) -> Iterator[Sample]:
    """Transposes, diagonals, sums, dots, several operands, sizes of 1 that broadcast, and empty dims."""
    for equation, shapes in EQUATIONS:
        yield make.sample(f"{equation} {shapes}", equation, [make.tensor(shape) for shape in shapes])
    two = [make.tensor((4, 3), "strided"), make.tensor((3, 2), "strided")]
    yield make.sample("strided", "ij,jk->ki", two)
    three = [make.tensor(shape) for shape in ((2, 3), (3, 2), (2, 2))]
    yield make.sample("path", "ij,jk,kl->il", three, path=[1, 2, 0, 1])


def cosine_similarity(make: Maker) -> Iterator[Sample]:
    """Every dim, broadcasting, and vectors shorter than eps."""
    for a, b, rest in (
        ((2, 3), (2, 3), ()),
        ((2, 3), (2, 3), (0,)),
        ((2, 3), (2, 3), (-1,)),
        ((3,), (3,), (0,)),
        ((2, 3), (1, 3), (1,)),
        ((2, 1, 3), (4, 3), (2,)),
        ((0, 3), (0, 3), ()),
        ((2, 0), (2, 0), (1,)),
        ((), (), (0,)),
    ):
        yield make.sample(f"shapes {a} {b} {rest}", make.tensor(a), make.tensor(b), *rest)
    yield make.sample("eps", make.tensor((2, 3)), make.tensor((2, 3)), eps=3.0)
    yield make.sample("strided", make.tensor((4, 3), "strided"), make.tensor((4, 3)))
    yield make.sample("equal elements", make.tensor((2, 3), fill=(1, 2)), make.tensor((2, 3), fill=(1, 2)))
    yield make.sample("a vector of zeros", make.tensor((2, 3), fill=(0,)), make.tensor((2, 3)), smooth=False)


def normalize(make: Maker) -> Iterator[Sample]:
    """Orders, dims, and vectors shorter than eps."""
    for shape, rest in (
        ((2, 3), ()),
        ((2, 3), (2.0, 0)),
        ((2, 3), (1.0, -1)),
        ((2, 3), (3.0, 1)),
        ((3,), (2.0, 0)),
        ((), (2.0, 0)),
        ((2, 2, 2), ()),
        ((2, 3, 4), (2.0, 1)),
        ((0, 3), ()),
        ((2, 3), (2.0, 1, 50.0)),
    ):
        yield make.sample(f"shape {shape} {rest}", make.tensor(shape), *rest)
    yield make.sample("strided", make.tensor((4, 3), "strided"))
    yield make.sample("order inf", make.tensor((2, 3)), float("inf"))
    yield make.sample("equal elements", make.tensor((2, 3), fill=(1, 2)))
    yield make.sample("a vector of zeros", make.tensor((2, 3), fill=(0,)), smooth=False)


def _apart(make: Maker) -> list[Any]:
    """Two matrices: no two elements of a difference of rows have one size."""
    return [
        make.integers(data, make.dtype.name)
        for data in ([[0.0, 1.0, 4.0], [2.0, -3.0, 8.0]], [[0.5, -2.0, 1.5], [-4.0, 1.25, 9.75]])
    ]


def pairwise_distance(make: Maker) -> Iterator[Sample]:
    """Orders, broadcasting, and vectors that are equal."""
    for a, b, rest in (
        ((2, 3), (2, 3), ()),
        ((2, 3), (2, 3), (1.0,)),
        ((2, 3), (2, 3), (3.0,)),
        ((2, 3), (2, 3), (2.0, 0.5, True)),
        ((3,), (3,), ()),
        ((2, 3), (3,), ()),
        ((0, 3), (0, 3), ()),
        ((1, 1), (1, 1), ()),
    ):
        yield make.sample(f"shapes {a} {b} {rest}", make.tensor(a, argument="x1"), make.tensor(b, argument="x2"), *rest)
    yield make.sample("order inf", *_apart(make), float("inf"))
    yield make.sample("strided", make.tensor((4, 3), "strided", argument="x1"), make.tensor((4, 3), argument="x2"))
    same = make.tensor((2, 3), fill=(0, 1, 1))
    yield make.sample("equal vectors", same, same, smooth=False)


def cdist(make: Maker) -> Iterator[Sample]:
    """Orders, batches that broadcast, rows without elements, and rows that are equal."""
    for a, b, rest in (
        ((2, 3), (4, 3), ()),
        ((2, 3), (4, 3), (1.0,)),
        ((2, 3), (4, 3), (3.0,)),
        ((2, 3), (4, 3), (0.0,)),
        ((2, 2, 3), (2, 3, 3), ()),
        ((2, 1, 2, 3), (3, 1, 3), ()),
        ((1, 1), (1, 1), ()),
        ((0, 3), (2, 3), ()),
        ((2, 3), (0, 3), ()),
        ((2, 0), (3, 0), ()),
    ):
        yield make.sample(f"shapes {a} {b} {rest}", make.tensor(a, argument="x1"), make.tensor(b, argument="x2"), *rest)
    yield make.sample("order inf", *_apart(make), float("inf"))
    yield make.sample("compute_mode", *_apart(make), 2.0, 2)
    yield make.sample("strided", make.tensor((4, 3), "strided", argument="x1"), make.tensor((2, 3), argument="x2"))
    same = make.tensor((2, 3), fill=(0, 1, 1))
    yield make.sample("equal rows", same, same, smooth=False)
    yield make.sample("many rows", make.tensor((30, 3), argument="x1"), make.tensor((2, 3), argument="x2"))
    yield make.sample("a batch of one", make.tensor((1, 2, 3), argument="x1"), make.tensor((4, 3), argument="x2"))
    for mode in (0, 1):
        yield make.sample(f"compute_mode {mode}", *_apart(make), 2.0, mode)


def cdist_backward(make: Maker) -> Iterator[Sample]:
    """Orders, batches that broadcast, and distances of 0; any positive distances serve."""
    for a, b, p in (
        ((2, 3), (4, 3), 2.0),
        ((2, 3), (4, 3), 1.0),
        ((2, 3), (4, 3), 3.0),
        ((2, 1, 2, 3), (3, 1, 3), 2.0),
        ((2, 2, 3), (3, 3), 1.5),
        ((30, 2), (2, 2), 2.0),
        ((0, 3), (2, 3), 2.0),
        ((2, 3), (0, 3), 2.0),
        ((2, 0), (3, 0), 2.0),
        ((2, 3), (4, 3), 0.0),
    ):
        batch = max(a[:-2], b[:-2], key=len) if a[:-2] != (2, 1) else (2, 3)
        shape = (*batch, a[-2], b[-2])
        x, y = make.tensor(a, argument="x1"), make.tensor(b, argument="x2")
        distance = make.tensor(shape, argument="cdist")
        yield make.sample(f"shapes {a} {b} {p}", make.tensor(shape), x, y, p, distance)
    grad, one = make.tensor((2, 2)), make.tensor((1, 1))
    x, y = make.tensor((4, 3), "strided", argument="x1"), make.tensor((2, 3), argument="x2")
    yield make.sample("strided", make.tensor((4, 2), "strided"), x, y, 2.0, make.tensor((4, 2), argument="cdist"))
    x, y = _apart(make)
    yield make.sample("equal elements", grad, x, x, 2.0, make.tensor((2, 2), argument="cdist"), smooth=False)
    yield make.sample("zeros", grad, x, y, 2.0, make.tensor((2, 2), fill=(0,)), smooth=False)
    largest = [[max(abs(a - b) for a, b in zip(one, other, strict=True)) for other in y.data] for one in x.data]
    distance = TensorSpec((2, 2), largest, x.dtype)
    yield make.sample("order inf", grad, x, y, float("inf"), distance, smooth=False)
    # Two components are the largest, and the distance 2049 has more digits than halves have.
    x, y = make.tensor((1, 3), fill=(3, -3, 1)), make.tensor((1, 3), fill=(1, -1, 1))
    yield make.sample("two largest", one, x, y, float("inf"), make.tensor((1, 1), fill=(2,)), smooth=False)
    x, y = make.tensor((1, 2), fill=(2048, 3)), make.tensor((1, 2), fill=(-1, 2))
    yield make.sample("rounded", one, x, y, float("inf"), make.tensor((1, 1), fill=(2049,)), smooth=False)
    x, y = make.tensor((1, 2, 3), argument="x1"), make.tensor((4, 3), argument="x2")
    yield make.sample("a batch of one", make.tensor((1, 2, 4)), x, y, 0.5, make.tensor((1, 2, 4), argument="cdist"))
    same = make.tensor((2, 3), fill=(2, 5, 1))
    yield make.sample("equal rows", grad, same, same, 3.0, make.tensor((2, 2), fill=(0, 3, 3, 0)), smooth=False)
    even = make.tensor((1, 3), fill=(1, 2, 2))
    yield make.sample(
        "a share of 0",
        one,
        make.tensor((1, 3), fill=(1, 4, 5)),
        even,
        0.5,
        make.tensor((1, 1), fill=(2,)),
        smooth=False,
    )
    if make.dtype.itemsize >= 4:  # a share that is too small for float32
        x, y = make.tensor((1, 2), fill=(2.0**-100, 2.0**60)), make.tensor((1, 2), fill=(0,))
        yield make.sample("shares far apart", one, x, y, 3.0, make.tensor((1, 1), fill=(2.0**60,)), smooth=False)
    same = make.tensor((2, 3), fill=(2,))
    yield make.sample("equal rows, order inf", grad, same, same, math.inf, make.tensor((2, 2), fill=(0,)), smooth=False)


BY_RULE = {
    **dict.fromkeys(("bmm", "dot", "mm", "mv", "outer"), product),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), added),
    "cdist": cdist,
    "cdist_backward": cdist_backward,
    "matrices": matrices,
}
BY_NAME = {
    **dict.fromkeys(("cross", "kron", "linalg_cross"), pairs),
    "cosine_similarity": cosine_similarity,
    "diag": diag,
    "diag_embed": diag_embed,
    "einsum": einsum,
    "normalize": normalize,
    "pairwise_distance": pairwise_distance,
    "tensordot": tensordot,
    "trace": trace,
}
