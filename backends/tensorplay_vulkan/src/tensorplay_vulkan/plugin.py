"""The Vulkan backend: kernels that are compute shaders.

Nothing here imports wgpu before the probe, and nothing starts the GPU before the first tensor.
"""

from __future__ import annotations

import functools
from typing import Any

from tensorplay_core.plugins import Availability, DeviceAPI, hookimpl, library_impl
from tensorplay_vulkan.probe import Machine, probe


@functools.cache
def _found() -> tuple[Availability, Any]:
    return probe(Machine())


@functools.cache
def _device() -> Any:
    from tensorplay_vulkan.device import VulkanDevice
    from tensorplay_vulkan.gpu import Gpu

    return VulkanDevice(Gpu(_found()[1]))


@library_impl("Vulkan", "ShadersVulkan")
def _(m: Any) -> None:
    from tensorplay_vulkan.kernels import vulkan_kernels
    from tensorplay_vulkan.pointwise import emitter

    device = _device()
    for name, kernel in vulkan_kernels(device.gpu, device.random).items():
        m.impl(name, kernel)
    m.emitter(emitter(device.gpu))


@hookimpl
def tensorplay_probe() -> Availability:
    """Says whether there is a GPU, or why none can be used; one that was found is not looked for again."""
    if not _found()[0].ok:
        _found.cache_clear()
    return _found()[0]


@hookimpl
def tensorplay_device() -> DeviceAPI:
    """Returns the GPU."""
    return _device()
