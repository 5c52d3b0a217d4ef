"""What a kernel on arrays returned, as tensors; or the error that names the kernel that broke its promise."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.integers import default_integer
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.tensor_type import TensorType, intern
from tensorplay_core.errors import KernelError, fix
from tensorplay_core.ops import typing_rules
from tensorplay_core.ops.arguments import named_tensors, plan_of, python_scalar, tensors_in
from tensorplay_core.tensor.meta_array import MetaArray
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.tensor.version import Step, share_as, version_of
from tensorplay_core.tensor.views import is_part_of, relate
from tensorplay_core.types import dtype as dt

CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
"""The order of kinds of dtypes: a result of a higher kind does not fit one of a lower."""
NO_KEYWORDS: Mapping[str, Any] = MappingProxyType({})


def arguments_returned(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the result of an operator all of whose results are arguments that it has written to."""
    plan = plan_of(op)
    found = [argument_named(op, name, args, kwargs) for name in plan.returned if name is not None]
    return found[0] if plan.returns == 1 else plan.result_class(found) if found else None


def argument_named(op: Operator, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the argument of that name."""
    if name in kwargs:
        return kwargs[name]
    return args[[spec.name for spec in plan_of(op).positional].index(name)]


def each_shape(shape: Any, count: int) -> tuple[Any, ...]:
    """Returns the shape of each of several results: a rule gives as many, or one for all, or None.

    Example:
        >>> each_shape((2, 3), 2), each_shape(((2,), ()), 2), each_shape((), 2)
        (((2, 3), (2, 3)), ((2,), ()), ((), ()))
    """
    return tuple(shape) if shape and isinstance(shape[0], tuple) else (shape,) * count


def wrap_results(
    op: Operator,
    registration: Registration,
    result: Any,
    shape: Any,
    compute: TensorType,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    checks: bool,
) -> Any:
    """Returns the result of a call: a tensor, a tuple of several results, a list, a number, or None.

    Raises:
        KernelError: it is not what the operator promises.
    """
    plan = plan_of(op)
    if not plan.returns_tensor and plan.returns != 1:
        found = () if result is None else result
        if not isinstance(found, (tuple, list)) or len(found) != plan.returns:
            raise broken(op, registration, f"{plan.returns} results are promised, it returned {_a(result)}")
        shapes = each_shape(shape, plan.returns)
        parts = [
            _wrap_as(kind, op, registration, value, s, compute, args, checks)
            if name is None
            else argument_named(op, name, args, kwargs)
            for kind, name, value, s in zip(plan.results, plan.returned, found, shapes, strict=True)
        ]
        if compute not in registration.verified:
            _check_dtypes(op, registration, parts, args, kwargs)
        return plan.result_class(parts) if parts else None
    if not plan.returns_tensor:
        return _wrap_as(plan.results[0], op, registration, result, shape, compute, args, checks)
    wanted = compute if "creation" in op.tags else typing_rules.result_type(op, compute)
    if (dtype := kwargs.get("dtype")) is not None:
        wanted = intern(compute.device, dtype)
    return _wrap(op, registration, result, shape, wanted, compute, args, checks, kwargs)


def _wrap_as(
    kind: str,
    op: Operator,
    registration: Registration,
    result: Any,
    shape: Any,
    compute: TensorType,
    args: tuple[Any, ...],
    checks: bool,
) -> Any:
    """Returns one result as the type that the schema says: a tensor, a list of them, or a Python number."""
    if kind == "Tensor":
        return _wrap(op, registration, result, shape, None, compute, args, checks)
    if kind == "Tensor[]":
        if not isinstance(result, (tuple, list)):
            raise broken(op, registration, f"a list of arrays is promised, it returned {_a(result)}")
        if shape is not None and len(shape) != len(result):
            raise broken(op, registration, f"{len(shape)} results are promised, it returned {_a(result)}")
        shapes = (None,) * len(result) if shape is None else shape
        parts = [
            _wrap(op, registration, r, s, None, compute, args, checks, item=item)
            for item, (r, s) in enumerate(zip(result, shapes, strict=True))
        ]
        return tuple(parts) if plan_of(op).view else parts
    if (number := python_scalar(result)) is None:
        raise broken(op, registration, f"a number ({kind}) is promised, it returned {_a(result)}")
    return number


def _wrap(
    op: Operator,
    registration: Registration,
    result: Any,
    shape: Any,
    wanted: TensorType | None,
    compute: TensorType,
    args: tuple[Any, ...],
    checks: bool,
    kwargs: Mapping[str, Any] = NO_KEYWORDS,
    item: int | None = None,
) -> Tensor:
    api = compute.api
    if not isinstance(result, compute.array_class):
        try:
            result = api.as_array(result)
        except Exception as error:
            raise broken(op, registration, f"it returned {_a(result)}, not an array") from error
    if shape is not None and tuple(result.shape) != tuple(shape):
        raise broken(
            op, registration, f"the result should have shape {tuple(shape)}, it returned {tuple(result.shape)}"
        )
    name = api.dtype_name(result)
    if name not in api.dtypes:
        what = f"it returned an array of dtype {name}, which device {compute.device.type!r} does not have"
        raise broken(op, registration, what)
    if wanted is None:
        wanted = intern(compute.device, dt.by_name(name))
    elif name != wanted.dtype.name:
        if CATEGORY[dt.by_name(name).kind] > CATEGORY[wanted.dtype.kind]:
            raise broken(op, registration, f"the result should be {wanted.dtype.name}, it returned {name}")
        registration.casts.add(compute)
        result = api.cast(result, wanted.native)
    view = plan_of(op).view
    if not view:
        inference = STATE.get().inference
    else:  # the type of its base, wherever it is taken; a copy is as any other result
        view = "may_copy" not in op.tags or compute.rebinds or is_part_of(args[0], result)
        inference = args[0]._type.inference or (STATE.get().inference and not view)
    y = wrap(result, wanted.inference_twin if inference else wanted)
    if view:
        if not compute.rebinds:
            y._version = version_of(args[0])
        else:
            share_as(args[0], y, Step(op, args[1:], kwargs, args[0].shape, y.shape, item))
        relate(args[0], y, op, args[1:], kwargs, several=item is not None)
    elif checks and any(t._type.api is api and api.may_alias(t._array, result) for t in tensors_in(args, {})):
        names = [n for n, t in named_tensors(op, args, {}) if t._type.api is api and api.may_alias(t._array, result)]
        what = f"its result shares memory with the argument {names[0]}, which the signature does not declare"
        raise broken(op, registration, what + fix("return a copy."))
    return y


def as_promised(op: Operator, registration: Registration, result: Any, tensor: Tensor) -> Any:
    """Returns the array that a kernel gave for a tensor that it writes to, where arrays cannot be written to.

    Raises:
        KernelError: it is no array, or of another shape or dtype than the tensor.
    """
    api, wanted = tensor._type.api, tensor.dtype.name
    try:
        array = api.as_array(result)
    except Exception as error:
        raise broken(op, registration, f"it returned {_a(result)}, not an array with what it has written") from error
    if tuple(array.shape) != tensor.shape:
        shape = tuple(array.shape)
        raise broken(op, registration, f"what it has written should have shape {tensor.shape}, it returned {shape}")
    if (name := api.dtype_name(array)) != wanted:
        raise broken(op, registration, f"what it has written should be {wanted}, it returned {name}")
    return array


def _check_dtypes(
    op: Operator, registration: Registration, parts: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Refuses several results of which one has another dtype than the operator's rule for the meta device gives.

    One result has its promote rule; of several, each has a dtype of its own.

    Raises:
        KernelError: naming the first such result.
    """
    from tensorplay_core.ops._generated_meta import HANDWRITTEN  # here, because few operators have several results

    rule = dict(HANDWRITTEN).get(op)
    if rule is None:
        return

    def described(value: Any) -> Any:
        if isinstance(value, TensorBase):
            return MetaArray(value.shape, value.dtype, value.stride())
        return [described(v) for v in value] if value.__class__ is tuple and value else value

    promised = rule(*map(described, args), **{name: described(value) for name, value in kwargs.items()})
    for i, (part, one) in enumerate(zip(parts, promised, strict=True)):
        if not isinstance(part, Tensor):
            continue
        wanted = default_integer(part.device) if one.dtype is dt.int64 else one.dtype
        if part.dtype is not wanted:
            name = op.schema.returns[i].name or f"result {i}"
            raise broken(op, registration, f"{name} should be {wanted.name}, it returned {part.dtype.name}")


def _a(value: Any) -> str:
    """Returns what a kernel returned, for a message: how many, of a tuple or list, or its class and whose that is."""
    if value is None:
        return "None"
    kind = type(value)
    if isinstance(value, (tuple, list)):
        return f"a {kind.__name__} of {len(value)}"
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def broken(op: Operator, registration: Registration, what: str) -> KernelError:
    """Returns the error for a kernel that did not do what its operator promises."""
    message = f"{op.display_name}: the kernel of {registration.distribution} ({registration.where}) is wrong: {what}"
    return KernelError(message if "\nfix: " in what else message + fix(correct(registration)))


def correct(registration: Registration) -> str:
    """Returns the remedy for a kernel that is wrong: who can correct it."""
    whole = registration.owner.partition(".")[0] == registration.distribution  # a module's own, of no plugin
    return "correct that kernel" + f", or report it to the authors of {registration.distribution}" * (not whole)
