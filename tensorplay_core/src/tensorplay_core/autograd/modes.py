"""The gradient modes: each a context manager and a decorator, and each only a change of the context state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from tensorplay_core.dispatch.context import STATE, Scope, State
from tensorplay_core.dispatch.decorating import Decorating
from tensorplay_core.dispatch.keys import AUTOGRAD
from tensorplay_core.errors import ArgumentError, fix

F = TypeVar("F", bound=Callable[..., Any])


class GradMode(Decorating, Scope):
    """A scope of the context state that can also decorate a function."""

    __slots__ = ()

    def _again(self) -> GradMode:
        """Returns a fresh scope of the same kind."""
        return type(self)()


class _Switch(GradMode):
    """A mode without arguments, which can decorate a function without parentheses too: ``@no_grad``."""

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        """Returns the scope; of a function the decorated one.

        Raises:
            ArgumentError: it is no function.
        """
        if function is None:
            return object.__new__(cls)
        if not callable(function):
            raise ArgumentError(
                f"{cls.__name__} takes no arguments, or the function that it decorates, not {function!r}"
                + fix("use set_grad_enabled(True) or set_grad_enabled(False) for a mode that is computed.")
            )
        return cls()(function)


class no_grad(_Switch):
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


class enable_grad(_Switch):
    """Gradients are recorded inside, also within ``no_grad``.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.ones(2, requires_grad=True)
        >>> with tp.no_grad(), tp.enable_grad():
        ...     (x * 2).requires_grad
        True
    """

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
            raise ArgumentError(
                f"set_grad_enabled takes True or False, not {mode!r}" + fix("write bool(...) around it.")
            )
        super().__init__(grad=mode)
        self._mode = mode
        super().__enter__()
        STATE.get().floating = True

    def __del__(self) -> None:
        """Ends a bare call's claim: nobody can leave it any more, so that a loop of such calls keeps only the last."""
        for state in getattr(self, "_entered", {}).values():
            state.settle()

    def __enter__(self) -> Self:
        """Keeps what the call has set already, now until the end of the block."""
        if not self._entered:  # it was left already, and is entered again
            return super().__enter__()
        self._own().floating = False
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
        mode: False leaves inference mode for the block, and records there, as in PyTorch.

    Example:
        >>> import tensorplay as tp
        >>> with tp.inference_mode():
        ...     y = tp.ones(2) * 3
        >>> y.is_inference(), y.requires_grad
        (True, False)
    """

    __slots__ = ("_mode",)

    def __new__(cls, mode: Any = True) -> Any:
        """Returns the scope; of a function the decorated one."""
        return cls()(mode) if callable(mode) else object.__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        """See the class."""
        if not isinstance(mode, bool):
            raise ArgumentError(
                f"inference_mode takes True or False, or the function that it decorates, not {mode!r}"
                + fix("write inference_mode() around what must not be recorded.")
            )
        super().__init__()
        self._mode = mode

    def _again(self) -> GradMode:
        return inference_mode(self._mode)

    def _enter(self, previous: State) -> State:
        if self._mode:
            return previous.replace(grad=False, inference=True, exclude=previous.exclude | AUTOGRAD)
        return previous.replace(grad=True, inference=False, exclude=previous.exclude & ~AUTOGRAD)


def is_grad_enabled() -> bool:
    """Returns whether gradients are recorded here."""
    return STATE.get().grad


def is_inference_mode_enabled() -> bool:
    """Returns whether inference mode is on here."""
    return STATE.get().inference
