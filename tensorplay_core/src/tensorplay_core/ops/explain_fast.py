"""Whether a call takes the fast path, and if not, which of its conditions the call does not meet.

The conditions are those that the generated functions test, asked one by one, so that the answer can be put into words.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.tensor_type import TensorType, unresolved
from tensorplay_core.ops import program_types, scaled, slots
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.ops.explain_road import has_node
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.tensor.version import is_viewed
from tensorplay_core.types.promotion import BROADCASTING, NOT_PROMOTED, PLAIN_NUMBERS, SCALARS

_CLASSES = {"int": (int,), "bool": (bool,), "str": (str,), "float": PLAIN_NUMBERS, "Scalar": SCALARS}
_SPECIAL = "sparse tensors and wrappers always take the slow path"


def fast_path(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[Any, ...]) -> tuple[bool, str]:
    """Returns whether the operator's public function serves a call on its fast path, and why.

    Args:
        op: the operator.
        args: the positional arguments as the dispatcher sees them.
        kwargs: the keyword-only ones that differ from their defaults.
        given: the positional arguments as they were given, numbers among them.
    """
    reason = _no_fast_function(op) or _special() or _numbers(op, given) or _values(op, given)
    reason = reason or _changed(op, args, kwargs)
    reason = reason or (_write(op, args) if op.functional is not None else _nodes(op, args)) or _types(op, args)
    if reason:
        return False, reason
    type = next(tensors_in(args, {}))._type
    if slots.kernel_for(op, type) is None:
        return False, "the type's slot stays empty: the kernel, or a layer above it, is not one that a slot can hold"
    if type.__dict__.get(op.slot) is unresolved:
        return True, "from the second call on; the first resolves the kernel into the slot of this type"
    return True, "the slot of this type holds the kernel"


def _no_fast_function(op: Operator) -> str:
    if op.fast:
        return ""
    if op.composite == "implicit":
        return "the operator decomposes into others"
    if plan_of(op).returns != 1:
        return "it has several results"
    if not plan_of(op).tensor_positions:
        return "it takes no tensors"
    return "no fast path is generated for this operator"


def _special() -> str:
    state = STATE.get()
    if state.probe is not None:
        return "a profiler or a trace is open"
    if active.probe is not None:
        return "the process is traced"
    if active.special:
        return "a scope is open, here or in another thread, that may change the road (mode, profiler, excluded keys)"
    return ""


def _numbers(op: Operator, given: tuple[Any, ...]) -> str:
    plan = plan_of(op)
    chooses = any(spec.name in NOT_PROMOTED for spec in plan.positional)
    for place, i in enumerate(plan.tensor_positions):
        value = given[i] if i < len(given) else None
        if value is None or isinstance(value, (TensorBase, tuple, list)):
            continue
        if (place == 0 and not chooses) or op.shape not in BROADCASTING:
            return f"{plan.positional[i].name} is a number, not a tensor"
        if value.__class__ not in PLAIN_NUMBERS:
            return f"{value!r} is not among the cached scalars, which are ints and floats"
    return ""


def _values(op: Operator, given: tuple[Any, ...]) -> str:
    for spec, value in zip(plan_of(op).positional, given, strict=False):
        classes = _CLASSES.get(spec.kind)
        if classes is not None and not spec.is_list and value is not None and value.__class__ not in classes:
            return f"{spec.name} is given as {value!r}, which the slow path reads first"
    return ""


def _changed(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    changed = [name for name in kwargs if name not in op.passes]
    if changed and not (changed == ["alpha"] and scaled.serves(op, args, kwargs["alpha"])):
        return f"{', '.join(changed)} differ{'s' * (len(changed) == 1)} from the default"
    first = next(tensors_in(args, {}), None)
    for name, value in kwargs.items():
        if name in op.passes and plan_of(op).by_name[name].kind == "Scalar" and not _fits(op, value, first):
            return f"{name} is a number that could change the dtype of the result"
    functional = op.functional or op
    asked = functional.math.numbers if functional.math and program_types.asks_numbers(functional) else ()
    for spec, value in zip(plan_of(op).positional, args, strict=True):
        usual = spec.name in asked or spec.kind in ("ScalarType", "Device")
        if usual and (value != spec.default or (spec.name in asked and value.__class__ not in PLAIN_NUMBERS)):
            return f"{spec.name} differs from the default"
    return ""


def _fits(op: Operator, value: Any, first: Any) -> bool:
    """Whether a number is passed on to the kernel: among tensors with fractions, or by an operator that decomposes."""
    number = value is None or value.__class__ in PLAIN_NUMBERS
    return number and (op.composite == "implicit" or first is None or first._type.dtype.is_inexact)


def _types(op: Operator, args: tuple[Any, ...]) -> str:
    plan = plan_of(op)
    found = [
        (plan.positional[i].name, value)
        for i in plan.tensor_positions
        for value in (args[i] if isinstance(args[i], (tuple, list)) else (args[i],))
    ]
    found = [(name, value) for name, value in found if isinstance(value, TensorBase)]  # the others are None
    if op.composite == "implicit":
        return _SPECIAL if found[0][1]._type.special else ""
    typed = [(name, value._type) for name, value in found if name not in NOT_PROMOTED] or [
        (name, value._type) for name, value in found
    ]
    name, first = typed[0]
    for other, type in typed[1:]:
        if type is not first:
            return f"{name} and {other} are of different types: {_kind(first)} and {_kind(type)}"
    for other, value in found:
        wanted = getattr(first, NOT_PROMOTED[other]) if other in NOT_PROMOTED else value._type
        if value._type is not wanted:
            return f"{other} is {_kind(value._type)}, not the {wanted.dtype.name} of {name}'s device"
    return _SPECIAL if first.special else ""


def _kind(type: TensorType) -> str:
    return f"{type.dtype.name} on {type.device}" + " (inference)" * type.inference


def _nodes(op: Operator, args: tuple[Any, ...]) -> str:
    recordable = op.node is not None or op.composite == "implicit" or op.promote in ("bool", "index")
    if not recordable and has_node(args):
        return "an input has a gradient and the operator has no formula to record inline"
    return ""


def _write(op: Operator, args: tuple[Any, ...]) -> str:
    target = args[0]
    if any(args[i] is None for i in plan_of(op).tensor_positions):
        return "an optional tensor is missing"
    if active.inference or target._type.inference:
        return "inference mode is on, or the tensor is of it; the write is checked first"
    if target._version is not None and target._version[1] and is_viewed(target._version):
        return "the tensor shares its memory with a view; the write is checked first"
    if has_node(args) and STATE.get().grad:
        return "a gradient is recorded, which a write checks first"
    if any(t._array.shape not in ((), target._array.shape) for t in tensors_in(args, {})):
        return "the shapes differ; the write is checked first"
    return ""
