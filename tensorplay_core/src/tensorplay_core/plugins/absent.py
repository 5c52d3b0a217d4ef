"""What tensors have for a device API after their backend was unloaded, blocked or lost.

They outlive it, and some of what they do goes to the API without passing a dispatch table: printing, copies to the
host. Here each of those asks for the device again: it comes back where it may, and otherwise the user reads why not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.device_api import DeviceAPI


class AbsentDevice(DeviceAPI):
    """Stands for the API of a device that is not active; keeps nothing of it alive.

    Args:
        type: the device type.
    """

    def __init__(self, type: str) -> None:
        """See the class."""
        self.type = type

    @property
    def dtypes(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Those of the device when it is active again: a call that began before the unload may end after a reload."""
        known = devices.active_devices().get(self.type)
        return known.api.dtypes if known is not None else {}


def _asking(name: str) -> Callable[..., Any]:
    def method(self: AbsentDevice, *args: Any, **kwargs: Any) -> Any:
        return getattr(devices.entry(self.type).api, name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name, _value in list(vars(DeviceAPI).items()):
    if isinstance(_value, FunctionType) and not _name.startswith("_"):
        setattr(AbsentDevice, _name, _asking(_name))
