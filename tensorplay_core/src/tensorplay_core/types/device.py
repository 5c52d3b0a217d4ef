"""A device: a type that some backend owns and an index.

Parsing never guesses: ``cpux`` and ``cudalike`` are device types of their own, whatever they start with. Whether a type
exists is the plugins' business, so a device can be named before its backend is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tensorplay_core.errors import ArgumentError, ValueRangeError, fix

_DEVICE = re.compile(r"([a-z][a-z0-9_]*)(?::(0|[1-9][0-9]*))?")
_NEGATIVE = re.compile(r"([a-z][a-z0-9_]*):-[0-9]+")


class Device:
    """A device type and, for devices that come in numbers, an index.

    ``with tp.device("cuda"):`` makes it the device on which tensors are created where no other is named, until the end
    of the block. Blocks nest, and one device can be entered again. A block holds for the thread or asyncio task that
    entered it and the tasks started inside; a new thread starts without any.

    A device without an index is another value than the same one with index 0, as in PyTorch; the device of a tensor
    always has its index. A device never equals a string: ``tp.device("cpu") == "cpu"`` is False.

    Args:
        type: the device's type, such as ``"cpu"``, ``"cuda:1"`` or another device.
        index: which one; None means the current one.

    Raises:
        ArgumentError: ``type`` is neither a string nor a device.
        ValueRangeError: it is no device's name, or the index is negative or given twice. Entering a block raises what
            :func:`set_default_device` raises, and changes nothing then.

    Example:
        >>> Device("cuda:1")
        device(type='cuda', index=1)
        >>> Device("cpu") == Device("cpu")
        True
        >>> import tensorplay as tp
        >>> with tp.device("meta"):
        ...     tp.ones(2).device
        device(type='meta')
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:
        """See the class."""
        if isinstance(type, Device):
            type, index = type.type, type.index if index is None else index
        if not isinstance(type, str):
            raise ArgumentError(f"a device is a string such as 'cpu' or 'cuda:0', not {type!r}")
        match = _DEVICE.fullmatch(type)
        if match is None:
            raise _not_a_device(type)
        name, number = match.groups()
        if number is not None and index is not None:
            raise ValueRangeError(f"{type!r} has an index already; index={index} is one too many")
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", int(number) if number is not None else _checked(index))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses: devices are keys of tables."""
        raise AttributeError("a device cannot be changed; make another one")

    def __eq__(self, other: object) -> bool:
        """Whether type and index are the same."""
        return isinstance(other, Device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        """Hashes by type and index."""
        return hash((self.type, self.index))

    def __str__(self) -> str:
        """Returns ``type`` or ``type:index``."""
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        """Returns PyTorch's spelling."""
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __reduce__(self) -> tuple[Callable[..., Device], tuple[str]]:
        """Pickles by name, so that another process may have other plugins."""
        return Device, (str(self),)

    def __enter__(self) -> Device:
        """Makes it the device of creation, if it can start."""
        check(self)
        ENTERED.set((*ENTERED.get(), self))
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Restores what was there before.

        Blocks of two generators can be left in the order in which they were entered, so it is its own entry that a
        block takes away, which need not be the innermost; in a context that never entered it there is none.
        """
        entered = ENTERED.get()
        for i in reversed(range(len(entered))):
            if entered[i] == self:
                ENTERED.set((*entered[:i], *entered[i + 1 :]))
                return


def _checked(index: Any) -> int | None:
    if index is None:
        return None
    if isinstance(index, bool) or not hasattr(index, "__index__") or index.__index__() < 0:
        raise ValueRangeError(f"a device's index is an int from 0 on, not {index!r}")
    return int(index.__index__())  # a NumPy integer is one too, and must not be pickled as such


def _not_a_device(text: str) -> ValueRangeError:
    negative = _NEGATIVE.fullmatch(text)
    if negative is not None:
        return ValueRangeError(
            f"{text!r} is not a device: indices are counted from 0"
            + fix(f"write {negative[1]!r} for the current one, or '{negative[1]}:0' for the first.")
        )
    tidy = "".join(text.split()).lower()
    near = f" Did you mean {tidy!r}?" if tidy != text and _DEVICE.fullmatch(tidy) else ""
    return ValueRangeError(
        f"{text!r} is not a device.{near}"
        + fix("write a lower-case type and, if wanted, an index: 'cpu', 'cuda:0'; a type has letters, digits and '_'.")
    )


ENTERED: ContextVar[tuple[Device, ...]] = ContextVar("tensorplay_devices", default=())
"""The devices of the ``with`` blocks that are open here, the innermost last."""


def _usable(device: Device) -> object:
    return device


check: Callable[[Device], object] = _usable
"""Raises where a device cannot be used; the floor that knows which devices there are sets it."""
