"""The profiler itself: a scope whose probe the dispatcher asks around every step.

While one is open anywhere, calls take the slow path, so times are those of the readable dispatcher: good for what ran
and where the time goes, not for the cost of a single fast call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from time import perf_counter
from types import MappingProxyType, TracebackType
from typing import Any, Self

from tensorplay_core.dispatch import active, devices
from tensorplay_core.dispatch.context import STATE, Scope
from tensorplay_core.dispatch.keys import BACKENDS, PAGE
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.resolution import Step
from tensorplay_core.profiler.averages import Averages
from tensorplay_core.profiler.events import Event, shapes_of, step_event

_running: ContextVar[Mapping[profile, Event]] = ContextVar("tensorplay_profiled", default=MappingProxyType({}))
"""The event that runs in this context, for each open profiler."""


class Entered:
    """The scopes that one context manager has entered and not left: of each thread the last one is left first.

    A block in a generator can be left by another thread than entered it, which closes the generator or frees it.
    """

    __slots__ = ("_lock", "_open")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[tuple[int, Scope]] = []

    def enter(self, scope: Scope) -> None:
        """Enters a scope."""
        scope.__enter__()
        with self._lock:
            self._open.append((threading.get_ident(), scope))

    def leave(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leaves the scope that this thread entered last, or where it entered none, the last of all."""
        thread = threading.get_ident()
        with self._lock:
            own = [i for i, (owner, _) in enumerate(self._open) if owner == thread]
            _, scope = self._open.pop(own[-1] if own else -1)
        scope.__exit__(kind, error, trace)


class profile:
    """Records every step of every call made in its block, in this thread and in contexts copied from it.

    Args:
        record_shapes: also keep the shapes of the tensor arguments.
        synchronize: wait for the device after each backend kernel. Without it the times on a device that works in the
            background are those of starting its kernels.

    Attributes:
        events: the steps in the order in which they began; redispatched steps and inner calls lie one deeper.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.ones(3, requires_grad=True)
        >>> with tp.profiler.profile() as p:
        ...     y = x * 2
        >>> [(event.depth, event.op, event.key) for event in p.events]
        [(0, 'mul', 'AutogradCPU'), (1, 'mul', 'CPU')]
        >>> p.key_averages()["mul"].calls
        1
    """

    def __init__(self, record_shapes: bool = False, *, synchronize: bool = False) -> None:
        self.record_shapes = record_shapes
        self.synchronize = synchronize
        self.events: list[Event] = []
        self._lock = threading.Lock()
        self._entered = Entered()

    def __enter__(self) -> Self:
        """Starts recording; entered again, it goes on with the same events."""
        self._entered.enter(Scope(probe=_Probe(self, STATE.get().probe)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops recording and restores the state, whatever was raised."""
        self._entered.leave(kind, error, trace)

    def key_averages(self) -> Averages:
        """Returns one row per operator: calls, time of its own and in all."""
        return Averages(tuple(self.events))

    def as_dict(self) -> dict[str, Any]:
        """Returns events and averages as plain values."""
        return {
            "events": [event.as_dict() for event in self.events],
            "averages": list(self.key_averages().as_dict().values()),
        }

    def __str__(self) -> str:
        return self.key_averages().table()


class _Probe:
    """What the context state holds while a profiler is open; asks the one around it too, so profilers nest."""

    __slots__ = ("outer", "owner")

    def __init__(self, owner: profile, outer: Callable[..., Any] | None) -> None:
        self.owner = owner
        self.outer = outer

    def __call__(
        self, op: Operator, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any]:
        """Returns the scope of a step."""
        owner = self.owner
        event = step_event(op, step, kwargs, _running.get().get(owner))
        if owner.record_shapes:
            event.shapes = shapes_of((*args, *kwargs.values()))
        wait = _synchronizer(args, kwargs) if owner.synchronize and step.key % PAGE < BACKENDS else None
        around = self.outer(op, step, args, kwargs) if self.outer is not None else None
        return _Recording(owner, event, around, wait)

    def block(self, name: str) -> AbstractContextManager[Any]:
        """Returns the scope of a named block."""
        event = Event(name, _running.get().get(self.owner))
        block = getattr(self.outer, "block", None)
        return _Recording(self.owner, event, block(name) if block is not None else None, None)


class _Recording:
    """The scope of one event."""

    __slots__ = ("around", "event", "owner", "previous", "start", "wait")

    def __init__(
        self, owner: profile, event: Event, around: AbstractContextManager[Any] | None, wait: Callable[[], None] | None
    ) -> None:
        self.owner = owner
        self.event = event
        self.around = around
        self.wait = wait

    def __enter__(self) -> Event:
        if self.around is not None:
            self.around.__enter__()
        with self.owner._lock:
            self.owner.events.append(self.event)
        self.previous = _running.get()
        _running.set({**self.previous, self.owner: self.event})
        self.start = perf_counter()
        return self.event

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.wait is not None and kind is None:
                self.wait()
        finally:
            event = self.event
            event.seconds = perf_counter() - self.start
            event.error = kind.__name__ if kind is not None else ""
            _running.set(self.previous)
            if event.parent is not None:
                with self.owner._lock:
                    event.parent.inner_seconds += event.seconds
            if self.around is not None:
                self.around.__exit__(kind, error, trace)


def _synchronizer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None]:
    """Returns what waits for the device of a call."""
    device = next((value.device for value in args if hasattr(value, "_type")), None) or kwargs.get("device")
    device = devices.normalize(device if device is not None else devices.default_device())
    entry = devices.entry(device.type)
    return lambda: entry.api.synchronize(device.index or 0)


class record_function:
    """Puts a named block of a program into the profile and the trace that are open, if one is.

    Example:
        >>> import tensorplay as tp
        >>> with tp.profiler.profile() as p, tp.profiler.record_function("twice"):
        ...     y = tp.ones(2) * 2
        >>> [(event.depth, event.op) for event in p.events if event.depth < 2][0]
        (0, 'twice')
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._open: list[ExitStack] = []

    def __enter__(self) -> Self:
        """Begins the block."""
        scopes = ExitStack()
        for probe in (active.probe, STATE.get().probe):
            if (block := getattr(probe, "block", None)) is not None:
                scopes.enter_context(block(self.name))
        self._open.append(scopes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the block."""
        self._open.pop().__exit__(kind, error, trace)
