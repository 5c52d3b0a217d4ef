"""The devices that are active in this process, and the default one.

An entry appears when a backend's plugin is loaded, which happens when its device is first named: :data:`loader`, set by
the plugins floor, does it or raises why it cannot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.dispatch.keys import PAGE, assign_page, backend_key
from tensorplay_core.errors import DeviceUnavailable, ValueRangeError
from tensorplay_core.types.device import Device

UNNUMBERED = frozenset({"cpu", "meta"})
"""Device types of which there is one, so that a tensor's device has no index."""


class DeviceEntry:
    """An active device.

    Attributes:
        type: the device type.
        api: the backend's device API.
        count: how many devices of the type there are.
        distribution: the distribution that brought it.
        page: the page of its dispatch keys.
        key: its backend key.
    """

    __slots__ = ("api", "count", "distribution", "indexed", "key", "page", "type")

    def __init__(self, type: str, api: DeviceAPI, count: int, distribution: str) -> None:
        """See the class."""
        self.type = type
        self.api = api
        self.count = count
        self.distribution = distribution
        self.page = assign_page(type)
        self.key = backend_key(type) % PAGE
        self.indexed = type not in UNNUMBERED


_entries: dict[str, DeviceEntry] = {}
_lock = threading.RLock()
loader: Callable[[str], None] | None = None
"""Makes a device active, or raises DeviceUnavailable or BackendError with the reason; set by the plugins floor."""
built_in: dict[str, Callable[[], None]] = {}
"""Device types that core brings itself, without a backend: what makes each active, which is asked before the loader."""
_seed: int | None = None


def install(type: str, api: DeviceAPI, count: int, distribution: str) -> DeviceEntry:
    """Makes a device active."""
    with _lock:
        entry = _entries[type] = DeviceEntry(type, api, count, distribution)
        if _seed is not None:
            api.manual_seed(_seed)
    return entry


def uninstall(type: str) -> None:
    """Makes a device inactive."""
    with _lock:
        _entries.pop(type, None)


def active_devices() -> dict[str, DeviceEntry]:
    """Returns the devices that are active now."""
    return dict(_entries)


def entry(type: str) -> DeviceEntry:
    """Returns the entry of a device type, loading its backend at first use.

    Raises:
        DeviceUnavailable: no backend brings the device, or it cannot start here.
        BackendError: its backend is broken.
    """
    known = _entries.get(type)
    if known is not None:
        return known
    if type in built_in:
        built_in[type]()
    elif loader is not None:
        loader(type)
    if type not in _entries:
        raise DeviceUnavailable(f"no backend makes the device {type!r} active")
    return _entries[type]


def normalize(device: Device) -> Device:
    """Returns a device with the index that a tensor on it carries: none for cpu and meta, a number for all others.

    Raises:
        ValueRangeError: there are not so many devices.
    """
    found = entry(device.type)
    if device.index is not None and device.index >= max(found.count, 1):
        raise ValueRangeError(
            f"device {device} does not exist: {found.count} {device.type} device(s) here, numbered from 0."
        )
    if not found.indexed:
        return Device(device.type)
    return device if device.index is not None else Device(device.type, 0)


def manual_seed(seed: int) -> None:
    """Seeds every active device now and every other one when it becomes active."""
    global _seed
    with _lock:
        _seed = seed
        for known in _entries.values():
            known.api.manual_seed(seed)


class _Default:
    device = Device("cpu")


def default_device() -> Device:
    """Returns the device that creation uses when none is named."""
    return _Default.device


def set_default_device(device: Device) -> None:
    """Sets the device that creation uses when none is named; the device must be able to start."""
    _Default.device = normalize(device)
