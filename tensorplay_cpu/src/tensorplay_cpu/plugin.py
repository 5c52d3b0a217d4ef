"""The CPU backend: the general array kernels over NumPy, and faster ones where NumPy has more to offer.

This module is imported when a CPU tensor is first made, and that is when NumPy is.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.plugins import Availability, DeviceAPI, hookimpl, library_impl
from tensorplay_cpu.kernels import DEVICE, cpu_kernels
from tensorplay_cpu.math import emitter
from tensorplay_cpu.memory import keep_memory


@library_impl("CPU", "ArraysCPU")
def _(m: Any) -> None:
    kernels = cpu_kernels()
    for name, kernel in kernels.items():
        m.impl(name, kernel)
    m.emitter(emitter(kernels))


@hookimpl
def tensorplay_probe() -> Availability:
    """NumPy is here, or this module would not be."""
    return Availability(ok=True, device_count=1)


@hookimpl
def tensorplay_device() -> DeviceAPI:
    """Returns the device that owns NumPy's arrays."""
    keep_memory()
    return DEVICE
