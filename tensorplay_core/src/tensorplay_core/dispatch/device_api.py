"""What a backend tells about its device: how to make, read, copy and compare its arrays, and what else it can do.

Core never imports an array library; everything it needs from one goes through an object of this class. A NumPy-like
module gets what it must have from ``tensorplay_composite.arrays.ArrayDevice``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from tensorplay_core.errors import BackendError, fix


class DeviceAPI:
    """Base class of a backend's device.

    A backend must implement :meth:`as_array`, :meth:`dtype_name`, :meth:`from_list`, :meth:`from_host`,
    :meth:`to_host`, :meth:`cast` and :meth:`copy`, and set :attr:`array_class` and :attr:`dtypes`. One with several
    devices must also implement :meth:`device`: TensorPlay enters it around every kernel and every method that takes or
    makes arrays, so that neither has to look after the index. An array must have a ``shape``; all else that TensorPlay
    wants of one it asks the device. The rest is optional. A method either has a default, which its docstring states, or
    raises a BackendError that names the class and the method.

    Attributes:
        array_class: the class that kernels return.
        dtypes: dtype name to native dtype; a name that is missing is a dtype the device does not have. Its widest
            signed integer is the dtype of indices, of integer sums and of Python's integers: int64 where there is one.
        shares_memory_with_host: ``Tensor.numpy()`` may return the array itself.
        mutable: arrays can be written to; where False, a kernel of an operator that writes returns what it would have
            written, in the place of the argument.
        views: slices share memory with what they were taken from. Where this or ``mutable`` is False, a write to a
            tensor gives it, and those that are views of it, other arrays.
        survives_fork: a process that is forked after the device has started can use it; False for CUDA and its like.

    Example:
        >>> DeviceAPI().memory_info(0)
        Traceback (most recent call last):
        ...
        tensorplay_core.errors.BackendError: ...DeviceAPI does not implement memory_info
        fix: do without it on this device; its backend can add it, see DeviceAPI.memory_info.
    """

    array_class: type = object
    dtypes: Mapping[str, Any] = {}
    shares_memory_with_host = False
    mutable = True
    views = True
    survives_fork = True

    def _missing(self, what: str) -> NoReturn:
        raise BackendError(f"{self._class_name()} does not implement {what}")

    def _optional(self, what: str) -> NoReturn:
        remedy = fix(f"do without it on this device; its backend can add it, see DeviceAPI.{what}.")
        raise BackendError(f"{self._class_name()} does not implement {what}{remedy}")

    def _class_name(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def _implements(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(DeviceAPI, method)

    # -- arrays: required

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
        """Copies a NumPy array, which is in this machine's byte order, to device number ``index``."""
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

    # -- arrays: of other memory

    def from_buffer(self, buffer: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
        """Returns an array over the memory of a bytearray or its like, in a native dtype. Optional."""
        self._optional("from_buffer")

    def from_dlpack(self, lender: Any) -> Any:
        """Returns an array over memory that another library lends through DLPack. Optional."""
        self._optional("from_dlpack")

    # -- arrays: with a default

    def freeze(self, array: Any) -> None:
        """Makes an array read-only where the library can: cached numbers are shared by all calls. Default: nothing."""

    def may_alias(self, a: Any, b: Any) -> bool:
        """Whether two arrays share memory; used in checks only. Default: False."""
        return False

    def to_list(self, array: Any) -> Any:
        """Returns nested lists of Python numbers, or one number for a 0-d array. Default: by way of the host."""
        return self.to_host(array).tolist()

    def is_contiguous(self, array: Any) -> bool:
        """Whether the elements lie in memory in C order without gaps. Default: True."""
        return True

    def strides(self, array: Any) -> tuple[int, ...]:
        """Returns the strides in elements. Default: those of C order."""
        step, strides = 1, []
        for size in reversed(array.shape):
            strides.append(step)
            step *= max(size, 1)
        return tuple(reversed(strides))

    def storage_offset(self, array: Any) -> int:
        """Returns the place of the first element in the memory that its views share, in elements. Default: 0."""
        return 0

    def overlaps_itself(self, array: Any) -> bool:
        """Whether two elements are the same memory, as after ``expand``. Default: False."""
        return False

    # -- the device: names, the current one, waiting

    def device_name(self, index: int) -> str:
        """Returns a name for a person. Default: that of the class."""
        return type(self).__name__

    def device(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context in which device number ``index`` is the library's current one.

        Required of a backend with several devices. Default: a context that does nothing.
        """
        return nullcontext()

    def set_device(self, index: int) -> None:
        """Makes device number ``index`` the library's current one, for code that uses the library directly.

        ``tp.accelerator.set_device_index`` calls it. TensorPlay itself does not depend on it. Default: nothing.
        """

    def synchronize(self, index: int) -> None:
        """Waits until everything that was asked of device number ``index`` is done.

        Default: nothing, for a library that is done when it returns.
        """

    # -- random numbers

    def manual_seed(self, seed: int) -> None:
        """Seeds the random numbers of all devices of the type. ``seed`` is below 2**64.

        Called when the device starts and by ``tp.manual_seed``. Default: nothing, for a device without random numbers.
        """

    def get_rng_state(self, index: int) -> Any:
        """Returns the state of the random numbers of device number ``index``, a value that can be pickled. Optional."""
        self._optional("get_rng_state")

    def set_rng_state(self, state: Any, index: int) -> None:
        """Restores what :meth:`get_rng_state` returned; refuses anything else before it changes anything. Optional."""
        self._optional("set_rng_state")

    def new_generator(self, seed: int) -> Any:
        """Returns random numbers apart from the device's own, for ``tp.Generator``. Optional.

        The object is what kernels get as ``generator``. It has ``state(index)`` and ``set_state(state, index)``, which
        are as :meth:`get_rng_state` and :meth:`set_rng_state`.
        """
        self._optional("new_generator")

    # -- memory

    def memory_stats(self, index: int) -> dict[str, int]:
        """Returns statistics of the device's memory, by PyTorch's names, those that there are. Optional.

        ``tp.accelerator`` reads ``allocated_bytes.all.current`` (bytes in arrays), ``reserved_bytes.all.current``
        (bytes that the library holds, those it keeps for later included), and the highest that each was since the last
        :meth:`reset_peak_memory_stats`: ``allocated_bytes.all.peak``, ``reserved_bytes.all.peak``.
        """
        self._optional("memory_stats")

    def reset_peak_memory_stats(self, index: int) -> None:
        """Starts the peaks of :meth:`memory_stats` anew from what is in use now. Optional."""
        self._optional("reset_peak_memory_stats")

    def memory_info(self, index: int) -> tuple[int, int]:
        """Returns the free and the total memory of device number ``index``, in bytes. Optional."""
        self._optional("memory_info")

    def empty_cache(self) -> None:
        """Gives memory that the library keeps for later back to the system. Default: nothing, as if it kept none."""

    # -- streams

    def current_stream(self, index: int) -> Any:
        """Returns the stream that device number ``index`` works on, an object of the library. Optional."""
        self._optional("current_stream")

    def set_stream(self, stream: Any) -> None:
        """Makes a stream the current one of its device, here and in this thread. Optional."""
        self._optional("set_stream")


ON_ARRAYS = ("as_array", "from_list", "from_host", "from_buffer", "from_dlpack", "to_host", "cast", "copy", "to_list")
"""The methods that make arrays or read their elements, so that the library must know which device is meant."""
