"""Anomaly mode: an error in a backward pass names the line of the program that made the node.

While it is on, calls take the slow path, which tells of every node that it makes, and a backward pass runs each node
through :func:`_apply`. While it is off nothing here is loaded. As in PyTorch it is on for the whole process, not for a
thread: a backward pass may run in another one than the forward calls.
"""

from __future__ import annotations

import functools
import linecache
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, Self, TypeVar

from tensorplay_core.autograd.hooks import Watch, watch
from tensorplay_core.autograd.kept import freed
from tensorplay_core.autograd.node import Node
from tensorplay_core.dispatch import active
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element

F = TypeVar("F", bound=Callable[..., Any])
Frames = tuple[tuple[str, int, str], ...]

_switching = threading.RLock()
_enabled = False
_check_nan = True
_running: ContextVar[Node | None] = ContextVar("tensorplay_running_node", default=None)


class Made(NamedTuple):
    """Where a node was made: the stack without our own frames, and the node whose backward made it."""

    stack: Frames
    by: Node | None


def _stack() -> Frames:
    """Returns file, line and function of the program's frames, outermost first."""
    frames = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name is not None and name != "tensorplay" and not name.startswith(("tensorplay.", "tensorplay_")):
            frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(reversed(frames))


def _record(node: Node) -> None:
    watch(node).made = Made(_stack(), _running.get())


def _apply(node: Node, grad: Any, graph: bool) -> Any:
    """Runs a node; an error says where the node was made, and a NaN is an error."""
    token = _running.set(node)
    try:
        try:
            found = node.backward(grad, graph) if active.applying is None else active.applying(node, grad, graph)
        except TypeError:
            if node.saved is None:
                raise freed(node) from None
            raise
        if _check_nan:
            _refuse_nan(node, found)
    except Exception as error:
        error.add_note(_story(node))
        raise
    finally:
        _running.reset(token)
    return found


def _refuse_nan(node: Node, found: tuple[Tensor | None, ...]) -> None:
    for i, grad in enumerate(found):
        if grad is None or not grad.dtype.is_inexact or grad.is_meta:
            continue
        if every_element(grad != grad).any().item():
            made = _made(node)
            where = ""
            if made is not None and made.stack:
                file, line, _ = made.stack[-1]
                where = f", called at {file}:{line}: {linecache.getline(file, line).strip()}"
            raise AutogradError(
                f"{node.name} returned nan values in its {i}th output, a gradient of shape {grad.shape}{where}"
                + fix("keep the forward away from the point where this gradient is undefined.")
            )


def _made(node: Node) -> Made | None:
    attached = node.edges
    return attached.made if isinstance(attached, Watch) else None


def _story(node: Node) -> str:
    """Returns the tracebacks of the forward calls that led to a node."""
    made = _made(node)
    if made is None:
        return f"Error detected in {node.name}, which was recorded while anomaly detection was off" + fix(
            "open tp.autograd.detect_anomaly() around the forward calls too, to see where it was made."
        )
    text = f"Error detected in {node.name}. Traceback of the forward call that caused it:\n{_text(made.stack)}"
    while made is not None and made.by is not None:
        node, made = made.by, _made(made.by)
        text += f"\nThe call was made by the backward of {node.name}"
        text += ".\n" if made is None else f". Traceback of its forward call:\n{_text(made.stack)}"
    return text.rstrip("\n")


def _text(stack: Frames) -> str:
    lines = []
    for file, line, name in stack:
        lines.append(f'  File "{file}", line {line}, in {name}')
        if source := linecache.getline(file, line).strip():
            lines.append(f"    {source}")
    return "\n".join(lines)


def _switch(mode: bool, check_nan: bool) -> tuple[bool, bool]:
    """Sets both, and returns what they were."""
    global _enabled, _check_nan
    with _switching:
        before = _enabled, _check_nan
        if mode is not _enabled:
            active.add((True, False, False), 1 if mode else -1)
            active.checking = _apply if mode else None
            active.watch_nodes(mode, _record)
        _enabled, _check_nan = mode, check_nan
        return before


class set_detect_anomaly:
    """Turns anomaly detection on or off: from the call on, and until the end of the block when used in ``with``.

    Args:
        mode: whether it is on.
        check_nan: whether a NaN that a backward returns is an error.

    Example:
        >>> import tensorplay as tp
        >>> with tp.autograd.set_detect_anomaly(True):
        ...     tp.autograd.is_anomaly_enabled()
        True
        >>> tp.autograd.is_anomaly_enabled()
        False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        """See the class."""
        if not isinstance(mode, bool):
            raise ArgumentError(
                f"set_detect_anomaly takes True or False, not {mode!r}"
                + fix("pass one of them; a function is decorated with @detect_anomaly().")
            )
        self._before = _switch(mode, check_nan)

    def __enter__(self) -> Self:
        """Leaves it as it was set, until the end of the block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Sets back what was before the call."""
        _switch(*self._before)


class detect_anomaly:
    """A scope, and a decorator, with anomaly detection: an error in a backward pass names the forward line.

    The error gets a note with the traceback of the call that made the node, without TensorPlay's own frames; for a
    node that a backward made (``create_graph``) also that of the call which the backward belongs to. Calls are slower
    inside, for each keeps its stack.

    Args:
        check_nan: whether a NaN that a backward returns is an error.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.tensor(0.0, requires_grad=True)
        >>> with tp.autograd.detect_anomaly():
        ...     y = x.sqrt() * 0
        ...     y.backward()
        Traceback (most recent call last):
            ...
        tensorplay_core.errors.AutogradError: SqrtBackward returned nan values in its 0th output, ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        """See the class."""
        self._check_nan = check_nan
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> Self:
        """Turns it on."""
        self._before.append(_switch(True, self._check_nan))
        return self

    def __exit__(self, *exception: object) -> None:
        """Sets back what was before."""
        _switch(*self._before.pop())

    def __call__(self, function: F) -> F:
        """Decorates a function."""

        @functools.wraps(function)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with detect_anomaly(self._check_nan):
                return function(*args, **kwargs)

        return scoped  # type: ignore[return-value]


def is_anomaly_enabled() -> bool:
    """Returns whether anomaly detection is on.

    Example:
        >>> import tensorplay as tp
        >>> with tp.autograd.detect_anomaly():
        ...     tp.autograd.is_anomaly_enabled()
        True
    """
    return _enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Returns whether a NaN that a backward returns would be an error.

    Example:
        >>> import tensorplay as tp
        >>> with tp.autograd.detect_anomaly(check_nan=False):
        ...     tp.autograd.is_anomaly_check_nan_enabled()
        False
    """
    return _check_nan
