"""The device half of the backend: how core makes, reads, copies and compares arrays on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import HostRandom
from tensorplay_core.errors import ShapeError
from tensorplay_core.plugins import DeviceAPI
from tensorplay_core.tensor import meta_array
from tensorplay_vulkan.array import DTYPES, VulkanArray
from tensorplay_vulkan.elementwise import contiguous, packed
from tensorplay_vulkan.gpu import Gpu


class VulkanDevice(DeviceAPI):
    """The GPU.

    Args:
        gpu: what runs the shaders.

    Attributes:
        random: the device's random numbers, which come from the host.
    """

    array_class = VulkanArray
    dtypes = DTYPES
    survives_fork = False  # the driver's threads are not there in a child

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.random = HostRandom()

    def as_array(self, value: Any) -> Any:
        """Returns a kernel's result, which is an array already.

        Raises:
            TypeError: it is not.
        """
        if isinstance(value, VulkanArray):
            return value
        raise TypeError(f"{type(value).__name__} is no array on the GPU")

    def dtype_name(self, array: Any) -> str:
        """Returns the name of an array's dtype."""
        return str(array.dtype.name)

    def from_list(self, data: Any, dtype: Any) -> Any:
        """Makes an array from a number or nested lists of numbers.

        Raises:
            ShapeError: the lists are ragged.
            OverflowError: an integer does not fit.
        """
        try:
            with np.errstate(over="ignore"):
                host = np.array(data, dtype=dtype.name)
        except ValueError as error:
            if "inhomogeneous" in str(error) or "sequence" in str(error):
                raise ShapeError("nested lists of one depth must have the same length") from error
            raise
        return self.gpu.upload(host, dtype)

    def from_host(self, host: Any, index: int) -> Any:
        """Copies a NumPy array of one of the device's dtypes to the GPU."""
        return self.gpu.upload(host, DTYPES[host.dtype.name])

    def to_host(self, array: Any) -> Any:
        """Returns a NumPy array with a copy of the elements; waits for them."""
        return self.gpu.download(contiguous(self.gpu, array))

    def cast(self, array: Any, dtype: Any) -> Any:
        """Returns a new array in ``dtype``."""
        return packed(self.gpu, array, dtype)

    def copy(self, array: Any) -> Any:
        """Returns a copy with a buffer of its own."""
        return packed(self.gpu, array)

    def may_alias(self, a: Any, b: Any) -> bool:
        """Whether the stretches of one buffer that two arrays lie in meet."""
        if a.buffer is not b.buffer or not a.size or not b.size:
            return False
        return bool(a.offset <= b.last() and b.offset <= a.last())

    def is_contiguous(self, array: Any) -> bool:
        """Whether the elements lie in C order without gaps."""
        return meta_array.is_contiguous(array)

    def strides(self, array: Any) -> tuple[int, ...]:
        """Returns the strides in elements."""
        return tuple(array.strides)

    def storage_offset(self, array: Any) -> int:
        """Returns the place of the first element in its buffer, in elements."""
        return int(array.offset)

    def overlaps_itself(self, array: Any) -> bool:
        """Whether two elements are the same memory, as after ``expand``."""
        return meta_array.overlaps_itself(array)

    def device_name(self, index: int) -> str:
        """Returns the GPU's name."""
        return str(self.gpu.adapter.info["device"])

    def synchronize(self, index: int) -> None:
        """Waits for everything that was asked of the GPU."""
        self.gpu.wait()

    def manual_seed(self, seed: int) -> None:
        """Seeds the device's random numbers."""
        self.random.manual_seed(seed)

    def new_generator(self, seed: int) -> HostRandom:
        """Returns random numbers apart from the device's own."""
        return HostRandom(seed)

    def get_rng_state(self, index: int) -> bytes:
        """Returns the state of the random numbers."""
        return self.random.state(index)

    def set_rng_state(self, state: bytes, index: int) -> None:
        """Restores a state that :meth:`get_rng_state` returned."""
        self.random.set_state(state, index)
