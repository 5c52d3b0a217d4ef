"""A device: a type that some backend owns and an index.

Parsing never guesses: ``cpux`` and ``cudalike`` are device types of their own, whatever they start with. Whether a type
exists is the plugins' business, so a device can be named before its backend is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tensorplay_core.errors import ArgumentError, ValueRangeError

_DEVICE = re.compile(r"([a-z][a-z0-9_]*)(?::(0|[1-9][0-9]*))?")


class Device:
    """A device type and, for devices that come in numbers, an index.

    Args:
        type: the device's type, such as ``"cpu"``, ``"cuda:1"`` or another device.
        index: which one; None means the current one.

    Example:
        >>> Device("cuda:1")
        device(type='cuda', index=1)
        >>> Device("cpu") == Device("cpu")
        True
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
            raise ValueRangeError(
                f"{type!r} is not a device. Write a lower-case type and, if wanted, an index: 'cpu', 'cuda:0'."
            )
        name, number = match.groups()
        if number is not None and index is not None:
            raise ValueRangeError(f"{type!r} has an index already; index={index} is one too many")
        if index is not None and (isinstance(index, bool) or not isinstance(index, int) or index < 0):
            raise ValueRangeError(f"a device's index is an int from 0 on, not {index!r}")
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", int(number) if number is not None else index)

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
