"""Memory shared with other libraries: DLPack, buffers of Python, and whatever can be seen as an array.

DLPack is a protocol of two methods by which libraries lend each other arrays without copying
(https://dmlc.github.io/dlpack/latest/python_spec.html). The array behind a tensor speaks it; what is checked here is
what the array cannot know: gradients, and dtypes that NumPy has from elsewhere.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.tensor_type import intern
from tensorplay_core.errors import ArgumentError, DeviceUnavailable, TensorPlayError, ValueRangeError, fix
from tensorplay_core.tensor.overrides import seen_by_modes
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType, as_dtype

DEVICES = {1: "cpu", 2: "cuda"}
"""Device types by DLPack's numbers."""


class ExchangeError(ArgumentError, BufferError):
    """What cannot be lent: a TypeError, and a BufferError as the protocol asks."""


def dlpack(
    self: Any,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Lends the tensor's memory to another library, as DLPack's capsule; that library calls it, in its ``from_dlpack``.

    Args:
        self: the tensor.
        stream: as the protocol says; None for the cpu.
        max_version: the newest version of the protocol that the other side knows.
        dl_device: where the other side wants the memory; the tensor's own device unless a copy may be made.
        copy: True for a copy, False for none; None leaves it open.

    Raises:
        ExchangeError: the tensor requires a gradient, the protocol has not its dtype, or its device does not speak it.
    """
    array = _exportable(self)
    given = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    keywords = {name: value for name, value in given.items() if value is not None}
    try:
        return array.__dlpack__(stream=stream, **keywords)
    except (BufferError, TypeError, ValueError) as error:
        raise ExchangeError(f"__dlpack__: {self.dtype.name} on {self.device} cannot be lent so: {error}") from None


def dlpack_device(self: Any) -> tuple[int, int]:
    """Returns where the tensor's memory is, by DLPack's numbers of a device type and a device.

    Raises:
        ExchangeError: its device does not speak the protocol.
    """
    if not hasattr(self._array, "__dlpack_device__"):
        raise _speechless(self)
    kind, index = self._array.__dlpack_device__()
    return int(kind), int(index)


def _speechless(tensor: Any) -> ExchangeError:
    return ExchangeError(
        f"__dlpack__: arrays of device {tensor.device.type!r} do not speak DLPack" + fix("lend a copy: x.cpu()")
    )


def _exportable(tensor: Any) -> Any:
    if STATE.get().grad and tensor._node is not None:
        raise ExchangeError(
            "__dlpack__: the tensor requires a gradient, which another library would lose" + fix("lend x.detach()")
        )
    if not hasattr(tensor._array, "__dlpack__"):
        raise _speechless(tensor)
    if tensor.dtype is dt.bfloat16:
        raise ExchangeError(
            "__dlpack__: NumPy, which holds the memory, does not lend bfloat16" + fix("convert it: x.to(tp.float32)")
        )
    return tensor._array


@seen_by_modes
def from_dlpack(ext_tensor: Any, *, device: Device | str | None = None, copy: bool | None = None) -> Tensor:
    """Returns a tensor over the memory of another library's array, through DLPack.

    Args:
        ext_tensor: an array that speaks the protocol: ``__dlpack__`` and ``__dlpack_device__``.
        device: where the tensor is to be; by default where the array is.
        copy: True for a copy, False for an error where one would be needed; None copies where it must: to another
            device, and what may not be written to.

    Raises:
        ExchangeError: the object does not speak the protocol, or lends what no tensor can be made of; or a copy is
            needed, and forbidden.
        DeviceUnavailable: the memory is where no backend of ours is.

    Example:
        >>> import numpy, tensorplay as tp
        >>> a = numpy.zeros(2)
        >>> x = tp.from_dlpack(a)
        >>> a[0] = 5
        >>> x
        tensor([5., 0.], dtype=tensorplay.float64)
    """
    if not (hasattr(ext_tensor, "__dlpack__") and hasattr(ext_tensor, "__dlpack_device__")):
        raise ExchangeError(
            f"from_dlpack: {type(ext_tensor).__name__} does not speak DLPack" + fix("use tp.tensor(...)")
        )
    kind, index = ext_tensor.__dlpack_device__()
    if int(kind) not in DEVICES:
        raise DeviceUnavailable(f"from_dlpack: no backend knows memory of DLPack's device type {int(kind)}")
    home = devices.normalize(Device(DEVICES[int(kind)], None if int(kind) == 1 else int(index)))
    api = devices.entry(home.type).api
    try:
        array = api.from_dlpack(ext_tensor)
    except TensorPlayError:
        raise
    except Exception as error:
        raise ExchangeError(f"from_dlpack: {type(ext_tensor).__name__} lends nothing usable: {error}") from None
    name = api.dtype_name(array)
    if name not in api.dtypes:
        raise ExchangeError(f"from_dlpack: no tensor has the dtype {name}")
    own = intern(home, dt.by_name(name))
    read_only = getattr(getattr(array, "flags", None), "writeable", True) is False
    target = home if device is None else devices.normalize(device if isinstance(device, Device) else Device(device))
    if copy is False and (read_only or target != home):
        why = "it is read-only" if read_only else f"it is on {home}, and wanted on {target}"
        raise ExchangeError(f"from_dlpack: {why}, so it must be copied, and copy=False forbids it")
    result = wrap(api.copy(array) if copy or read_only else array, own)
    return result if target == home else result.to(target)


@seen_by_modes
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns a tensor of anything that one can be made of, over the same memory where that is possible.

    Args:
        obj: a tensor, an array of NumPy or of a library that speaks DLPack, a number, or nested lists of numbers.
        dtype: by default the object's.
        device: by default a tensor's own, else the default device.
        copy: True for memory of its own; False for an error where the memory cannot be shared.
        requires_grad: whether operations on it are recorded.

    Raises:
        ArgumentError: ``copy=False``, and a copy is needed.

    Example:
        >>> import tensorplay as tp
        >>> x = tp.zeros(2)
        >>> tp.asarray(x) is x, tp.asarray([1, 2])
        (True, tensor([1, 2]))
    """
    from tensorplay_core.ops.creation import as_tensor, tensor

    if copy:
        lends = (
            not isinstance(obj, TensorBase) and not hasattr(obj, "__array_interface__") and hasattr(obj, "__dlpack__")
        )
        result = tensor(from_dlpack(obj) if lends else obj, dtype=dtype, device=device)
        return result.requires_grad_() if requires_grad else result
    if not isinstance(obj, TensorBase) and not hasattr(obj, "__array_interface__") and hasattr(obj, "__dlpack__"):
        obj = from_dlpack(obj, copy=copy)
    result = as_tensor(obj, dtype=dtype, device=device)
    if copy is False and not _shares(obj, result):
        raise ArgumentError(
            "asarray: the memory cannot be shared, and copy=False forbids a copy" + fix("leave copy away")
        )
    return result.requires_grad_() if requires_grad else result


def _shares(obj: Any, result: Tensor) -> bool:
    if result is obj:
        return True
    array = obj._array if isinstance(obj, TensorBase) else obj
    same = isinstance(array, result._type.array_class)
    return same and bool(result._type.api.may_alias(array, result._array))


@seen_by_modes
def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Returns a tensor of one dim on the cpu, over the memory of a buffer of Python: a bytearray, an array, an mmap.

    What may not be written to, such as bytes, is copied.

    Args:
        buffer: an object with Python's buffer interface.
        dtype: the element type.
        count: how many elements; -1 for all that fit.
        offset: where the first begins, in bytes.
        requires_grad: whether operations on it are recorded.

    Raises:
        ArgumentError: the object has no buffer.
        ValueRangeError: the buffer is too short, or its rest is no whole number of elements.

    Example:
        >>> import tensorplay as tp
        >>> tp.frombuffer(bytearray([1, 0, 2, 0]), dtype=tp.int16)
        tensor([1, 2], dtype=tensorplay.int16)
    """
    place = intern(Device("cpu"), as_dtype(dtype))
    try:
        view = memoryview(buffer).cast("B")
    except TypeError as error:
        raise ArgumentError(f"frombuffer: {type(buffer).__name__} has no buffer of bytes: {error}") from None
    size, width = len(view), place.dtype.itemsize
    if not 0 <= offset <= size:
        raise ValueRangeError(f"frombuffer: offset {offset} is outside of a buffer of {size} bytes")
    rest = size - offset
    if count < 0 and rest % width:
        raise ValueRangeError(f"frombuffer: {rest} bytes are no whole number of elements of {width} bytes")
    wanted = rest // width if count < 0 else count
    if wanted * width > rest:
        raise ValueRangeError(f"frombuffer: {wanted} elements take {wanted * width} bytes, and there are {rest}")
    part: Any = view[offset : offset + wanted * width]
    if part.readonly:
        part = bytearray(part)
    result = wrap(place.api.from_buffer(part, place.native, (wanted,)), place)
    return result.requires_grad_() if requires_grad else result
