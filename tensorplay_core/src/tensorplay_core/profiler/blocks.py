"""Named blocks of a program in a profile and a trace."""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from tensorplay_core.dispatch.decorating import Decorating
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.profiler import watching

_here: ContextVar[tuple[ExitStack, ...]] = ContextVar("tensorplay_blocks", default=())
"""The blocks that were opened in this context, the innermost last."""


class record_function(Decorating):
    """Puts a named block of a program into the profile and the trace that are open, if one is; decorates functions too.

    Args:
        name: what the block is called.

    Raises:
        ArgumentError: the name is no string.

    Example:
        >>> import tensorplay as tp
        >>> with tp.profiler.profile() as p, tp.profiler.record_function("twice"):
        ...     y = tp.ones(2) * 2
        >>> [(event.depth, event.op) for event in p.events if event.depth < 2][0]
        (0, 'twice')
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ArgumentError(
                f"record_function: name is a string, not {name!r}" + fix('write record_function("forward").')
            )
        self.name = name
        self._entered: dict[ExitStack, None] = {}

    def _again(self) -> record_function:
        return record_function(self.name)

    def __enter__(self) -> Self:
        """Begins the block."""
        doors = [*watching.doors("block")]
        stack = watching.scopes(doors, self.name) if doors else ExitStack()
        self._entered[stack] = None
        _here.set((*_here.get(), stack))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the block that this context has begun last through this object; where it has none, the last of all."""
        here = _here.get()
        if here and here[-1] in self._entered:
            stack, rest = here[-1], here[:-1]
        else:
            stack = next(one for one in (*reversed(here), *reversed(self._entered)) if one in self._entered)
            rest = tuple([one for one in here if one is not stack])
        del self._entered[stack]
        _here.set(rest)
        stack.__exit__(kind, error, trace)
