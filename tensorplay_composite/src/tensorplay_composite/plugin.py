"""Registers the Composite kernels. It owns no device; it is loaded before the first device's own backend."""

from __future__ import annotations

from typing import Any

from tensorplay_composite.operators import KERNELS, math
from tensorplay_core.plugins import Availability, hookimpl, library_impl


@library_impl("Composite", "OperatorsComposite")
def _(m: Any) -> None:
    for name, kernel in KERNELS.items():
        m.impl(name, kernel)
    m.emitter(math.emit)


@hookimpl
def tensorplay_probe() -> Availability:
    """Needs nothing beyond core."""
    return Availability(ok=True)
