"""The devices that are active in this process, the current index of each type, and the default device.

An entry appears when a backend's plugin is loaded, which happens when its device is first named: :data:`loader`, set by
the plugins floor, does it or raises why it cannot.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.dispatch.guarded_device import GuardedDevice
from tensorplay_core.dispatch.keys import PAGE, assign_page, backend_key
from tensorplay_core.errors import BackendError, DeviceUnavailable, ValueRangeError, did_you_mean, fix
from tensorplay_core.types import device as device_types
from tensorplay_core.types.device import Device

UNNUMBERED = frozenset({"cpu", "meta"})
"""Device types of which there is one, so that a tensor's device has no index."""
CPU = Device("cpu")


class DeviceEntry:
    """An active device.

    Attributes:
        type: the device type.
        api: the backend's device API.
        count: how many devices of the type there are.
        distribution: the distribution that brought it.
        page: the page of its dispatch keys.
        key: its backend key.
        indexed: tensors on it carry an index.
        several: there are several, so that the library must be told which one is meant.
    """

    __slots__ = ("_api", "_placed", "api", "count", "distribution", "indexed", "key", "page", "several", "type")

    def __init__(self, type: str, api: DeviceAPI, count: int, distribution: str) -> None:
        """See the class."""
        self.type = type
        self._api = api
        self.api: DeviceAPI = GuardedDevice(api, type, distribution)  # type: ignore[assignment]
        self.count = count
        self.distribution = distribution
        self.page = assign_page(type)
        self.key = backend_key(type) % PAGE
        self.indexed = type not in UNNUMBERED
        self.several = self.indexed and count > 1
        self._placed: dict[int, Any] = {}

    def api_at(self, index: int | None) -> DeviceAPI:
        """Returns the API for arrays on one of the devices, always the same object; where there is one, :attr:`api`."""
        if not self.several:
            return self.api
        index = index or 0
        known = self._placed.get(index)
        if known is None:
            known = self._placed.setdefault(index, GuardedDevice(self._api, self.type, self.distribution, index))
        return known  # type: ignore[no-any-return]


_entries: dict[str, DeviceEntry] = {}
_lock = threading.RLock()
loader: Callable[[str], None] | None = None
"""Makes a device active, or raises DeviceUnavailable or BackendError with the reason; set by the plugins floor."""
loading: Callable[[], str] = str
"""Returns the backend that this thread is loading, or an empty string; set by the plugins floor."""
renew: Callable[[DeviceEntry], None] | None = None
"""Gives the types of a device that was installed its API; set by the module of types."""
built_in: dict[str, Callable[[], None]] = {}
"""Device types that core brings itself, without a backend: what makes each active, which is asked before the loader."""
_seed: int | None = None
_current: ContextVar[Mapping[str, int]] = ContextVar("tensorplay_current_devices", default={})  # noqa: B039  never changed
"""Device type to current index, where it is not 0: a new thread starts at 0, an asyncio task with its creator's."""
_default: Device | None = None


def install(type: str, api: DeviceAPI, count: int, distribution: str) -> DeviceEntry:
    """Makes a device active, with the random numbers that the process's seed gives; its types get this API."""
    with _lock:
        entry = _entries[type] = DeviceEntry(type, api, count, distribution)
        api.manual_seed(initial_seed())
    if renew is not None:
        renew(entry)
    return entry


def uninstall(type: str) -> None:
    """Makes a device inactive."""
    with _lock:
        _entries.pop(type, None)


def active_devices() -> dict[str, DeviceEntry]:
    """Returns the devices that are active now."""
    return dict(_entries)


def is_active(type: str) -> bool:
    """Whether a device type is active now; loads nothing."""
    return type in _entries


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
        near = did_you_mean(type, {*_entries, *built_in})
        raise DeviceUnavailable(f"no backend makes the device {type!r} active.{near}".removesuffix("."))
    return _entries[type]


def normalize(device: Device) -> Device:
    """Returns a device with the index that a tensor on it carries: none for cpu and meta, a number for all others.

    Where the index is missing it is that of the current device of the type.

    Raises:
        DeviceUnavailable, BackendError: the device cannot be used here.
        ValueRangeError: there are not so many devices.
    """
    if active.special and fakes():
        return _with_index(device)
    found = entry(device.type)
    full = device if device.index is not None else _with_index(device)
    if full.index is not None and full.index >= max(found.count, 1):
        raise _too_large(full, found)
    return full if found.indexed else _with_index(full)


def fakes() -> bool:
    """Whether new tensors have no data in this context, so that no device need be there."""
    return any(mode.fakes for mode in STATE.get().modes.operators)


def labelled(device: Device) -> Device:
    """Returns a device with an index, as :func:`normalize` does, without asking whether it can be used here."""
    return _with_index(device)


def _with_index(device: Device) -> Device:
    if device.type in UNNUMBERED:
        return device if device.index is None else Device(device.type)
    return device if device.index is not None else Device(device.type, current_index(device.type))


def _too_large(device: Device, found: DeviceEntry) -> ValueRangeError:
    last = max(found.count, 1) - 1
    choices = found.type if not found.indexed else f"{found.type}:0" + f" to {found.type}:{last}" * (last > 0)
    here = f"{last + 1} {found.type} device{'s' if last else ''} here, {choices}"
    return ValueRangeError(f"device {device} does not exist: {here}" + fix(f"use {choices}."))


# -- the current index of each type


def current_index(type: str) -> int:
    """Returns the index that a device of the type has where none is given: 0, unless this context has set another."""
    return _current.get().get(type, 0)


def set_current_index(type: str, index: int) -> int:
    """Sets the current index of a device type in this context, and tells the library behind; returns the one before.

    Raises:
        DeviceUnavailable, BackendError: the device cannot be used here; nothing is changed.
        ValueRangeError: there are not so many devices; nothing is changed.
    """
    normalize(Device(type, index))
    before = current_index(type)
    entry(type).api.set_device(index)
    _current.set({**_current.get(), type: index})
    return before


def restore_index(type: str, index: int) -> None:
    """Sets a current index back to what it was, also where the device was unloaded or fails meanwhile.

    Raises:
        BackendError: the library could not be told; the index is set back nevertheless.
    """
    _current.set({**_current.get(), type: index})
    active = _entries.get(type)
    if active is not None:
        active.api.set_device(index)


# -- the default device


def chosen_device() -> Device | None:
    """Returns the device of the innermost ``with`` block, else what ``set_default_device`` was given, else None."""
    entered = device_types.ENTERED.get()
    return entered[-1] if entered else _default


def default_device() -> Device:
    """Returns the device on which tensors are created where none is named; on first use it may turn out not to start.

    Example:
        >>> import tensorplay as tp
        >>> tp.get_default_device()
        device(type='cpu')
    """
    chosen = chosen_device()
    return CPU if chosen is None else _with_index(chosen)


def set_default_device(device: Device | None) -> None:
    """Sets the device on which tensors are created where none is named; None sets it back to the cpu.

    Raises:
        DeviceUnavailable, BackendError, ValueRangeError: the device cannot be used here; nothing is changed.
    """
    global _default
    _refuse_in_a_load("set_default_device")
    if device is not None:
        normalize(device)
    _default = device


def _refuse_in_a_load(what: str) -> None:
    """Refuses what a plugin must not do to the user's process merely because it is being loaded."""
    name = loading()
    if name:
        raise BackendError(
            f"{what} was called while backend {name!r} is being loaded, and is the user's to call."
            + fix("remove the call from the backend's module and hooks")
        )


# -- random numbers


def manual_seed(seed: int) -> None:
    """Seeds every active device now and every other one when it becomes active.

    Raises:
        BackendError: a plugin calls it while it is being loaded; or a device fails, after all others were seeded.
    """
    global _seed
    _refuse_in_a_load("manual_seed")
    failed: BackendError | None = None
    with _lock:
        _seed = seed
        for known in _entries.values():
            try:
                known.api.manual_seed(seed)
            except BackendError as error:
                failed = failed or error
    if failed is not None:
        raise failed


def initial_seed() -> int:
    """Returns the seed that every device starts from: the last one set, else one from the operating system."""
    global _seed
    with _lock:
        if _seed is None:
            _seed = random_seed()
        return _seed


def random_seed() -> int:
    """Returns a number below 2**64 from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


device_types.check = normalize
