"""The promote rules: which dtype an operator computes in, and which its result has.

Python scalars take part with their kind alone, and become 0-d tensors of the dtype that the call computes in before
anything else looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, isfinite
from typing import Any

from tensorplay_core.dispatch import active, devices
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.integers import default_integer
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.tensor_type import TensorType, intern
from tensorplay_core.errors import ArgumentError, DTypeError, ValueRangeError, fix
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.promotion import NOT_PROMOTED, SCALARS, promote, with_scalar

CACHE_LIMIT = 4096
HALVES = (dt.float16, dt.bfloat16)
BOOL_REMEDIES = {
    "neg": "~x inverts a mask; convert with .to(dtype) to compute.",
    "sub": "a ^ b is True where two masks differ; convert with .to(dtype) to compute.",
}
"""What was perhaps meant by an operator that takes no bool."""
LARGE = 65504
"""The largest float16: numbers beyond it may overflow their dtype, of which array libraries warn."""


def promoted(op: Operator, args: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """Returns the positions and values of the tensor arguments that share one dtype."""
    plan = plan_of(op)
    return [(i, args[i]) for i in plan.tensor_positions if plan.positional[i].name not in NOT_PROMOTED]


def tensor_dtype(values: list[Any]) -> DType | None:
    """Returns the common dtype of the tensors among some values, None when there are none."""
    result: DType | None = None
    for value in values:
        for tensor in value if value.__class__ is tuple else (value,):
            if isinstance(tensor, TensorBase):
                dtype = tensor._type.dtype
                result = dtype if result is None else promote(result, dtype)
    return result


def device_of(tensors: list[Any]) -> Device:
    """Returns the device of a call: that of its tensors, where 0-d cpu tensors join any other."""
    for tensor in tensors:
        type = tensor._type
        if tensor._array.shape or type.device.type != "cpu":
            return type.device  # type: ignore[no-any-return]
    return tensors[0]._type.device  # type: ignore[no-any-return]


def compute_dtype(op: Operator, dtype: DType) -> DType:
    """Returns what an operator computes in, given the common dtype of its inputs.

    Raises:
        DTypeError: the operator compares, and complex numbers have no order; or it is for real numbers only; or it
            computes with numbers, and the tensors are bool.
    """
    if dtype.is_bool and "numeric" in op.tags:
        raise DTypeError(
            f"{op.display_name}: takes numbers, and the tensors are bool"
            + fix(BOOL_REMEDIES.get(op.name.removesuffix("_"), "convert with .to(dtype)."))
        )
    if dtype.is_complex and "ordered" in op.tags:
        raise DTypeError(
            f"{op.display_name}: complex numbers have no order, and the tensors are {dtype.name}"
            + fix("compare .abs() or .real().")
        )
    if dtype.is_complex and "real" in op.tags:
        raise DTypeError(
            f"{op.display_name}: takes real numbers, and the tensors are {dtype.name}"
            + fix("apply it to .real(), or to .abs().")
        )
    if "factorization" in op.tags and (not dtype.is_inexact or dtype in HALVES):
        raise DTypeError(
            f"{op.display_name}: takes float32, float64, complex64 and complex128, and the tensors are {dtype.name}"
            + fix("convert with .to(tp.float32).")
        )
    if op.promote == "float" and not dtype.is_inexact:
        return dt.get_default_dtype()
    return dtype


def result_type(op: Operator, compute: TensorType) -> TensorType | None:
    """Returns the type of an operator's result, given the type it computes in; None when the kernel decides."""
    return {
        "default": compute.same_type,
        "float": compute.same_type,
        "keep": compute.same_type,
        "bool": compute.bool_type,
        "sum": compute.sum_type,
        "index": compute.index_type,
        "real": compute.real_type,
    }.get(op.promote)


def scalar_tensor(value: Any, dtype: DType, device: Device, inference: bool = False) -> Tensor:
    """Returns a Python number as a 0-d tensor; integers wrap around, as PyTorch's do.

    Raises:
        ValueRangeError: the dtype cannot hold it, not even as infinity.
    """
    type = intern(device, dtype, inference=inference)
    if type.native is None:  # its backend is not in force: it comes back here, or says why not
        devices.entry(device.type)
    return _scalar_of(type, value)


def _scalar_of(type: TensorType, value: Any) -> Tensor:
    """Returns a Python number as a 0-d tensor of a type, which keeps it for the next call that is given the number."""
    dtype, kind = type.dtype, value.__class__
    cache: dict[Any, Any] | None = type.ints if kind is int else type.floats if kind is float else None
    key = cache_key(value)
    if cache is not None and (known := cache.get(key)) is not None:
        return known  # type: ignore[no-any-return]
    if kind is int and dtype.is_integral:
        if not holds(dtype, value):
            cache = None  # the fast path would compare with what it wraps to
        array = type.api.from_list(wrapped_integer(value, dtype), type.native)
    else:
        try:
            array = _inexact(value, type) if dtype.is_inexact else type.api.from_list(value, type.native)
        except OverflowError as error:
            raise ValueRangeError(f"{value!r} does not fit {dtype.name}: {error}") from None
    tensor = wrap(array, type)
    if cache is not None:
        if len(cache) >= CACHE_LIMIT:
            if active.special:  # autocast looks its numbers up, and must find what a call has just been given
                return tensor
            cache.clear()
        type.api.freeze(array)
        cache[key] = tensor
    return tensor


def wrapped_integer(value: int, dtype: DType) -> int:
    """Returns the number that an integer dtype makes of any integer: modulo 2 to the power of its bits.

    Example:
        >>> wrapped_integer(200, dt.int8), wrapped_integer(-1, dt.uint16)
        (-56, 65535)
    """
    bits = 8 * dtype.itemsize
    in_range = value & ((1 << bits) - 1)
    return in_range - (1 << bits) if dtype.is_signed and in_range >= 1 << (bits - 1) else in_range


def holds(dtype: DType, value: int) -> bool:
    """Whether an integer dtype can hold a number without wrapping it."""
    bits = 8 * dtype.itemsize - dtype.is_signed
    return -(1 << bits) * dtype.is_signed <= value < 1 << bits


def dtype_of_numbers(numbers: Sequence[Any], device: Device) -> DType:
    """Returns the dtype of a new tensor that is made of Python numbers: the least that holds all of them.

    Example:
        >>> dtype_of_numbers([1, 2.5], Device("cpu")).name, dtype_of_numbers([True], Device("cpu")).name
        ('float32', 'bool')
    """
    kind = max((SCALARS.index(number.__class__) for number in numbers), default=SCALARS.index(float))
    dtype = (dt.bool_, dt.int64, dt.get_default_dtype(), dt.complex64)[kind]
    return default_integer(device) if dtype is dt.int64 else dtype


def check_fits(op: str, value: Any, dtype: DType) -> None:
    """Refuses to fill a tensor with a number that its dtype cannot hold; floats become infinite.

    Raises:
        ValueRangeError: it is too large for an integer, infinite or NaN.
        DTypeError: it is complex, and the tensor is real.
    """
    if value.__class__ is complex and not (dtype.is_complex or dtype.is_bool):
        raise DTypeError(
            f"{op}: {value!r} is complex, and the tensor is {dtype.name}" + fix("use its .real, or a complex dtype.")
        )
    finite = value.__class__ is int or (value.__class__ is float and isfinite(value))
    if dtype.is_integral and value.__class__ in (int, float) and not (finite and holds(dtype, int(value))):
        raise ValueRangeError(
            f"{op}: {value!r} does not fit {dtype.name}" + fix("choose a number in its range, or another dtype.")
        )


def check_created(op: str, numbers: Sequence[Any], dtype: DType) -> None:
    """Refuses to make a tensor of numbers, or of a range between them, that its integer dtype cannot hold.

    Raises:
        ValueRangeError: naming the first or the last element.
    """
    if not dtype.is_integral:
        return
    if op == "arange":
        start, end, step = numbers
        whole = all(isinstance(number, int) for number in numbers)
        try:
            count = len(range(start, end, step)) if whole else ceil((end - start) / step)
        except (ValueError, ArithmeticError):
            return  # there is no such range, and its shape rule says why
        numbers = (start, start + (count - 1) * step) if count > 0 else ()
    if op == "logspace":
        return  # the numbers are exponents, and the kernel says what does not fit
    for number in numbers:
        check_fits(op, number, dtype)


def cache_key(value: Any) -> Any:
    """Returns what a number is cached by: its text where ``==`` would not tell it from others, as 0.0 from -0.0."""
    return value if value.__class__ is not float or (value and value == value) else repr(value)


def _inexact(value: Any, type: TensorType) -> Any:
    """Returns a number as a 0-d array of a floating or complex type; one too large becomes infinite in silence."""
    wide = "complex128" if value.__class__ is complex else "float64"
    large = max(abs(value.real), abs(value.imag)) >= LARGE
    if not large or wide not in type.api.dtypes:
        return type.api.from_list(value, type.native)
    return type.api.cast(type.api.from_list(value, type.api.dtypes[wide]), type.native)


def scalars_to_tensors(op: Operator, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replaces the Python numbers among the tensor arguments by 0-d tensors of the dtype that the call computes in.

    Raises:
        ArgumentError: no tensor is among them.
    """
    if not any(v.__class__ in SCALARS for v in args):
        return args
    taking_part = promoted(op, args)
    numbers = [(i, v) for i, v in taking_part if v.__class__ in SCALARS]
    if not numbers:
        return args
    dtype = tensor_dtype([v for _, v in taking_part])
    tensors = [v for v in args if isinstance(v, TensorBase)]
    if not tensors:
        raise ArgumentError(f"{op.display_name}: at least one argument must be a Tensor; all of them are numbers")
    device = device_of(tensors)
    wrappers = [t._type.wrapper for t in tensors if t._type.wrapper is not None]
    if wrappers and ("fake" in wrappers or (not devices.is_active(device.type) and devices.fakes())):
        device = Device("cpu")  # the tensors' own need not be here, and a 0-d tensor joins any
    widens = op.autocast == "fp32" or (args[0].__class__ in SCALARS and op.qualified_name == "tp::div")
    if widens and dtype in HALVES and STATE.get().autocasts(device.type):
        dtype = dt.float32  # what autocast will cast the tensors to; in half precision the number would lose its digits
    if op.promote == "bool" and dtype is not None and dtype.is_integral:
        # An integer that the dtype cannot hold compares as infinity does; wrapped around it would compare wrongly.
        beyond = [(i, v) for i, v in numbers if v.__class__ is int and not holds(dtype, v)]
        numbers = [*(n for n in numbers if n not in beyond), *((i, inf if v > 0 else -inf) for i, v in beyond)]
    for _, v in numbers:
        if dtype is None:
            dtype = {bool: dt.bool_, int: dt.int64, complex: dt.complex64}.get(v.__class__, dt.get_default_dtype())
        dtype = with_scalar(dtype, v.__class__)
    assert dtype is not None
    if dtype is dt.int64:
        dtype = default_integer(device)
    result = list(args)
    inference = all(t._type.inference for t in tensors)
    for i, v in numbers:
        result[i] = scalar_tensor(v, compute_dtype(op, dtype), device, inference)
    return tuple(result)


def scalar_like(tensor: Any, value: Any) -> Any:
    """Returns a Python int or float as the 0-d tensor that goes with ``tensor``, or the value as it is.

    This is the fast path of ``x * 2.0``: only where the number does not change the dtype.
    """
    kind = value.__class__
    if kind is float or kind is int:
        try:
            type = tensor._type
        except AttributeError:  # the other operand is a number too
            return value
        if kind is int:
            known = type.ints.get(value)
        else:
            known = type.floats.get(value if value and value == value else repr(value))
        return _new_scalar(type, value) if known is None else known
    return value


def _new_scalar(type: TensorType, value: float) -> Any:
    """Returns a number that a type does not know yet as a 0-d tensor, or as it is where the slow path has a say."""
    dtype = type.dtype
    fits = dtype.is_inexact or (value.__class__ is int and dtype.is_integral and holds(dtype, value))
    if not fits or type.special or active.special or type.native is None:
        return value
    try:
        return _scalar_of(type, value)
    except ValueRangeError:  # which the slow path raises again
        return value
