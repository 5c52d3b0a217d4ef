"""Context managers that decorate functions too: each call, and each step of a generator, is a block of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

from tensorplay_core.errors import ArgumentError, fix

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # inspect.CO_…; the module costs a third of the import
F = TypeVar("F", bound=Callable[..., Any])


class Decorating:
    """A context manager that can also decorate a function; a decorated generator is in the block only while it runs."""

    __slots__ = ()

    def _again(self) -> AbstractContextManager[Any]:
        """Returns a fresh context manager of the same kind."""
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        """Decorates a function, a coroutine function or a generator function."""
        code = getattr(function, "__code__", None)
        flags = code.co_flags if code is not None else 0
        if flags & _GENERATOR:

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                return (yield from self._resume(function(*args, **kwargs)))

            return cast(F, generator)

        if flags & _ASYNC_GENERATOR:  # it would leave its scope open in whoever iterates over it
            raise ArgumentError(
                f"{type(self).__name__} cannot decorate {function.__qualname__}, an asynchronous generator"
                + fix(f"write 'with {type(self).__name__}():' inside it, around what does not yield.")
            )
        if flags & _COROUTINE:

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self._again():
                    return await function(*args, **kwargs)

            return cast(F, coroutine)

        @functools.wraps(function)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return cast(F, scoped)

    def _resume(self, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with self._again():
                    value = step()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield value
                step = functools.partial(generator.send, sent)
            except GeneratorExit:
                with self._again():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)
