"""Who has a say in a call of a public function: subclasses of Tensor with a handler, and open modes of functions.

A plain call never comes here. A generated function asks when it has left its fast path, a handwritten one through
:func:`overridable`, and both only while a mode is open somewhere or a subclass of Tensor exists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE, ModesScope
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
HANDLER = "__tensorplay_function__"
DISPATCH = "__tensorplay_dispatch__"
UNASKED = object()
"""What :func:`ask` answers where nobody has a say."""


def _disabled_tensorplay_function(
    func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    return NotImplemented


DISABLED = _disabled_tensorplay_function
"""The handler of a subclass of Tensor that has no say: its tensors are as fast as plain ones, and so are results.

Example:
    >>> import tensorplay as tp
    >>> class Parameter(tp.Tensor):
    ...     __tensorplay_function__ = tp.overrides.DISABLED
    >>> type(tp.ones(2).as_subclass(Parameter) * 2).__name__
    'Tensor'
"""


def handler_of(cls: type) -> Callable[..., Any] | None:
    """Returns the handler of a class; None for Tensor itself, for one that is disabled, and where there is none."""
    if cls is Tensor:
        return None
    handler = getattr(cls, HANDLER, None)
    return None if handler is DISABLED else handler


def overriding(args: Iterable[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
    """Returns the arguments that have a handler, one of each class, in the order in which those are asked.

    From left to right, but a subclass before what it is derived from.
    """
    found: list[Any] = []
    for value in _values((*args, *kwargs.values()) if kwargs else args):
        cls = type(value)
        if cls is not Tensor and handler_of(cls) is not None:
            insert(found, value)
    return found


def insert(found: list[Any], value: Any) -> None:
    """Adds what has a handler to what has one: one of each class, and a subclass before what it is derived from."""
    cls = type(value)
    if all(type(other) is not cls for other in found):
        place = next((i for i, other in enumerate(found) if issubclass(cls, type(other))), len(found))
        found.insert(place, value)


def _values(values: Iterable[Any]) -> Iterator[Any]:
    """Yields arguments, and the items of those that are lists."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def ask(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], among: Any = None) -> Any:
    """Returns what the handlers answer for a call of a public function; :data:`UNASKED` where nobody has a say.

    Args:
        func: the public function.
        args: its positional arguments.
        kwargs: the others.
        among: where to look for tensors, if not among those.

    Raises:
        ArgumentError: every handler returned NotImplemented.
    """
    modes = STATE.get().modes
    if modes.off:
        return UNASKED
    found: list[Any] = []
    if active.subclassed and not modes.plain:
        found = overriding((*args, *kwargs.values()) if among is None else among)
    if not found and not modes.functions:
        return UNASKED
    return handle(func, found, args, kwargs)


def handle(
    func: Callable[..., Any], found: list[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Asks the open modes, the innermost first, then the classes of some arguments; the first answer is the result.

    A mode is off while it is asked, so that what it calls reaches the one around it.

    Raises:
        ArgumentError: every handler returned NotImplemented.
    """
    types = tuple([type(value) for value in found])
    kwargs = dict(kwargs) if kwargs else {}
    modes = STATE.get().modes
    for i in range(len(modes.functions) - 1, -1, -1):
        with ModesScope(functions=modes.functions[:i]):
            answer = modes.functions[i].__tensorplay_function__(func, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    for value in found:
        handler = handler_of(type(value))
        assert handler is not None
        answer = handler(func, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    asked = [f"the mode {type(mode).__name__}" for mode in reversed(modes.functions)]
    asked += [type(value).__name__ for value in found]
    raise ArgumentError(
        f"{getattr(func, '__name__', func)}: {HANDLER} of {', '.join(asked)} returned NotImplemented"
        + fix("let one of them return a result, or super().__tensorplay_function__(func, types, args, kwargs).")
    )


def overridable(function: F) -> F:
    """Decorates a handwritten public function or method: handlers are asked before it runs."""

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if active.special or active.subclassed:
            answer = ask(public, args, kwargs)
            if answer is not UNASKED:
                return answer
        return function(*args, **kwargs)

    return cast(F, public)


def seen_by_modes(function: F) -> F:
    """Decorates a public function whose result is a plain tensor whatever it is made of: only modes are asked."""

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if active.special:
            answer = ask(public, args, kwargs, among=())
            if answer is not UNASKED:
                return answer
        return function(*args, **kwargs)

    return cast(F, public)


def overridable_members(*names: str) -> Callable[[type], type]:
    """Decorates a class whose members are bound to Tensor: makes some of its methods and properties overridable."""

    def decorate(methods: type) -> type:
        for name in names:
            member = vars(methods)[name]
            if isinstance(member, property):
                assert member.fget is not None
                made: Any = property(overridable(member.fget), member.fset, member.fdel, member.__doc__)
            else:
                made = overridable(member)
            setattr(methods, name, made)
        return methods

    return decorate


class DisableTensorPlayFunction(ModesScope):
    """A scope in which no handler of a public function is asked, neither a subclass's nor a mode's.

    Example:
        >>> import tensorplay as tp
        >>> class Named(tp.Tensor):
        ...     pass
        >>> x = tp.ones(2).as_subclass(Named)
        >>> with tp.overrides.DisableTensorPlayFunction():
        ...     type(x + x).__name__
        'Tensor'
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Takes no arguments."""
        super().__init__(functions=(), plain=True, off=True)


class DisableTensorPlayFunctionSubclass(ModesScope):
    """A scope in which the handlers of subclasses are not asked; those of modes are."""

    __slots__ = ()

    def __init__(self) -> None:
        """Takes no arguments."""
        super().__init__(plain=True)
