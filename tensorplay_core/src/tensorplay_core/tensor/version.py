"""Version cells: how autograd notices that a tensor it saved was written to.

A cell is shared by all tensors that share memory. It is a list, ``[number, shared]``, because a list is the cheapest
mutable thing that Python makes (25 ns against 90 for a slotted object), and one is made for every saved result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorplay_core.tensor.tensor import TensorBase

Version = list[Any]
"""``[number of writes so far, whether a view shares the memory]``."""


def version_of(tensor: TensorBase) -> Version:
    """Returns a tensor's cell, made at the first call.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.zeros(2)
        >>> _ = x.add_(1)
        >>> version_of(x)
        [0, False]
    """
    cell = tensor._version
    if cell is None:
        cell = tensor._version = [0, False]
    return cell


def share(base: TensorBase, view: TensorBase) -> None:
    """Lets a view share its base's cell, and marks the cell as shared."""
    cell = version_of(base)
    cell[1] = True
    view._version = cell


def share_if_aliased(base: TensorBase, result: TensorBase) -> None:
    """Shares the cell only where the result is a view: an operator such as ``reshape`` copies where it must."""
    if base._type.api.may_alias(base._array, result._array):
        share(base, result)


def bump(tensor: TensorBase) -> None:
    """Counts a write; nobody can have saved a tensor that has no cell."""
    cell = tensor._version
    if cell is not None:
        cell[0] += 1
