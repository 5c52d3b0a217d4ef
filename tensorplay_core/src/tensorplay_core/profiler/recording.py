"""The probe of a profiler, and the scopes in which events are recorded.

Which event encloses another is known from a context variable, so that threads and tasks have a nesting of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from time import perf_counter
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.keys import BACKENDS, PAGE
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.resolution import Step
from tensorplay_core.profiler.events import Event, shapes_of, stack_here, step_event

if TYPE_CHECKING:
    from tensorplay_core.profiler.session import profile

running: ContextVar[Mapping[profile, Event]] = ContextVar("tensorplay_profiled", default=MappingProxyType({}))
"""The event that runs in this context, for each open profiler."""


class Probe:
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
        around = self.outer(op, step, args, kwargs) if self.outer is not None else None
        if not owner.recording:
            return around if around is not None else nullcontext()
        event = step_event(op, step, kwargs, running.get().get(owner))
        backend = step.key % PAGE < BACKENDS
        if owner.record_shapes:
            event.shapes = shapes_of((*args, *kwargs.values()))
        wait = _synchronizer(args, kwargs) if owner.synchronize and backend else None
        return Recording(owner, event, around, wait, backend and owner.profile_memory)

    def block(self, name: str) -> AbstractContextManager[Any]:
        """Returns the scope of a named block."""
        return self._beside("block", name, name)

    def node(self, node: Any) -> AbstractContextManager[Any]:
        """Returns the scope of a node of a backward pass."""
        return self._beside("node", node.name, node)

    def print(self, text: str) -> None:
        """Passes an event beside calls on to a trace around it."""
        if (outer := getattr(self.outer, "print", None)) is not None:
            outer(text)

    def _beside(self, kind: str, name: str, what: Any) -> AbstractContextManager[Any]:
        outer = getattr(self.outer, kind, None)
        around = outer(what) if outer is not None else None
        if not self.owner.recording:
            return around if around is not None else nullcontext()
        event = Event(name, running.get().get(self.owner), kind)
        if kind == "node":
            event.sequence = -what.number
        return Recording(self.owner, event, around)


class Recording:
    """The scope of one event."""

    __slots__ = ("around", "event", "measures", "owner", "previous", "wait")

    def __init__(
        self,
        owner: profile,
        event: Event,
        around: AbstractContextManager[Any] | None,
        wait: Callable[[], None] | None = None,
        measures: bool = False,
    ) -> None:
        self.owner = owner
        self.event = event
        self.around = around
        self.wait = wait
        self.measures = measures

    def __enter__(self) -> Event:
        if self.around is not None:
            self.around.__enter__()
        event, owner = self.event, self.owner
        event.thread = owner.thread_number()
        if owner.with_stack:
            event.stack = stack_here()
        with owner._lock:
            owner.events.append(event)
        self.previous = running.get()
        running.set({**self.previous, owner: event})
        event.start = perf_counter()
        return event

    def returned(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Takes what a step has returned."""
        if self.measures:
            self.event.allocated = self.owner.memory.allocated(result, args, kwargs)
        if (outer := getattr(self.around, "returned", None)) is not None:
            outer(result, args, kwargs)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.wait is not None and kind is None:
                self.wait()
        finally:
            event = self.event
            event.seconds = perf_counter() - event.start
            event.error = kind.__name__ if kind is not None else ""
            running.set(self.previous)
            if event.parent is not None:
                with self.owner._lock:
                    event.parent.inner_seconds += event.seconds
            if self.around is not None:
                self.around.__exit__(kind, error, trace)


def recorded(node: Any) -> None:
    """Notes which step has recorded a node, so that the two can be shown together."""
    for event in running.get().values():
        if event.key.startswith("Autograd"):
            event.sequence = -node.number


def thread_name() -> str:
    """Returns the name of the thread that runs."""
    return threading.current_thread().name


def _synchronizer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None]:
    """Returns what waits for the device of a call."""
    device = next((value.device for value in args if hasattr(value, "_type")), None) or kwargs.get("device")
    device = devices.normalize(device if device is not None else devices.default_device())
    entry = devices.entry(device.type)
    return lambda: entry.api.synchronize(device.index or 0)
