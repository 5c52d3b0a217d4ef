"""The profiler itself: a scope whose probe the dispatcher asks around every step.

While one is open anywhere, calls take the slow path, so times are those of the readable dispatcher: good for what ran
and where the time goes, not for the cost of a single fast call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import Scope, State
from tensorplay_core.errors import ArgumentError, BackendError, fix
from tensorplay_core.profiler import chrome, watching
from tensorplay_core.profiler.averages import Averages
from tensorplay_core.profiler.events import Event
from tensorplay_core.profiler.memory import Memory
from tensorplay_core.profiler.recording import Probe, recorded, thread_name
from tensorplay_core.profiler.schedule import ProfilerAction, ProfilerActivity, Schedule

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile(Scope):
    """Records every step of every call made in its block, in this thread and in contexts copied from it.

    Args:
        activities: accepted as PyTorch does, and checked: members of :class:`ProfilerActivity`. Whatever they are, the
            calls on all devices are recorded, with the times of the host; see ``synchronize``.
        record_shapes: also keep the shapes of the tensor arguments.
        profile_memory: also measure the memory of results: see :mod:`tensorplay_core.profiler.memory`.
        with_stack: also keep where the program has made each call.
        schedule: which steps of the program are recorded, as :func:`schedule` gives it; the program says with
            :meth:`step` where they end. Everything when None.
        on_trace_ready: called with the profiler when a cycle of the schedule has been recorded, and at the end of the
            block if something is being recorded then.
        synchronize: wait for the device after each backend kernel. Without it the times on a device that works in the
            background are those of starting its kernels.
        all_threads: record all threads and tasks of the process, those too that do not come from this context.

    Attributes:
        events: what was recorded, in the order in which it began; redispatched steps, inner calls and what a node of a
            backward pass calls lie one deeper. With a schedule those of the last cycle.
        memory: what was measured of memory.
        threads: the names of the threads, in the order of their numbers, which begin at 1.
        step_num: how often :meth:`step` was called.

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

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        *,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        schedule: Schedule | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        synchronize: bool = False,
        all_threads: bool = False,
    ) -> None:
        if activities is not None:
            _check_activities(activities)
        flags = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "synchronize": synchronize,
            "all_threads": all_threads,
        }
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise ArgumentError(
                    f"profile: {name} is True or False, not {flag!r}" + fix("write bool(...) around it.")
                )
        for name, function in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if function is not None and not callable(function):
                raise ArgumentError(
                    f"profile: {name} is a function, not {function!r}"
                    + fix("pass tp.profiler.schedule(...), or a function of the profiler for on_trace_ready.")
                )
        super().__init__()
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.synchronize = synchronize
        self.all_threads = all_threads
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.events: list[Event] = []
        self.memory = Memory()
        self.recording = True
        self.threads: list[str] = []
        self._threads: dict[int, tuple[int, str]] = {}
        self._schedule = schedule
        self._action = ProfilerAction.RECORD
        self._lock = threading.Lock()
        self._everywhere: list[Probe] = []
        self._block: ExitStack | None = None

    def _enter(self, previous: State) -> State:
        if self.all_threads or self._is_asked(previous.probe):
            return previous.replace()
        return previous.replace(probe=Probe(self, previous.probe))

    def _is_asked(self, probe: Any) -> bool:
        """Whether this profiler is among the probes of a context."""
        while probe is not None and getattr(probe, "owner", None) is not self:
            probe = getattr(probe, "outer", None)
        return probe is not None

    def __enter__(self) -> Self:
        """Starts recording; inside of its own block that changes nothing, and a block after it adds to the same events.

        With a schedule, such a block begins with the step that comes next, and new events.
        """
        first = not self._entered
        action = self._planned() if first else self._action  # first, because it may raise
        if self.all_threads and first:
            probe = Probe(self, None)
            self._everywhere.append(probe)
            watching.watch_everywhere(True, probe)
        watching.watch(True)
        active.watch_nodes(True, recorded)
        super().__enter__()
        if self._schedule is not None and first:
            self._begin(action)
            self._open_step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops recording and restores the state, whatever was raised; then tells ``on_trace_ready``."""
        last = len(self._entered) == 1
        try:
            if last:
                self._close_step(kind, error, trace)
        finally:
            super().__exit__(kind, error, trace)
            active.watch_nodes(False, recorded)
            watching.watch(False)
            if last:
                if self._everywhere:
                    watching.watch_everywhere(False, self._everywhere.pop())
                self.memory.stop()
        if last and self.on_trace_ready is not None and self._action in _RECORDING:
            self.on_trace_ready(self)

    def start(self) -> None:
        """Begins what a ``with`` block begins, for a program that has none."""
        self.__enter__()

    def stop(self) -> None:
        """Ends what :meth:`start` began.

        Raises:
            BackendError: the profiler is not open.
        """
        self._check_open("stop")
        self.__exit__(None, None, None)

    def _check_open(self, method: str) -> None:
        if not self._entered:
            raise BackendError(
                f"profile.{method}: the profiler is not open"
                + fix(f"call {method}() inside its with block, or after start().")
            )

    # ------------------------------------------------------------------------------------------------------- the steps

    def step(self) -> None:
        """Says that a step of the program has ended, so that the schedule decides about the next one.

        Raises:
            BackendError: the profiler is not open.
        """
        self._check_open("step")
        self.step_num += 1
        if self._schedule is None:
            return
        self._close_step(None, None, None)
        before, action = self._action, self._planned()
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.recording, self._action = False, ProfilerAction.NONE  # before it may raise
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if before is not ProfilerAction.RECORD or action not in _RECORDING:
            self._begin(action)
        else:
            self._action = action
        self._open_step()

    def _planned(self) -> ProfilerAction:
        action = self._schedule(self.step_num) if self._schedule is not None else ProfilerAction.RECORD
        if not isinstance(action, ProfilerAction):
            raise ArgumentError(
                f"profile: the schedule returned {action!r} for step {self.step_num}"
                + fix("return a member of tp.profiler.ProfilerAction.")
            )
        return action

    def _begin(self, action: ProfilerAction) -> None:
        """Changes what is done; what was recorded so far goes when something new is recorded."""
        self._action = action
        self.recording = action is not ProfilerAction.NONE
        if self.recording:
            with self._lock:
                self.events = []
            self.memory.stop()
            self.memory = Memory()

    def _open_step(self) -> None:
        if self.recording:
            self._block = watching.scopes([Probe(self, None).block], f"ProfilerStep#{self.step_num}")

    def _close_step(self, *raised: Any) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(*raised)

    # ----------------------------------------------------------------------------------------------- what was recorded

    def thread_number(self) -> int:
        """Returns the number of the thread that runs, from 1 in the order in which they were seen."""
        identifier, name = threading.get_ident(), thread_name()
        known = self._threads.get(identifier)
        if known is None or known[1] != name:  # an identifier is given again when its thread has ended
            with self._lock:
                self.threads.append(name)
                known = self._threads[identifier] = (len(self.threads), name)
        return known[0]

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """Returns one row per operator: calls, time of its own and in all.

        Args:
            group_by_input_shape: a row for each operator and shapes of its tensors, which must have been recorded.
            group_by_stack_n: a row for each operator and that many of the innermost frames of the program, which must
                have been recorded.

        Raises:
            ArgumentError: they were not recorded.
        """
        for wanted, has, name in (
            (group_by_input_shape, self.record_shapes, "record_shapes"),
            (group_by_stack_n, self.with_stack, "with_stack"),
        ):
            if wanted and not has:
                what = "group_by_input_shape" if name == "record_shapes" else "group_by_stack_n"
                raise ArgumentError(
                    f"key_averages: {what} needs what was not recorded" + fix(f"open profile({name}=True).")
                )
        return Averages(tuple(self.events), group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes what was recorded as Chrome's trace events, which https://ui.perfetto.dev opens.

        Args:
            path: the file; one that ends in ``.gz`` is compressed.
        """
        chrome.write(path, self.events, self.threads, self.memory, perf_counter())

    def as_dict(self) -> dict[str, Any]:
        """Returns events and averages as plain values."""
        return {
            "events": [event.as_dict() for event in self.events],
            "averages": list(self.key_averages().as_dict().values()),
        }

    def __str__(self) -> str:
        return self.key_averages().table()


def _check_activities(activities: Any) -> None:
    """Refuses what is no iterable of activities.

    Raises:
        ArgumentError: it is none.
    """
    given = list(activities) if isinstance(activities, Iterable) and not isinstance(activities, str) else [activities]
    for one in given:
        if not isinstance(one, ProfilerActivity):
            raise ArgumentError(
                f"profile: activities are members of ProfilerActivity, and {one!r} is none"
                + fix("leave them away: all calls are recorded; everything else goes by name, as record_shapes=True.")
            )
