"""Shape rules of decompositions, and of what is solved with them."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, broadcast_shapes, check_shape, shape_of
from tensorplay_core.ops.shapes_linalg import matrices

MODES = ("reduced", "complete", "r")


def square(op: str, self: Shaped, *rest: Any, **keywords: Any) -> Shape:
    """The shape of square matrices."""
    shape = matrices(op, self)
    if shape[-1] != shape[-2]:
        raise ShapeError(
            f"{op}: takes square matrices, and the last two dims of {shape} are {shape[-2]} by {shape[-1]}"
            + (fix("tp.linalg.lstsq and tp.linalg.pinv take others") if op in ("linalg_solve", "linalg_inv") else "")
        )
    return shape


def item_name(shape: Shape, number: int) -> str:
    """Returns how a message names one matrix of a batch, as PyTorch does; nothing where there is no batch.

    Args:
        shape: of the batch of matrices.
        number: which one, in C order.

    Example:
        >>> item_name((2, 3, 4, 4), 5), item_name((4, 4), 0)
        ('(batch element 1, 2) ', '')
    """
    index: list[int] = []
    for size in reversed(shape[:-2]):
        number, place = divmod(number, size)
        index.insert(0, place)
    return f"(batch element {', '.join(map(str, index))}) " if index else ""


def of_square(op: str, A: Shaped, **keywords: Any) -> Shape:
    """A number for each square matrix."""
    return square(op, A)[:-2]


def slogdet(op: str, A: Shaped, **keywords: Any) -> tuple[Shape, Shape]:
    """Two numbers for each square matrix."""
    batch = square(op, A)[:-2]
    return batch, batch


def cholesky_ex(op: str, self: Shaped, **keywords: Any) -> tuple[Shape, Shape]:
    """A factor and a number for each square matrix."""
    shape = square(op, self)
    return shape, shape[:-2]


def check_uplo(op: str, UPLO: Any) -> None:
    """Refuses a triangle that there is not.

    Raises:
        ValueRangeError: it is none.
    """
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ValueRangeError(f'{op}: UPLO names the triangle that is read, "L" or "U", and is {UPLO!r}')


def eigh(op: str, self: Shaped, UPLO: Any = "L", **keywords: Any) -> tuple[Shape, Shape]:
    """Values and vectors of each square matrix."""
    check_uplo(op, UPLO)
    shape = square(op, self)
    return shape[:-1], shape


def eigvalsh(op: str, self: Shaped, UPLO: Any = "L", **keywords: Any) -> Shape:
    """Values of each square matrix."""
    return eigh(op, self, UPLO)[0]


def svd(op: str, A: Shaped, full_matrices: Any = True, **keywords: Any) -> tuple[Shape, Shape, Shape]:
    """(..., m, m), (..., k), (..., n, n), or k columns and rows without ``full_matrices``; k is the smaller size."""
    *batch, m, n = matrices(op, A)
    _no_driver(op, keywords)
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    return check_shape(op, (*batch, m, rows)), (*batch, k), check_shape(op, (*batch, columns, n))


def svdvals(op: str, A: Shaped, **keywords: Any) -> Shape:
    """The smaller of the two sizes, for each matrix."""
    return svd(op, A, **keywords)[1]


def _no_driver(op: str, keywords: dict[str, Any]) -> None:
    if keywords.get("driver") is not None:
        raise ValueRangeError(f"{op}: driver chooses among routines of cuSOLVER, and must be None here")


def check_mode(op: str, mode: Any) -> None:
    """Refuses a mode that ``qr`` does not have.

    Raises:
        ValueRangeError: it has not; the message lists those that it has.
    """
    if mode not in MODES:
        raise ValueRangeError(
            f"{op}: mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}" + did_you_mean(str(mode), MODES)
        )


def qr(op: str, A: Shaped, mode: Any = "reduced", **keywords: Any) -> tuple[Shape, Shape]:
    """Q of k or all columns, R of as many rows; with mode ``"r"`` an empty Q."""
    check_mode(op, mode)
    *batch, m, n = matrices(op, A)
    k = m if mode == "complete" else min(m, n)
    return (0,) if mode == "r" else check_shape(op, (*batch, m, k)), (*batch, k, n)


def transposed(op: str, self: Shaped, **keywords: Any) -> Shape:
    """The last two sizes swapped."""
    *batch, m, n = matrices(op, self)
    return (*batch, n, m)


def solve(op: str, A: Shaped, B: Shaped, *, left: Any = True, **keywords: Any) -> Shape:
    """The shape of ``B`` with the batch that both broadcast to."""
    a, b = square(op, A), shape_of(B)
    vector = len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])
    if vector and not left:
        raise ShapeError(f"{op}: left=False takes matrices on the right side, and B of shape {b} is vectors")
    return _solved(op, a, (*b, 1) if vector else b, left)[: -1 if vector else None]


def _solved(op: str, a: Shape, b: Shape, left: Any) -> Shape:
    if len(b) < 2:
        raise ShapeError(f"{op}: B must be matrices, and has shape {b}" + fix("B.unsqueeze(-1) is a column"))
    size = b[-2] if left else b[-1]
    if size != a[-1]:
        what = "rows" if left else "columns"
        raise ShapeError(f"{op}: A is {a[-1]} by {a[-1]}, so B must have {a[-1]} {what}, and has {size} (shape {b})")
    return check_shape(op, broadcast_shapes(op, a[:-2], b[:-2]) + b[-2:])


def solve_triangular(op: str, self: Shaped, B: Shaped, *, left: Any = True, **keywords: Any) -> Shape:
    """The shape of ``B`` with the batch that both broadcast to."""
    return _solved(op, square(op, self), shape_of(B), left)
