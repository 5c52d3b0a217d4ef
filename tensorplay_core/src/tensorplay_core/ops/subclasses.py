"""Subclasses of Tensor: how their tensors are made, what their results are, and how they are copied and pickled.

A tensor of a subclass has a type of its own, which sends every call to the slow path: there the handlers of the classes
are asked, and the default one makes what was computed a tensor of the subclass. What is computed has plain types first,
so nothing below this floor knows of subclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tensorplay_core.autograd import methods as _bound  # noqa: F401  whose properties are named here
from tensorplay_core.autograd.node import AccumulateGrad
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.tensor_type import TensorType, intern
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.tensor.overrides import (
    DISABLED,
    DISPATCH,
    HANDLER,
    DisableTensorPlayFunctionSubclass,
    handler_of,
    overridable,
)
from tensorplay_core.tensor.tensor import Tensor, TensorBase, bind, wrap
from tensorplay_core.tensor.version import alias

S = TypeVar("S", bound=Tensor)


def wrapper_of(cls: type) -> str | None:
    """Returns how the types of a class's tensors are marked; None for Tensor, and for one that has no say."""
    if hasattr(cls, DISPATCH):
        return "dispatch"
    return None if handler_of(cls) is None else "subclass"


def type_for(cls: type, type: TensorType) -> TensorType:
    """Returns the type of a class's tensor, given a tensor's type."""
    mark = wrapper_of(cls)
    plain = type.unwrapped
    if plain.wrapper is not None or mark is None:
        return plain
    return intern(plain.device, plain.dtype, plain.layout, plain.inference, mark)


def adopt(y: Any, cls: type[S]) -> S:
    """Returns a tensor of a subclass in the place of one that was just computed, and that nobody else has."""
    s: Any = object.__new__(cls)
    s._array = y._array
    s._type = type_for(cls, y._type)
    s._version = None
    if hasattr(y, "_view"):
        s._view = y._view
    alias(y, s)
    if hasattr(y, "_edge"):  # what has none is stale, and gets its node from its base
        node = y._edge
        s._edge = AccumulateGrad(s) if node is not None and node.is_leaf else node
    if getattr(y, "_grad", None) is not None:
        s._grad = y._grad
    if active.levels:
        from tensorplay_core.tensor.dual import carry

        carry(y, s)
    made: S = s
    return made


def converted(result: Any, cls: type, given: Iterable[Any] = ()) -> Any:
    """Returns a result with its tensors as ones of a subclass: alone, in a list, or in a tuple, which keeps its names.

    Args:
        result: what a function returned.
        cls: the subclass.
        given: the function's arguments; one of them that comes back is not taken over, but another is made of it.
    """
    if isinstance(result, TensorBase):
        if isinstance(result, cls):
            return result
        stays = any(value is result for value in given)
        return Tensor.as_subclass(result, cls) if stays else adopt(result, cls)
    if isinstance(result, (tuple, list)):
        items = [converted(item, cls, given) for item in result]
        kind: Any = type(result)
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    return result


def _checked(cls: Any, who: str) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        name = cls.__name__ if isinstance(cls, type) else repr(cls)
        raise ArgumentError(f"{who}: takes a subclass of Tensor, not {name}" + fix("class Mine(tp.Tensor): ..."))


@bind
class SubclassMethods(TensorBase):
    """Bound to :class:`Tensor`; see the module."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Counts a subclass that has a say in calls."""
        super(Tensor, cls).__init_subclass__(**kwargs)  # type: ignore[misc]  # bound to it, so of its line
        if getattr(cls, HANDLER, DISABLED) is not DISABLED:
            active.subclassed = True

    @classmethod
    def __tensorplay_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs a function, and returns its tensors as ones of this class; what a handler calls with ``super()``.

        Args:
            func: the public function.
            types: the classes that are asked.
            args: its positional arguments.
            kwargs: the others.

        Example:
            >>> import tensorplay as tp
            >>> class Loud(tp.Tensor):
            ...     @classmethod
            ...     def __tensorplay_function__(cls, func, types, args=(), kwargs=None):
            ...         print("calls", func.__name__)
            ...         return super().__tensorplay_function__(func, types, args, kwargs)
            >>> x = tp.tensor([1.0, 2.0]).as_subclass(Loud)
            >>> y = x * 2
            calls mul
            >>> type(y).__name__
            'Loud'
        """
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        with DisableTensorPlayFunctionSubclass():
            result = func(*args, **kwargs)
        if func in _PLAIN_RESULTS or cls is Tensor:
            return result
        return converted(result, cls, (*args, *kwargs.values()))

    def as_subclass(self: Any, cls: type[S]) -> S:
        """Returns a view of the whole tensor that is of a subclass of Tensor; gradients pass through it.

        The subclass's ``__init__`` is not called.

        Args:
            cls: the subclass.

        Example:
            >>> import tensorplay as tp
            >>> class Image(tp.Tensor):
            ...     pass
            >>> x = tp.zeros(2, 3).as_subclass(Image)
            >>> type(x).__name__, type(x.T + 1).__name__
            ('Image', 'Image')
        """
        _checked(cls, "as_subclass")
        with DisableTensorPlayFunctionSubclass():
            return adopt(self[...], cls)

    @staticmethod
    def _make_subclass(cls: type[S], data: Tensor, require_grad: bool = False) -> S:
        """Returns a new leaf of a subclass, over the memory of a tensor: what ``__new__`` of a subclass may return."""
        _checked(cls, "_make_subclass")
        with DisableTensorPlayFunctionSubclass():
            made: Any = adopt(data.detach(), cls)
            adopted: S = made.requires_grad_() if require_grad else made
            return adopted


for _name in ("item", "numpy", "tolist"):  # of the class below, which knows no handlers
    setattr(Tensor, _name, overridable(getattr(TensorBase, _name)))
_PLAIN_RESULTS: frozenset[Any] = frozenset(Tensor.__dict__[name].fget for name in ("grad", "_base"))
"""Functions that give a tensor there is already, of whatever class it is, as in PyTorch."""


def rebuilt_fake(array: Any, type: TensorType, requires_grad: bool) -> Tensor:
    """Returns a tensor without data that was pickled."""
    made = wrap(array, type)
    return made.requires_grad_() if requires_grad else made


def rebuilt(cls: type, make: Callable[..., Tensor], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    """Returns a tensor of a subclass that was pickled."""
    made: Any = adopt(make(*args), cls)
    for name, value in state.items():
        setattr(made, name, value)
    return made
