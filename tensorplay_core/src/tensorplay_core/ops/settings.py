"""Process-wide settings, and a description of what is installed."""

from __future__ import annotations

import platform
import sys
from typing import Any

from tensorplay_core import __version__
from tensorplay_core.dispatch import devices
from tensorplay_core.types.device import Device


def set_default_device(device: Device | str) -> None:
    """Sets the device that creation functions use when none is named.

    Raises:
        DeviceUnavailable: the device cannot start here; nothing is changed.
    """
    devices.set_default_device(device if isinstance(device, Device) else Device(device))


def show_config() -> str:
    """Returns a description of this installation, for a bug report."""
    from tensorplay_core.plugins import public

    rows: list[Any] = public.list(load=False)
    lines = [f"tensorplay {__version__}", f"python {platform.python_version()} ({sys.platform}, {platform.machine()})"]
    for row in rows:
        info = row.info
        lines.append(f"backend {row.name}: {info.distribution} {info.version}, {row.state.value}")
    return "\n".join(lines)
