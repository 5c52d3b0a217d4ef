"""What a backend tells about its device: how to make, read, copy and compare its arrays.

Core never imports an array library; everything it needs from one goes through an object of this class. A NumPy-like
module gets the whole of it from ``tensorplay_composite.arrays.ArrayDevice``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from tensorplay_core.errors import BackendError


class DeviceAPI:
    """Base class of a backend's device.

    Attributes:
        array_class: the class that kernels return.
        dtypes: dtype name to native dtype; a name that is missing is a dtype the device does not have.
        shares_memory_with_host: ``Tensor.numpy()`` may return the array itself.
        mutable: arrays can be written to.
        views: slices share memory with what they were taken from.
    """

    array_class: type = object
    dtypes: Mapping[str, Any] = {}
    shares_memory_with_host = False
    mutable = True
    views = True

    def _missing(self, what: str) -> NoReturn:
        raise BackendError(f"{type(self).__module__}.{type(self).__qualname__} does not implement {what}")

    def as_array(self, value: Any) -> Any:
        """Returns a kernel's result as an array of :attr:`array_class`, 0-d ones included."""
        self._missing("as_array")

    def dtype_name(self, array: Any) -> str:
        """Returns the name of an array's dtype, such as ``"float32"``."""
        self._missing("dtype_name")

    def from_list(self, data: Any, dtype: Any) -> Any:
        """Makes an array from a number or nested lists of numbers, in a native dtype."""
        self._missing("from_list")

    def from_host(self, host: Any, index: int) -> Any:
        """Copies a NumPy array to device number ``index``."""
        self._missing("from_host")

    def to_host(self, array: Any) -> Any:
        """Returns a NumPy array with an array's contents."""
        self._missing("to_host")

    def cast(self, array: Any, dtype: Any) -> Any:
        """Returns a new array in a native dtype; complex to real drops the imaginary part."""
        self._missing("cast")

    def copy(self, array: Any) -> Any:
        """Returns a copy with memory of its own."""
        self._missing("copy")

    def freeze(self, array: Any) -> None:
        """Makes an array read-only where the library can: cached numbers are shared by all calls."""

    def may_alias(self, a: Any, b: Any) -> bool:
        """Whether two arrays share memory; used in checks only."""
        return False

    def to_list(self, array: Any) -> Any:
        """Returns nested lists of Python numbers, or one number for a 0-d array."""
        return self.to_host(array).tolist()

    def is_contiguous(self, array: Any) -> bool:
        """Whether the elements lie in memory in C order without gaps."""
        return True

    def strides(self, array: Any) -> tuple[int, ...]:
        """Returns the strides in elements."""
        step, strides = 1, []
        for size in reversed(array.shape):
            strides.append(step)
            step *= max(size, 1)
        return tuple(reversed(strides))

    def overlaps_itself(self, array: Any) -> bool:
        """Whether two elements are the same memory, as after ``expand``."""
        return False

    def manual_seed(self, seed: int) -> None:
        """Seeds the device's random numbers."""

    def synchronize(self, index: int) -> None:
        """Waits until everything that was asked of device number ``index`` is done."""

    def device_name(self, index: int) -> str:
        """Returns a name for a person."""
        return type(self).__name__

    def device(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context in which device number ``index`` is the current one."""
        return nullcontext()
