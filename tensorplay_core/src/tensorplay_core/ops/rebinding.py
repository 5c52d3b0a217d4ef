"""In-place writes on a device whose arrays cannot be written to, or whose slices are copies.

Such a write gives the tensor another array. The tensors that would share its memory (its base, the base's other views)
must see it too: the way from the base to the written view is gone back, which gives the base's new array, and every
other member of the family takes its part of that. All is computed before anything is changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tensorplay_core.dispatch.context import exclude
from tensorplay_core.dispatch.integers import default_integer
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import AUTOGRAD
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.errors import BackendError, KernelMissing, ShapeError, fix
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.ops.results import argument_named, as_promised, broken
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.tensor.version import Family, Path, Step, family_of
from tensorplay_core.types import dtype as dt

_SAME_ORDER = frozenset({"tp::reshape", "tp::squeeze", "tp::unsqueeze"})
_BY_PLACES = frozenset({"tp::as_strided", "tp::diagonal", "tp::split_with_sizes", "tp::unbind", "tp::unfold"})
_WAYS_BACK = _SAME_ORDER | _BY_PLACES | {"tp::expand", "tp::permute", "tp::transpose", "tp::select", "tp::slice"}
REMEDY = "build the result with tp.where or tp.cat; or clone() the part, to write to it alone."


def check(op: Operator, tensor: Tensor) -> None:
    """Refuses a write to a view from which no way leads back to its base.

    Raises:
        ShapeError: several elements of the view are one of the base.
        BackendError: it is a part of such a view, or of one that a plugin's operator made.
    """
    family = family_of(tensor)
    path = family.path_of(tensor) if family is not None else None
    device = tensor.device.type
    for step in path or ():
        if step.op.qualified_name not in _WAYS_BACK:
            raise BackendError(
                f"{op.display_name}: the tensor to write to is a view that {step.op.display_name} made, and device "
                f"{device!r} has no views of its own: no way is known from it to what it was made of" + fix(REMEDY)
            )
        if step.op.name != "expand" or math.prod(step.before) == math.prod(step.after):
            continue
        if math.prod(tensor.shape) >= math.prod(step.after):
            raise ShapeError(
                f"{op.display_name}: the tensor to write to (shape {tensor.shape}) overlaps itself: it is a view of "
                f"one of shape {step.before}, whose elements it repeats" + fix("clone() it first.")
            )
        raise BackendError(
            f"{op.display_name}: the tensor to write to is part of an expanded one, and device {device!r} has no views "
            f"of its own: which elements of shape {step.before} a write would reach is not known" + fix(REMEDY)
        )


def apart(
    op: Operator,
    written: Iterable[Tensor],
    compute: TensorType,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    arrays: list[Any],
    native: dict[str, Any],
) -> dict[int, Any]:
    """Gives a kernel that can write to arrays copies of those that are a family's, for it may not go back from a part.

    Which argument is replaced is decided by the tensors: another thread that writes to another part of their memory
    may have given them other arrays of the same values since ``arrays`` was made.

    Returns:
        By the tensor's identity, what the kernel writes to in its place.
    """
    copies: dict[int, Any] = {}
    for tensor in written:
        cast = op.promote != "none" and tensor._type.dtype is not compute.dtype
        if tensor._type.mutable and family_of(tensor) is not None and not cast:
            copy = copies[id(tensor)] = tensor._type.api.copy(tensor._array)
            arrays[:] = [copy if arg is tensor else array for arg, array in zip(args, arrays, strict=True)]
            native.update({name: copy for name, arg in kwargs.items() if arg is tensor})
    return copies


def rebind(
    op: Operator,
    registration: Registration,
    result: Any,
    copies: Mapping[int, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Gives the tensors that a kernel has written to what it has written.

    Where arrays cannot be written to, that is what the kernel returned in the place of the argument.

    Raises:
        KernelError: it returned none, or one of another shape or dtype; nothing is changed.
        BackendError: no way leads from a view back to its base; nothing is changed.
    """
    plan = plan_of(op)
    results = (result,) if plan.returns == 1 else tuple(result or ())
    found = dict(zip(plan.returned, results, strict=False))
    changes: list[tuple[Tensor, Any]] = []
    for name in plan.written:
        tensor = argument_named(op, name, args, kwargs)
        if not isinstance(tensor, Tensor):
            continue
        if tensor._type.mutable:
            array = copies.get(id(tensor), tensor._array)
        elif name in found:
            array = as_promised(op, registration, found[name], tensor)
        else:
            device = tensor.device.type
            what = f"it writes to {name} without returning it, and arrays of device {device!r} cannot be written to"
            raise broken(op, registration, what + fix("write it as a kernel on tensors: level='tensor'."))
        changes.append((tensor, array))
    for tensor, array in changes:
        write(tensor, array)


def write(tensor: Tensor, array: Any) -> None:
    """Gives a tensor another array, and every tensor that would share its memory its part of that."""
    family = family_of(tensor)
    if family is None:
        tensor._array = array
        return
    with family.lock:
        path = family.path_of(tensor)
        if path is None:
            tensor._array = array
        else:
            _write_family(family, path, tensor, array)


def _write_family(family: Family, path: Path, tensor: Tensor, array: Any) -> None:
    """Gives the member of a family at the end of a path another array, and every other member its part of that."""
    type = tensor._type.plain
    try:
        base = _base_with(family.array, path, array, type)
        made: dict[int, Any] = {}
        changes = []
        for reference, other in [*family.members.values()]:
            member = reference()
            if member is not None:
                part = array if other is path else _along(base, other, member._type.plain, made)
                changes.append((member, part))
    except KernelMissing as error:
        raise BackendError(
            f"device {tensor.device.type!r} has no views of its own, and a write to a part of a tensor needs a kernel "
            f"that it lacks: {str(error).partition(chr(10))[0]}" + fix(REMEDY)
        ) from error
    family.array = base
    for member, part in changes:
        member._array = part


def _base_with(base: Any, path: Path, array: Any, type: TensorType) -> Any:
    """Returns the base's array after a write of ``array`` to the view at the end of a path."""
    before = [base]
    for step in path[:-1]:
        before.append(_forward(step, before[-1], type))
    for step, whole in zip(reversed(path), reversed(before), strict=False):
        array = _back(step, whole, array, type)
    return array


def _along(base: Any, path: Path, type: TensorType, made: dict[int, Any]) -> Any:
    """Returns a view's array; ``made`` keeps those on the way, as steps of several views are often the same."""
    array = base
    for step in path:
        key = id(step)
        if key not in made:
            made[key] = _forward(step, array, type)
        array = made[key]
    return array


def _back(step: Step, whole: Any, part: Any, type: TensorType) -> Any:
    """Returns the input of a view operator as it is after a write to its result.

    Args:
        step: the operator.
        whole: its input before.
        part: its result after.
        type: of both.
    """
    name = step.op.qualified_name
    if name == "tp::transpose":
        return _run(step.op, type, part, *step.args)
    if name == "tp::permute":
        dims = [dim % len(step.before) for dim in step.args[0]]
        return _run(step.op, type, part, tuple(sorted(range(len(dims)), key=dims.__getitem__)))
    if name in ("tp::select", "tp::slice"):
        if name == "tp::select":
            back, where = REGISTRY.operators["tp::select_backward"], step.args
        else:
            back, where = REGISTRY.operators["tp::slice_backward"], step.args
        flags = type.with_dtype(dt.bool_)
        marks = _run(REGISTRY.operators["tp::expand"], flags, type.api.from_list(True, flags.native), step.after)
        inside = wrap(_run(back, flags, marks, step.before, *where), flags)
        there = wrap(_run(back, type, part, step.before, *where), type)
        return _run(REGISTRY.operators["tp::where"], flags, inside, there, wrap(whole, type))
    if name in _BY_PLACES:
        return _put(step, whole, part, type)
    return _run(REGISTRY.operators["tp::reshape"], type, part, step.before)


def _put(step: Step, whole: Any, part: Any, type: TensorType) -> Any:
    """Returns the input of a view operator after a write to its result, whose elements' places are asked of itself."""
    operators, device = REGISTRY.operators, type.device
    integers = type.with_dtype(default_integer(device))
    count = math.prod(step.before)
    numbered = _run(
        operators["tp::reshape"], integers, type.api.from_list([*range(count)], integers.native), step.before
    )
    places = wrap(_forward(step, numbered, integers), integers)
    flat = wrap(_run(operators["tp::reshape"], type, type.api.copy(whole), (count,)), type)
    _run(operators["tp::index_put_"], type, flat, (places,), wrap(part, type), False)
    return _run(operators["tp::reshape"], type, flat, step.before)


def _forward(step: Step, array: Any, type: TensorType) -> Any:
    """Returns the array of a view of an array."""
    result = _call(step.op, type, array, *step.args, **step.kwargs)
    return (result if step.item is None else result[step.item])._array


def _run(op: Operator, type: TensorType, *args: Any) -> Any:
    """Returns the array that an operator gives of arrays of a type."""
    return _call(op, type, *args)._array


def _call(op: Operator, type: TensorType, *args: Any, **kwargs: Any) -> Any:
    """Calls an operator on arrays of a type, below autograd and its layers."""
    from tensorplay_core.ops.call import run  # here, for calls stand on this module

    first, *others = args
    tensor = first if isinstance(first, Tensor) else wrap(first, type)
    with exclude(AUTOGRAD):
        return run(op, KeySet(1 << type.key, type.page), (tensor, *others), kwargs)
