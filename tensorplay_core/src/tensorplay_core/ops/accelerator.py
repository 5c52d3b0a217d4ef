"""``tensorplay.accelerator``: the device that computes besides the cpu, whichever backend brings it.

A program that says ``tp.accelerator.synchronize()`` runs on any accelerator, a third party's too. The names, arguments
and meanings are those of ``torch.accelerator``. The accelerator is the type of the default device, unless that is cpu
or meta; else cuda where it works; else the first backend, in the order of ``tp.backends.list()``, whose device can be
used.

Example:
    >>> import tensorplay as tp
    >>> with tp.device("loopback"):
    ...     tp.accelerator.current_accelerator(), tp.accelerator.device_count()
    (device(type='loopback'), 1)
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.dispatch.devices import UNNUMBERED, DeviceEntry
from tensorplay_core.errors import (
    ArgumentError,
    BackendError,
    DeviceUnavailable,
    TensorPlayError,
    ValueRangeError,
    fix,
)
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.types.device import Device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_index",
    "set_stream",
    "synchronize",
]

_Which = Device | str | int | None


# -- which there is


def is_available() -> bool:
    """Returns whether there is an accelerator that can be used; loads backends to find out.

    Example:
        >>> import tensorplay as tp
        >>> tp.accelerator.is_available() == (tp.accelerator.device_count() > 0)
        True
    """
    return _found() is not None


def device_count() -> int:
    """Returns how many devices of the accelerator's type there are; 0 where there is no accelerator."""
    found = _found()
    return 0 if found is None else max(found.count, 1)


def current_accelerator(check_available: bool = False) -> Device | None:
    """Returns the accelerator's device type, as a device without an index; None where there is no accelerator.

    Args:
        check_available: for programs written for PyTorch, where False asks what the package was built for. Here a
            device that cannot be used is never returned.
    """
    found = _found()
    return None if found is None else Device(found.type)


def _found() -> DeviceEntry | None:
    chosen = devices.default_device()
    if chosen.type not in UNNUMBERED:
        try:
            return devices.entry(chosen.type)
        except (BackendError, DeviceUnavailable):
            return None  # the user's choice has gone; another device must not stand in for it
    records = [record for record in MANAGER.records() if record.owns_device and record.name not in UNNUMBERED]
    for record in sorted(records, key=lambda record: record.name != "cuda"):
        try:
            return devices.entry(record.name)
        except TensorPlayError:  # kept in its record, where tp.backends.list() shows it
            continue
    return None


def _needed(what: str) -> DeviceEntry:
    found = _found()
    if found is not None:
        return found
    chosen = devices.default_device()
    if chosen.type not in UNNUMBERED:
        devices.entry(chosen.type)  # raises why it cannot be used
    raise DeviceUnavailable(
        f"{what}: there is no accelerator here: no installed backend brings a device besides cpu and meta that can be "
        "used" + fix("run tensorplay backends list, which says why each cannot; tp.accelerator.is_available() asks.")
    )


# -- the current device


def current_device_index() -> int:
    """Returns the index of the accelerator's current device.

    It is 0 at first and in every new thread; asyncio tasks start with that of the task that created them.

    Raises:
        DeviceUnavailable: there is no accelerator.
    """
    return devices.current_index(_needed("current_device_index").type)


def set_device_index(device: Device | str | int, /) -> None:
    """Sets the accelerator's current device: where a device without an index is, and what the library behind uses.

    Args:
        device: an index, or a device with one; a negative index does nothing.

    Raises:
        DeviceUnavailable: there is no accelerator.
        ValueRangeError: there is no such device, it has no index, or it is of another type; nothing is changed.
    """
    found = _needed("set_device_index")
    index = _index("set_device_index", found, device)
    if index is None:
        raise ValueRangeError(f"set_device_index: {device!r} has no index" + fix(f"write one, as in '{found.type}:0'."))
    if index >= 0:
        devices.set_current_index(found.type, index)


class device_index:
    """A ``with`` block in which another device of the accelerator's type is the current one; blocks nest.

    Args:
        device: an index, or a device with one; None or a negative index does nothing.

    Raises:
        DeviceUnavailable, ValueRangeError: on entering, as :func:`set_device_index`.

    Example:
        >>> import tensorplay as tp
        >>> with tp.device("loopback"), tp.accelerator.device_index(0):
        ...     tp.ones(2).device
        device(type='loopback', index=0)
    """

    def __init__(self, device: _Which, /) -> None:
        """See the class."""
        self._device = device
        self._before: list[tuple[str, int] | None] = []

    def __enter__(self) -> Self:
        """Makes it the current device."""
        self._before.append(self._enter())
        return self

    def _enter(self) -> tuple[str, int] | None:
        if self._device is None:
            return None
        found = _needed("device_index")
        index = _index("device_index", found, self._device)
        if index is None or index < 0:
            return None
        return found.type, devices.set_current_index(found.type, index)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores the one before."""
        before = self._before.pop()
        if before is not None:
            devices.restore_index(*before)


def _index(what: str, found: DeviceEntry, device: _Which) -> int | None:
    """Returns the index that an argument means, None where it has none."""
    if device is None:
        return None
    if hasattr(device, "__index__") and not isinstance(device, bool):
        return int(device.__index__())
    if not isinstance(device, (Device, str)):
        raise ArgumentError(f"{what}: device must be an index, a device or None, not {device!r}")
    place = device if isinstance(device, Device) else Device(device)
    if place.type != found.type:
        remedy = f"name a {found.type} device"
        if place.type not in UNNUMBERED:  # these two are no accelerators
            remedy += f", or make {place.type} the default device (tp.set_default_device)"
        raise ValueRangeError(
            f"{what}: {place} is not the current accelerator, which is {found.type}" + fix(f"{remedy}.")
        )
    return place.index


def _at(what: str, device: _Which) -> tuple[DeviceAPI, int]:
    """Returns the API and the index of a device that exists: the one that an argument means, else the current one."""
    found = _needed(what)
    index = _index(what, found, device)
    if index is not None and index < 0:
        raise ValueRangeError(f"{what}: a device's index is 0 or more, not {index}")
    place = devices.normalize(Device(found.type, index))
    return found.api, place.index or 0


# -- waiting, and streams


def synchronize(device: _Which = None, /) -> None:
    """Waits until everything that was asked of a device is done.

    Args:
        device: which one; the current one when None.

    Raises:
        DeviceUnavailable: there is no accelerator.
        ValueRangeError: there is no such device, or it is of another type than the accelerator.
    """
    api, index = _at("synchronize", device)
    api.synchronize(index)


def current_stream(device: _Which = None, /) -> Any:
    """Returns the stream that a device works on, an object of the library behind it.

    Raises:
        BackendError: the accelerator has no streams, or its backend does not say.
    """
    api, index = _at("current_stream", device)
    return api.current_stream(index)


def set_stream(stream: Any, /) -> None:
    """Makes a stream of the accelerator's library the current one of its device, in this thread.

    Which device is the current one does not change by it.

    Raises:
        BackendError: the accelerator has no streams, or its backend does not say.
    """
    _needed("set_stream").api.set_stream(stream)


# -- memory


def empty_cache() -> None:
    """Gives memory that the accelerator's library keeps for later back to the system."""
    _needed("empty_cache").api.empty_cache()


def memory_stats(device_index: _Which = None, /) -> dict[str, int]:
    """Returns what a device's memory is used for, by PyTorch's names: those that the backend can tell.

    Raises:
        BackendError: the backend does not tell.
    """
    api, index = _at("memory_stats", device_index)
    return dict(api.memory_stats(index))


def memory_allocated(device_index: _Which = None, /) -> int:
    """Returns the bytes that arrays on a device take."""
    return _statistic("memory_allocated", device_index, "allocated_bytes.all.current")


def max_memory_allocated(device_index: _Which = None, /) -> int:
    """Returns the most bytes that arrays took since the start, or since :func:`reset_peak_memory_stats`."""
    return _statistic("max_memory_allocated", device_index, "allocated_bytes.all.peak")


def memory_reserved(device_index: _Which = None, /) -> int:
    """Returns the bytes that the library holds, with those that it keeps for later."""
    return _statistic("memory_reserved", device_index, "reserved_bytes.all.current")


def max_memory_reserved(device_index: _Which = None, /) -> int:
    """Returns the most bytes that the library held since the start, or since :func:`reset_peak_memory_stats`."""
    return _statistic("max_memory_reserved", device_index, "reserved_bytes.all.peak")


def _statistic(what: str, device: _Which, name: str) -> int:
    api, index = _at(what, device)
    stats = api.memory_stats(index)
    if name not in stats:
        remedy = ""
        if name.endswith(".peak") and api._implements("reset_peak_memory_stats"):
            remedy = fix("call tp.accelerator.reset_peak_memory_stats() first: peaks are kept from then on.")
        raise BackendError(
            f"{what}: {api._class_name()}.memory_stats does not tell {name!r}; it tells "
            f"{', '.join(stats) or 'nothing'}{remedy}"
        )
    return stats[name]


def reset_peak_memory_stats(device_index: _Which = None, /) -> None:
    """Starts the peaks of a device's memory anew from what is in use now."""
    api, index = _at("reset_peak_memory_stats", device_index)
    api.reset_peak_memory_stats(index)


def get_memory_info(device_index: _Which = None, /) -> tuple[int, int]:
    """Returns the free and the total memory of a device, in bytes.

    Raises:
        BackendError: the backend does not tell.
    """
    api, index = _at("get_memory_info", device_index)
    return api.memory_info(index)
