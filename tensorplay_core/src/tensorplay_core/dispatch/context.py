"""The context of a call: one immutable value in a ContextVar.

Everything that a ``with`` block can change about dispatch is a field of :class:`State`. A new thread starts with the
defaults, an asyncio task with a copy, and leaving a scope restores what was there before it, whatever was raised.

A state is counted in :mod:`active` from the moment its scope is entered until nothing refers to it any more: a task
that was started inside a scope keeps the state after the scope is left, and the fast path, which trusts the counters,
must know.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.keys import AUTOGRAD, FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tensorplay_core.types.dtype import DType


class Modes(NamedTuple):
    """Whose handlers see calls here.

    Attributes:
        functions: the open modes of public functions, the innermost last.
        operators: the open modes of operators, which the Python key serves, the innermost last.
        plain: subclasses of Tensor have no say.
        off: modes of functions have none either.
    """

    functions: tuple[Any, ...] = ()
    operators: tuple[Any, ...] = ()
    plain: bool = False
    off: bool = False


NO_MODES = Modes()


class State:
    """What the context says about a call.

    Attributes:
        include: bitmap of steps added to every key set.
        exclude: bitmap of steps removed from every key set.
        grad: whether gradients are recorded.
        inference: whether inference mode is on.
        autocast: device type to the dtype that autocast lowers to there; a device that is not in it is off, and None is
            off everywhere.
        probe: called around every step of a call when a profiler is open, else None.
        packing: the hooks ``(pack, unpack)`` for what nodes save; a message where such hooks are refused, None without.
        modes: whose handlers see calls.
        beneath: the state that the scope was entered in; None for the default.
        left: whether the scope was left while another one, entered later, was still open.
        floating: set by a mere call (``set_grad_enabled``), so that leaving an enclosing scope ends it too.
        settled: floating, and nobody is left who could leave it; the next such state replaces it.
    """

    __slots__ = (
        "_holds",
        "autocast",
        "beneath",
        "exclude",
        "floating",
        "grad",
        "include",
        "inference",
        "left",
        "modes",
        "packing",
        "probe",
        "settled",
    )

    def __init__(
        self,
        include: int = 0,
        exclude: int = 0,
        grad: bool = True,
        inference: bool = False,
        probe: Callable[..., Any] | None = None,
        autocast: Mapping[str, DType] | None = None,
        packing: tuple[Callable[..., Any], Callable[..., Any]] | str | None = None,
        modes: Modes = NO_MODES,
    ) -> None:
        """See the class."""
        self.include = include
        self.exclude = exclude
        self.grad = grad
        self.inference = inference
        self.probe = probe
        self.autocast = autocast
        self.packing = packing
        self.modes = modes
        self.beneath: State | None = None
        self.left = False
        self.floating = False
        self.settled = False
        self._holds: tuple[bool, bool, bool] | None = None

    def replace(self, **changes: Any) -> State:
        """Returns a copy with some fields changed."""
        get = changes.get
        return State(
            get("include", self.include),
            get("exclude", self.exclude),
            get("grad", self.grad),
            get("inference", self.inference),
            get("probe", self.probe),
            get("autocast", self.autocast),
            get("packing", self.packing),
            get("modes", self.modes),
        )

    def autocasts(self, device_type: str) -> bool:
        """Whether Autocast joins the keys of calls on a device: it is on there, and no layer above has excluded it."""
        return self.autocast is not None and device_type in self.autocast and not self.exclude & FAMILIES["Autocast"]

    def hold(self, beneath: State) -> None:
        """Counts in :mod:`active` for as long as anything refers to this state: a scope, or a task that copied it."""
        self.beneath = beneath
        special = bool(self.include or self.exclude & ~AUTOGRAD or self.autocast) or self.probe is not None
        special = special or self.packing.__class__ is tuple or bool(self.modes.functions or self.modes.operators)
        self._holds = (special, not self.grad, self.inference)
        active.add(self._holds, 1)

    def settle(self) -> None:
        """Lets a floating state go on without anybody who could leave it; of several such only the last is kept."""
        self.settled = self.floating
        while self.settled and self.beneath is not None and self.beneath.settled:
            self.beneath = self.beneath.beneath

    def __del__(self) -> None:
        """Counts down with the last reference."""
        if self._holds is not None:
            active.add(self._holds, -1)

    def __eq__(self, other: object) -> bool:
        """Whether every field is the same."""
        return isinstance(other, State) and all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    def __hash__(self) -> int:
        """Hashes by the bitmaps and flags."""
        return hash((self.include, self.exclude, self.grad, self.inference))


_FIELDS = ("autocast", "exclude", "grad", "include", "inference", "modes", "packing", "probe")
_DEFAULT = State()
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
        self._entered: dict[int, State] = {}  # by identity, so that each context takes out its own

    def _enter(self, previous: State) -> State:
        return previous.replace(**self._changes)

    def _own(self) -> State:
        """Returns what this context has entered last through this object; where that is nothing, the last of all."""
        state: State | None = STATE.get()
        while state is not None:
            if id(state) in self._entered:
                return state
            state = state.beneath
        return next(reversed(self._entered.values()))

    def __enter__(self) -> Self:
        """Changes the state."""
        previous = STATE.get()
        state = self._enter(previous)
        state.hold(previous)
        STATE.set(state)
        self._entered[id(state)] = state
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores what was there before.

        Scopes of two generators can be left in the order in which they were entered, or in another context than they
        were entered in (where a token's reset would be refused). The one that is left out of turn is only marked, and
        passed over when the one above it is left, so that neither leaves anything behind. Several threads and tasks can
        be inside one object, and each leaves what it has entered itself.
        """
        top = STATE.get()
        state = self._entered.pop(id(top), None)
        if state is None:
            state = self._own()
            del self._entered[id(state)]
        while top.floating and top is not state and top.beneath is not None:
            top = top.beneath
        if top is not state:
            state.left = True
            return
        beneath = state.beneath
        while beneath is not None and beneath.left and beneath.beneath is not None:
            beneath = beneath.beneath
        assert beneath is not None
        STATE.set(beneath)


def set_from_now_on(**changes: Any) -> None:
    """Changes fields of the state until the end of the block that is open, or for as long as the context lasts."""
    scope = Scope(**changes)
    scope.__enter__()
    state = STATE.get()
    state.floating = True
    state.settle()


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


class ModesScope(Scope):
    """A scope in which some fields of :class:`Modes` are changed."""

    __slots__ = ()

    def _enter(self, previous: State) -> State:
        return previous.replace(modes=previous.modes._replace(**self._changes))
