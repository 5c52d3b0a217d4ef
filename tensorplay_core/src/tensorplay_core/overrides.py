"""What ``tp.overrides`` is: how a class or a mode has a say in the calls of public functions, in PyTorch's terms.

A subclass of Tensor defines ``__tensorplay_function__(cls, func, types, args=(), kwargs=None)`` as a class method; a
:class:`TensorPlayMode` defines it for every call in a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensorplay_core.dispatch.context import STATE
from tensorplay_core.tensor.modes import TensorPlayMode
from tensorplay_core.tensor.overrides import (
    DISABLED,
    HANDLER,
    UNASKED,
    DisableTensorPlayFunction,
    DisableTensorPlayFunctionSubclass,
    ask,
    overridable,
    overriding,
)
from tensorplay_core.tensor.tensor import Tensor, another

__all__ = [
    "DISABLED",
    "DisableTensorPlayFunction",
    "DisableTensorPlayFunctionSubclass",
    "TensorPlayMode",
    "handle_tensorplay_function",
    "has_tensorplay_function",
    "is_tensor_like",
    "overridable",
    "plain",
]


def has_tensorplay_function(relevant_args: Iterable[Any]) -> bool:
    """Whether some of a function's arguments, or an open mode, has a say in its call.

    Args:
        relevant_args: the arguments that may be tensors; lists are looked into.

    Example:
        >>> import tensorplay as tp
        >>> class Mine(tp.Tensor):
        ...     pass
        >>> x = tp.ones(2)
        >>> has_tensorplay_function((x,)), has_tensorplay_function((x, [x.as_subclass(Mine)]))
        (False, True)
    """
    modes = STATE.get().modes
    return not modes.off and bool(modes.functions or (not modes.plain and overriding(relevant_args)))


def handle_tensorplay_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Asks the handlers for a call of a function of one's own; use where :func:`has_tensorplay_function` says so.

    A function that takes tensors and nothing else needs only the decorator :func:`overridable`.

    Args:
        public_api: the function that was called.
        relevant_args: its arguments that may be tensors.
        args: its positional arguments.
        kwargs: the others.

    Raises:
        ArgumentError: every handler returned NotImplemented.

    Example:
        >>> import tensorplay as tp
        >>> class Silent(tp.Tensor):
        ...     @classmethod
        ...     def __tensorplay_function__(cls, func, types, args=(), kwargs=None):
        ...         return f"not {func.__name__}"
        >>> def area(x):
        ...     if has_tensorplay_function((x,)):
        ...         return handle_tensorplay_function(area, (x,), x)
        ...     return x[0] * x[1]
        >>> area(tp.tensor([2, 3])), area(tp.tensor([2, 3]).as_subclass(Silent))
        (tensor(6), 'not area')
    """
    answer = ask(public_api, args, kwargs, among=relevant_args)
    return public_api(*args, **kwargs) if answer is UNASKED else answer


def is_tensor_like(inp: Any) -> bool:
    """Whether a value is a tensor, or of a class with a ``__tensorplay_function__``.

    Example:
        >>> import tensorplay as tp
        >>> is_tensor_like(tp.ones(2)), is_tensor_like([1.0])
        (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), HANDLER)


def plain(tensor: Tensor) -> Tensor:
    """Returns a plain tensor over the memory of a subclass's, without a gradient: for ``__tensorplay_dispatch__``.

    Example:
        >>> import tensorplay as tp
        >>> class Counted(tp.Tensor):
        ...     calls = 0
        ...     @classmethod
        ...     def __tensorplay_dispatch__(cls, func, types, args=(), kwargs=None):
        ...         cls.calls += 1
        ...         args = [plain(value) if isinstance(value, cls) else value for value in args]
        ...         return func(*args, **(kwargs or {}))
        >>> x = tp.ones(2).as_subclass(Counted)
        >>> type(x.exp()).__name__, Counted.calls
        ('Counted', 1)
    """
    return another(tensor)
