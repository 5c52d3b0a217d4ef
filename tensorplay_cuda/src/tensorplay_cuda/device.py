"""CUDA devices: the current device, streams, memory and names, on top of the general array device over CuPy.

Imported only after the probe, because it is CuPy that it is about.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

import cupy

from tensorplay_composite.arrays import ArrayDevice, Kernels, kernels


class CudaDevice(ArrayDevice):
    """The devices that CuPy sees.

    Memory is that of CuPy's default memory pool. The pool keeps no peaks, so they are taken at every allocation from
    the first :meth:`reset_peak_memory_stats` on; a program that never asks for them pays nothing.
    """

    survives_fork = False  # CUDA refuses every call in a child that was forked after its first one

    def __init__(self) -> None:
        super().__init__(cupy)
        self._lock = threading.Lock()
        self._peaks: dict[int, list[int]] = {}

    def device(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context in which device ``index`` is the current one."""
        return cupy.cuda.Device(index)

    def set_device(self, index: int) -> None:
        """Makes device ``index`` CuPy's current one in this thread."""
        cupy.cuda.Device(index).use()

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

    # -- streams

    def current_stream(self, index: int) -> Any:
        """Returns the ``cupy.cuda.Stream`` that device ``index`` works on in this thread."""
        with cupy.cuda.Device(index):
            return cupy.cuda.get_current_stream()

    def set_stream(self, stream: Any) -> None:
        """Makes a ``cupy.cuda.Stream`` the current one of the device that it was made on, in this thread."""
        made_on = getattr(stream, "device_id", -1)  # the default stream belongs to every device
        with cupy.cuda.Device(None if made_on < 0 else made_on):
            stream.use()

    # -- memory

    def memory_stats(self, index: int) -> dict[str, int]:
        """Returns what CuPy's memory pool says of device ``index``; peaks from the first reset on."""
        with cupy.cuda.Device(index):
            used, held = self._in_pool()
        stats = {"allocated_bytes.all.current": used, "reserved_bytes.all.current": held}
        if index in self._peaks:
            self._raise_peaks(index, used, held)
            stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"] = self._peaks[index]
        return stats

    def reset_peak_memory_stats(self, index: int) -> None:
        """Starts the peaks of device ``index`` anew, and watches CuPy's allocator if this is the first time."""
        with cupy.cuda.Device(index):
            now = self._in_pool()
        with self._lock:
            if not self._peaks:
                cupy.cuda.set_allocator(self._watched(cupy.cuda.get_allocator()))
            self._peaks[index] = [*now]

    def memory_info(self, index: int) -> tuple[int, int]:
        """Returns the free and the total memory of device ``index``, in bytes, as the driver says."""
        with cupy.cuda.Device(index):
            free, total = cupy.cuda.runtime.memGetInfo()
        return int(free), int(total)

    def empty_cache(self) -> None:
        """Gives the blocks that CuPy's memory pools keep free back to the driver and the system."""
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()

    def _in_pool(self) -> tuple[int, int]:
        pool = cupy.get_default_memory_pool()
        return int(pool.used_bytes()), int(pool.total_bytes())

    def _watched(self, allocate: Any) -> Any:
        def watched(size: int) -> Any:
            memory = allocate(size)
            index = cupy.cuda.runtime.getDevice()
            if index in self._peaks:
                self._raise_peaks(index, *self._in_pool())
            return memory

        return watched

    def _raise_peaks(self, index: int, *now: int) -> None:
        with self._lock:
            self._peaks[index] = [max(pair) for pair in zip(self._peaks[index], now, strict=True)]


def cuda_kernels(device: CudaDevice) -> Kernels:
    """Returns the kernels; TensorPlay runs each while the device of its arrays is the current one."""
    return kernels(cupy, random=device.random)
