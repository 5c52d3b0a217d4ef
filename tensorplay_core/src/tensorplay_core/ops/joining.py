"""Functions of any number of tensors, given one by one or as a list, which no signature of the contract says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.errors import ArgumentError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional_view as view
from tensorplay_core.ops._generated_schemas_view import ATLEAST_1D, ATLEAST_2D, ATLEAST_3D
from tensorplay_core.ops.call import call
from tensorplay_core.ops.shape_checks import broadcast_shapes
from tensorplay_core.tensor.overrides import overridable
from tensorplay_core.tensor.tensor import Tensor, TensorBase

Tensors = Tensor | Sequence[Tensor]


def _listed(op: str, tensors: tuple[Any, ...]) -> list[Tensor]:
    """Returns tensors that were given one by one or as one list.

    Raises:
        ArgumentError: something among them is no tensor.
    """
    found = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors)
    for position, one in enumerate(found):
        if not isinstance(one, TensorBase):
            raise ArgumentError(f"{op}: takes tensors, and argument {position} is {type(one).__name__}")
    return found


def _at_least(op: str, each: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return each(tensors[0])  # type: ignore[arg-type]
    return tuple([each(one) for one in _listed(op, tensors)])


@overridable
def atleast_1d(*tensors: Tensors) -> Tensor | tuple[Tensor, ...]:
    """Returns a view of at least one dim; of several tensors, or a list of them, a tuple of views.

    Example:
        >>> import tensorplay as tp
        >>> tp.atleast_1d(tp.tensor(5))
        tensor([5])
    """
    found: Tensor | tuple[Tensor, ...] = _at_least("atleast_1d", lambda one: call(ATLEAST_1D, (one,)), tensors)
    return found


@overridable
def atleast_2d(*tensors: Tensors) -> Tensor | tuple[Tensor, ...]:
    """Returns a view of at least two dims, of which new ones come first; of several tensors a tuple of views.

    Example:
        >>> import tensorplay as tp
        >>> tp.atleast_2d(tp.tensor([1, 2]))
        tensor([[1, 2]])
    """
    found: Tensor | tuple[Tensor, ...] = _at_least("atleast_2d", lambda one: call(ATLEAST_2D, (one,)), tensors)
    return found


@overridable
def atleast_3d(*tensors: Tensors) -> Tensor | tuple[Tensor, ...]:
    """Returns a view of at least three dims, ``(1, n, 1)`` of one and ``(m, n, 1)`` of two; of several a tuple.

    Example:
        >>> import tensorplay as tp
        >>> tp.atleast_3d(tp.zeros(2, 3)).shape
        (2, 3, 1)
    """
    found: Tensor | tuple[Tensor, ...] = _at_least("atleast_3d", lambda one: call(ATLEAST_3D, (one,)), tensors)
    return found


@overridable
def broadcast_tensors(*tensors: Tensors) -> tuple[Tensor, ...]:
    """Returns views of tensors in the shape that all of them broadcast to.

    Raises:
        ShapeError: they do not broadcast together.

    Example:
        >>> import tensorplay as tp
        >>> a, b = tp.broadcast_tensors(tp.tensor([1, 2]), tp.tensor([[3], [4]]))
        >>> a, b
        (tensor([[1, 2],
                [1, 2]]), tensor([[3, 3],
                [4, 4]]))
    """
    found = _listed("broadcast_tensors", tensors)
    shape = broadcast_shapes("broadcast_tensors", *[one.shape for one in found])
    return tuple([one.expand(shape) for one in found])


@overridable
def meshgrid(*tensors: Tensors, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid, as views: of each tensor, one dim or none, its values along a dim of its own.

    Args:
        tensors: the coordinates along each dim.
        indexing: ``"ij"``, where the first tensor runs along dim 0, or ``"xy"``, where it runs along dim 1 and the
            second along dim 0, as in a picture.

    Raises:
        ArgumentError: there is no such indexing.
        ShapeError: a tensor has more than one dim.
        ValueRangeError: there are no tensors.

    Example:
        >>> import tensorplay as tp
        >>> x, y = tp.meshgrid(tp.tensor([1, 2]), tp.tensor([3, 4, 5]))
        >>> x.shape, y.tolist()
        ((2, 3), [[3, 4, 5], [3, 4, 5]])
    """
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid: indexing must be 'ij' or 'xy', not {indexing!r}")
    found = _listed("meshgrid", tensors)
    if not found:
        raise ValueRangeError("meshgrid: expected at least one tensor")
    for position, one in enumerate(found):
        if one.ndim > 1:
            raise ShapeError(f"meshgrid: tensor {position} must have one dim or none, and has shape {one.shape}")
        if one.dtype is not found[0].dtype:
            raise ArgumentError(
                f"meshgrid: tensors must have one dtype: tensor 0 is {found[0].dtype.name}, tensor {position} "
                f"{one.dtype.name}" + fix("convert them first")
            )
    swapped = indexing == "xy" and len(found) > 1
    order = [found[1], found[0], *found[2:]] if swapped else found
    shape = tuple([one.numel() for one in order])
    grid = [
        one.reshape([-1 if d == dim else 1 for d in range(len(order))]).expand(shape) for dim, one in enumerate(order)
    ]
    return (grid[1], grid[0], *grid[2:]) if swapped else tuple(grid)


@overridable
def cartesian_prod(*tensors: Tensors) -> Tensor:
    """Returns all combinations of the elements of tensors of one dim, one a row, as ``itertools.product`` orders them.

    Raises:
        ShapeError: a tensor has not one dim.

    Example:
        >>> import tensorplay as tp
        >>> tp.cartesian_prod(tp.tensor([1, 2]), tp.tensor([4, 5]))
        tensor([[1, 4],
                [1, 5],
                [2, 4],
                [2, 5]])
    """
    found = _listed("cartesian_prod", tensors)
    for position, one in enumerate(found):
        if one.ndim != 1:
            raise ShapeError(f"cartesian_prod: tensor {position} must have one dim, and has shape {one.shape}")
    if len(found) == 1:
        return found[0]
    columns = [one.reshape((one.numel(), 1)) for one in map(view.ravel, meshgrid(found))]
    return view.cat(columns, 1)
