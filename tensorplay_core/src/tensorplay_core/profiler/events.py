"""One recorded event, and which kernel a step really runs.

The kernel at the key of a call is not always what serves it: an array kernel that does not take a changed keyword
leaves the call to Composite. The profiler, the trace and ``tp.explain`` all ask the same function, so they cannot
disagree.
"""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

from tensorplay_core.dispatch.fallbacks import HOST, serving
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, key_name
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.resolution import Step

Shapes = tuple[tuple[int, ...], ...]


def kernel_label(kernel: Registration) -> str:
    """Returns a kernel's name without its module, unless it is compiled or emitted, and so has no text of its own."""
    name = kernel.kernel_name
    written = hasattr(kernel.function, "__code__") and not kernel.emitted
    match = re.search(r"[^.()]+(\(.*\))?$", name) if written else None
    return match.group() if match else name


class Event:
    """One step of a call, a node of a backward pass, or a block of :class:`record_function`.

    Attributes:
        kind: ``step``, ``node`` or ``block``.
        depth: how many recorded events enclose it.
        op: the operator's name, the node's or the block's.
        key: the name of the dispatch key; empty for a node and a block.
        slot: the name of the table slot that served, such as ``Autograd`` or ``Composite``.
        kernel, distribution, where: what ran, whose it is, and its ``file:line``.
        fallback: ``composite`` or ``host`` where that served at a backend key, else empty.
        start: when it began, on the clock of ``time.perf_counter``.
        seconds: from its begin to its end, events inside included; 0 while it runs.
        self_seconds: ``seconds`` without those of the events inside.
        shapes: of the tensor arguments; empty unless the profiler records shapes.
        stack: where the program called it, ``file:line function``, the innermost first; empty unless asked for.
        allocated: bytes of the results that are new memory; 0 unless the profiler records memory.
        thread: the number of the thread that it ran in.
        sequence: what a node and the step that recorded it have in common; 0 where nothing was recorded.
        parent: the event that encloses it, or None.
        number: the key's number.
        error: the name of the exception that ended it, or empty.
    """

    __slots__ = (
        "allocated", "depth", "distribution", "error", "fallback", "inner_seconds", "kernel", "key", "kind", "number",
        "op", "parent", "seconds", "sequence", "shapes", "slot", "stack", "start", "thread", "where",
    )  # fmt: skip

    def __init__(self, op: str, parent: Event | None, kind: str = "step") -> None:
        self.op = op
        self.parent = parent
        self.kind = kind
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.key = self.slot = self.kernel = self.distribution = self.where = self.error = self.fallback = ""
        self.number = -1
        self.start = self.seconds = self.inner_seconds = 0.0
        self.shapes: Shapes = ()
        self.stack: tuple[str, ...] = ()
        self.allocated = self.sequence = self.thread = 0

    @property
    def self_seconds(self) -> float:
        """The time that no event inside accounts for."""
        return max(self.seconds - self.inner_seconds, 0.0)

    @property
    def continues(self) -> bool:
        """Whether this is a later step of the call that its parent is a step of, reached by redispatch."""
        parent = self.parent
        return parent is not None and parent.op == self.op and 0 <= self.number < parent.number

    def as_dict(self) -> dict[str, Any]:
        """Returns the event as plain values."""
        return {
            "kind": self.kind, "depth": self.depth, "op": self.op, "key": self.key, "slot": self.slot,
            "kernel": self.kernel, "distribution": self.distribution, "where": self.where, "fallback": self.fallback,
            "start": self.start, "seconds": self.seconds, "self_seconds": self.self_seconds,
            "shapes": [list(shape) for shape in self.shapes], "stack": list(self.stack), "allocated": self.allocated,
            "thread": self.thread, "sequence": self.sequence, "error": self.error,
        }  # fmt: skip

    def __repr__(self) -> str:
        at = f" at {self.key}: {self.kernel}" if self.key else ""
        return f"<Event {self.op}{at}, {self.seconds * 1e6:.1f} µs>"


def step_event(op: Operator, step: Step, kwargs: dict[str, Any], parent: Event | None) -> Event:
    """Returns the event of a step that is about to run."""
    event = Event(op.display_name, parent)
    slot, kernel = serving(op, step, kwargs)
    event.number, event.key = step.key, key_name(step.key)
    event.slot = slot if isinstance(slot, str) else key_name(slot) if slot is not None else ""
    if kernel is not None:
        event.kernel, event.distribution, event.where = kernel.kernel_name, kernel.distribution, kernel.where
    if step.key % PAGE < BACKENDS:
        event.fallback = "host" if slot == HOST else "composite" if slot == DispatchKey.Composite else ""
    return event


def shapes_of(values: tuple[Any, ...]) -> Shapes:
    """Returns the shapes of the tensors among some arguments, those in lists too."""
    shapes: list[tuple[int, ...]] = []
    for value in values:
        if isinstance(value, tuple):
            shapes += shapes_of(value)
        elif hasattr(value, "_type") and hasattr(value, "_array"):  # this floor knows no tensor class
            shapes.append(tuple(value._array.shape))
    return tuple(shapes)


STACK_LIMIT = 32


def stack_here() -> tuple[str, ...]:
    """Returns where the program has called an operator, the innermost frame first; frames of TensorPlay are left out.

    Example:
        >>> def caller():
        ...     return stack_here()
        >>> caller()[0].rpartition(" ")[2]
        'caller'
    """
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < STACK_LIMIT:
        file = frame.f_code.co_filename
        module = frame.f_globals.get("__name__")  # some of ours have none: see ADR 0010
        if file.startswith("<") or not (module is None or str(module).startswith("tensorplay_")):
            found.append(f"{file}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(found)
