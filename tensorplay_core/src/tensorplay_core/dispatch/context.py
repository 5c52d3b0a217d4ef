"""The context of a call: one immutable value in a ContextVar.

Everything that a ``with`` block can change about dispatch is a field of :class:`State`. A new thread starts with the
defaults, an asyncio task with a copy, and leaving a scope restores what was there before it, whatever was raised.

A state has effect exactly as long as the scope that made it is open, and counted in :mod:`active`. Where another context
still holds it then (a task that was started inside the scope, a generator that is closed late), it turns into the state
beneath: otherwise the slow path, which reads states, and the fast path, which trusts the counters, would disagree.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.keys import AUTOGRAD

if TYPE_CHECKING:
    from collections.abc import Callable


class State:
    """What the context says about a call.

    Attributes:
        include: bitmap of steps added to every key set.
        exclude: bitmap of steps removed from every key set.
        grad: whether gradients are recorded.
        inference: whether inference mode is on.
        probe: called around every step of a call when a profiler is open, else None.
    """

    __slots__ = ("_heirs", "exclude", "grad", "include", "inference", "probe")

    def __init__(
        self,
        include: int = 0,
        exclude: int = 0,
        grad: bool = True,
        inference: bool = False,
        probe: Callable[..., Any] | None = None,
    ) -> None:
        """See the class."""
        self.include = include
        self.exclude = exclude
        self.grad = grad
        self.inference = inference
        self.probe = probe
        self._heirs: list[State] | None = None

    def replace(self, **changes: Any) -> State:
        """Returns a copy with some fields changed."""
        get = changes.get
        return State(
            get("include", self.include),
            get("exclude", self.exclude),
            get("grad", self.grad),
            get("inference", self.inference),
            get("probe", self.probe),
        )

    def close(self, beneath: State) -> None:
        """Turns this state into the one beneath it, for every context that still holds it: its scope has ended."""
        self.include, self.exclude, self.probe = beneath.include, beneath.exclude, beneath.probe
        self.grad, self.inference = beneath.grad, beneath.inference
        for heir in self._heirs or ():
            heir.close(self)
        if beneath is not _DEFAULT and sys.getrefcount(self) > _unshared:
            beneath._heirs = [*(beneath._heirs or ()), self]

    def __eq__(self, other: object) -> bool:
        """Whether every field is the same."""
        return isinstance(other, State) and all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    def __hash__(self) -> int:
        """Hashes by the bitmaps and flags."""
        return hash((self.include, self.exclude, self.grad, self.inference))

    @property
    def counts(self) -> tuple[bool, bool, bool]:
        """Which of the counters of :mod:`active` a scope of this state holds up."""
        special = bool(self.include or self.exclude & ~AUTOGRAD) or self.probe is not None
        return special, not self.grad, self.inference


_FIELDS = ("exclude", "grad", "include", "inference", "probe")
_DEFAULT = State()
_unshared = 0
"""References to a state that no other context holds, as :meth:`State.close` counts them; measured below."""
STATE: ContextVar[State] = ContextVar("tensorplay_state", default=_DEFAULT)


class Scope:
    """A ``with`` block in which some fields of the state are changed; can be entered again and nested.

    Example:
        >>> with Scope(grad=False):
        ...     STATE.get().grad
        False
        >>> STATE.get().grad
        True
    """

    __slots__ = ("_changes", "_entered")

    def __init__(self, **changes: Any) -> None:
        """See the class."""
        self._changes = changes
        self._entered: list[tuple[State, State]] = []

    def _enter(self, previous: State) -> State:
        return previous.replace(**self._changes)

    def __enter__(self) -> Self:
        """Changes the state."""
        previous = STATE.get()
        state = self._enter(previous)
        active.add(state.counts, 1)
        STATE.set(state)
        self._entered.append((previous, state))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores what was there before."""
        previous, state = self._entered.pop()
        counts = state.counts
        # Not a token's reset: that is refused when a generator is closed in another context than it ran in.
        STATE.set(previous)
        state.close(previous)
        active.add(counts, -1)


class exclude(Scope):
    """A scope without some steps; excluding Autograd also sets what ``no_grad`` sets."""

    __slots__ = ()

    def __init__(self, bits: int) -> None:
        """See the class."""
        super().__init__(exclude=bits)

    def _enter(self, previous: State) -> State:
        bits = self._changes["exclude"]
        grad = previous.grad and not bits & AUTOGRAD
        return previous.replace(exclude=previous.exclude | bits, grad=grad)


class include(Scope):
    """A scope in which some steps join every key set."""

    __slots__ = ()

    def __init__(self, bits: int) -> None:
        """See the class."""
        super().__init__(include=bits)

    def _enter(self, previous: State) -> State:
        return previous.replace(include=previous.include | self._changes["include"])


def _count_references() -> int:
    """Returns how many references a closing state has of itself; versions of Python differ."""
    counted: list[int] = []

    class Probe(State):
        __slots__ = ()

        def close(self, beneath: State) -> None:
            counted.append(sys.getrefcount(self))

    class Once(Scope):
        __slots__ = ()

        def _enter(self, previous: State) -> State:
            return Probe()

    with Once():
        pass
    return counted[0]


_unshared = _count_references()
