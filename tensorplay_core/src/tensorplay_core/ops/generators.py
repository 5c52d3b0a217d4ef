"""Generators of random numbers that a program owns: what ``generator=`` takes.

A device has numbers of its own, which ``manual_seed`` starts anew for the whole process. A generator is apart from
them, so that a data loader or a test draws the same whatever else is drawn. Its numbers come from the device's backend,
and follow from the seed as the device's own do.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch import devices
from tensorplay_core.errors import ArgumentError, DeviceMismatch, fix
from tensorplay_core.types.device import Device

DEFAULT_SEED = 67280421310721
"""The seed of a generator that nobody has seeded, as in PyTorch."""


class Generator:
    """A source of random numbers for one device.

    Args:
        device: for whose tensors it draws.

    Raises:
        DeviceUnavailable: the device cannot be used here.
        BackendError: its backend has no generators of its own.

    Example:
        >>> import tensorplay as tp
        >>> g = tp.Generator().manual_seed(7)
        >>> first = tp.rand(3, generator=g)
        >>> bool((tp.rand(3, generator=g.manual_seed(7)) == first).sum() == 3)
        True
    """

    __slots__ = ("_seed", "_source", "device")

    def __init__(self, device: Device | str = "cpu") -> None:
        """See the class."""
        place = devices.normalize(device if isinstance(device, Device) else Device(device))
        self.device = place
        self._seed = DEFAULT_SEED
        self._source: Any = devices.entry(place.type).api.new_generator(DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Generator:
        """Starts the numbers anew from a seed, modulo 2**64, and returns the generator.

        Raises:
            ArgumentError: the seed is no int.
        """
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ArgumentError(f"Generator.manual_seed: takes an int, not {type(seed).__name__}")
        number = seed & (2**64 - 1)
        self._source = devices.entry(self.device.type).api.new_generator(number)
        self._seed = number
        return self

    def seed(self) -> int:
        """Seeds it with a number from the operating system, and returns that."""
        self.manual_seed(devices.random_seed())
        return self._seed

    def initial_seed(self) -> int:
        """Returns the seed that the numbers started from; a state that was set does not change it."""
        return self._seed

    def get_state(self) -> Any:
        """Returns the state, a plain value that can be compared and pickled, for :meth:`set_state`.

        Example:
            >>> import tensorplay as tp
            >>> g = tp.Generator()
            >>> state = g.get_state()
            >>> first = tp.randperm(9, generator=g).tolist()
            >>> tp.randperm(9, generator=g.set_state(state)).tolist() == first
            True
        """
        return self._source.state(self.device.index or 0)

    def set_state(self, state: Any) -> Generator:
        """Draws again what followed :meth:`get_state`, and returns the generator.

        Raises:
            ArgumentError, ValueRangeError: it is no state; nothing is changed.
        """
        self._source.set_state(state, self.device.index or 0)
        return self

    def clone_state(self) -> Generator:
        """Returns another generator that will draw the same."""
        other = Generator(self.device)
        other._seed = self._seed
        return other.set_state(self.get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the device, the seed and the state."""
        return _rebuilt, (str(self.device), self._seed, self.get_state())

    def __repr__(self) -> str:
        """Prints as PyTorch does."""
        return f"<tensorplay.Generator device={str(self.device)!r} initial_seed={self._seed}>"


def _rebuilt(device: str, seed: int, state: Any) -> Generator:
    made = Generator(device)
    made._seed = seed
    return made.set_state(state)


def source_of(op: str, generator: Generator, device: Device) -> Any:
    """Returns what a kernel draws from, for a call on a device.

    Raises:
        DeviceMismatch: the generator is another device's.
    """
    if generator.device != device:
        raise DeviceMismatch(
            f"{op}: the generator draws for {generator.device}, and the call is on {device}"
            + fix(f'make it with tp.Generator("{device}")')
        )
    return generator._source


def check_generator(op: str, value: Any) -> Generator:
    """Returns a value that is a generator.

    Raises:
        ArgumentError: it is none.
    """
    if not isinstance(value, Generator):
        remedy = fix(f"pass tp.Generator().manual_seed({value!r})") if isinstance(value, int) else ""
        raise ArgumentError(f"{op}: generator must be a tp.Generator, not {type(value).__name__}{remedy}")
    return value
