"""Functions of linear algebra that Python calls otherwise than their schemas say.

``einsum`` takes its operands one after the other, ``tensordot`` a number of dims, and ``cdist`` a mode by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.errors import ArgumentError, ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops import direct
from tensorplay_core.ops._generated_schemas_linalg import CDIST, EINSUM, TENSORDOT
from tensorplay_core.ops.call import call
from tensorplay_core.ops.shape_checks import as_ints
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.promotion import PLAIN_NUMBERS


@overridable
def einsum(equation: str, *operands: Any, path: Sequence[int] | None = None) -> Tensor:
    """Sums of products in Einstein's notation.

    Args:
        equation: letters for the dims of each operand, and after ``->`` for those of the result.
        operands: the tensors, one after the other or in one list.
        path: the numbers of the pair to contract at each step; left out, the pair whose result is smallest.

    Raises:
        ValueRangeError: a mistake in the equation; the message shows it with a caret.
        ShapeError: sizes that do not fit.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> tp.einsum("ij,jk->ik", x, x)
        tensor([[ 7., 10.],
                [15., 22.]])
        >>> tp.einsum("ii", x)
        tensor(5.)
    """
    if not isinstance(equation, str):
        raise ArgumentError(
            f"einsum: the first argument is the equation, a str, not {type(equation).__name__}"
            + fix('tp.einsum("ij,jk->ik", a, b)')
        )
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    return call(EINSUM, (equation, list(given)), {"path": path})  # type: ignore[no-any-return]


MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
"""The names of ``compute_mode`` in PyTorch, by their numbers."""


@overridable
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | str | None = None) -> Tensor:
    """The p-norms of the differences between each row of one matrix and each of another.

    Args:
        x1: (..., n, m), floating.
        x2: (..., k, m); the leading dims broadcast.
        p: the order of the norm, from 0 to infinity.
        compute_mode: accepted as PyTorch's are, and without effect: distances are norms of differences, always.

    Returns:
        (..., n, k). The gradient at a distance of 0 is 0.

    Raises:
        ShapeError: rows of different sizes, or batches that do not broadcast.

    Example:
        >>> import tensorplay as tp
        >>> tp.cdist(tp.tensor([[0.0, 0.0]]), tp.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    if isinstance(compute_mode, str):
        if compute_mode not in MODES:
            raise ValueRangeError(
                f"cdist: compute_mode must be one of {', '.join(map(repr, MODES))}, not {compute_mode!r}"
                + did_you_mean(compute_mode, MODES)
            )
        compute_mode = MODES.index(compute_mode)
    plain = p.__class__ in PLAIN_NUMBERS and (compute_mode is None or compute_mode.__class__ is int)
    known = direct.plain(CDIST, x1, x2, p, compute_mode) if plain else None
    return known if known is not None else call(CDIST, (x1, x2, p, compute_mode))


@overridable
def tensordot(input: Tensor, other: Tensor, dims: Any = 2, dims_other: Any = None) -> Tensor:
    """The sum of products over several dims of each tensor.

    Args:
        input: the first tensor.
        other: the second.
        dims: how many of the last dims of the first go with as many first dims of the second; or two lists that name
            the dims of each.
        dims_other: the dims of the second, where ``dims`` names those of the first alone.

    Raises:
        ShapeError: sizes that do not fit, or more dims than there are.

    Example:
        >>> import tensorplay as tp
        >>> tp.tensordot(tp.ones(2, 3), tp.ones(3, 4), dims=1).shape
        (2, 4)
    """
    if dims_other is not None:
        first, second = (as_ints("tensordot", one, name) for one, name in ((dims, "dims"), (dims_other, "dims_other")))
    elif isinstance(dims, (list, tuple)):
        if len(dims) != 2:
            raise ArgumentError(f"tensordot: dims is a number, or two lists, and has {len(dims)} items")
        first, second = (as_ints("tensordot", one, f"dims[{i}]") for i, one in enumerate(dims))
    else:
        if isinstance(dims, bool) or not isinstance(dims, int):
            raise ArgumentError(f"tensordot: dims is an int, or two lists of them, not {dims!r}")
        ndims = [getattr(x, "ndim", 0) for x in (input, other)]
        if not 0 <= dims <= min(ndims):
            raise ShapeError(
                f"tensordot: dims must be from 0 to {min(ndims)} for tensors of {ndims} dims, and is {dims}"
            )
        first, second = tuple(range(ndims[0] - dims, ndims[0])), tuple(range(dims))
    return call(TENSORDOT, (input, other, first, second))  # type: ignore[no-any-return]
