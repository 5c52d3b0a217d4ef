"""Process-wide settings: the default device and the state of the random numbers; and what is installed."""

from __future__ import annotations

import platform
import sys
from typing import Any

from tensorplay_core import __version__
from tensorplay_core.dispatch import devices
from tensorplay_core.types.device import Device


def set_default_device(device: Device | str | None) -> None:
    """Sets the device on which tensors are created where none is named.

    It holds for the whole process, threads that are started later included; a ``with tp.device(...)`` block goes before
    it. A device without an index is the current one of its type at each call.

    Args:
        device: the device; None sets it back to the cpu.

    Raises:
        DeviceUnavailable: the device cannot start here; nothing is changed.
        BackendError: its backend is broken; nothing is changed.
        ValueRangeError: there is no device of that index; nothing is changed.

    Example:
        >>> import tensorplay as tp
        >>> tp.set_default_device("loopback")
        >>> tp.zeros(2).device
        device(type='loopback', index=0)
        >>> tp.set_default_device(None)
    """
    devices.set_default_device(None if device is None else Device(device))


# -- random numbers


def initial_seed() -> int:
    """Returns the seed that the random numbers of every device started from, also where the system has chosen it.

    Example:
        >>> import tensorplay as tp
        >>> tp.manual_seed(-1)
        >>> tp.initial_seed() == 2**64 - 1
        True
    """
    return devices.initial_seed()


def seed() -> int:
    """Seeds the random numbers of every device with a number from the operating system, and returns it."""
    number = devices.random_seed()
    devices.manual_seed(number)
    return number


def get_rng_state(device: Device | str = "cpu") -> Any:
    """Returns the state of a device's random numbers, for :func:`set_rng_state`.

    It is a plain value that can be compared and pickled, where PyTorch has a tensor of bytes: what it holds is the
    backend's business. The cpu's are ``bytes``.

    Raises:
        DeviceUnavailable: the device cannot be used here.
        BackendError: its backend does not tell the state.

    Example:
        >>> import tensorplay as tp
        >>> state = tp.get_rng_state()
        >>> first = tp.rand(3)
        >>> tp.set_rng_state(state)
        >>> tp.rand(3).tolist() == first.tolist()
        True
    """
    place = devices.normalize(Device(device))
    return devices.entry(place.type).api.get_rng_state(place.index or 0)


def set_rng_state(state: Any, device: Device | str = "cpu") -> None:
    """Sets the state of a device's random numbers, so that it draws again what followed :func:`get_rng_state`.

    Args:
        state: what :func:`get_rng_state` returned, here or in another process.
        device: the device; the seed that :func:`initial_seed` returns stays what it was.

    Raises:
        ArgumentError, ValueRangeError: it is no state; nothing is changed.
        DeviceUnavailable, BackendError: as :func:`get_rng_state`.
    """
    place = devices.normalize(Device(device))
    devices.entry(place.type).api.set_rng_state(state, place.index or 0)


# -- what is installed


def show_config() -> str:
    """Returns a description of this installation, for a bug report."""
    from tensorplay_core.plugins import public

    rows: list[Any] = public.list(load=False)
    lines = [f"tensorplay {__version__}", f"python {platform.python_version()} ({sys.platform}, {platform.machine()})"]
    for row in rows:
        info = row.info
        lines.append(f"backend {row.name}: {info.distribution} {info.version}, {row.state.value}")
    return "\n".join(lines)
