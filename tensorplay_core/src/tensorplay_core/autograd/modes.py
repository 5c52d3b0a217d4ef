"""The gradient modes: each a context manager and a decorator, and each only a change of the context state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

from tensorplay_core.dispatch.context import STATE, Scope, State
from tensorplay_core.dispatch.keys import AUTOGRAD
from tensorplay_core.errors import ArgumentError

_GENERATOR = 0x20  # inspect.CO_GENERATOR; the module costs a third of the import
F = TypeVar("F", bound=Callable[..., Any])


class GradMode(Scope):
    """A scope that can also decorate a function; a decorated generator is in the scope only while it runs."""

    __slots__ = ()

    def _again(self) -> GradMode:
        """Returns a fresh scope of the same kind: one object must not be entered by two threads."""
        return type(self)()

    def __call__(self, function: F) -> F:
        """Decorates a function or a generator function."""
        if getattr(function, "__code__", None) is not None and function.__code__.co_flags & _GENERATOR:

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                return (yield from self._resume(function(*args, **kwargs)))

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return scoped  # type: ignore[return-value]

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


class no_grad(GradMode):
    """No gradient is recorded inside.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.ones(2, requires_grad=True)
        >>> with tp.no_grad():
        ...     (x * 2).requires_grad
        False
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Takes no arguments."""
        super().__init__(grad=False)


class enable_grad(GradMode):
    """Gradients are recorded inside, also within ``no_grad``."""

    __slots__ = ()

    def __init__(self) -> None:
        """Takes no arguments."""
        super().__init__(grad=True)

    def _enter(self, previous: State) -> State:
        return previous.replace(grad=not previous.exclude & AUTOGRAD)


class set_grad_enabled(GradMode):
    """Sets whether gradients are recorded: from the call on, and until the end of the block when used in ``with``.

    Args:
        mode: whether to record.

    Example:
        >>> import tensorplay as tp
        >>> with tp.set_grad_enabled(False):
        ...     tp.is_grad_enabled()
        False
    """

    __slots__ = ("_mode",)

    def __init__(self, mode: bool) -> None:
        """See the class."""
        if not isinstance(mode, bool):
            raise ArgumentError(f"set_grad_enabled takes True or False, not {mode!r}")
        super().__init__(grad=mode)
        self._mode = mode
        super().__enter__()

    def __enter__(self) -> Self:
        """Keeps what the call has set already."""
        return self

    def __call__(self, function: F) -> F:
        """Takes back what the call has set, and decorates."""
        self.__exit__(None, None, None)
        return super().__call__(function)

    def _again(self) -> GradMode:
        return set_grad_enabled(self._mode)

    def _enter(self, previous: State) -> State:
        return previous.replace(grad=self._changes["grad"] and not previous.exclude & AUTOGRAD)


class inference_mode(GradMode):
    """Nothing is recorded and nothing can be: tensors made inside have no Autograd key.

    Args:
        mode: False makes the block do nothing.

    Example:
        >>> import tensorplay as tp
        >>> with tp.inference_mode():
        ...     y = tp.ones(2) * 3
        >>> y.is_inference(), y.requires_grad
        (True, False)
    """

    __slots__ = ("_mode",)

    def __init__(self, mode: bool = True) -> None:
        """See the class."""
        if not isinstance(mode, bool):
            raise ArgumentError(f"inference_mode takes True or False, not {mode!r}; as a decorator write it with ()")
        super().__init__()
        self._mode = mode

    def _again(self) -> GradMode:
        return inference_mode(self._mode)

    def _enter(self, previous: State) -> State:
        if self._mode:
            return previous.replace(grad=False, inference=True, exclude=previous.exclude | AUTOGRAD)
        return previous.replace(inference=False, exclude=previous.exclude & ~AUTOGRAD)


def is_grad_enabled() -> bool:
    """Returns whether gradients are recorded here."""
    return STATE.get().grad


def is_inference_mode_enabled() -> bool:
    """Returns whether inference mode is on here."""
    return STATE.get().inference
