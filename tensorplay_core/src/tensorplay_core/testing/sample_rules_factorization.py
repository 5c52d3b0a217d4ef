"""Which calls of decompositions are worth trying: matrices that have the property that each asks for.

Diagonals are large and far apart beside the other elements, so matrices are regular and positive-definite, and
eigenvalues and singular values differ, also after the suite has given each element fresh digits. Singular matrices and
equal elements are given as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tensorplay_core.testing.sample_maker import Maker
from tensorplay_core.testing.sample_specs import Sample, TensorSpec, nest

Shape = tuple[int, ...]


def matrix(make: Maker, shape: Shape, *, hermitian: bool = False) -> TensorSpec:
    """A matrix, or a batch of them, with a dominant diagonal; Hermitian and positive-definite where it is asked for."""
    *batch, m, n = shape
    count = 1
    for size in batch:
        count *= size
    data: list[Any] = []
    for number in range(count):
        rows = [[_element(make, number, i, j) for j in range(n)] for i in range(m)]
        if hermitian:
            rows = [
                [rows[i][j] if i > j else abs(rows[i][i]) if i == j else rows[j][i].conjugate() for j in range(n)]
                for i in range(m)
            ]
        data += [value for row in rows for value in row]
    python = complex if make.dtype.is_complex else float
    return TensorSpec(shape, nest([*map(python, data)], shape) if data else [], make.dtype.name)


def _element(make: Maker, number: int, i: int, j: int) -> Any:
    draw = make.random
    small = draw.choice((-4, -3, -2, -1, 1, 2, 3, 4)) / 8
    if i == j:
        large = (3.0 + 2.5 * i + number) * (1 if make.name in _POSITIVE or draw.random() < 0.7 else -1)
        large = large if make.inexact else abs(large)  # unsigned integers too are refused for what they are
        angle = 0.0 if make.name in ("cholesky_solve", "cholesky_inverse") else 0.25  # a factor's diagonal is real
        return complex(large, angle) if make.dtype.is_complex else large
    small = small if make.inexact else abs(small)
    return complex(small, draw.choice((-3, -1, 2)) / 8) if make.dtype.is_complex else small


_POSITIVE = frozenset({"linalg_cholesky", "linalg_cholesky_ex", "logdet", "cholesky_solve", "cholesky_inverse"})
_EQUAL = [[4.0, 1.0, 0.0], [1.0, 6.0, 1.0], [0.0, 1.0, 9.0]]
_ONE_OF_TWO = [[[math.nan] * 2] * 2, [[4.0, 1.0], [2.0, 3.0]]]
"""A batch whose first matrix has no inverse that is a number, which is no reason to refuse the second."""
SQUARES: tuple[Shape, ...] = ((3, 3), (2, 2), (1, 1), (2, 2, 2), (2, 1, 3, 3), (0, 0), (0, 2, 2), (2, 0, 0))


def _given(make: Maker, data: Any) -> TensorSpec:
    return make.integers(_as(make, data), make.dtype.name)


def _as(make: Maker, data: Any) -> Any:
    python = complex if make.dtype.is_complex else float
    return [_as(make, item) for item in data] if isinstance(data, list) else python(data)


def square(make: Maker) -> Iterator[Sample]:
    """Square matrices, batches, none, in every layout; what else an operator takes."""
    hermitian = make.name in ("linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh", "linalg_eigvalsh", "logdet")
    for shape in SQUARES:
        yield make.sample(f"shape {shape}", matrix(make, shape, hermitian=hermitian))
    strided = matrix(make, (3, 3), hermitian=hermitian)._replace(layout="strided")
    yield make.sample("strided", strided)
    yield make.sample("equal elements", _given(make, _EQUAL))
    if make.has("upper"):
        yield make.sample("upper", matrix(make, (3, 3), hermitian=True), upper=True)
        yield make.sample("upper, batch", matrix(make, (2, 2, 2), hermitian=True), upper=True)
        one_triangle = [[4.0, 3.0], [1.0, 5.0]]
        yield make.sample("the other triangle", _given(make, one_triangle), smooth=False)
    if make.has("UPLO"):
        for which in ("U", "l"):
            yield make.sample(f"UPLO {which}", matrix(make, (3, 3), hermitian=True), which)
        yield make.sample("the other triangle", _given(make, [[4.0, 3.0], [1.0, 5.0]]), smooth=False)
    if make.name == "linalg_cholesky_ex":
        yield make.sample("not positive-definite", _given(make, [[[4.0, 1.0], [1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]))
    if make.name in ("linalg_det", "det"):
        yield make.sample("singular", _given(make, [[1.0, 2.0], [2.0, 4.0]]), smooth=False)
        mixed = [
            [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]],
            [[2.0, 1.0, 0.0], [0.0, 3.0, 0.0], [1.0, 0.0, 1.0]],
        ]
        yield make.sample("singular among others", _given(make, mixed), smooth=False)
    if make.name in ("linalg_inv", "inverse"):
        yield make.sample("nan in one of two", _given(make, _ONE_OF_TWO), smooth=False)


def matrices(make: Maker) -> Iterator[Sample]:
    """Matrices of any sizes, batches, none, in every layout; what else an operator takes."""
    shapes: tuple[Shape, ...] = (
        (3, 3),
        (3, 2),
        (2, 3),
        (1, 1),
        (2, 2, 3),
        (2, 3, 2),
        (0, 2),
        (2, 0),
        (0, 0),
        (0, 3, 2),
    )
    for shape in shapes:
        yield make.sample(f"shape {shape}", matrix(make, shape))
    yield make.sample("strided", matrix(make, (3, 2))._replace(layout="strided"))
    equal = _given(make, _EQUAL)
    if make.dtype.is_complex:  # LAPACK's reflections jump where the last pivot becomes real
        equal.data[2][2] += 0.5j
    yield make.sample("equal elements", equal)
    if make.has("full_matrices"):
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2)):
            yield make.sample(f"reduced, shape {shape}", matrix(make, shape), False)
    if make.has("mode"):
        yield make.sample("complete", matrix(make, (2, 3)), "complete")
        yield make.sample("tall", matrix(make, (4, 2)))
    if make.has("full_matrices"):
        for shape in ((3, 0), (0, 3), (2, 0, 3), (0, 2, 3)):
            yield make.sample(f"reduced, shape {shape}", matrix(make, shape), False)
        for shape in ((1, 0), (0, 1)):  # of a basis of one vector even that is known
            yield make.sample(f"a basis of one, shape {shape}", matrix(make, shape))
    if make.name == "linalg_pinv" and make.schema.overload:
        yield make.sample("rank 1", _given(make, [[1.0, 2.0], [2.0, 4.0]]), smooth=False)
        yield make.sample("rtol", matrix(make, (3, 2)), rtol=1e-3)
        yield make.sample("atol", matrix(make, (2, 3)), atol=1e-3)


def pinv_rcond(make: Maker) -> Iterator[Sample]:
    """With a relative tolerance; the overload with two tolerances takes what all decompositions take."""
    if make.schema.overload:
        yield from matrices(make)
        return
    for shape in ((3, 2), (2, 2, 2), (0, 2)):
        yield make.sample(f"shape {shape}", matrix(make, shape), 1e-3)
    yield make.sample("equal elements", _given(make, _EQUAL), 1e-3)


_BANDS = [[{0: 2.0, 1: 0.5, 66: 0.25}.get(abs(i - j), 0.0) for j in range(70)] for i in range(70)]
"""A matrix of more rows than a kernel may take at once, each of which goes with rows near and far."""
_SOLVE: tuple[tuple[Shape, Shape], ...] = (
    ((3, 3), (3, 2)),
    ((1, 1), (1, 1)),
    ((2, 2, 2), (2, 2, 3)),
    ((2, 2), (3, 2, 1)),
    ((3, 1, 2, 2), (2, 2, 1)),
    ((0, 0), (0, 2)),
    ((2, 2), (2, 0)),
    ((0, 2, 2), (0, 2, 1)),
    ((0, 2, 2), (2, 1)),
)


def solve(make: Maker) -> Iterator[Sample]:
    """Right sides of all sorts; vectors where the operator takes them."""
    triangular = make.name == "linalg_solve_triangular"
    ways: list[dict[str, Any]] = [{"upper": False}, {"upper": True}] if triangular else [{}]
    for way in ways:
        for a, b in _SOLVE:
            right = make.tensor(b, argument="B")
            yield make.sample(f"shapes {a} {b} {way}", matrix(make, a), right, **way)
        many = _given(make, _BANDS), make.tensor((len(_BANDS), 1), argument="B")
        yield make.sample(f"larger than a block {way}", *many, smooth=False, **way)
        right = make.tensor((2, 3), argument="B")
        yield make.sample(f"right {way}", matrix(make, (3, 3)), right, left=False, **way)
    strided = matrix(make, (3, 3))._replace(layout="strided"), make.tensor((3, 2), "strided")
    yield make.sample("strided", *strided, **ways[0])
    yield make.sample("equal elements", _given(make, _EQUAL), _given(make, [[1.0], [0.0], [1.0]]), **ways[0])
    if triangular:
        for upper in (False, True):
            more = {"upper": upper, "unitriangular": True}
            yield make.sample(f"unitriangular {upper}", matrix(make, (3, 3)), make.tensor((3, 2)), **more)
            yield make.sample(
                f"unitriangular right {upper}", matrix(make, (2, 2)), make.tensor((3, 2)), left=False, **more
            )
        yield make.sample("right, batch", matrix(make, (2, 2, 2)), make.tensor((2, 3, 2)), left=False, upper=True)
        return
    yield make.sample("nan in one of two", _given(make, _ONE_OF_TWO), make.tensor((2, 1), argument="B"), smooth=False)
    for a, b in (((3, 3), (3,)), ((2, 2, 2), (2, 2)), ((0, 0), (0,)), ((2, 2, 2), (2,))):
        yield make.sample(f"vectors {a} {b}", matrix(make, a), make.tensor(b, argument="B"))
    unknown = _given(make, [[math.nan, 1.0], [2.0, -3.0]])
    yield make.sample("nan in the right side", matrix(make, (2, 2)), unknown, smooth=False)
    yield make.sample("right, batch", matrix(make, (2, 2, 2)), make.tensor((2, 3, 2)), left=False)


def cholesky_solve(make: Maker) -> Iterator[Sample]:
    """Factors of either triangle."""
    for a, b in (((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((1, 1), (1, 1)), ((0, 0), (0, 2)), ((0, 2, 2), (0, 2, 1))):
        yield make.sample(f"shapes {a} {b}", make.tensor(b), matrix(make, a))
    yield make.sample("upper", make.tensor((3, 2)), matrix(make, (3, 3)), True)
    yield make.sample("equal elements", _given(make, [[1.0], [0.0], [1.0]]), _given(make, _EQUAL))


def cholesky_inverse(make: Maker) -> Iterator[Sample]:
    """Factors of either triangle."""
    for shape in SQUARES:
        yield make.sample(f"shape {shape}", matrix(make, shape))
    yield make.sample("upper", matrix(make, (3, 3)), True)
    yield make.sample("equal elements", _given(make, _EQUAL))


def matrix_power(make: Maker) -> Iterator[Sample]:
    """Powers from -2 on; of integers too those that need no inverse."""
    inexact = make.inexact and make.dtype.itemsize > 2
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0)):
        for n in (*((-2, -1) if inexact and 0 not in shape else ()), 0, 1, 2, 3, 5):
            given = matrix(make, shape) if make.inexact else make.tensor(shape, fill=(0, 1, 2))
            yield make.sample(f"shape {shape} n {n}", given, n)
    if make.inexact:
        yield make.sample("equal elements", _given(make, _EQUAL), 3)


def multi_dot(make: Maker) -> Iterator[Sample]:
    """Chains of two to four, with vectors at the ends."""
    rows: tuple[tuple[Shape, ...], ...] = (
        ((2, 3), (3, 2)),
        ((2, 3), (3, 1), (1, 4)),
        ((1, 2), (2, 3), (3, 2), (2, 1)),
        ((3,), (3, 2), (2,)),
        ((2,), (2, 3)),
        ((2,), (2,)),
        ((2, 0), (0, 3), (3, 1)),
    )
    for shapes in rows:
        yield make.sample(f"shapes {shapes}", [make.tensor(shape) for shape in shapes])


def matrix_norm(make: Maker) -> Iterator[Sample]:
    """Orders, dims and keepdim."""
    text = make.schema.overload == "str_ord"
    whole = make.dtype.itemsize > 2
    orders: tuple[Any, ...] = ("fro", *(("nuc",) if whole else ())) if text else (1, -1, float("inf"), float("-inf"))
    orders += (2, -2) if whole and not text else ()
    for ord in orders:
        yield make.sample(f"ord {ord}", matrix(make, (3, 2)), ord)
        yield make.sample(f"ord {ord} batch", matrix(make, (2, 2, 3)), ord, (-2, -1), True)
    yield make.sample("dims", make.tensor((2, 3, 2)), orders[0], (2, 0))
    yield make.sample("dims kept", make.tensor((2, 3, 2)), orders[0], (0, -2), True)
    yield make.sample("no matrices", make.tensor((0, 2, 2)), orders[0])
    if text:
        yield make.sample("equal elements", _given(make, _EQUAL), "fro")
        yield make.sample("all zeros", make.tensor((2, 2), fill=(0,)), "fro", smooth=False)
        yield make.sample("empty", make.tensor((0, 2)), "fro")


def norm(make: Maker) -> Iterator[Sample]:
    """Norms of vectors and of matrices."""
    if make.schema.overload == "ord_str":
        for shape, rest in (
            ((3, 2), ()),
            ((2, 3, 2), ((0, 2),)),
            ((2, 3, 2), ((-2, -1), True)),
            ((0, 2, 2), ((1, 2),)),
        ):
            yield make.sample(f"shape {shape} {rest}", make.tensor(shape), "fro", *rest)
        yield make.sample("equal elements", make.tensor((2, 2), fill=(0, 1, 1, 2)), "fro")
        return
    rows: tuple[tuple[Shape, tuple[Any, ...]], ...] = (
        ((), ()),
        ((3,), ()),
        ((2, 3), ()),
        ((2, 3, 2), ()),
        ((3,), (3,)),
        ((3,), (1,)),
        ((3,), (-1,)),
        ((3,), (0.5,)),
        ((2, 3), (1,)),
        ((2, 3), (2, 1)),
        ((2, 3), (2, -1, True)),
        ((2, 3, 2), (None, (0, 2))),
        ((2, 3), (None, 0, True)),
        ((0, 3), (2, 1)),
        ((0,), ()),
    )
    for sizes, further in rows:
        yield make.sample(f"shape {sizes} {further}", make.tensor(sizes), *further)
    for ord in (float("inf"), float("-inf")):
        yield make.sample(f"ord {ord}", _given(make, [[3.0, 0.5, -1.25]]), ord, 1)
    yield make.sample("equal elements", make.tensor((4,), fill=(0, 1, 1, 2)))
    yield make.sample("all zeros", make.tensor((3,), fill=(0,)), smooth=False)


def cond(make: Maker) -> Iterator[Sample]:
    """Orders, and matrices that are not square for those of singular values."""
    text = make.schema.overload == "p_str"
    orders: tuple[Any, ...] = ("fro", "nuc") if text else (None, 2, -2, 1, float("inf"))
    for p in orders:
        yield make.sample(f"order {p}", matrix(make, (3, 3)), p)
        yield make.sample(f"order {p} batch", matrix(make, (2, 2, 2)), p)
        yield make.sample(f"order {p} no matrices", matrix(make, (0, 2, 2)), p)
    if not text:
        yield make.sample("tall", matrix(make, (3, 2)))
    yield make.sample("equal elements", _given(make, _EQUAL), orders[0])


def lstsq(make: Maker) -> Iterator[Sample]:
    """Tall, wide and square systems, batches and vectors."""
    rows: tuple[tuple[Shape, Shape], ...] = (
        ((3, 2), (3, 1)),
        ((2, 3), (2, 2)),
        ((2, 2), (2, 1)),
        ((2, 3, 2), (2, 3, 1)),
        ((0, 3, 2), (0, 3, 1)),
    )
    for a, b in rows:
        yield make.sample(f"shapes {a} {b}", matrix(make, a), make.tensor(b, argument="b"))
    yield make.sample("equal elements", _given(make, _EQUAL), _given(make, [[1.0], [0.0], [1.0]]))


BY_RULE = {
    **dict.fromkeys(("cholesky_ex", "eigh", "eigvalsh", "of_square", "slogdet", "square"), square),
    **dict.fromkeys(("qr", "svd", "svdvals", "transposed"), matrices),
    **dict.fromkeys(("solve", "solve_triangular"), solve),
}
BY_NAME = {
    **dict.fromkeys(("det", "inverse", "logdet", "slogdet"), square),
    "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve,
    "linalg_cond": cond,
    "linalg_lstsq": lstsq,
    "linalg_matrix_norm": matrix_norm,
    "linalg_matrix_power": matrix_power,
    "linalg_multi_dot": multi_dot,
    "linalg_norm": norm,
    "linalg_pinv": pinv_rcond,
}
