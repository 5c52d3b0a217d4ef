"""Creation functions whose signature no single record can have, and those that read data from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.autograd.node import AccumulateGrad
from tensorplay_core.dispatch import active, devices
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.integers import default_integer
from tensorplay_core.dispatch.tensor_type import TensorType, intern
from tensorplay_core.dispatch.wrapped import INNERMOST
from tensorplay_core.errors import (
    ArgumentError,
    BackendError,
    DeviceUnavailable,
    DTypeError,
    ShapeError,
    ValueRangeError,
    fix,
)
from tensorplay_core.ops._generated_schemas_creation import ARANGE, EMPTY, FULL
from tensorplay_core.ops.annotations import Number
from tensorplay_core.ops.arguments import python_scalar
from tensorplay_core.ops.call import call
from tensorplay_core.ops.frontend import created
from tensorplay_core.ops.shape_checks import as_ints
from tensorplay_core.ops.typing_rules import check_fits
from tensorplay_core.tensor.overrides import overridable, seen_by_modes
from tensorplay_core.tensor.tensor import Tensor, TensorBase, another, wrap
from tensorplay_core.tensor.wrappers import wrap_at
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType, as_dtype

_KINDS = {bool: 0, int: 1, float: 2, complex: 3}


def _type(dtype: Any, device: Any, inferred: DType) -> TensorType:
    wanted = as_dtype(dtype) if dtype is not None else inferred
    return intern(_place(device), wanted)


def _place(device: Any) -> Device:
    return devices.default_device() if device is None else device if device.__class__ is Device else Device(device)


def _finish(array: Any, type: TensorType, requires_grad: bool) -> Tensor:
    y = wrap(array, type.inference_twin if STATE.get().inference else type)
    if active.special and (level := INNERMOST.get()) is not None:
        y = wrap_at(level, y)  # it can be written to inside of the transform that is open
    return y.requires_grad_() if requires_grad else y


def _scan(data: Any, path: tuple[int, ...] = ()) -> tuple[tuple[int, ...], int, Any]:
    """Returns the shape of nested sequences, the highest kind of number in them, and the same as nested lists."""
    if isinstance(data, (list, tuple, range)):
        classes = {*map(type, data)}
        if classes and classes <= _KINDS.keys():  # plain numbers, as most rows are
            return (len(data),), max(_KINDS[one] for one in classes), list(data)
        items, shape, kind = [], None, -1
        for i, item in enumerate(data):
            inner, k, value = _scan(item, (*path, i))
            if shape is not None and inner != shape:
                at = "".join(f"[{j}]" for j in (*path, i))
                raise ShapeError(
                    f"tensor: the sequences are ragged: element {at} has shape {inner}, those before it {shape}"
                )
            shape, kind = inner, max(kind, k)
            items.append(value)
        return (len(data), *(shape or ())), kind, items
    if isinstance(data, TensorBase) or (hasattr(data, "tolist") and hasattr(data, "shape")):
        value = data.tolist()
        return _scan(value, path) if isinstance(value, list) else ((), _KINDS[value.__class__], value)
    number = python_scalar(data)
    if number is None:
        at = "".join(f"[{j}]" for j in path)
        where = f" at {at}" if at else ""
        raise ArgumentError(
            f"tensor: cannot make a tensor of {type(data).__name__}{where}; give numbers, nested lists, or an array"
        )
    return (), _KINDS[number.__class__], number


@seen_by_modes
def tensor(
    data: Any, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """Makes a tensor from a number, nested sequences, a NumPy array or another tensor; the data is always copied.

    Args:
        data: what to copy.
        dtype: the element type; by default bool, int64, float32 or complex64 for Python numbers, whichever is the
            least that holds all of them, and an array's own. On a device without int64, its widest signed integer.
        device: where to put it. When None: the default device; without one, a tensor's data stays where it is.
        requires_grad: whether operations on it are recorded.

    Raises:
        ShapeError: the sequences are ragged.
        ArgumentError: something in the data is no number.
        ValueRangeError: a number does not fit the dtype.

    Example:
        >>> import tensorplay as tp
        >>> tp.tensor([[1, 2], [3, 4.5]])
        tensor([[1.0000, 2.0000],
                [3.0000, 4.5000]])
    """
    if isinstance(data, TensorBase):
        place = device if device is not None else devices.chosen_device() or data.device
        copy = another(data).to(dtype=data.dtype if dtype is None else dtype, device=place, copy=True)
        return copy.requires_grad_() if requires_grad else copy
    if hasattr(data, "__array_interface__") and getattr(data, "shape", ()) != ():
        place = devices.default_device() if device is None else device
        return from_numpy(data, copy=True, dtype=dtype, device=place, requires_grad=requires_grad)
    own = getattr(getattr(data, "dtype", None), "name", None)
    shape, kind, values = _scan(data)
    inferred = (dt.bool_, dt.int64, dt.get_default_dtype(), dt.complex64)[kind] if kind >= 0 else dt.get_default_dtype()
    if own in {d.name for d in dt.ALL}:
        inferred = dt.by_name(str(own))
    elif inferred is dt.int64 and dtype is None:
        inferred = default_integer(_place(device))
    type = _type(dtype, device, inferred)
    if kind == 3 and not type.dtype.is_complex:
        raise ArgumentError(
            f"tensor: complex numbers do not fit dtype {type.dtype.name}" + fix("use dtype=tp.complex64.")
        )
    if 0 in shape:
        empty: Tensor = call(FULL, (shape, 0), {"dtype": type.dtype, "device": type.device})
        return empty.requires_grad_() if requires_grad else empty
    try:
        array = type.api.from_list(values, type.native)
    except (OverflowError, ValueError) as error:  # too large, or NaN where an integer is wanted
        raise ValueRangeError(f"tensor: a value does not fit {type.dtype.name}: {error}") from None
    return _finish(array, type, requires_grad)


@seen_by_modes
def as_tensor(data: Any, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """Makes a tensor, sharing the memory of a tensor or NumPy array where dtype and device allow it.

    Where ``device`` is None the default device decides; without one, a tensor stays where it is.
    """
    if isinstance(data, Tensor):
        place = device if device is not None else devices.chosen_device()
        return data if dtype is None and place is None else data.to(dtype=dtype, device=place)
    if hasattr(data, "__array_interface__") and getattr(data, "shape", ()) != ():
        return from_numpy(data, dtype=dtype, device=devices.default_device() if device is None else device)
    return tensor(data, dtype=dtype, device=device)


@seen_by_modes
def from_numpy(
    ndarray: Any,
    *,
    copy: bool = False,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor of a NumPy array.

    On the cpu it shares the array's memory, unless ``copy`` or ``dtype`` says otherwise, the array is read-only, or its
    bytes are not in this machine's order. It is on the cpu, whatever the default device, unless ``device`` is given.

    Raises:
        ArgumentError: not a NumPy array, or of a dtype that no tensor has.
    """
    name = getattr(getattr(ndarray, "dtype", None), "name", None)
    if name is None or not hasattr(ndarray, "__array_interface__"):
        raise ArgumentError(f"from_numpy: takes a NumPy array, not {type(ndarray).__name__}")
    if name not in {d.name for d in dt.ALL}:
        raise ArgumentError(f"from_numpy: no tensor has the dtype {name}; convert the array with .astype() first")
    source = intern(Device("cpu") if device is None else _type(None, device, dt.by_name(name)).device, dt.by_name(name))
    ndarray = _in_native_order(ndarray)
    if source.api.shares_memory_with_host and not copy and ndarray.flags.writeable:
        array = source.api.as_array(ndarray)
    else:
        array = source.api.from_host(ndarray, source.device.index or 0)
    result = _finish(array, source, False)
    if dtype is not None and dtype is not result.dtype:
        result = result.to(dtype)
    return result.requires_grad_() if requires_grad else result


@seen_by_modes
def arange(
    start: Number,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns ``start, start + step, …`` up to but without ``end``; ``arange(end)`` starts at 0.

    The dtype is int64 (on a device without it, its widest) when all numbers are integers, the default float dtype
    otherwise.

    Example:
        >>> import tensorplay as tp
        >>> tp.arange(3), tp.arange(1, 2, 0.5)
        (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    if end is None:
        start, end = 0, start
    numbers = [python_scalar(x) if not isinstance(x, TensorBase) else x.item() for x in (start, end, step)]
    if any(n is None for n in numbers):
        raise ArgumentError(f"arange: takes numbers, not {start!r}, {end!r}, {step!r}")
    return created(ARANGE, tuple(numbers), {"dtype": dtype, "device": device}, requires_grad)


@seen_by_modes
def scalar_tensor(
    s: Number, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """Returns a tensor without dims, of the default float dtype unless another is given.

    Example:
        >>> import tensorplay as tp
        >>> tp.scalar_tensor(3)
        tensor(3.)
    """
    return full(
        (), s, dtype=dt.get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad
    )


@seen_by_modes
def full(
    size: int | Sequence[int],
    fill_value: Number | Tensor,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns a tensor of a shape filled with one number, whose dtype it has unless ``dtype`` is given.

    Raises:
        ValueRangeError: the number does not fit an integer ``dtype``.
        DTypeError: it is complex, and ``dtype`` is real.

    Example:
        >>> import tensorplay as tp
        >>> tp.full((2,), 7), tp.full((2,), 7.0)
        (tensor([7, 7]), tensor([7., 7.]))
    """
    value = fill_value.item() if isinstance(fill_value, TensorBase) else python_scalar(fill_value)
    if value is None:
        raise ArgumentError(f"full: fill_value must be a number, not {type(fill_value).__name__}")
    if dtype is not None:
        dtype = as_dtype(dtype)
        check_fits("full", value, dtype)
    return created(FULL, (as_ints("full", size, "size"), value), {"dtype": dtype, "device": device}, requires_grad)


@overridable
def full_like(
    input: Tensor,
    fill_value: Number,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns a tensor of another one's shape, dtype and device filled with one number."""
    if not isinstance(input, TensorBase):
        raise ArgumentError(f"full_like, zeros_like, ones_like: input must be a Tensor, not {type(input).__name__}")
    return full(
        input.shape,
        fill_value,
        dtype=input.dtype if dtype is None else dtype,
        device=input.device if device is None else device,
        requires_grad=requires_grad,
    )


@overridable
def zeros_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """Returns zeros of another tensor's shape, dtype and device."""
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@overridable
def ones_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """Returns ones of another tensor's shape, dtype and device."""
    return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@overridable
def empty_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """Returns a tensor of another one's shape, dtype and device whose elements are not set.

    Its dims lie in memory in the order in which the other's do.

    Example:
        >>> import tensorplay as tp
        >>> tp.empty_like(tp.ones(2, 3)).stride(), tp.empty_like(tp.ones(3, 2).t()).stride()
        ((3, 1), (1, 2))
    """
    if not isinstance(input, TensorBase):
        raise ArgumentError(f"empty_like: input must be a Tensor, not {type(input).__name__}")
    shape, strides = input.shape, input.stride()
    order = sorted(range(len(shape)), key=lambda dim: -strides[dim])
    if any(step == 0 and size > 1 for step, size in zip(strides, shape, strict=True)):  # an expanded tensor
        order.sort()
    settings = {
        "dtype": input.dtype if dtype is None else as_dtype(dtype),
        "device": input.device if device is None else device,
    }
    result: Tensor = call(EMPTY, (tuple(shape[dim] for dim in order),), settings)
    if order != sorted(order):
        back = result.permute([order.index(dim) for dim in range(len(order))])
        result = wrap(back._array, back._type)  # whose memory nobody else has
    return result.requires_grad_() if requires_grad else result


def manual_seed(seed: int) -> None:
    """Seeds the random numbers of every device, those that start later too.

    Example:
        >>> import tensorplay as tp
        >>> tp.manual_seed(0)
        >>> a = tp.rand(3)
        >>> tp.manual_seed(0)
        >>> bool((a == tp.rand(3)).sum() == 3)
        True
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ArgumentError(f"manual_seed: takes an int, not {type(seed).__name__}")
    devices.manual_seed(seed & (2**64 - 1))


def _in_native_order(host: Any) -> Any:
    """Returns an array of the host's in the byte order of this machine, which is the only one that devices know."""
    return host if getattr(host.dtype, "isnative", True) else host.astype(host.dtype.newbyteorder("="))


def _rebuild(host: Any, dtype: str, device: str, requires_grad: bool) -> Tensor:
    """Makes a tensor again from its pickle; its device's backend is loaded when it is needed."""
    import tensorplay_core.ops.load  # noqa: F401  the process that reads a pickle need not have imported the package

    try:
        place = devices.normalize(Device(device))
        type = intern(place, dt.by_name(dtype))
        result = wrap(type.api.from_host(_in_native_order(host), place.index or 0), type)
    except (BackendError, DeviceUnavailable, DTypeError, ValueRangeError) as error:
        # The data of a pickle is anybody's, so it says nothing of where the device's backend is to be had from.
        what, _, remedy = str(error).partition("\nfix: ")
        here = f"{remedy.rstrip('.')}; or, where it was pickled," if remedy else "where it was pickled,"
        raise error.__class__(
            f"A tensor that was pickled on {device!r} cannot be restored here. {what}" + fix(f"{here} pickle x.cpu()")
        ) from error.__cause__
    if requires_grad:
        result._node = AccumulateGrad(result)
    return result
