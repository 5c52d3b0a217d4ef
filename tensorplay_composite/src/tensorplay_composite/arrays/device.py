"""The device half of a backend over a NumPy-like module: how core makes, reads, copies and compares its arrays.

Written against the module's NumPy spellings where it has them and the array API standard's where it does not, all
settled when the object is made. A backend with more to say (several devices, streams, memory) derives from this class.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping
from typing import Any

from tensorplay_composite.arrays._support import Support, module_label, numpy_rules, silent
from tensorplay_composite.arrays.random import HostRandom
from tensorplay_composite.arrays.view import storage_of
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.errors import ArgumentError, ShapeError, fix

NAMES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def native_dtypes(xp: Any) -> dict[str, Any]:
    """Returns TensorPlay's dtype names to the dtypes of ``xp``, those that it has.

    Example:
        >>> import numpy
        >>> native_dtypes(numpy)["float32"]
        dtype('float32')
    """
    support, found = Support(xp), {}
    for name in NAMES:
        with contextlib.suppress(AttributeError):
            found[name] = support.native(name)
    return found


class ArrayDevice(DeviceAPI):
    """A device whose arrays come from a NumPy-like module.

    It has all that a device must have, and random numbers with their state. Of the optional parts of
    :class:`~tensorplay_core.plugins.DeviceAPI` it lacks those that modules do not agree on: statistics of memory,
    streams, several devices.

    Args:
        xp: the array module.
        dtypes: dtype name to native dtype; by default every one that the module has.
        shares_memory_with_host: its arrays are NumPy arrays that ``Tensor.numpy()`` may hand out.
        mutable: arrays can be written to, and a write to any view reaches the array; by default true of NumPy and CuPy,
            and of no other module: without strides, ``as_strided`` and ``diagonal`` are copies. Where they cannot, a
            write to a tensor gives it another array, and core does the same to every tensor that is a view of it.
        views: slices share memory with their array; by default likewise.
        name: what a person calls the device; by default the module's name and version.

    Attributes:
        random: the device's random numbers; pass it on, ``kernels(xp, random=device.random)``.

    Example:
        >>> import numpy
        >>> ArrayDevice(numpy).from_list([[1, 2]], numpy.dtype("float32"))
        array([[1., 2.]], dtype=float32)
    """

    def __init__(
        self,
        xp: Any,
        *,
        dtypes: Mapping[str, Any] | None = None,
        shares_memory_with_host: bool = False,
        mutable: bool | None = None,
        views: bool | None = None,
        name: str | None = None,
    ) -> None:
        if mutable and not numpy_rules(xp):
            raise ArgumentError(
                f"mutable=True: the arrays of {module_label(xp)} have no strides as NumPy's have, so as_strided and "
                "diagonal give copies, and what is written to those would be lost"
                + fix("leave mutable out: what cannot be written to is replaced, and its views with it")
            )
        self.mutable = numpy_rules(xp) if mutable is None else mutable
        self.views = self.mutable if views is None else views
        support = Support(xp, self.mutable)
        self.xp = xp
        self.dtypes = dict(native_dtypes(xp) if dtypes is None else dtypes)
        # Of JAX, whose ndarray is abstract, the class that its arrays have.
        self.array_class: type = xp.ndarray if support.numpy_rules else type(xp.zeros((), dtype=support.single))
        self.shares_memory_with_host = shares_memory_with_host
        self.random = HostRandom()
        self._name = name or module_label(xp)
        self._names = {native: name for name, native in self.dtypes.items()}
        self._support = support
        self._overlap = getattr(xp, "may_share_memory", None)
        made = silent(lambda data, dtype: xp.asarray(data, dtype=dtype))
        self._from_python = support.hushed(made, on_host=True)

    def as_array(self, value: Any) -> Any:
        """Returns a kernel's result as an array, 0-d ones included.

        Raises:
            TypeError: it is nothing that an array can be made of, such as None.
        """
        if type(value) is self.array_class:
            return value
        array = self.xp.asarray(value)
        if array.dtype not in self._names:
            raise TypeError(f"{type(value).__name__} is no array of a dtype that the device has")
        return array

    def dtype_name(self, array: Any) -> str:
        """Returns the name of an array's dtype; one that the device does not have by the module's own name."""
        dtype = array.dtype
        return self._names.get(dtype) or str(dtype)

    def from_list(self, data: Any, dtype: Any) -> Any:
        """Makes an array from a number or nested lists of numbers.

        Raises:
            ShapeError: the lists are ragged.
        """
        try:
            return self._from_python(data, dtype)
        except ValueError as error:
            if "inhomogeneous" in str(error) or "sequence" in str(error):
                raise ShapeError("nested lists of one depth must have the same length") from error
            raise

    def from_host(self, host: Any, index: int) -> Any:
        """Copies a NumPy array to the device."""
        return self.xp.asarray(host.copy())

    def to_host(self, array: Any) -> Any:
        """Returns a NumPy array: the array itself where memory is shared, else a copy."""
        if self.shares_memory_with_host:
            return array
        to_numpy = getattr(self.xp, "asnumpy", None)
        if to_numpy is not None:
            return to_numpy(array)
        import numpy

        return numpy.array(array)

    def from_buffer(self, buffer: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
        """Returns an array over the memory of a buffer, or over a copy where the module's arrays are no host memory."""
        import numpy

        try:
            host_dtype = numpy.dtype(dtype)
        except TypeError:  # the dtypes of array-api-strict are objects of its own
            host_dtype = numpy.dtype(self._names[dtype])
        host = numpy.frombuffer(buffer, dtype=host_dtype).reshape(shape)
        return host if self.shares_memory_with_host else self.from_host(host, 0)

    def from_dlpack(self, lender: Any) -> Any:
        """Returns an array over memory that another library lends."""
        return self.xp.from_dlpack(lender)

    def cast(self, array: Any, dtype: Any) -> Any:
        """Returns a new array in ``dtype``; complex to real drops the imaginary part."""
        return self._support.cast(array, dtype)

    def copy(self, array: Any) -> Any:
        """Returns a copy with memory of its own."""
        return self._support.copy(array)

    def freeze(self, array: Any) -> None:
        """Makes an array read-only where the module has flags for it."""
        flags: Any = getattr(array, "flags", None)
        if hasattr(flags, "writeable"):
            flags.writeable = False

    def may_alias(self, a: Any, b: Any) -> bool:
        """Whether the memory of two arrays may overlap, so that a write to one could change the other."""
        if not self.mutable:
            return False
        return a is b if self._overlap is None else bool(self._overlap(a, b))

    def to_list(self, array: Any) -> Any:
        """Returns nested lists of Python numbers, or one number for a 0-d array."""
        return self.to_host(array).tolist()

    def is_contiguous(self, array: Any) -> bool:
        """Whether the elements lie in memory in C order without gaps."""
        flags = getattr(array, "flags", None)
        return True if flags is None else bool(flags.c_contiguous)

    def strides(self, array: Any) -> tuple[int, ...]:
        """Returns the strides in elements."""
        strides, itemsize = getattr(array, "strides", None), getattr(array, "itemsize", 0)
        if strides is None or not itemsize:
            return super().strides(array)
        return tuple(map(operator.floordiv, strides, (itemsize,) * len(strides)))

    def storage_offset(self, array: Any) -> int:
        """Returns the place of the first element in the memory that its views share, in elements."""
        return storage_of(array)[0]

    def overlaps_itself(self, array: Any) -> bool:
        """Whether two elements are the same memory, as after ``expand``."""
        strides = getattr(array, "strides", None)
        if strides is None or 0 not in strides or 0 in array.shape:  # NumPy gives one without elements strides of 0
            return False
        return any(step == 0 and n > 1 for step, n in zip(strides, array.shape, strict=True))

    def manual_seed(self, seed: int) -> None:
        """Seeds the device's random numbers."""
        self.random.manual_seed(seed)

    def new_generator(self, seed: int) -> HostRandom:
        """Returns random numbers apart from the device's own, which its kernels take as ``generator``."""
        return HostRandom(seed)

    def get_rng_state(self, index: int) -> bytes:
        """Returns the state of the random numbers of device ``index``."""
        return self.random.state(index)

    def set_rng_state(self, state: bytes, index: int) -> None:
        """Restores a state that :meth:`get_rng_state` returned, here or on another device that draws on the host.

        Raises:
            ArgumentError, ValueRangeError: it is no state; nothing is changed.
        """
        self.random.set_state(state, index)

    def device_name(self, index: int) -> str:
        """Returns a name for a person."""
        return self._name
