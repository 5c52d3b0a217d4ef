"""What a wrapper tensor holds: a tensor of the transform below, and the level that wrapped it.

A transform (``vmap``, ``grad`` and ``jvp`` where they nest) opens a :class:`Level` and wraps its inputs. A wrapper is a
tensor whose payload is no array but another tensor, in a :class:`Wrapped`; it has the type of that tensor with the
wrapper's name, so that every call with it takes the slow path, where the highest level among the arguments is
interpreted. What core asks an array of is answered here by asking the tensor inside.
"""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, Self

from tensorplay_core.dispatch.keys import DispatchKey
from tensorplay_core.errors import TransformError, fix

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

_numbers = itertools.count(1)
MODE = 1 << DispatchKey.VmapMode
"""The key that joins every call while a level is open: new tensors belong to it, and random ones ask it."""
BATCHED, GRAD = "batched", "grad"
"""The wrappers: of a tensor with a batch dim in front that the program does not see, and of a gradient's own level."""


class Level:
    """One open transform.

    Attributes:
        number: larger than that of every level opened before it; the highest is interpreted first.
        kind: ``"batched"`` or ``"grad"``.
        outer: the level that was the innermost one when it was opened.
        open: whether it is open still; its wrappers are of no use afterwards.
        size: of the batch; None for a level of gradients.
        randomness: what random operators do under ``vmap``: ``"error"``, ``"different"`` or ``"same"``.
        transform: the name of the function that opened it, for messages.
    """

    __slots__ = ("__weakref__", "kind", "number", "open", "outer", "randomness", "size", "transform")

    def __init__(self, kind: str, transform: str, *, size: int | None = None, randomness: str = "error") -> None:
        self.kind, self.transform, self.size, self.randomness = kind, transform, size, randomness
        self.outer = INNERMOST.get()
        self.number = next(_numbers)
        self.open = True

    @property
    def depth(self) -> int:
        """How many levels are open around it, and it."""
        return 1 if self.outer is None else 1 + self.outer.depth

    def check_open(self) -> None:
        """Refuses a wrapper whose transform has returned.

        Raises:
            TransformError: it has.
        """
        if not self.open:
            raise TransformError(
                f"a tensor of a {self.transform} that has returned was used: it means something inside of it only"
                + fix(f"return it from the function that {self.transform} transforms, as a result of its own.")
            )


INNERMOST: ContextVar[Level | None] = ContextVar("tensorplay_innermost_level", default=None)
"""The level that new tensors belong to."""


class Within:
    """A ``with`` block in which a level, or what is around it, is the innermost one."""

    __slots__ = ("_level", "_token")

    def __init__(self, level: Level | None) -> None:
        self._level = level

    def __enter__(self) -> Self:
        self._token = INNERMOST.set(self._level)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        INNERMOST.reset(self._token)


def _around(level: Level) -> AbstractContextManager[Any]:
    return Within(level.outer)


below: Callable[[Level], AbstractContextManager[Any]] = _around
"""A block in which everything is as around a level; the floor that opens levels of gradients sets its own."""


detach: Callable[[Any], Any]
"""Does what ``detach`` does of a wrapper that has no batch yet; the floor of ``vmap`` sets it."""


class Wrapped:
    """The payload of a wrapper tensor.

    Attributes:
        level: the level that wrapped it.
        tensor: the tensor of the level below. Under ``vmap`` its first dim is the batch, unless it is not batched.
        batched: whether it has a batch dim; one that ``vmap`` found in its function's own new tensors has none, until a
            batched value is written to it.
        shape: what the program sees.
    """

    __slots__ = ("batched", "level", "tensor")

    def __init__(self, level: Level, tensor: Any, batched: bool = False) -> None:
        self.level, self.tensor, self.batched = level, tensor, batched

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, without the batch."""
        shape: tuple[int, ...] = self.tensor.shape
        return shape[1:] if self.batched else shape

    def like(self, tensor: Any) -> Wrapped:
        """Returns the payload of another wrapper of the same level."""
        return Wrapped(self.level, tensor, self.batched)


class WrapperAPI:
    """Answers for the payloads of wrappers what a device's API answers for its arrays."""

    mutable = views = False
    """No array of a wrapper is written to by core itself: its operators are asked, which the level interprets."""
    shares_memory_with_host = True
    """So that :meth:`to_host` is asked, which says why not."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.dtypes = api.dtypes
        self.array_class = api.array_class

    def as_array(self, value: Any) -> Any:
        """Returns the payload, which is no array and stays none."""
        return value

    def copy(self, wrapped: Wrapped) -> Wrapped:
        """Returns the payload of a copy."""
        with below(wrapped.level):
            return wrapped.like(wrapped.tensor.clone())

    def may_alias(self, one: Any, other: Any) -> bool:
        """Whether two payloads share memory."""
        if one.__class__ is not Wrapped or other.__class__ is not Wrapped or one.level is not other.level:
            return False
        a, b = one.tensor, other.tensor
        return a is b or (a._type.api is b._type.api and bool(a._type.api.may_alias(a._array, b._array)))

    def strides(self, wrapped: Wrapped) -> tuple[int, ...]:
        """Returns the strides that the program sees."""
        strides: tuple[int, ...] = wrapped.tensor.stride()
        return strides[1:] if wrapped.batched else strides

    def storage_offset(self, wrapped: Wrapped) -> int:
        """Returns the place of the first element."""
        return int(wrapped.tensor.storage_offset())

    def is_contiguous(self, wrapped: Wrapped) -> bool:
        """Whether one element of the batch is contiguous."""
        tensor = wrapped.tensor
        if not wrapped.batched or not tensor.shape[0]:
            return bool(tensor.is_contiguous())
        expected, step = [], 1
        for size in reversed(wrapped.shape):
            expected.append(step)
            step *= max(size, 1)
        pairs = zip(wrapped.shape, self.strides(wrapped), reversed(expected), strict=True)
        return 0 in wrapped.shape or all(size == 1 or one == other for size, one, other in pairs)

    def overlaps_itself(self, wrapped: Wrapped) -> bool:
        """Whether two elements are the same memory."""
        tensor = wrapped.tensor
        return bool(tensor._type.api.overlaps_itself(tensor._array))

    def to_list(self, wrapped: Wrapped) -> Any:
        """Returns the elements, where there is one value for each.

        Raises:
            TransformError: there are as many as the batch is large.
        """
        self._refuse(wrapped)
        return wrapped.tensor.tolist()

    def to_host(self, wrapped: Wrapped) -> Any:
        """Returns a NumPy array of the elements, where there is one value for each."""
        self._refuse(wrapped)
        return wrapped.tensor.numpy(force=True)

    def _refuse(self, wrapped: Wrapped) -> None:
        wrapped.level.check_open()
        if wrapped.batched:
            raise TransformError(
                "vmap: the elements of a batched tensor were asked for, as by if, float(), .item(), .tolist() or "
                f".numpy(): there are {wrapped.level.size} values, one for each element of the batch, and Python can "
                "go on with one only" + fix("choose with tp.where(condition, a, b); or return the tensor from vmap.")
            )

    def device(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context in which a device is the library's current one."""
        current: AbstractContextManager[Any] = self._api.device(index)
        return current

    def __getattr__(self, name: str) -> NoReturn:
        raise TransformError(
            f"{name} is not for tensors inside of a transform (vmap, grad, jvp), whose memory is another tensor"
            + fix("do it outside of the transformed function.")
        )


def levels_in(tensors: Any) -> Level | None:
    """Returns the highest level among tensors, None where none is a wrapper.

    Raises:
        TransformError: it is closed.
    """
    highest: Level | None = None
    for tensor in tensors:
        if tensor._type.wraps:
            level: Level = tensor._array.level
            level.check_open()
            if highest is None or level.number > highest.number:
                highest = level
    return highest
