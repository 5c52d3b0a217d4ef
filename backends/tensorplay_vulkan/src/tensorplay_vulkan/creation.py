"""Kernels that make arrays from sizes, and those that write into one.

Numbers that follow a rule, and random ones, are made on the host and copied: random ones so that one seed gives the
same numbers on every device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorplay_composite.arrays import HostRandom, draws, ranges
from tensorplay_core.errors import ValueRangeError
from tensorplay_vulkan.array import BOOL, FLOAT32, INT32, VulkanArray, VulkanDType
from tensorplay_vulkan.elementwise import assign, contiguous, fill
from tensorplay_vulkan.gpu import Gpu
from tensorplay_vulkan.pointwise import word_of


def sizes_of(size: Any) -> tuple[int, ...]:
    """Returns a size as a tuple."""
    return (size,) if isinstance(size, int) else tuple(size)


def number(value: Any, dtype: VulkanDType) -> int:
    """Returns the word of a Python number in a dtype, whatever its kind; too large a float is infinite."""
    if dtype is FLOAT32:
        with np.errstate(over="ignore"):
            return word_of(float(np.float32(value)), "float32")
    return word_of(bool(value) if dtype is BOOL else int(value), dtype.name)


def kernels(gpu: Gpu, random: HostRandom) -> dict[str, Any]:
    """Returns the kernels of creation."""
    made = ranges.kernels(gpu.upload, lambda dtype: dtype.name)
    return {**filled(gpu), **made, **drawn(gpu, random), **writers(gpu)}


def filled(gpu: Gpu) -> dict[str, Any]:
    """Returns the kernels of constants and ranges."""

    def constant(size: Any, value: Any, dtype: VulkanDType) -> VulkanArray:
        result = gpu.empty(sizes_of(size), dtype)
        word = number(value, dtype)
        if word:  # a new buffer is zero
            fill(gpu, result, word)
        return result

    def default(*values: Any) -> VulkanDType:
        if any(isinstance(value, float) for value in values):
            return FLOAT32
        return BOOL if all(isinstance(value, bool) for value in values) else INT32

    def empty(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return gpu.empty(sizes_of(size), dtype or FLOAT32)

    def zeros(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return gpu.empty(sizes_of(size), dtype or FLOAT32)

    def ones(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return constant(size, 1, dtype or FLOAT32)

    def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return constant(size, fill_value, dtype or default(fill_value))

    def arange(start: Any, end: Any, step: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if all(isinstance(value, int) for value in (start, end, step)):
            host = np.array(range(start, end, step), dtype="int64")
        else:
            host = start + np.arange(max(0, math.ceil((end - start) / step)), dtype="float64") * step
        return gpu.upload(host, dtype or default(0, start, end, step))

    def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None) -> Any:
        m = n if m is None else m
        if n < 0 or m < 0:
            raise ValueRangeError(f"eye: sizes are 0 or more, got {n} and {m}")
        result = gpu.empty((n, m), dtype or FLOAT32)
        diagonal = result.view((min(n, m),), (m + 1,))
        fill(gpu, diagonal, number(1, result.dtype))
        return result

    return {"empty": empty, "zeros": zeros, "ones": ones, "full": full, "arange": arange, "eye": eye}


def drawn(gpu: Gpu, random: HostRandom) -> dict[str, Any]:
    """Returns the kernels of random numbers, which are drawn on the host."""

    def write(array: Any, host: Any) -> Any:
        assign(gpu, array, gpu.upload(host, array.dtype))
        return array

    def host(array: Any) -> Any:
        return gpu.download(contiguous(gpu, array))

    return draws.kernels(draws.Place(gpu.upload, write, host, lambda dtype: dtype.name, INT32), random)


def writers(gpu: Gpu) -> dict[str, Any]:
    """Returns the kernels that write into an array."""

    def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
        assign(gpu, self, src)
        return self

    def fill_(self: Any, value: Any) -> Any:
        fill(gpu, self, number(value, self.dtype))
        return self

    def zero_(self: Any) -> Any:
        fill(gpu, self, 0)
        return self

    return {"copy_": copy_, "fill_": fill_, "zero_": zero_}
