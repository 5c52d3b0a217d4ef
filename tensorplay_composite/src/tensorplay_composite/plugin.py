"""Registers the Composite kernels. It owns no device; it is loaded before the first device's own backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_composite.operators import KERNELS, math
from tensorplay_core.plugins import Availability, hookimpl, library_impl

if TYPE_CHECKING:
    from tensorplay_composite.namespace import ArrayPlugin


@library_impl("Composite", "OperatorsComposite")
def _(m: Any) -> None:
    for name, kernel in KERNELS.items():
        m.impl(name, kernel)
    m.emitter(math.emit)


@hookimpl
def tensorplay_from_namespace(
    xp: Any,
    name: str,
    dtypes: Mapping[str, Any] | None,
    mutable: bool | None,
    views: bool | None,
    device_count: int,
) -> ArrayPlugin:
    """Returns the hooks of a backend over an array module."""
    from tensorplay_composite.namespace import ArrayPlugin

    return ArrayPlugin(xp, name, dtypes, mutable, views, device_count)


@hookimpl
def tensorplay_probe() -> Availability:
    """Needs nothing beyond core."""
    return Availability(ok=True)
