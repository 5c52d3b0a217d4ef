"""A set of dispatch keys: a 32-bit bitmap of steps and the page that they are on.

Sets are computed for every call, never stored on a tensor. The highest priority key is the highest set bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorplay_core.dispatch.keys import EVERYWHERE, PAGE, DispatchKey, assign_page, device_of_page, key_name

_COMPOSITE = 1 << DispatchKey.Composite


class KeySet:
    """An immutable set of dispatch keys of one page.

    Args:
        bits: bit ``s`` is set when the key of step ``s`` is a member.
        page: the page; 0 for the built-in devices.

    Example:
        >>> keys = KeySet.of(DispatchKey.CPU, DispatchKey.AutogradCPU)
        >>> keys, keys.highest, DispatchKey.CPU in keys
        (KeySet(AutogradCPU, CPU), 7, True)
    """

    __slots__ = ("bits", "page")

    def __init__(self, bits: int, page: int = 0) -> None:
        """See the class."""
        assert not bits & _COMPOSITE, "Composite is a table slot, never a member of a key set"
        self.bits = bits
        self.page = page

    @classmethod
    def of(cls, *keys: int) -> KeySet:
        """Returns the set of the given keys, all of one page; the mode keys and Python are on every page."""
        pages = {key // PAGE for key in keys if key not in EVERYWHERE}
        assert len(pages) <= 1, "a key set never mixes pages"
        bits = 0
        for key in keys:
            bits |= 1 << key % PAGE
        return cls(bits, pages.pop() if pages else 0)

    @property
    def highest(self) -> int:
        """The key of the highest priority; raises LookupError when the set is empty."""
        if not self.bits:
            raise LookupError("the key set is empty")
        return self.page * PAGE + self.bits.bit_length() - 1

    @property
    def lowest(self) -> int:
        """The key of the lowest priority, which is the backend's; raises LookupError when the set is empty."""
        if not self.bits:
            raise LookupError("the key set is empty")
        return self.page * PAGE + (self.bits & -self.bits).bit_length() - 1

    def below(self, key: int) -> KeySet:
        """Returns the keys of lower priority than ``key``."""
        return KeySet(self.bits & ((1 << key % PAGE) - 1), self.page)

    def __or__(self, other: KeySet) -> KeySet:
        """Returns the union."""
        assert self.page == other.page or not self.bits or not other.bits, "a key set never mixes pages"
        return KeySet(self.bits | other.bits, self.page if self.bits else other.page)

    def __sub__(self, bits: int | KeySet) -> KeySet:
        """Returns the set without the steps of a bitmap or of another set."""
        return KeySet(self.bits & ~(bits.bits if isinstance(bits, KeySet) else bits), self.page)

    def __contains__(self, key: int) -> bool:
        """Whether a key, with its page, is a member."""
        return (key // PAGE == self.page or key in EVERYWHERE) and bool(self.bits >> key % PAGE & 1)

    def __iter__(self) -> Iterator[int]:
        """Iterates over the keys from the highest."""
        bits = self.bits
        while bits:
            step = bits.bit_length() - 1
            yield self.page * PAGE + step
            bits ^= 1 << step

    def __len__(self) -> int:
        """The number of keys."""
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        """Whether there is any key."""
        return bool(self.bits)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same keys."""
        return isinstance(other, KeySet) and self.bits == other.bits and (self.page == other.page or not self.bits)

    def __hash__(self) -> int:
        """Hashes by the keys."""
        return hash((self.bits, self.page if self.bits else 0))

    def __reduce__(self) -> tuple[Any, tuple[str | None, int]]:
        """Pickles the page by its device's name: another process may number its pages otherwise."""
        return _of_device, (device_of_page(self.page), self.bits)

    def __repr__(self) -> str:
        """Names the keys from the highest."""
        return f"KeySet({', '.join(key_name(key) for key in self)})"


def _of_device(device_type: str | None, bits: int) -> KeySet:
    return KeySet(bits, 0 if device_type is None else assign_page(device_type))
