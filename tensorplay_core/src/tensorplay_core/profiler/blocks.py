"""Named blocks of a program in a profile and a trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from tensorplay_core.profiler import watching

F = TypeVar("F", bound=Callable[..., Any])


class record_function:
    """Puts a named block of a program into the profile and the trace that are open, if one is; decorates functions too.

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
        self._open.append(watching.scopes(watching.doors("block"), self.name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the block."""
        self._open.pop().__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """Makes each call of a function such a block."""

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return decorated  # type: ignore[return-value]
