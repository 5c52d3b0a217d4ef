"""CUDA devices: the current device, streams and names, on top of the general array device over CuPy.

Imported only after the probe, because it is CuPy that it is about.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import cupy

from tensorplay_composite.arrays import ArrayDevice, Kernel, Kernels, emitter, kernels
from tensorplay_core.types.program import Program


class CudaDevice(ArrayDevice):
    """The devices that CuPy sees."""

    def __init__(self) -> None:
        super().__init__(cupy)

    def device(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context in which device ``index`` is the current one."""
        return cupy.cuda.Device(index)

    def from_host(self, host: Any, index: int) -> Any:
        """Copies a NumPy array to device ``index``."""
        with cupy.cuda.Device(index):
            return cupy.array(host if host.dtype.isnative else host.astype(host.dtype.newbyteorder("=")))

    def to_host(self, array: Any) -> Any:
        """Returns a NumPy array with a copy of the elements."""
        with array.device:
            return cupy.asnumpy(array)

    def synchronize(self, index: int) -> None:
        """Waits for everything that was asked of device ``index``."""
        cupy.cuda.Device(index).synchronize()

    def device_name(self, index: int) -> str:
        """Returns the GPU's name."""
        name = cupy.cuda.runtime.getDeviceProperties(index)["name"]
        return name.decode() if isinstance(name, bytes) else str(name)


def cuda_kernels(device: CudaDevice, count: int) -> Kernels:
    """Returns the kernels; with several devices, each runs on that of its arrays.

    Args:
        device: the device API, for its random numbers.
        count: how many devices there are; one needs no switching, and is the common case.
    """
    made = kernels(cupy, random=device.random)
    return made if count < 2 else {name: on_its_device(kernel) for name, kernel in made.items()}


def cuda_emitter(made: Kernels, count: int) -> Callable[[Program], Kernel | None]:
    """Returns what makes kernels of formulas; with several devices, each runs on that of its arrays.

    Args:
        made: the kernels of the formulas' steps.
        count: how many devices there are.
    """
    emit = emitter(cupy, made)

    def emit_for_each_device(program: Program) -> Kernel | None:
        kernel = emit(program)
        return None if kernel is None else on_its_device(kernel)

    return emit if count < 2 else emit_for_each_device


def on_its_device(kernel: Kernel) -> Kernel:
    """Returns the kernel in the context of its first array's device, or of the ``device`` that it is given."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with _device_of(args, kwargs.get("device")):
            return kernel(*args, **kwargs)

    nin = getattr(kernel, "nin", None)
    if nin is None:
        return functools.wraps(kernel)(run)
    names = [inspect.Parameter(f"x{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(nin)]
    run.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    run.__name__ = kernel.__name__
    return run


def _device_of(args: tuple[Any, ...], index: int | None) -> AbstractContextManager[Any]:
    for value in args:
        for array in value if isinstance(value, list) else (value,):
            if isinstance(array, cupy.ndarray):
                return array.device
    return cupy.cuda.Device(index or 0)
