"""All kernels of the backend by the operator's name; what is not here runs through Composite."""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays import HostRandom
from tensorplay_vulkan import creation, indexing, linalg, pointwise, reduction, shape
from tensorplay_vulkan.gpu import Gpu


def vulkan_kernels(gpu: Gpu, random: HostRandom) -> dict[str, Any]:
    """Returns the kernels."""
    return {
        **pointwise.kernels(gpu),
        **reduction.kernels(gpu),
        **shape.kernels(gpu),
        **indexing.kernels(gpu),
        **linalg.kernels(gpu),
        **creation.kernels(gpu, random),
    }
