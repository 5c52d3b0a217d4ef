"""Where tangents live: what forward mode knows of the tensors of an open dual level.

A level maps a tensor to its tangent by identity and holds the tensor weakly, so a tensor has no slot for it, and
closing the level is all that it takes to free every tangent. While no level is open :mod:`active` counts none, and
nobody looks here.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch import active, wrapped
from tensorplay_core.dispatch.wrapped import INNERMOST
from tensorplay_core.tensor.tensor import wrap
from tensorplay_core.tensor.views import SEVERAL, taken
from tensorplay_core.tensor.wrappers import is_of

if TYPE_CHECKING:
    from tensorplay_core.autograd.node import Node
    from tensorplay_core.tensor.tensor import Tensor, TensorBase

    Replay = Callable[[Tensor], Tensor]
    """Takes the view of a tensor that another one is of its base."""


view_of: Callable[..., Any] | None = None
"""Takes a view of a tangent: set by the floor that can call an operator, before any tensor can have one to view."""


class Level:
    """One ``with dual_level()``: its tensors and their tangents.

    It counts in :mod:`active` until it is closed, or until nobody can close it any more: a context that was left with
    the level open, such as that of a thread which has ended.
    """

    __slots__ = (
        "__weakref__", "_results", "_tangents", "_views", "around", "open", "outer", "outer_enabled", "wraps",
    )  # fmt: skip

    def __init__(
        self, outer: Level | None = None, outer_enabled: bool = True, wraps: wrapped.Level | None = None
    ) -> None:
        """Opens a level.

        Args:
            outer: the level of which tangents have tangents in their turn, where levels nest.
            outer_enabled: whether calls give their results tangents of that level.
            wraps: the level of the wrappers that have the tangents; None where plain tensors have.
        """
        self.outer, self.outer_enabled, self.wraps = outer, outer_enabled, wraps
        self.around = INNERMOST.get()
        self.open = True
        self._tangents: dict[int, tuple[weakref.ref[TensorBase], Tensor | None]] = {}
        self._views: dict[int, tuple[weakref.ref[TensorBase], Tensor, Replay]] = {}
        self._results: weakref.WeakKeyDictionary[Node, tuple[Tensor | None, ...]] = weakref.WeakKeyDictionary()
        active.count_level(1)

    def close(self) -> None:
        """Forgets every tangent; the tensors are plain from now on."""
        if self.open:
            self.open = False
            self._tangents.clear()
            self._views.clear()
            self._results.clear()
            active.count_level(-1)

    def __del__(self) -> None:
        """Counts down with the last reference."""
        self.close()

    def tangent_of(self, tensor: TensorBase) -> Tensor | None:
        """Returns a tensor's tangent; that of a view whose base was given one later is the view of it."""
        known = self._tangents.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        base = self.base_of(tensor)
        whole = None if base is None else self.tangent_of(base)
        if base is None or whole is None:
            return None
        with suspended():
            tangent = self._same_view(tensor, base, whole)
        self.set(tensor, tangent)
        return tangent

    def _same_view(self, tensor: TensorBase, base: TensorBase, whole: Tensor) -> Tensor:
        view = self._views.get(id(tensor))
        if view is not None and view[0]() is tensor:
            return view[2](whole)
        how = taken(tensor)
        assert how is not None and view_of is not None  # it has a base, and that has a tangent
        found: Tensor = view_of(how.op, whole, (base, *how.args), how.kwargs)
        return found

    def set(self, tensor: TensorBase, tangent: Tensor) -> None:
        """Gives a tensor a tangent, in the place of the one that it had."""
        tangent = self._below(tangent)
        self._tangents[id(tensor)] = (_weakly(tensor, self._tangents), tangent)

    def drop(self, tensor: TensorBase) -> None:
        """Makes a tensor plain; a view of a dual tensor too, which is another tensor's memory without its tangent."""
        self._tangents[id(tensor)] = (_weakly(tensor, self._tangents), None)

    def _below(self, tangent: Any) -> Any:
        """Returns a tangent as it is around the level: a rule that was given wrappers returns one."""
        if self.wraps is not None and is_of(self.wraps, tangent):
            return tangent._array.tensor
        return tangent

    def write(self, tensor: TensorBase, tangent: Tensor) -> None:
        """Gives a wrapper's tangent, and those of its base and of the base's views, what was written to the wrapper.

        No memory is shared with the tangents before: they may belong to levels that have no room for the new one.
        """
        root = self.root_of(tensor)
        whole: Any = self.tangent_of(root)
        whole = root.new_zeros(root.shape) if whole is None else whole.clone()

        def part(one: TensorBase) -> Any:
            if one is root:
                return whole
            base = self.base_of(one)
            assert base is not None
            return self._same_view(one, base, part(base))

        part(tensor).copy_(self._below(tangent))
        for reference, *_ in [*self._views.values()]:
            view = reference()
            if view is not None and not self.is_plain(view) and self.root_of(view) is root:
                self._tangents.pop(id(view), None)
        self.set(root, whole)

    def root_of(self, tensor: Any) -> Any:
        """Returns the tensor at the end of a chain of views, or the first on the way that was made plain."""
        while not self.is_plain(tensor) and (base := self.base_of(tensor)) is not None:
            tensor = base
        return tensor

    def is_plain(self, tensor: TensorBase) -> bool:
        """Whether a tensor was made plain, so that the tangent of what it is a view of is not its own."""
        known = self._tangents.get(id(tensor))
        return known is not None and known[0]() is tensor and known[1] is None

    def remember(self, view: TensorBase, base: Tensor, replay: Replay) -> None:
        """Notes that a tensor is a view of another, whose tangents must share memory too."""
        self._views[id(view)] = (_weakly(view, self._views), base, replay)

    def keep_results(self, node: Node, tangents: tuple[Tensor | None, ...]) -> None:
        """Notes the tangents of the results of a node's call, which it did not know when it saved them."""
        self._results[node] = tangents

    def result_of(self, node: Node, name: str) -> Tensor | None:
        """Returns the tangent of a result that its own node has saved, by the result's name."""
        results = self._results.get(node, ())
        names = node.op.schema.return_names if node.op is not None else ()
        index = names.index(name) if name in names else 0
        return results[index] if index < len(results) else None

    def base_of(self, tensor: TensorBase) -> TensorBase | None:
        """Returns the tensor that another is a view of, also of one that was taken before the level was opened."""
        view = self._views.get(id(tensor))
        if view is not None and view[0]() is tensor:
            return view[1]
        how = taken(tensor)
        return None if how is None or how.restricted == SEVERAL else how.base


def _weakly(tensor: TensorBase, entries: dict[int, Any]) -> weakref.ref[TensorBase]:
    """Returns a weak reference that takes the tensor's entry away when the tensor goes."""
    number = id(tensor)

    def forget(reference: weakref.ref[TensorBase]) -> None:
        if number in entries and entries[number][0] is reference:
            del entries[number]

    return weakref.ref(tensor, forget)


_LEVEL: ContextVar[Level | None] = ContextVar("tensorplay_dual_level", default=None)
_SUSPENDED: ContextVar[bool] = ContextVar("tensorplay_dual_suspended", default=False)


def open_level() -> Level | None:
    """Returns the level that is open in this context."""
    level = _LEVEL.get()
    return level if level is not None and level.open else None


def current() -> Level | None:
    """Returns the level in which calls give their results tangents; None also while tangents are computed."""
    return None if _SUSPENDED.get() else open_level()


def enter(level: Level | None) -> None:
    """Makes a level, or none, the one of this context."""
    _LEVEL.set(level)


def enabled() -> bool:
    """Whether calls give their results tangents where a level is open."""
    return not _SUSPENDED.get()


def enable(on: bool) -> None:
    """Sets whether they do."""
    _SUSPENDED.set(not on)


@contextmanager
def suspended() -> Iterator[None]:
    """Within it calls see no tangents of the open level: what computes them is written in operators as well.

    They do see those of the level around it.
    """
    level = open_level()
    around = INNERMOST.set(None if level is None else level.around)
    nests = level is not None and level.outer is not None and not _SUSPENDED.get()
    into = _LEVEL.set(level.outer if level is not None and nests else level)
    off = _SUSPENDED.set(not (level is not None and nests and level.outer_enabled))
    try:
        yield
    finally:
        _SUSPENDED.reset(off)
        _LEVEL.reset(into)
        INNERMOST.reset(around)


def same_layout(tangent: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors of one shape have the same strides, where those matter."""
    pairs = zip(tensor.shape, tangent.stride(), tensor.stride(), strict=True)
    return 0 in tensor.shape or all(one == other for size, one, other in pairs if size > 1)


def laid_out_as(tensor: Tensor, tangent: Tensor) -> Tensor:
    """Returns a copy of a tangent with the strides of its tensor; of wrappers, which have none of their own, a copy."""
    if tensor._type.wraps or tangent._type.wraps:
        return tangent.clone()
    copy = wrap(tensor._type.api.copy(tensor._array), tangent._type.plain)
    return copy.copy_(tangent)


def tangent_of(tensor: TensorBase) -> Tensor | None:
    """Returns a tensor's tangent in the open level, None where there is no such thing."""
    level = current()
    return None if level is None else level.tangent_of(tensor)


def forget(tensor: TensorBase) -> None:
    """Makes a tensor plain."""
    level = current()
    if level is not None:
        level.drop(tensor)


def carry(tensor: TensorBase, other: TensorBase) -> None:
    """Gives another tensor of the same value the tangent of the first, if it has one."""
    level = current()
    if level is not None and (tangent := level.tangent_of(tensor)) is not None:
        level.set(other, tangent)


def carry_copy(tensor: TensorBase, other: TensorBase) -> None:
    """Gives a copy of a tensor a copy of its tangent, because a write to the tensor will write to that too."""
    level = current()
    if level is not None and (tangent := level.tangent_of(tensor)) is not None:
        with suspended():
            level.set(other, tangent.clone())


def witness(tensor: TensorBase) -> TensorBase | None:
    """Returns another tensor that has a tensor's tangent, for as long as somebody keeps it; None if it has none."""
    level = current()
    tangent = None if level is None else level.tangent_of(tensor)
    if level is None or tangent is None:
        return None
    other = wrap(tensor._array, tensor._type)
    level.set(other, tangent)
    return other


def carry_result(node: Node, name: str, tensor: TensorBase) -> None:
    """Gives a result that its own node has saved, and unpacked, its tangent."""
    level = current()
    tangent = None if level is None else level.result_of(node, name)
    if level is not None and tangent is not None:
        level.set(tensor, tangent)
