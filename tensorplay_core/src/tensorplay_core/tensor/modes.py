"""Modes: ``with`` blocks whose handler sees every call, of public functions or of operators at the Python key.

Both are a change of the context state alone, so they nest, follow the context into asyncio tasks, stay out of other
threads, and end with their block whatever is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from tensorplay_core.dispatch.context import STATE, ModesScope, Scope


class _Mode:
    """What the two kinds of modes share: they can be entered again, also by another thread."""

    _place = ""

    def __enter__(self) -> Self:
        """Starts seeing calls; those of this context, until the end of the block."""
        block = ModesScope(**{self._place: (*getattr(STATE.get().modes, self._place), self)})
        block.__enter__()
        # One scope has the states of all blocks; here, because a subclass need not call our __init__. It does not refer
        # to the mode, which would be a cycle.
        vars(self).setdefault("_open", Scope())._entered.update(block._entered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores what was there before."""
        vars(self)["_open"].__exit__(kind, error, trace)


class TensorPlayMode(_Mode):
    """A ``with`` block in which a handler sees the calls of public functions and methods, as the program makes them.

    Derive from it and define the handler. While it runs the mode is off, and the one around it is asked; so what the
    handler calls, and what that calls in turn, is not seen again. Metadata (``shape``, ``dtype``) is never seen, nor
    what a backward pass computes: :class:`DispatchMode` sees that.

    Example:
        >>> import tensorplay as tp
        >>> class Doubling(tp.overrides.TensorPlayMode):
        ...     def __tensorplay_function__(self, func, types, args=(), kwargs=None):
        ...         return func(*args, **kwargs) * (2 if func is tp.exp else 1)
        >>> x = tp.zeros(2)
        >>> with Doubling():
        ...     x.exp(), x + 1
        (tensor([2., 2.]), tensor([1., 1.]))
    """

    _place = "functions"

    def __tensorplay_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answers a call: with its result, or NotImplemented to leave it to the next.

        Args:
            func: the public function, the same object for ``x + y``, ``x.add(y)`` and ``tp.add(x, y)``.
            types: the classes of those arguments that have a handler themselves.
            args: the positional arguments.
            kwargs: the others, without those that have their default.
        """
        return func(*args, **(kwargs or {}))


class DispatchMode(_Mode):
    """A ``with`` block in which a handler sees every operator that runs, below autograd and autocast.

    Derive from it and define the handler. It sees what a composed operator is made of, and the operators of a backward
    pass. While it runs the mode is off, and the one around it is asked; nothing is recorded, for what the handler
    returns is recorded above.

    Example:
        >>> import tensorplay as tp
        >>> class Counting(tp.DispatchMode):
        ...     def __init__(self):
        ...         self.names = []
        ...     def __tensorplay_dispatch__(self, func, types, args=(), kwargs=None):
        ...         self.names.append(func.__name__)
        ...         return func(*args, **kwargs)
        >>> x = tp.ones(2, requires_grad=True)
        >>> with Counting() as seen:
        ...     (x * x).sum().backward()
        >>> seen.names[:2], x.grad
        (['mul.default', 'sum.default'], tensor([2., 2.]))
    """

    _place = "operators"
    fakes = False
    """Whether new tensors have no data here, so that a device is but a label, and no backend is loaded for it."""

    def __tensorplay_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answers a call: with its result, or NotImplemented to leave it to the next.

        Args:
            func: the operator, such as ``tp.ops.tp.add.default``.
            types: the classes of those arguments that have a handler of operators themselves.
            args: all positional arguments of its schema; a Python number is a 0-d tensor by now.
            kwargs: the keyword-only ones that have not their default.
        """
        return func(*args, **(kwargs or {}))

    def keeps(self, op: Any, keys: Any) -> bool:
        """Whether the handler is to see an implicit operator itself, rather than those that it decomposes into."""
        return False
