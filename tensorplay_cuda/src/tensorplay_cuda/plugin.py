"""The CUDA backend: the general array kernels over CuPy.

Nothing here imports CuPy before the probe has said that it can work.
"""

from __future__ import annotations

import functools
from typing import Any

from tensorplay_core.plugins import Availability, DeviceAPI, hookimpl, library_impl
from tensorplay_cuda.probe import probe


@functools.cache
def _availability() -> Availability:
    return probe()


@functools.cache
def _device() -> Any:
    from tensorplay_cuda.device import CudaDevice

    return CudaDevice()


@library_impl("CUDA", "ArraysCUDA")
def _(m: Any) -> None:
    import cupy

    from tensorplay_composite.arrays import emitter
    from tensorplay_cuda.device import cuda_kernels

    made = cuda_kernels(_device())
    for name, kernel in made.items():
        m.impl(name, kernel)
    m.emitter(emitter(cupy, made))


@hookimpl
def tensorplay_probe() -> Availability:
    """Says how many CUDA devices there are, or why none can be used."""
    _availability.cache_clear()  # a refresh asks anew
    return _availability()


@hookimpl
def tensorplay_device() -> DeviceAPI:
    """Returns the CUDA device."""
    return _device()
