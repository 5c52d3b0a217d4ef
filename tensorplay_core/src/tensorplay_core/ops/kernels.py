"""What happens at a backend key: tensors become arrays, the kernel runs, its result is checked and wrapped.

The shape rule is asked first, so a call that cannot work raises before any kernel has run. The result's class, dtype
and shape are what the operator promises, or the error names the kernel that broke the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.tensor_type import TensorType, intern
from tensorplay_core.errors import (
    ArgumentError,
    AutogradError,
    DeviceMismatch,
    DTypeError,
    KernelError,
    ShapeError,
    TensorPlayError,
    fix,
)
from tensorplay_core.ops import rebinding, typing_rules
from tensorplay_core.ops.arguments import plan_of, tensors_in, written_tensors
from tensorplay_core.ops.first_call import Watched, failed, is_a_kernels_own
from tensorplay_core.ops.generators import Generator, source_of
from tensorplay_core.ops.results import CATEGORY, arguments_returned, broken, each_shape, wrap_results
from tensorplay_core.ops.shapes import RULES, Shaped
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.version import Version
from tensorplay_core.tensor.views import bump
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.promotion import NOT_PROMOTED

COUNTS = frozenset({"randint", "randperm", "tril_indices", "triu_indices"})
"""Creation operators that make integers, whatever numbers they are given."""


def shaped(value: Any) -> Any:
    """Returns what a shape rule sees of an argument."""
    if isinstance(value, TensorBase):
        return Shaped(value.shape, value._type.dtype)
    if value.__class__ is tuple:
        return tuple([shaped(v) for v in value])
    return value


def expected_shape(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the shape or shapes that an operator's shape rule gives; None when it has none or data decides.

    Raises:
        ShapeError, DimError, ValueRangeError: the call cannot work.
    """
    if op.shape is None:
        return None
    return RULES[op.shape](op.display_name, *map(shaped, args), **{k: shaped(v) for k, v in kwargs.items()})


def run(op: Operator, registration: Registration, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a kernel that takes arrays, for tensors of any dtypes on one device.

    Raises:
        KernelError: the kernel raised, or broke a promise of its operator.
    """
    plan = plan_of(op)
    compute = compute_type(op, args, kwargs)
    asks = False
    if registration.emitter is not None:
        asks = _check_numbers(op, compute, args, kwargs)
    # A kernel that the fast path may call is trusted here too, once it has been checked for this type.
    trusted = not asks and op.fast and compute in registration.verified
    trusted = trusted and not (plan.written or plan.several_views or plan.takes_lists)  # masks have shapes of their own
    shape = None if trusted else expected_shape(op, args, kwargs)
    arrays = to_arrays(op, args, compute)
    native = native_keywords(op, kwargs, compute)
    written = written_tensors(op, args, kwargs) if plan.written else ()
    for tensor in written:
        check_writable(op, tensor)
    apart = rebinding.apart(op, written, compute, args, kwargs, arrays, native) if compute.rebinds else {}
    watched = None if compute in registration.verified else Watched(op, compute, args, arrays, kwargs, native)
    try:
        if compute.several:
            with compute.as_current():
                result = registration.function(*arrays, **native)
        else:
            result = registration.function(*arrays, **native)
    except BaseException as error:
        if watched is not None:
            watched.put_back()
        if not is_a_kernels_own(error):
            raise
        if trusted:  # the rule was not asked before, and its words are the same for every kernel
            expected_shape(op, args, kwargs)
        if isinstance(error, TensorPlayError):
            raise
        raise failed(op, registration, describe(args), error) from error
    if watched is not None:
        watched.check(registration)
    if written and compute.rebinds:
        rebinding.rebind(op, registration, result, apart, args, kwargs)
    for tensor in written:
        bump(tensor)
    if plan.written and None not in plan.returned:
        registration.verified.add(compute)
        return arguments_returned(op, args, kwargs)
    try:
        wrapped = wrap_results(op, registration, result, shape, compute, args, kwargs, checks=not trusted)
    except KernelError:
        if trusted:  # a bad call may have got so far
            expected_shape(op, args, kwargs)
        raise
    registration.verified.add(compute)
    return wrapped


def describe(args: tuple[Any, ...]) -> str:
    """Returns the tensors of a call for a message: dtype, shape and device."""
    parts = [f"{t.dtype.name}{list(t.shape)}" for t in tensors_in(args, {})]
    return f"({', '.join(parts)})" if parts else "()"


def compute_type(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TensorType:
    """Returns the type that the kernel's arrays have: the call's device, and the promoted dtype."""
    tensors = list(tensors_in(args, {}))
    if not tensors:
        return creation_type(op, args, kwargs)
    first = tensors[0]._type
    if all(t._type is first for t in tensors):
        return first.plain.with_dtype(typing_rules.compute_dtype(op, first.dtype))  # type: ignore[no-any-return]
    device = typing_rules.device_of(tensors)
    dtype = typing_rules.tensor_dtype([v for _, v in typing_rules.promoted(op, args)])
    if dtype is None or op.promote == "none":
        dtype = tensors[0]._type.dtype
    for tensor in tensors:
        if tensor._type.wrapper == "fake":  # whose device need not be here
            return tensor._type.plain.with_dtype(typing_rules.compute_dtype(op, dtype))  # type: ignore[no-any-return]
    return intern(device, typing_rules.compute_dtype(op, dtype))


def creation_type(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TensorType:
    """Returns the type that a creation operator makes: of the dtype that is asked for, else that of its numbers."""
    device: Device = kwargs.get("device") or devices.default_device()
    dtype: DType = kwargs.get("dtype") or creation_dtype(op, args, device)
    if numbers := _numbers(op, args):
        typing_rules.check_created(op.name, numbers, dtype)
    return intern(device, dtype)


def creation_dtype(op: Operator, args: tuple[Any, ...], device: Device) -> DType:
    """Returns the dtype that a creation operator makes where none is asked for: that of its numbers."""
    numbers = _numbers(op, args)
    if op.name in ("linspace", "logspace"):  # the numbers between are no integers
        numbers = [0.0, *numbers]
    counts = op.name in COUNTS or (op.shape == "arange" and True in numbers)
    return typing_rules.dtype_of_numbers([0, *numbers] if counts else numbers, device)


def _numbers(op: Operator, args: tuple[Any, ...]) -> list[Any]:
    return [value for spec, value in zip(plan_of(op).positional, args, strict=True) if spec.kind == "Scalar"]


def to_arrays(op: Operator, args: tuple[Any, ...], compute: TensorType) -> list[Any]:
    """Returns the arguments as a kernel takes them: arrays of the computed dtype, on the call's device."""
    plan = plan_of(op)
    if all(v.__class__ is Tensor and v._type.plain is compute for v in args):
        return [v._array for v in args]
    promotes = op.promote != "none"
    result: list[Any] = []
    for spec, value in zip(plan.positional, args, strict=True):
        if spec.kind == "Tensor":
            casts = promotes and spec.name not in NOT_PROMOTED and not spec.items_optional
            dtype = compute if casts else None
            if spec.is_list:
                result.append([to_array(v, dtype, compute) for v in value])
            else:
                result.append(to_array(value, dtype, compute))
        elif spec.kind == "ScalarType":
            result.append(None if value is None else intern(compute.device, value).native)
        else:
            result.append(value)
    return result


def promoted_tensors(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the arguments as an emitted kernel on tensors takes them: tensors of the computed dtype, on one device.

    Raises:
        DTypeError: a number does not go with them.
    """
    compute = compute_type(op, args, kwargs)
    _check_numbers(op, compute, args, kwargs)
    result = list(args)
    for i, spec in enumerate(plan_of(op).positional):
        if isinstance(args[i], TensorBase):
            dtype = args[i]._type.dtype if spec.name in NOT_PROMOTED else compute.dtype
            result[i] = args[i].to(dtype, compute.device)
    return tuple(result)


def to_array(value: Any, as_type: TensorType | None, compute: TensorType) -> Any:
    """Returns one tensor's array, cast and moved where the call needs it."""
    if value is None:
        return None
    type, array = value._type, value._array
    if type.device != compute.device:  # a 0-d cpu tensor joins
        target = intern(compute.device, type.dtype)
        array = target.api.from_host(type.api.to_host(array), compute.device.index or 0)
    if as_type is not None and type.dtype is not as_type.dtype:
        array = compute.api.cast(array, as_type.native)
    return array


def native_keywords(op: Operator, kwargs: dict[str, Any], compute: TensorType) -> dict[str, Any]:
    """Returns keyword-only arguments as a kernel takes them: native dtypes, device indices, arrays."""
    if "creation" in op.tags:
        kwargs = {**kwargs, "dtype": compute.dtype, "device": compute.device}
    result = {}
    for name, value in kwargs.items():
        if value.__class__ is DType:
            result[name] = intern(compute.device, value).native
        elif value.__class__ is Device:
            result[name] = value.index or 0
        elif isinstance(value, TensorBase):
            result[name] = value._array
        elif value.__class__ is Generator:
            result[name] = source_of(op.display_name, value, compute.device)
        else:
            result[name] = value
    return result


def _check_numbers(op: Operator, compute: TensorType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Refuses numbers that do not go with an emitted kernel's tensors; returns whether the shape rule asks them too."""
    from tensorplay_core.ops import program_types  # here, because an import of the package can do without it

    program_types.check_numbers(op, compute.dtype, args, kwargs)
    return program_types.asks_numbers(op)


def check_tensors(
    op: Operator, registration: Registration, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Refuses what a kernel on tensors returned where it is not what the operator promises.

    Raises:
        KernelError: it is no tensor, or, at the first call for a type, of another dtype or shape.
    """
    plan = plan_of(op)
    if plan.returns > 1 and (not isinstance(result, (tuple, list)) or len(result) != plan.returns):
        raise broken(op, registration, f"{plan.returns} results are promised, it returned {type(result).__name__}")
    if plan.returns_tensor and not isinstance(result, Tensor):
        raise broken(op, registration, f"it must return a Tensor, and returned {type(result).__name__}")
    results = (result,) if plan.returns_tensor else result if plan.returns > 1 else ()
    first = next(tensors_in(args, {}), None)
    if not results or first is None or kwargs or first._type in registration.verified:
        return
    if op.composite == "implicit" and STATE.get().autocasts(first._type.device.type):
        return  # what it is composed of has chosen the dtypes
    for one, shape in zip(results, each_shape(expected_shape(op, args, kwargs), len(results)), strict=True):
        if shape is not None and isinstance(one, TensorBase) and tuple(shape) != one.shape:
            raise broken(op, registration, f"the result should have shape {tuple(shape)}, it returned {one.shape}")
    if not plan.returns_tensor:
        registration.verified.add(first._type)
        return
    wanted = typing_rules.result_type(op, compute_type(op, args, kwargs))
    if wanted is not None and wanted.dtype is not result.dtype and op.functional is None:
        raise broken(op, registration, f"the result should be {wanted.dtype.name}, it returned {result.dtype.name}")
    registration.verified.add(first._type)


def check_writable(op: Operator, tensor: Tensor) -> None:
    """Refuses to write where the write would be wrong or lost.

    Raises:
        ShapeError: the tensor overlaps itself: two of its elements are one.
        AutogradError: it was made in inference mode, and that is not on.
        BackendError: it stands for a part of another tensor, on a device without views, and no way leads back.
    """
    if tensor._type.rebinds:
        rebinding.check(op, tensor)
    if tensor._type.inference and not STATE.get().inference:
        raise AutogradError(
            f"{op.display_name}: the tensor was made in inference mode and can be written to only there"
            + fix("clone() it first.")
        )
    if tensor._type.api.overlaps_itself(tensor._array):
        raise ShapeError(
            f"{op.display_name}: the tensor to write to (shape {tensor.shape}, strides {tensor.stride()}) overlaps "
            "itself: several of its elements are the same memory" + fix("clone() it first.")
        )


def before_writes(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Version, int]]:
    """Checks the tensors that a kernel on tensors is about to write to; returns their version cells as they are now."""
    tensors = written_tensors(op, args, kwargs)
    for tensor in tensors:
        check_writable(op, tensor)
    cells = {id(t._version): t._version for t in tensors if t._version is not None}
    return [(cell, cell[0]) for cell in cells.values()]


def check_inplace(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses a write that would change the tensor's shape or dtype, or that has no memory of its own to go to.

    Raises:
        ShapeError, DTypeError: nothing has been written.
    """
    functional = op.functional
    target = args[0]
    if functional is None:
        expected_shape(op, args, kwargs)
        check_writable(op, target)
        return
    shape = expected_shape(functional, args, kwargs)
    if shape is not None:
        check_keeps_shape(op, tuple(shape), target)
    compute = compute_type(functional, args, kwargs)
    result = typing_rules.result_type(functional, compute) or compute
    check_cast(op, result.dtype, target.dtype, "a tensor")
    check_writable(op, target)


def check_keeps_shape(op: Operator, shape: tuple[int, ...], target: Tensor) -> None:
    """Refuses an in-place variant's result of another shape than the tensor's.

    Raises:
        ShapeError: it has one.
    """
    if shape != target.shape:
        other = op.functional.display_name if op.functional is not None else "the operator without the underscore"
        raise ShapeError(
            f"{op.display_name}: the result has shape {shape}, the tensor to write to {target.shape}"
            + fix(f"use {other}, which returns a new tensor.")
        )


def has_out(registration: Registration) -> bool:
    """Whether a kernel is a ufunc, which computes into ``out=`` and handles overlapping memory."""
    return registration.level == "array" and isinstance(getattr(registration.function, "nin", None), int)


def write_into(ufunc: Callable[..., Any], arrays: Sequence[Any]) -> bool:
    """Computes into the first array; returns False where the ufunc refuses the dtypes: it does so before it writes."""
    try:
        ufunc(*arrays, out=arrays[0])
    except TypeError:
        return False
    return True


def computes_in_place(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call computes in the dtype of the tensor that it writes to, so that a kernel gets its very array."""
    return compute_type(op, args, kwargs).dtype is args[0].dtype


def check_cast(op: Operator, result: Any, target: Any, what: str) -> None:
    """Refuses to store a result in a dtype of a lower kind: a float in an integer, a complex in a float.

    Raises:
        DTypeError: naming both dtypes.
    """
    if CATEGORY[result.kind] > CATEGORY[target.kind]:
        raise DTypeError(
            f"{op.display_name}: the result is {result.name}, which cannot be written to {what} of dtype {target.name}"
            + fix(f"convert it to {result.name} first, or use the out-of-place operator.")
        )


def write_out(op: Operator, result: Any, out: Any, args: tuple[Any, ...]) -> Any:
    """Writes a result to the tensor given as ``out=``, or several to as many.

    Raises:
        ArgumentError, DeviceMismatch, ShapeError, DTypeError, AutogradError: ``out`` cannot take it; nothing is written
            then.
    """
    if not isinstance(result, tuple):
        _check_out(op, result, out, "out")
        return out.copy_(result)
    if not isinstance(out, (tuple, list)) or len(out) != len(result):
        given = f"{len(out)}" if isinstance(out, (tuple, list)) else type(out).__name__
        raise ArgumentError(f"{op.display_name}: out must be a tuple of {len(result)} tensors, not {given}")
    for i, (value, target) in enumerate(zip(result, out, strict=True)):
        _check_out(op, value, target, f"out[{i}]")
        for j, other in enumerate(out[:i]):
            if target is other or target._type.api.may_alias(target._array, other._array):
                raise ArgumentError(f"{op.display_name}: out[{j}] and out[{i}] are the same memory")
    return plan_of(op).result_class([target.copy_(value) for value, target in zip(result, out, strict=True)])


def _check_out(op: Operator, result: Any, out: Any, name: str) -> None:
    if not isinstance(out, Tensor):
        raise ArgumentError(f"{op.display_name}: {name} must be a Tensor, not {type(out).__name__}")
    if STATE.get().grad and (result._node is not None or out._node is not None):
        raise AutogradError(
            f"{op.display_name}: out= cannot record a gradient" + fix("leave out= away, or call it in no_grad.")
        )
    if out.device != result.device:
        raise DeviceMismatch(
            f"{op.display_name}: {name} is on {out.device}, the result on {result.device}"
            + fix(f"give {name} the device of the inputs.")
        )
    check_cast(op, result.dtype, out.dtype, name)
    if out.shape != result.shape:
        raise ShapeError(
            f"{op.display_name}: {name} has shape {out.shape}, the result {result.shape}"
            + fix(f"give {name} the shape of the result.")
        )
    check_writable(op, out)
