"""The slow path: the readable dispatcher.

Every call that the fast path does not take comes through :func:`call`: it computes the key set, finds the kernel with
the same resolution that ``tp.explain`` prints, and runs it. Layers continue with :func:`redispatch`; what a backend key
does is in :mod:`kernels`.
"""

from __future__ import annotations

from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

from tensorplay_core.dispatch import active, devices, fallbacks
from tensorplay_core.dispatch.context import STATE, exclude
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import (
    AUTOGRAD,
    BACKENDS,
    FAMILIES,
    OFFSETS,
    PAGE,
    DispatchKey,
    backend_key,
    family_of,
)
from tensorplay_core.dispatch.misses import kernel_missing, make_active
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.resolution import Step, composite_at, ended_at, resolve, takes, why_no_composite
from tensorplay_core.dispatch.wrapped import INNERMOST, Within, levels_in
from tensorplay_core.errors import (
    ArgumentError,
    AutocastError,
    DeviceMismatch,
    DimError,
    DTypeError,
    LinAlgError,
    ShapeError,
    TensorPlayError,
    ValueRangeError,
    fix,
)
from tensorplay_core.ops import handlers, kernels, slots, typing_rules
from tensorplay_core.ops.arguments import normalise, plan_of, tensors_in
from tensorplay_core.tensor.overrides import UNASKED
from tensorplay_core.tensor.tensor import TensorBase
from tensorplay_core.tensor.views import count
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

ENDLESS = 16
"""How often one kernel may be running before a RecursionError is taken to be its own."""
FAULTS = (ArgumentError, DimError, DTypeError, LinAlgError, ShapeError, ValueRangeError)
"""What is wrong with a call itself: its arguments, or their values."""
_AUTOCAST = FAMILIES["Autocast"]
_BACKEND_STEPS = (1 << BACKENDS) - 1
_PYTHON = 1 << DispatchKey.Python
_composites: ContextVar[tuple[_Running, ...]] = ContextVar("tensorplay_composites", default=())


def call(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, out: Any = None) -> Any:
    """Calls an operator.

    Args:
        op: the operator.
        args: all its positional arguments.
        kwargs: its keyword-only arguments; one that is left out has its default.
        out: a tensor that receives the result.

    Raises:
        TensorPlayError: with the operator's name, what is wrong, and the remedy.
    """
    if active.special or active.subclassed:
        answer = handlers.ask_for_function(op, args, kwargs or {}, out)
        if answer is not UNASKED:
            return answer
    try:
        positional, keywords = normalise(op, args, kwargs or {})
    except ArgumentError:
        answer = handlers.ask_strangers(op, args, kwargs or {}, out)
        if answer is UNASKED:
            raise
        return answer
    positional = typing_rules.scalars_to_tensors(op, positional)
    if out is not None:
        if active.levels:
            from tensorplay_core.ops.forward import refuse_out

            refuse_out(op, positional, keywords, out)
        with exclude(_AUTOCAST) if STATE.get().autocast else nullcontext():  # as in PyTorch: the dtype is out's
            result = call(op, positional, keywords)
        return kernels.write_out(op, result, out, positional)
    keys = key_set_of_call(op, positional, keywords)
    generation = op.generation
    try:
        result = run(op, keys, positional, keywords)
    except FAULTS as error:
        _say_where(error, op, positional, keywords)
        raise
    if op.fast and not active.special and op.passes.issuperset(keywords):
        slots.offer(op, positional, generation)
    return result


def _say_where(error: TensorPlayError, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notes the call that an error comes from, where its message names another operator: one that was called inside.

    Of one family they may be: ``index`` speaks for ``index_put_``, and ``add`` for ``add_``.
    """
    named = str(error).partition(":")[0].partition(".")[0]  # with the overload or without
    if not f"{op.display_name.partition('.')[0]}_".startswith(f"{named}_"):
        from tensorplay_core.profiler.trace import call_line  # on the way out: most programs need it never

        error.add_note(f"in {call_line(op, args, kwargs, layer=False)}")


def key_set_of_call(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeySet:
    """Returns the keys of a call: the union of its tensors', changed by the context.

    Raises:
        DeviceMismatch: the tensors live on different devices; a 0-d cpu tensor may join any.
    """
    tensors = list(tensors_in(args, kwargs))
    if tensors and all(t._type is tensors[0]._type for t in tensors):
        return in_context(tensors[0]._type.key_bits, tensors[0]._type.page, tensors[0]._type.device.type)
    types = [t._type for t in tensors if t._array.shape or t._type.device.type != "cpu"]
    types = types or [t._type for t in tensors]
    level = levels_in(tensors)
    if types:
        first = types[0]
        if "device" not in op.tags:
            for other in types:
                if other.device != first.device:
                    raise _mismatch(op, args, kwargs)
            if op.is_inplace and args[0]._type.device != first.device:  # a 0-d cpu tensor: its copy would be written to
                raise _mismatch(op, args, kwargs)
        bits, page, device = 0, first.page, first.device
        if level is not None:  # the highest is interpreted, and what lies below it comes to its turn
            types = [t._type for t in tensors if t._type.wraps and t._array.level is level]
        for type in types:
            if type.page == page:
                bits |= type.key_bits
    else:
        named = next((v for v in (kwargs.get("device"), *args) if v.__class__ is Device), None)
        device = named or devices.default_device()
        if not (active.special and devices.fakes()):
            devices.entry(device.type)
        page, step = divmod(backend_key(device.type), PAGE)
        bits = 1 << step | 1 << step + OFFSETS["Autograd"]
    return in_context(bits, page, device.type)


def in_context(bits: int, page: int, device_type: str) -> KeySet:
    """Returns a key set as the context changes it.

    No caller keeps the state in a variable: a frame in a kept traceback would keep it alive, and counted.
    """
    if STATE.get().autocasts(device_type):
        bits |= (bits & _BACKEND_STEPS) << OFFSETS["Autocast"]
    if STATE.get().modes.operators:
        bits |= _PYTHON
    return KeySet((bits | STATE.get().include) & ~STATE.get().exclude, page)


def autocast_dtype(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DType:
    """Returns the dtype that autocast lowers to on a call's device.

    Raises:
        AutocastError: it is off there, and yet a kernel at an Autocast key was reached.
    """
    tensors = list(tensors_in(args, kwargs))
    device = typing_rules.device_of(tensors) if tensors else kwargs.get("device") or devices.default_device()
    dtype = (STATE.get().autocast or {}).get(device.type)
    if dtype is None:
        raise AutocastError(
            f"{op.display_name}: a kernel at an Autocast key was reached, and autocast is off for {device.type}"
            + fix("redispatch with the keys below Autocast; the dispatcher adds the key where autocast is on.")
        )
    return dtype


def _mismatch(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DeviceMismatch:
    plan = plan_of(op)
    places = []
    named = [(spec.name, value) for spec, value in zip(plan.positional, args, strict=True)]
    for name, value in [*named, *kwargs.items()]:
        for i, tensor in enumerate(tensors_in((value,), {})):
            item = f"[{i}]" if value.__class__ is tuple else ""
            places.append(f"{name}{item} is on {tensor.device}")
    return DeviceMismatch(
        f"{op.display_name}: all tensors must be on one device; {', '.join(places)}"
        + fix("move them with .to(device); only a 0-d cpu tensor joins any device.")
    )


def run(op: Operator, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the kernel that a key set gives.

    Raises:
        KernelMissing: nothing serves the call.
    """
    step = resolve(op, keys)
    if active.special and (step is None or step.key % PAGE < BACKENDS):
        level = levels_in(tensors_in(args, kwargs))
        if level is not None:
            from tensorplay_core.ops import levels  # when a transform first nests in another: most programs have none

            return levels.interpret(op, level, args, kwargs)
    if keys.bits >> DispatchKey.Python == 1:  # it is the highest
        answer = handlers.ask_for_operator(op, keys, args, kwargs)
        if answer is not UNASKED:
            return answer
    maybe_gone = (step is None or step.slot == DispatchKey.Composite) and not keys.bits & _PYTHON  # a label may be all
    if maybe_gone and make_active(keys):  # its backend was not any more
        step = resolve(op, keys)
    if step is None:
        step = fallbacks.step_on_host(op, keys, kwargs)
        if step is None:
            raise kernel_missing(op, keys, at=ended_at(op, keys), kwargs=kwargs)
    return run_step(op, step, keys, args, kwargs)


def run_step(op: Operator, step: Step, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the kernel of one step; whoever profiles or traces sees it."""
    probe, process = STATE.get().probe, active.probe
    if probe is None and process is None:
        return _run_step(op, step, keys, args, kwargs)
    inside = probe(op, step, args, kwargs) if probe is not None else nullcontext()  # explain's goes no further
    around = process(op, step, args, kwargs) if process is not None else nullcontext()
    with around, inside:
        result = _run_step(op, step, keys, args, kwargs)
        for scope in (inside, around):
            if (returned := getattr(scope, "returned", None)) is not None:
                returned(result, args, kwargs)
        return result


def _run_step(op: Operator, step: Step, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if active.special and step.key % PAGE < DispatchKey.VmapMode:
        tensors = list(tensors_in(args, kwargs))
        own = levels_in(tensors)
        if tensors and own is not INNERMOST.get():  # what is made on the way belongs to where the call does
            with Within(own):
                return _run_kernel(op, step, keys, args, kwargs)
    return _run_kernel(op, step, keys, args, kwargs)


def _run_kernel(op: Operator, step: Step, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    registration = step.registration
    assert registration is not None
    below_layers = step.key % PAGE < BACKENDS
    if family_of(step.key % PAGE) == "Autocast":
        autocast_dtype(op, args, kwargs)
    if step.slot == DispatchKey.Composite or (below_layers and registration.level == "tensor"):
        stands_in = below_layers and step.slot == DispatchKey.Composite
        return run_composite(op, registration, keys, args, kwargs, at=step.key if stands_in else None)
    if registration.level == "array":
        if not takes(registration, kwargs):
            return _run_instead(op, step, keys, args, kwargs)
        if op.functional is not None:
            kernels.check_inplace(op, args, kwargs)
            if not kernels.computes_in_place(op, args, kwargs):
                return _run_instead(op, step, keys, args, kwargs)
        return kernels.run(op, registration, args, kwargs)
    if active.levels and family_of(step.key % PAGE) == "Autograd":
        from tensorplay_core.ops import forward  # when a dual level is first open: most programs have none

        return forward.run(op, registration, keys, args, kwargs)
    if registration.with_keyset:
        return registration.function(keys, *args, **kwargs)
    return registration.function(*args, **kwargs)


def _run_instead(op: Operator, step: Step, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs what serves a call that its backend's own kernel does not take: Composite, else the host."""
    composite = composite_at(op, step.key)
    if composite is not None:
        if step.key == DispatchKey.Meta and op.functional is None:  # whose kernel, the rule, is not asked then
            kernels.expected_shape(op, args, kwargs)
        return run_composite(op, composite, keys, args, kwargs, at=step.key)
    host = fallbacks.host_step(op, step.key, kwargs)
    if host is not None and host.registration is not None:
        return host.registration.function(keys, *args, **kwargs)
    kernel = step.registration
    assert kernel is not None
    what = f"take {', '.join(kwargs)}" if not takes(kernel, kwargs) else f"compute in {args[0].dtype.name}"
    no = why_no_composite(op, step.key)
    why = f"the kernel of {kernel.distribution} ({kernel.where}) does not {what}, and {no}"
    raise kernel_missing(op, keys, why, at=step.key, kwargs=kwargs)


def run_composite(
    op: Operator,
    registration: Registration,
    keys: KeySet,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    at: int | None = None,
) -> Any:
    """Runs a kernel on tensors at Composite or a backend key; it may call any operator, its own with other arguments.

    Args:
        op: the operator.
        registration: the kernel.
        keys: the keys of the call.
        args: the positional arguments.
        kwargs: the keyword-only ones.
        at: the backend key whose kernel it stands in for: the call counts as a fallback, and the host may end it.

    Raises:
        KernelMissing: it calls its own operator with the same arguments, or without end.
    """
    if registration.emitter is not None:
        args = kernels.promoted_tensors(op, args, kwargs)
    if op.composite == "explicit" and op.functional is None:  # implicit ones ask for themselves, before autograd
        kernels.expected_shape(op, args, kwargs)  # what it refuses, operators that broadcast may take
    mark = (registration, *map(_identity, args), *((name, _identity(value)) for name, value in kwargs.items()))
    running = _composites.get()
    again = next((one for one in running if one.mark == mark), None)
    if again is not None:
        registration.circular = True
        if at is not None and (host := fallbacks.host_step(op, at, kwargs)) is not None:
            again.host = True
            return run_step(op, host, keys, args, kwargs)
        kernel = f"the kernel of {registration.distribution} ({registration.where})"
        why = f"{kernel} calls its own operator with the same arguments"
        raise kernel_missing(op, keys, why, at=at, kwargs=kwargs)
    here = _Running(mark)
    cells = kernels.before_writes(op, args, kwargs) if op.functional is None and plan_of(op).written else ()
    token = _composites.set((*running, here))
    try:
        if registration.with_keyset:
            result = registration.function(keys, *args, **kwargs)
        else:
            result = registration.function(*args, **kwargs)
    except RecursionError as error:
        if sum(other.mark[0] is registration for other in running) < ENDLESS:
            raise
        kernel = f"the kernel of {registration.distribution} ({registration.where})"
        raise kernel_missing(op, keys, f"{kernel} calls its own operator without end") from error
    finally:
        _composites.reset(token)
        # Core's own forward to an operator that counts for itself; what the host has ended is the host's to count.
        if at is not None and registration.owner != slots.CORE and not here.host:
            fallbacks.count(op, at, "composite")
    for cell, number in cells:
        if cell[0] == number:  # a kernel that writes by means of its own has not counted it
            count(cell)
    kernels.check_tensors(op, registration, result, args, kwargs)
    if result.__class__ is tuple and (plan := plan_of(op)).returns == len(result) > 1:
        return plan.result_class(list(result))  # named, as a backend's are
    return result


class _Running:
    """A Composite kernel that is running.

    Attributes:
        mark: the kernel and its arguments, by which a call of the same again is known.
        host: the same call came again, and the host has served it.
    """

    __slots__ = ("host", "mark")

    def __init__(self, mark: tuple[Any, ...]) -> None:
        self.mark, self.host = mark, False


def _identity(value: Any) -> Any:
    """Returns what makes an argument the same one again: the object itself for a tensor, the value for others."""
    if isinstance(value, TensorBase):
        return id(value)
    if value.__class__ is tuple:
        return tuple([_identity(v) for v in value])
    return repr(value)


def redispatch(op: Operator, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Continues a call below the layer that is running, whose family is excluded meanwhile.

    Args:
        op: the operator.
        keys: the keys that are left, all below the layer's own.
        args: the positional arguments, as the layer got them or changed.
        kwargs: the keyword-only ones.
    """
    step = resolve(op, keys)
    if step is not None and op.functional is None and _on_arrays(step, kwargs):
        return run(op, keys, args, kwargs)  # a kernel on arrays calls no operator that could see the context
    with exclude(_LAYER_ABOVE[keys.highest % PAGE if keys else 0]):
        return run(op, keys, args, kwargs)


def _on_arrays(step: Step, kwargs: dict[str, Any]) -> bool:
    registration = step.registration
    return registration is not None and registration.level == "array" and takes(registration, kwargs)


_LAYER_ABOVE = tuple(
    FAMILIES[next((family for family, offset in OFFSETS.items() if offset > step), "Vmap")] for step in range(PAGE)
)
"""The family of the layer that continues a call, by the highest step that is left."""


def below_autograd(keys: KeySet) -> KeySet:
    """Returns the keys below every Autograd key."""
    lowest = (AUTOGRAD & -AUTOGRAD).bit_length() - 1
    return KeySet(keys.bits & ((1 << lowest) - 1), keys.page)
