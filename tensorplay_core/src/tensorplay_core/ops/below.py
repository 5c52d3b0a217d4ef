"""How ``m.below`` calls a kernel that takes tensors from one that takes arrays, and the other way round.

The floor of the dispatcher knows slots and stacks; what lies beneath an override may want its arguments in the other
form, or the call's keys, and that is known here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tensorplay_core.dispatch import devices, fallbacks
from tensorplay_core.dispatch.below import Below
from tensorplay_core.dispatch.context import STATE, exclude
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import (
    AUTOGRAD,
    BACKENDS,
    FAMILIES,
    OFFSETS,
    PAGE,
    DispatchKey,
)
from tensorplay_core.dispatch.misses import registered
from tensorplay_core.dispatch.operator import Operator, Registration, Slot
from tensorplay_core.dispatch.resolution import Step, beneath, describe, ends
from tensorplay_core.dispatch.tensor_type import intern, running_on
from tensorplay_core.ops import call, typing_rules
from tensorplay_core.ops.arguments import Spec, bind, normalise, plan_of
from tensorplay_core.tensor.tensor import TensorBase, wrap
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

_COMPOSITE = int(DispatchKey.Composite)
_BACKEND_STEPS = (1 << BACKENDS) - 1
_LAYERS = AUTOGRAD | FAMILIES["Autocast"]
_running: ContextVar[tuple[Any, ...]] = ContextVar("tensorplay_below", default=())
"""The kernels that run beneath one on arrays, with their arguments."""


def adapt(below: Below, op: Operator, level: str, found: Registration | None) -> Callable[..., Any]:
    """Returns what calls the kernel beneath; see :func:`tensorplay_core.dispatch.library.adapt_below`."""
    slot = below.slot
    if isinstance(slot, str) or slot % PAGE >= BACKENDS:
        return _layer(below, op, found)
    step = Step(slot, slot, found, "beneath an override") if found is not None else beneath(op, slot, slot)
    if step.registration is None:
        raise below.missing(step.reason, registered(op))
    if level == "tensor":
        return _on_tensors(op, step)
    return _on_arrays(below, op, step)


# ------------------------------------------------------------------------------------------------------- the layers


def _layer(below: Below, op: Operator, found: Registration | None) -> Callable[..., Any]:
    """Returns what a layer's kernel, or Composite's, calls: with tensors, and with a key set or without."""
    slot = below.slot
    if slot == _COMPOSITE and found is None:
        raise below.missing("Composite has no other kernel", registered(op))

    def call_below(*args: Any, **kwargs: Any) -> Any:
        keys: KeySet | None = None
        if args and args[0].__class__ is KeySet:
            keys, args = args[0], args[1:]
        args, kwargs = _normalised(op, args, kwargs)
        if keys is None:
            keys = _keys_from(slot, call.key_set_of_call(op, args, kwargs))
        key = keys.highest
        step = Step(key, slot, found, "beneath an override") if found is not None else beneath(op, key, slot)
        if step.registration is not None:
            return call.run_step(op, step, keys, args, kwargs)
        if ends(key):
            raise below.missing(step.reason, registered(op))
        return call.redispatch(op, keys.below(key), args, kwargs)

    return call_below


def _keys_from(slot: Slot, keys: KeySet) -> KeySet:
    """Returns the keys of a call from a slot's on, that one included even if the context has excluded it by now."""
    backends = keys.bits & _BACKEND_STEPS
    if slot == _COMPOSITE:
        return KeySet(backends, keys.page)
    if not isinstance(slot, str):
        step = slot % PAGE
    elif slot == "Python":
        step = int(DispatchKey.Python)
    else:
        step = max(backends.bit_length() - 1, 0) + OFFSETS[slot]
    return KeySet((keys.bits | 1 << step) & ((2 << step) - 1), keys.page)


def _normalised(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    positional, keywords = normalise(op, *bind(op, args, kwargs))
    return typing_rules.scalars_to_tensors(op, positional), keywords


# ----------------------------------------------------------------------------------------------------- backend keys


def _on_tensors(op: Operator, step: Step) -> Callable[..., Any]:
    """Returns what a backend's kernel on tensors calls."""
    keys = KeySet(1 << step.key % PAGE, step.key // PAGE)

    def call_below(*args: Any, **kwargs: Any) -> Any:
        return call.run_step(op, step, keys, *_normalised(op, args, kwargs))

    return call_below


def _on_arrays(below: Below, op: Operator, step: Step) -> Callable[..., Any]:
    """Returns what a backend's kernel on raw arrays calls: the kernel beneath itself where that takes arrays too."""
    registration = step.registration
    assert registration is not None
    through_tensors = _through_tensors(below, op, step)
    asks = registration.emitter is not None and op.math is not None and op.math.numbers
    if registration.level != "array" or asks:  # an emitted kernel must be asked whether it takes the numbers
        return through_tensors
    function, accepted = registration.function, registration.keywords
    if accepted is None:
        return function

    def call_below(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not accepted.issuperset(kwargs):
            return through_tensors(*args, **kwargs)
        return function(*args, **kwargs)

    return call_below


def _through_tensors(below: Below, op: Operator, step: Step) -> Callable[..., Any]:
    """Returns a kernel on arrays that runs a step on tensors made of them, below autograd, and unwraps the result."""
    plan = plan_of(op)
    keys = KeySet(1 << step.key % PAGE, step.key // PAGE)
    type = fallbacks.device_type_of(step.key)

    def call_below(*args: Any, **kwargs: Any) -> Any:
        given = [_as_argument(spec, v, type) for spec, v in zip(plan.positional, args, strict=False)]
        named = {name: _as_argument(plan.by_name.get(name), v, type) for name, v in kwargs.items()}
        positional, keywords = _normalised(op, tuple(given), named)
        mark = (step.registration, *map(_identity, args), *((name, _identity(v)) for name, v in kwargs.items()))
        running = _running.get()
        if mark in running:  # the tensors are new ones each time, so nobody else would see it
            why = f"{describe(op, step)}, and that kernel calls its own operator with the same arguments"
            raise below.missing(why, registered(op))
        token = _running.set((*running, mark))
        try:
            with exclude(_LAYERS if STATE.get().autocast else AUTOGRAD):
                result = call.run_step(op, step, keys, positional, keywords)
        finally:
            _running.reset(token)
        shared = () if plan.written or plan.view else args
        return _as_arrays(result, shared)

    return call_below


def _identity(value: Any) -> Any:
    """Returns what makes an argument the same one again: the object itself for an array, the value for others."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_identity, value))
    return id(value) if hasattr(value, "shape") else repr(value)


def _as_argument(spec: Spec | None, value: Any, type: str) -> Any:
    """Returns an argument as a kernel on tensors takes it, from what one on arrays is given."""
    if spec is None or value is None:
        return value
    if spec.kind == "Tensor":
        if spec.is_list:
            return [_as_tensor(item, type) for item in value]
        return _as_tensor(value, type)
    if spec.kind == "ScalarType" and value.__class__ is not DType:
        known = devices.entry(type).api.dtypes
        return dt.by_name(next(name for name, native in known.items() if native == value))
    if spec.kind == "Device" and isinstance(value, int):
        return Device(type, value if devices.entry(type).indexed else None)
    return value


def _as_tensor(array: Any, type: str) -> Any:
    api = devices.entry(type).api
    if not isinstance(array, api.array_class):
        return array  # None in a list, or a number
    return wrap(array, intern(running_on(type), dt.by_name(api.dtype_name(array))))


def _as_arrays(result: Any, given: tuple[Any, ...]) -> Any:
    """Returns results as arrays, none of them an argument's own."""
    if isinstance(result, TensorBase):
        array = result._array
        return result._type.api.copy(array) if any(array is one for one in given) else array
    if isinstance(result, (tuple, list)):
        return [_as_arrays(one, given) for one in result]
    return result
