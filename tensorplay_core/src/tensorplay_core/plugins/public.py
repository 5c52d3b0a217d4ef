"""``tensorplay.backends``: what users call to see, load and unload backends.

A thin face over the manager, so that its methods can change without changing what people type.
"""

from __future__ import annotations

import builtins

from tensorplay_core.dispatch import devices
from tensorplay_core.errors import BackendError, DeviceUnavailable
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.plugins.records import BackendRecord, State

__all__ = ["BackendRecord", "State", "info", "is_available", "list", "load", "refresh", "unload"]


def list(load: bool = True, timeout: float | None = 20.0) -> builtins.list[BackendRecord]:
    """Returns every installed backend, in the order of (priority, name).

    Args:
        load: try each one that was not tried yet, so that its state is known; failures are in the records, not raised.
        timeout: seconds for each backend, None for no limit.

    Raises:
        EnvironmentVariableError: a ``TENSORPLAY_BACKEND…`` variable has a value that means nothing.
    """
    return [*(MANAGER.load_all(timeout) if load else MANAGER.records())]


def info(name: str) -> BackendRecord:
    """Returns a backend's record without loading it.

    Raises:
        BackendError: no such backend is installed (DeviceUnavailable where it is one of ours, with how to install it).
    """
    return MANAGER.record(name)


def load(name: str) -> BackendRecord:
    """Loads a backend now, rather than when its device is first used.

    Raises:
        DeviceUnavailable: it is not installed, is blocked, or cannot work on this machine.
        BackendError: it is broken or incompatible.
    """
    return MANAGER.load(name)


def unload(name: str) -> BackendRecord:
    """Removes an active backend's kernels and device; :func:`load` brings them back.

    Raises:
        BackendError: no such backend is installed, or its ``tensorplay_unload`` raised.
    """
    return MANAGER.unload(name)


def refresh() -> builtins.list[BackendRecord]:
    """Looks again at what is installed and at the environment; backends that failed get a new try."""
    return [*MANAGER.refresh()]


def is_available(name: str) -> bool:
    """Returns whether a backend works here; loads it to find out. Of a device that core brings itself, true.

    Raises:
        EnvironmentVariableError: a ``TENSORPLAY_BACKEND…`` variable has a value that means nothing.
    """
    if name in devices.built_in:
        return True
    try:
        return MANAGER.load(name).active
    except (BackendError, DeviceUnavailable):
        return False
