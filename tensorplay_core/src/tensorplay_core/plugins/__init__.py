"""What a backend's plugin module imports, and the floor that finds, loads and lists backends.

Every name is served on first use, because ``import tensorplay`` reaches this package and must pay for neither pluggy
nor attrs nor YAML.

Example:
    >>> from tensorplay_core.plugins import Availability
    >>> Availability(ok=True, device_count=1).ok
    True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorplay_core.dispatch.device_api import DeviceAPI
    from tensorplay_core.dispatch.library import library_impl
    from tensorplay_core.plugins.hookspecs import API_VERSION, Availability, hookimpl, hookspec

__all__ = ["API_VERSION", "Availability", "DeviceAPI", "hookimpl", "hookspec", "library_impl"]

_HOMES = {
    "API_VERSION": "tensorplay_core.plugins.hookspecs",
    "Availability": "tensorplay_core.plugins.hookspecs",
    "DeviceAPI": "tensorplay_core.dispatch.device_api",
    "hookimpl": "tensorplay_core.plugins.hookspecs",
    "hookspec": "tensorplay_core.plugins.hookspecs",
    "library_impl": "tensorplay_core.dispatch.library",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        from tensorplay_core.errors import did_you_mean

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
