"""The trace: one line for every step that calls take, as they take it, for whoever asks which kernel ran and when.

A block is traced by a probe, like that of a profiler, so both see the road that :func:`tensorplay.explain` describes. A
process is traced by a probe that every call asks, whatever its context: scopes that were entered before it was switched
on, new threads and tasks are traced as well.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self

from tensorplay_core.dispatch import fallbacks
from tensorplay_core.dispatch.context import Scope, State
from tensorplay_core.dispatch.fallbacks import serving
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, key_name
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.resolution import Step
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.profiler import watching
from tensorplay_core.profiler.events import kernel_label
from tensorplay_core.types.device import Device

ITEMS = 6
"""How many items of a list are printed."""
CHARACTERS = 60
"""How many characters of a string, or of any other long value."""

_open: ContextVar[Mapping[Tracer, _Line]] = ContextVar("tensorplay_traced", default=MappingProxyType({}))
"""The line of what runs in this context, for each tracer."""


class Stream(Protocol):
    """What lines can be written to."""

    def write(self, text: str, /) -> Any:
        """Writes a text."""


def checked_stream(who: str, file: Stream | None) -> Stream | None:
    """Returns a stream, or None.

    Raises:
        ArgumentError: nothing can be written to it.
    """
    if file is not None and not callable(getattr(file, "write", None)):
        raise ArgumentError(
            f"{who}: file must have a method write, and {type(file).__name__} has none"
            + fix("pass an open file, io.StringIO(), sys.stdout, or nothing.")
        )
    return file


class Tracer:
    """A probe that prints; asks the one around it too, so that traces and profilers nest.

    Args:
        stream: where lines go; None is ``sys.stderr`` as it is when a line is written.
        outer: the probe around it.
    """

    __slots__ = ("outer", "stream")

    def __init__(self, stream: Stream | None, outer: Any = None) -> None:
        self.stream = stream
        self.outer = outer

    def __call__(
        self, op: Operator, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any]:
        """Returns the scope of a step."""
        around = self.outer(op, step, args, kwargs) if self.outer is not None else None
        return _Line(self, op.display_name, lambda: step_line(op, step, args, kwargs), around)

    def block(self, name: str) -> AbstractContextManager[Any]:
        """Returns the scope of a block of :class:`~tensorplay_core.profiler.record_function`."""
        block = getattr(self.outer, "block", None)
        return _Line(self, name, lambda: f"block {name}", block(name) if block is not None else None)

    def node(self, node: Any) -> AbstractContextManager[Any]:
        """Returns the scope of a node of a backward pass."""
        name = f"backward {node.name}"
        outer = getattr(self.outer, "node", None)
        return _Line(self, name, lambda: name, outer(node) if outer is not None else None)

    def print(self, text: str) -> None:
        """Prints a line at the depth of this context, after whoever traces around it."""
        if (outer := getattr(self.outer, "print", None)) is not None:
            outer(text)
        line = _open.get().get(self)
        self.write(0 if line is None else line.depth + 1, text)

    def write(self, depth: int, text: str) -> None:
        """Writes a line whole, in one call, so that those of several threads do not mix."""
        if self.stream is None and self is not _PROCESS and watching.is_everywhere(_PROCESS):
            return  # the process's trace has told it there already
        stream: Any = sys.stderr if self.stream is None else self.stream
        try:
            stream.write(f"tensorplay: {'  ' * depth}{text}\n")
        except Exception:  # a stream that is closed, full or absent: the program goes on, untraced
            return


class _Line:
    """The scope of one line: what runs inside lies one deeper, and an exception is told where it was raised."""

    __slots__ = ("around", "depth", "name", "outer", "parent", "reported", "text", "tracer")

    def __init__(
        self, tracer: Tracer, name: str, text: Callable[[], str], around: AbstractContextManager[Any] | None = None
    ) -> None:
        self.tracer = tracer
        self.name = name
        self.text = text
        self.around = around
        self.reported: BaseException | None = None

    def __enter__(self) -> Self:
        if self.around is not None:
            self.around.__enter__()
        self.outer = _open.get()
        self.parent = self.outer.get(self.tracer)
        self.depth: int = 0 if self.parent is None else self.parent.depth + 1
        self.tracer.write(self.depth, self.text())
        _open.set({**self.outer, self.tracer: self})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.set(self.outer)
        if error is not None:
            if self.reported is not error:
                self.tracer.write(self.depth, f"{self.name} raised {type(error).__name__}")
            if self.parent is not None:
                self.parent.reported = error
        self.reported = None  # or the exception's traceback, which holds this scope, would be a cycle
        if self.around is not None:
            self.around.__exit__(kind, error, trace)


# ----------------------------------------------------------------------------------------------------- what lines say


def step_line(op: Operator, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Returns what a trace prints of a step: the call, the key, the kernel and whose it is."""
    layer = step.key % PAGE >= BACKENDS  # below the layers nobody asks whether a gradient is wanted
    head = f"{call_line(op, args, kwargs, layer)} {key_name(step.key)}"
    slot, kernel = serving(op, step, kwargs)
    if kernel is None:
        return f"{head}: {step.reason}"
    at = " at Composite" if slot == DispatchKey.Composite else ""
    return f"{head}: {kernel_label(kernel)} from {kernel.distribution}{at}"


def call_line(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], layer: bool = True) -> str:
    """Returns a call for a reader: the operator's name, and its arguments as :func:`described` shows them."""
    values = [described(value, layer) for value in args]
    values += [f"{name}={described(value, layer)}" for name, value in kwargs.items()]
    return f"{op.display_name}({', '.join(values)})"


def described(value: Any, layer: bool = True) -> str:
    """Returns an argument for a reader, never longer than a line can bear.

    Args:
        value: a tensor is dtype, shape and device; anything else as Python shows it.
        layer: also say which tensors have a gradient.

    Example:
        >>> described((1, 2.5, None)), described("x" * 100, False)[:10]
        ('[1, 2.5, None]', "'xxxxxxxxx")
    """
    if isinstance(value, (tuple, list)):
        items = [described(item, layer) for item in value[:ITEMS]]
        if len(value) > ITEMS:
            items.append(f"… {len(value) - ITEMS} more")
        return f"[{', '.join(items)}]"
    try:
        if hasattr(value, "_type") and hasattr(value, "_array"):  # this floor knows no tensor class
            type = value._type
            extra = " grad" * (layer and value._node is not None) + " inference" * type.inference
            sizes = ",".join(map(str, value._array.shape))
            return f"{type.dtype.name}[{sizes}] {type.device}{extra}"
        text = str(value) if value.__class__ is Device else repr(value)
    except Exception:  # a number too long to print, an object that cannot show itself
        text = f"<{value.__class__.__name__}>"
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}…"


# ------------------------------------------------------------------------------------------------------------ the doors


class trace(Scope):
    """Prints every step of every call made in its block, in this thread and in contexts copied from it.

    One line per step, and per node of a backward pass; what a step calls lies two spaces deeper. ``TENSORPLAY_TRACE=1``
    does the same for a whole process, as does ``tp.backends.configure(trace=True)``.

    Args:
        file: where the lines go; ``sys.stderr`` when None.

    Raises:
        ArgumentError: nothing can be written to ``file``.

    Example:
        >>> import sys
        >>> import tensorplay as tp
        >>> x = tp.ones(2, requires_grad=True)
        >>> with tp.profiler.trace(sys.stdout):
        ...     y = x * 3
        tensorplay: mul(float32[2] cpu grad, float32[] cpu) AutogradCPU: MulBackward from tensorplay-core
        tensorplay:   mul(float32[2] cpu, float32[] cpu) CPU: numpy.multiply from tensorplay-cpu
    """

    def __init__(self, file: Stream | None = None) -> None:
        super().__init__()
        self.file = checked_stream("trace", file)

    def _enter(self, previous: State) -> State:
        return previous.replace(probe=Tracer(self.file, previous.probe))

    def __enter__(self) -> Self:
        """Starts printing."""
        watching.watch(True)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops printing and restores the state, whatever was raised."""
        super().__exit__(kind, error, trace)
        watching.watch(False)


_PROCESS = Tracer(None)
_switching = threading.Lock()


def set_process_trace(on: bool) -> None:
    """Prints every step of every call in this process to stderr from now on, or no longer; a second time is nothing."""
    with _switching:
        if watching.is_everywhere(_PROCESS) is on:
            return
        watching.watch(on)
        fallbacks.report_at_exit(on)
        watching.watch_everywhere(on, _PROCESS)
