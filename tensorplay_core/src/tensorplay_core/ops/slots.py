"""How a slot of a tensor type gets its kernel: offered by the slow path after a call that could have been a fast one.

By then the kernel has run once for this type, and its result's class, dtype and shape have been checked; from now on
they are trusted. Where the raw kernel needs a cast before or after it, the slot gets an adapter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch import active, fallbacks
from tensorplay_core.dispatch.context import STATE, exclude
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import AUTOGRAD, PAGE, DispatchKey, family_of
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.resolution import at_key, takes
from tensorplay_core.dispatch.tensor_type import TensorType, Unresolved, unresolved
from tensorplay_core.ops import kernels, typing_rules
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.ops.shapes import RULES, Shaped
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.tensor.views import restrict, share_several
from tensorplay_core.types.dtype import by_name
from tensorplay_core.types.promotion import NOT_PROMOTED

CORE = "tensorplay-core"
Kernel = Callable[..., Any]


def offer(op: Operator, args: tuple[Any, ...], generation: int) -> None:
    """Fills an operator's slot in the type of a call that has just succeeded, if the fast path may serve such calls.

    Args:
        op: the operator.
        args: its positional arguments, normalised.
        generation: of the operator's table before the call; a table that changed since makes the offer void.
    """
    positional = plan_of(op).positional
    typed = tuple([v for v, spec in zip(args, positional, strict=True) if spec.name not in NOT_PROMOTED])
    tensors = [*tensors_in(typed, {})]
    if not tensors:
        return
    type = tensors[0]._type
    if type.__dict__.get(op.slot) is not unresolved:
        return
    if op.composite != "implicit" and any(t._type is not type for t in tensors[1:]):
        return
    with REGISTRY.lock:
        if op.generation == generation and (kernel := kernel_for(op, type)) is not None:
            type.__dict__[op.slot] = kernel


def kernel_for(op: Operator, type: TensorType) -> Kernel | None:
    """Returns what a type's slot may hold: a kernel on raw arrays, or None where every call takes the slow path."""
    decomposes = op.composite == "implicit"
    several = plan_of(op).returns > 1
    if not op.fast or type.special:
        return None
    views = plan_of(op).several_views
    if typing_rules.result_type(op, type) is None and not (decomposes or several or views):
        return None
    if (plan_of(op).view and type.rebinds) or (plan_of(op).writes and not type.mutable):
        return None  # the slow path knows what belongs together, and gives tensors other arrays
    if not has_only_default_layers(op, type.page):
        return None
    step = at_key(op, PAGE * type.page + type.key)
    registration = step.registration
    if registration is None:
        return None
    if op.functional is not None and step.slot == DispatchKey.Composite and registration.owner == CORE:
        return _writing(op, op.functional, type)
    if decomposes:  # the slot holds the Composite kernel itself, which takes tensors
        if step.slot != DispatchKey.Composite or registration.with_keyset:
            return None
        if views:
            return _restricting(registration.function)
        return _named(op, registration.function) if several else registration.function
    if registration.circular:
        return None  # from a slot it would call the slot again, without end; the slow path knows its way out
    on_tensors = step.slot == DispatchKey.Composite or registration.level == "tensor"
    if views and on_tensors:
        return None
    if plan_of(op).takes_lists and (on_tensors or typing_rules.compute_dtype(op, type.dtype) is not type.dtype):
        return None  # no adapter looks into lists
    if on_tensors:
        kernel = _lifted(op, type, registration, counts=step.slot == DispatchKey.Composite)
        return _as_tensors(op, kernel, type) if several else kernel
    if registration.emitter is not None:
        from tensorplay_core.ops import program_types  # here, because an import of the package can do without it

        if not program_types.takes_any_number(op, type.dtype):
            return None
    kernel = adapted(op, registration, type)
    if op.passes and not takes(registration, dict.fromkeys(op.passes)):
        kernel = _with_defaults_only(op, kernel)
    if views:
        return None if type.several else _taking_views(op, kernel)
    return _as_tensors(op, kernel, type) if several else kernel


def has_only_default_layers(op: Operator, page: int) -> bool:
    """Whether no layer above the backends has a kernel of somebody else's for calls on a page."""
    for slot in op.table:
        if isinstance(slot, str):
            if slot in ("Autograd", "Python") and op.table[slot][0].owner != CORE:
                return False
        elif slot // PAGE == page and family_of(slot % PAGE) == "Autograd":
            return False
    return True


def adapted(op: Operator, registration: Registration, type: TensorType) -> Kernel:
    """Returns a kernel as a type's slot needs it: with a cast before where it computes in another dtype, or after."""
    same = typing_rules.compute_dtype(op, type.dtype) is type.dtype
    compute = type.plain if same else type.float_type  # not interned anew: that could load a backend, under this lock
    kernel: Kernel = registration.function
    if type.several:
        kernel = _on_device(kernel, type)
    if compute.dtype is not type.dtype:
        kernel = _cast_before(op, kernel, compute)
    if compute in registration.casts:
        wanted = typing_rules.result_type(op, compute)
        assert wanted is not None
        kernel = _cast_after(kernel, wanted)
    return kernel


def _writing(op: Operator, functional: Operator, type: TensorType) -> Kernel | None:
    """Returns an in-place variant's kernel: through ``out=`` where the functional kernel has it, else by a copy.

    None where the functional operator has no kernel.
    """
    registration = at_key(functional, PAGE * type.page + type.key).registration
    if registration is None:  # it may run on the host; how it does is settled at each call
        return None
    general = _lifted(op, type)
    computes = typing_rules.compute_dtype(functional, type.dtype) is type.dtype
    if type.several:
        return general
    if not kernels.has_out(registration) or not computes or type in registration.casts:
        return _copying(functional, type, general)
    ufunc: Any = registration.function

    def write_one(array: Any) -> Any:
        try:
            return ufunc(array, array)  # the output by position: by name it costs a tenth of the call
        except TypeError:  # refuses the dtypes, before it writes
            return general(array)

    def write_two(array: Any, other: Any) -> Any:  # spelled out: a call with a star costs more than the kernel
        try:
            return ufunc(array, other, array)
        except TypeError:
            return general(array, other)

    writers: dict[int, Kernel] = {1: write_one, 2: write_two}
    return writers.get(ufunc.nin, general)


def _copying(functional: Operator, type: TensorType, general: Kernel) -> Kernel:
    """Returns a kernel that computes what the functional one gives for arrays of that type, and copies it."""
    compute = kernel_for(functional, type)
    copy = at_key(REGISTRY.operators["tp::copy_"], PAGE * type.page + type.key).registration
    result = typing_rules.result_type(functional, type)
    if compute is None or functional.composite == "implicit" or result is None or result.dtype is not type.dtype:
        return general
    if copy is None or copy.level != "array":
        return general
    copy_into: Kernel = copy.function

    def copying(array: Any, *args: Any, **keywords: Any) -> Any:
        try:
            return copy_into(array, compute(array, *args, **keywords))
        except Exception:  # raised before anything is written
            return general(array, *args, **keywords)

    return copying


def _on_device(kernel: Kernel, type: TensorType) -> Kernel:
    def on_device(*args: Any, **keywords: Any) -> Any:
        with type.as_current():
            return kernel(*args, **keywords)

    return on_device


def _with_defaults_only(op: Operator, kernel: Kernel) -> Kernel:
    """Returns a kernel for calls without keywords: it takes none; others go the slow path."""
    defaults = {spec.name: spec.default for spec in plan_of(op).keyword if spec.name in op.passes}

    def with_defaults_only(*args: Any, **keywords: Any) -> Any:
        if keywords and keywords != defaults:
            raise Unresolved
        return kernel(*args)

    return with_defaults_only


def _cast_before(op: Operator, kernel: Kernel, compute: TensorType) -> Kernel:
    cast, native = compute.api.cast, compute.native
    plan = plan_of(op)
    positions = frozenset(i for i in plan.tensor_positions if plan.positional[i].name not in NOT_PROMOTED)

    def cast_before(*args: Any, **keywords: Any) -> Any:
        arrays = [cast(a, native) if i in positions and a is not None else a for i, a in enumerate(args)]
        return kernel(*arrays, **keywords)

    return cast_before


def _cast_after(kernel: Kernel, wanted: TensorType) -> Kernel:
    cast, as_array, native = wanted.api.cast, wanted.as_array, wanted.native

    def cast_after(*args: Any, **keywords: Any) -> Any:
        return cast(as_array(kernel(*args, **keywords)), native)

    return cast_after


def _named(op: Operator, kernel: Kernel) -> Kernel:
    make = plan_of(op).result_class

    def named(*args: Any, **keywords: Any) -> Any:
        return make(kernel(*args, **keywords))

    return named if make is not tuple else kernel


def _as_tensors(op: Operator, kernel: Kernel, type: TensorType) -> Kernel:
    """Returns a kernel on arrays that gives its several results as tensors: each has a dtype of its own."""
    make, array_class, as_array, api = plan_of(op).result_class, type.array_class, type.as_array, type.api
    types: dict[Any, TensorType] = {}

    def as_tensors(*args: Any, **keywords: Any) -> Any:
        results = []
        for r in kernel(*args, **keywords):
            if r.__class__ is not array_class:
                r = as_array(r)
            o = types.get(r.dtype)
            if o is None:
                o = types[r.dtype] = type.plain.with_dtype(by_name(api.dtype_name(r)))
            y = Tensor()
            y._array = r
            y._type = o.inference_twin if active.inference and STATE.get().inference else o
            y._version = None
            y._edge = None
            results.append(y)
        return make(results)

    return as_tensors


def _restricting(kernel: Kernel) -> Kernel:
    """Returns a Composite kernel after which its several views are known to be the results of one call."""

    def restricting(*args: Any, **keywords: Any) -> Any:
        result = kernel(*args, **keywords)
        if not active.grad_off or STATE.get().grad:
            restrict(result)
        return result

    return restricting


def _taking_views(op: Operator, kernel: Kernel) -> Kernel:
    """Returns what takes several views of a tensor at once, by a kernel that gives their arrays."""
    rule, name = None if op.shape is None else RULES[op.shape], op.display_name

    def taking_views(base: Tensor, *args: Any) -> tuple[Tensor, ...]:
        type = base._type
        array = base._array
        if rule is not None:  # what it refuses, a kernel that slices may take
            rule(name, Shaped(tuple(array.shape), type.dtype), *args)
        parts = []
        for part in kernel(array, *args):
            y = Tensor()
            y._array = part
            y._type = type
            y._edge = None
            parts.append(y)
        result = tuple(parts)
        share_several(base, result, op, args)
        if base._edge is not None and (not active.grad_off or STATE.get().grad):
            op.node.record(result, base, *args)
        return result

    return taking_views


def _lifted(
    op: Operator, type: TensorType, registration: Registration | None = None, *, counts: bool = False
) -> Kernel:
    """Returns a kernel on arrays that runs an operator's kernel on tensors, below autograd.

    Args:
        op: the operator.
        type: of its tensors.
        registration: the kernel, to be called itself: its tensors are new and have no nodes, so that what it calls
            records nothing and may be fast. Without one the dispatcher is asked, and Autograd is excluded meanwhile.
        counts: its calls are fallbacks.
    """
    from tensorplay_core.ops.call import run

    keys = KeySet(1 << type.key, type.page)
    types = _types_of_arguments(op, type)
    copy, key = type.api.copy, PAGE * type.page + type.key
    writes, several = plan_of(op).writes, plan_of(op).returns > 1
    itself = None
    if registration is not None and not registration.with_keyset and registration.emitter is None:
        itself = registration.function
        counts = counts and registration.owner != CORE

    def lifted(*args: Any, **keywords: Any) -> Any:
        tensors = tuple([a if (t := types.get(i)) is None or a is None else wrap(a, t) for i, a in enumerate(args)])
        if itself is None:
            with exclude(AUTOGRAD):
                found = run(op, keys, tensors, keywords)
        else:
            kernels.expected_shape(op, tensors, keywords)  # what it refuses, operators that broadcast may take
            found = itself(*tensors, **keywords)
            if counts:
                fallbacks.count(op, key, "composite")
        if several:
            return [copy(r._array) if any(r._array is a for a in args) else r._array for r in found]
        result = found._array
        return copy(result) if not writes and any(result is a for a in args) else result

    return lifted


def _types_of_arguments(op: Operator, type: TensorType) -> dict[int, TensorType]:
    """Returns the type that each tensor argument has on the fast path, by its place."""
    plan = plan_of(op)
    chosen = {i: NOT_PROMOTED.get(plan.positional[i].name) for i in plan.tensor_positions}
    return {i: type if attribute is None else getattr(type, attribute) for i, attribute in chosen.items()}
