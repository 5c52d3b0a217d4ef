"""Version cells: how autograd notices that a tensor it saved was written to.

A cell is shared by all tensors that share memory. It is a list, ``[number, shared]``, because a list is the cheapest
mutable thing that Python makes (25 ns against 90 for a slotted object), and one is made for every saved result.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tensorplay_core.dispatch.operator import Operator
    from tensorplay_core.tensor.tensor import TensorBase

Version = list[Any]
"""``[number of writes so far, whether a view shares the memory]``; on a device that rebinds also a :class:`Family`."""


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


class Step(NamedTuple):
    """A view operator on the way from a base to a view, with what a write needs to go back.

    Attributes:
        op: the operator.
        args, kwargs: its arguments after the tensor.
        before, after: the shapes of its input and of its result.
        item: which of its results the view is, where it gives several.
    """

    op: Operator
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    before: tuple[int, ...]
    after: tuple[int, ...]
    item: int | None = None


Path = tuple[Step, ...]


class Family:
    """The tensors that stand for one piece of memory, on a device where arrays cannot share it or be written to.

    A write gives the base another array, and every living member the part of it that its path says.

    Attributes:
        array: the base's; kept here, for the base may be gone while views of it live.
        members: by identity, the tensor and its path from the base, which is empty for the base itself.
    """

    __slots__ = ("array", "members")

    def __init__(self, base: TensorBase) -> None:
        """See the class."""
        self.array = base._array
        self.members: dict[int, tuple[weakref.ref[TensorBase], Path]] = {}
        self.add(base, ())

    def add(self, tensor: TensorBase, path: Path) -> None:
        """Makes a tensor a member, for as long as it lives."""
        members, number = self.members, id(tensor)

        def forget(reference: weakref.ref[TensorBase]) -> None:
            if number in members and members[number][0] is reference:
                del members[number]

        members[number] = (weakref.ref(tensor, forget), path)

    def path_of(self, tensor: TensorBase) -> Path | None:
        """Returns how a tensor comes from the base; of one that was unpacked from a node, that of the one it was."""
        known = self.members.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        same = (path for one, path in [*self.members.values()] if getattr(one(), "_array", None) is tensor._array)
        return next(same, () if tensor._array is self.array else None)


def family_of(tensor: TensorBase) -> Family | None:
    """Returns the family that a tensor belongs to, if it has one."""
    cell = tensor._version
    return cell[2] if cell is not None and len(cell) > 2 else None


def share_as(base: TensorBase, view: TensorBase, step: Step | None) -> None:
    """Lets a view share its base's cell on a device that rebinds, as a member of its base's family.

    Args:
        base: the tensor that the view was taken from.
        view: the view.
        step: the operator that took it; None for another tensor over all of it.
    """
    cell = version_of(base)
    family = family_of(base)
    if family is None:
        family = Family(base)
        cell.append(family)
    path = family.path_of(base)
    if path is None:  # unpacked from a node, and what it was is gone
        cell = base._version = [cell[0], False]
        family = Family(base)
        cell.append(family)
        path = ()
    if step is not None:
        cell[1] = True
        path = (*path, step)
    view._version = cell
    family.add(view, path)


def alias(tensor: TensorBase, other: TensorBase) -> None:
    """Lets another tensor over the same array share the cell, so that each sees what is written to the other."""
    if tensor._type.rebinds:
        share_as(tensor, other, None)
    else:
        other._version = version_of(tensor)


def bump(tensor: TensorBase) -> None:
    """Counts a write; nobody can have saved a tensor that has no cell."""
    cell = tensor._version
    if cell is not None:
        cell[0] += 1
