"""Version cells: how autograd notices that a tensor it saved was written to.

A cell is shared by all tensors that share memory. It is a list, ``[number, views]``, because a list is the cheapest
mutable thing that Python makes (25 ns against 90 for a slotted object), and one is made for every saved result. From
the first view on it is longer: see :func:`extend`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tensorplay_core.dispatch.operator import Operator
    from tensorplay_core.tensor.tensor import TensorBase

Version = list[Any]
"""``[number of writes so far, the views of the memory that are alive]``: False while there never was one."""
LIVE, LIMIT, RESTRICTED, FAMILY = range(1, 5)
"""Where a cell has the views, how many they may become before those that are gone are forgotten, whether there are some
that no recorded write may concern, and on a device that rebinds the :class:`Family`.
"""
FEW = 16
"""The least limit."""
_lock = threading.RLock()
"""Re-entrant, because the collector may run in here, and what it frees may take a view."""
SHORTENING = threading.RLock()
"""Held where the list of a cell's views is made shorter; to append to it takes none. Re-entrant, because what is freed
meanwhile may write to a tensor in its turn.
"""


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


def extend(cell: Version) -> list[Any]:
    """Makes room in a cell for the views of its memory, at the first of them; returns the list of weak references."""
    with _lock:
        if cell[LIVE] is False:
            cell[LIVE:] = [], FEW, False, None
    live: list[Any] = cell[LIVE]
    return live


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
        lock: held while a write changes it and its members, so that threads that write to different parts lose nothing.
        members: by identity, the tensor and its path from the base, which is empty for the base itself.
    """

    __slots__ = ("array", "lock", "members")

    def __init__(self, base: TensorBase) -> None:
        """See the class."""
        self.array = base._array
        self.lock = threading.RLock()
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
    return cell[FAMILY] if cell is not None and len(cell) > FAMILY else None


def share_as(base: TensorBase, view: TensorBase, step: Step | None) -> None:
    """Lets a view share its base's cell on a device that rebinds, as a member of its base's family.

    Args:
        base: the tensor that the view was taken from.
        view: the view.
        step: the operator that took it; None for another tensor over all of it.
    """
    cell, family = version_of(base), family_of(base)
    path = None if family is None else family.path_of(base)
    if family is None or path is None:
        if family is not None:  # unpacked from a node, and what it was is gone
            cell = base._version = [cell[0], False]
        family, path = Family(base), ()
        extend(cell)
        cell[FAMILY] = family
    if step is not None:
        path = (*path, step)
    view._version = cell
    family.add(view, path)


def share_memory(one: TensorBase, other: TensorBase) -> bool:
    """Whether a write to one tensor may be seen in another: they are one, or have one cell."""
    return one is other or (one._version is not None and one._version is other._version)


def alias(tensor: TensorBase, other: TensorBase) -> None:
    """Lets another tensor over the same array share the cell, so that each sees what is written to the other."""
    if tensor._type.rebinds:
        share_as(tensor, other, None)
        return
    cell = other._version = version_of(tensor)
    if cell[LIVE]:  # the other may be one that overlaps itself: the fast path must not write to it unseen
        cell[LIVE].append(weakref.ref(other))
        if len(cell[LIVE]) > cell[LIMIT]:
            prune(cell)


def prune(cell: Version) -> None:
    """Forgets the views that are gone."""
    with SHORTENING:
        live = cell[LIVE]
        number = len(live)
        live[:number] = [reference for reference in live[:number] if reference() is not None]
        cell[LIMIT] = max(FEW, 2 * len(live))


def is_viewed(cell: Version) -> bool:
    """Whether a tensor over the same memory still lives that is a view; forgets those that are gone."""
    prune(cell)
    return bool(cell[LIVE])
