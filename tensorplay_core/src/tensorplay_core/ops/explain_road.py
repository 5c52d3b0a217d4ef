"""The road of one call, read off the tables without running it: what ``tp.explain`` is made of.

Every statement here comes from the functions that a real call uses (the resolution, the promote and shape rules, the
conditions of the fast path), so an explanation is a dry run and not a second opinion.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tensorplay_core.autograd import views
from tensorplay_core.dispatch import devices, fallbacks
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.integers import integer_among
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import AUTOGRAD, BACKENDS, PAGE, DispatchKey, family_of, key_name
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.resolution import Step, at_key, ends, why_no_composite
from tensorplay_core.errors import TensorPlayError
from tensorplay_core.ops import autograd_kernels, inplace, kernels, slots, typing_rules
from tensorplay_core.ops.arguments import plan_of, tensors_in
from tensorplay_core.profiler.events import kernel_label
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType

RUNS, SKIPPED, UNREACHED, MISSING, PROMISED = "runs", "skipped", "not reached", "missing", "promised"


class RoadStep(NamedTuple):
    """One key of a call.

    Attributes:
        key, number: the key's name and number.
        slot: the name of the table slot that serves it, or empty.
        kernel: the full name of the kernel, or empty.
        label: the kernel's name for a reader: without the module where ``where`` says it already.
        distribution, where: whose it is, and its ``file:line``.
        state: ``runs``, ``skipped``, ``not reached``, ``missing``; ``promised`` for a device that is not here.
        reason: why.
    """

    key: str
    number: int
    slot: str
    kernel: str
    label: str
    distribution: str
    where: str
    state: str
    reason: str

    @property
    def short_where(self) -> str:
        """``where``, shortened for a reader."""
        return short_location(self.where)

    def as_dict(self) -> dict[str, Any]:
        """Returns the step as plain values."""
        return self._asdict()


def short_location(where: str) -> str:
    """Returns ``file:line`` with the path from the package on, or from an entry of ``sys.path``.

    Example:
        >>> short_location("<stdin>:3")
        '<stdin>:3'
    """
    path, colon, line = where.rpartition(":")
    folder = os.path.dirname(path)
    if not os.path.isabs(path):
        return where
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    if folder == os.path.dirname(path):  # in no package
        inside = [p for p in sys.path if p and path.startswith(p.rstrip(os.sep) + os.sep)]
        folder = max([*inside, folder], key=len)
    return os.path.relpath(path, folder).replace(os.sep, "/") + colon + line


# ------------------------------------------------------------------------------------------------------------ the steps


def road(op: Operator, keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[RoadStep]:
    """Yields what each key of a call has, from the highest, and whether the call takes it."""
    stopped = ""
    for key in keys:
        step = at_key(op, key)
        if stopped:
            yield _step(step, step.registration, UNREACHED, stopped)
            continue
        slot, kernel = fallbacks.serving(op, step, kwargs)
        if kernel is None:
            ended = ends(key)
            yield _step(step, None, MISSING if ended else SKIPPED, _why_none(op, step, kwargs))
            stopped = "the call has ended with an error" if ended else ""
            continue
        if isinstance(kernel, fallbacks.HostKernel):
            yield from _on_host(op, step, kernel, kwargs)
            stopped = "the call has run on the host"
            continue
        reason, stopped = _why(op, step, kernel, args, kwargs)
        yield _step(step._replace(slot=slot), kernel, RUNS, reason)


def _on_host(op: Operator, step: Step, host: Registration, kwargs: dict[str, Any]) -> Iterator[RoadStep]:
    """Yields the step that leaves for the host, and the one there."""
    yield _step(step._replace(slot=fallbacks.HOST), host, RUNS, f"{_why_none(op, step, kwargs)}: {fallbacks.because()}")
    there = at_key(op, int(DispatchKey.CPU))
    slot, kernel = fallbacks.serving(op, there, kwargs)
    if kernel is not None:
        yield _step(there._replace(slot=slot), kernel, RUNS, f"on the host: {_why(op, there, kernel, (), kwargs)[0]}")


def _step(step: Step, kernel: Registration | None, state: str, reason: str) -> RoadStep:
    slot = step.slot if isinstance(step.slot, str) else "" if step.slot is None else key_name(step.slot)
    if kernel is None:
        return RoadStep(key_name(step.key), step.key, "", "", "", "", "", state, reason)
    name, label, distribution = kernel.kernel_name, kernel_label(kernel), kernel.distribution
    return RoadStep(key_name(step.key), step.key, slot, name, label, distribution, kernel.where, state, reason)


def _why_none(op: Operator, step: Step, kwargs: dict[str, Any]) -> str:
    kernel, advice = step.registration, fallbacks.advice(op, step.key, kwargs)
    if kernel is None:
        return f"{step.reason}{advice}"
    why = f"{kernel_label(kernel)} ({kernel.distribution}) does not take {_left_over(kernel, kwargs)}"
    return f"{why}; {why_no_composite(op, step.key)}{advice}"


def _left_over(kernel: Registration, kwargs: dict[str, Any]) -> str:
    return ", ".join(name for name in kwargs if kernel.keywords is not None and name not in kernel.keywords)


def _why(
    op: Operator, step: Step, kernel: Registration, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str]:
    """Returns why a step runs, and why the keys below it are not reached (empty when they are)."""
    family = family_of(step.key % PAGE)
    if step.key % PAGE < BACKENDS:
        if kernel is not step.registration and step.registration is not None:
            own = step.registration
            left = _left_over(own, kwargs)
            return f"{kernel_label(own)} ({own.distribution}) does not take {left}: Composite serves", ""
        return step.reason, ""
    if step.slot == DispatchKey.Composite:
        return step.reason, f"the operator decomposes at {key_name(step.key)}; its inner calls take roads of their own"
    if (node := getattr(kernel.function, "node", None)) is not None:  # what register_autograd registered
        why = recording(op, args, kwargs)
        does = f"records {node.__name__}, because" if autograd_kernels.records(args, {}) else "records nothing:"
        return f"{does} {why}; continues below", ""
    if kernel.owner != slots.CORE:
        return f"{step.reason}; what follows is up to this kernel", ""
    if family == "Autograd":
        return _autograd(op, args, kwargs)
    if family == "Autocast":
        return f"{step.reason}; its policy is {op.autocast}; continues below", ""
    return step.reason, ""


def _autograd(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    why, records = recording(op, args, kwargs), autograd_kernels.records(args, kwargs)
    decomposes = op.composite == "implicit" and op.node is None
    if not records and not (decomposes and plan_of(op).view):
        return f"records nothing: {why}; continues below", ""
    if op.is_inplace or op.node is not None:
        source = op.node or (op.functional.node if op.functional is not None else None)
        name = source.__name__ if source is not None else "a node that raises on backward"
        return f"records {name}, because {why}; continues below", ""
    if op.differentiable is not None and not any(op.differentiable):
        return "records nothing: the result has no gradient; continues below", ""
    if decomposes and (composite := op.kernel_at(int(DispatchKey.Composite))) is not None:
        runs = f"{kernel_label(composite)} ({composite.distribution}) runs"
        text = f"decomposes, because {why}: {runs} and its inner calls record"
        if not records:
            text = f"decomposes, because a view is that of the operators which take it: {runs}; {why}"
        return text, "the operator has decomposed at Autograd; its inner calls take roads of their own"
    if not records:
        return f"records nothing: {why}; continues below", ""
    return f"records a node that raises on backward, because {why} and there is no formula; continues below", ""


def recording(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Returns why a call is or is not recorded, as the end of a sentence."""
    tensors = list(tensors_in(args, kwargs))
    if not tensors:
        return "it has no tensor inputs"
    needing = [name for name, value in _named(op, args, kwargs) if has_node(value)]
    if not needing:
        return "no input requires grad"
    if not STATE.get().grad:
        return "gradients are off here (no_grad)"
    return f"{' and '.join(needing)} require{'s' * (len(needing) == 1)} grad"


def _named(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    pairs = [(spec.name, value) for spec, value in zip(plan_of(op).positional, args, strict=False)]
    return [*pairs, *kwargs.items()]


def has_node(value: Any) -> bool:
    """Whether a tensor among the values has a node, so that a gradient reaches it."""
    return any(tensor._node is not None for tensor in tensors_in((value,), {}))


def left_out(keys: KeySet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Returns which keys of the tensors the context has taken out, and why; empty when none."""
    state = STATE.get()
    bits = 0
    for tensor in tensors_in(args, kwargs):
        if tensor._type.page == keys.page:
            bits |= tensor._type.key_bits
    gone = KeySet(bits & state.exclude, keys.page)
    if gone:
        names = ", ".join(key_name(key) for key in gone)
        why = "inference mode" if state.inference and not gone.bits & ~AUTOGRAD else "the context excludes it"
        return f"without {names}: {why}"
    if bits and not bits & AUTOGRAD and all(t._type.inference for t in tensors_in(args, kwargs)):
        return "without an Autograd key: inference tensors have none"
    return ""


# ----------------------------------------------------------------------------------------------------------- the result


class Result(NamedTuple):
    """What a call gives, by the operator's rules.

    Attributes:
        shapes: one shape per result, also of a list of them; None for one that depends on data.
        dtypes: one dtype per result; None for one that the kernel decides.
        error: the error that the call raises instead, or empty.
    """

    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[str | None, ...]
    error: str = ""


def result_of(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    """Asks the shape rule, the promote rule and the checks before a write."""
    count = plan_of(op).returns
    try:
        if plan_of(op).writes:
            if autograd_kernels.records_write(args[0], args, kwargs):
                views.check_write(op.display_name, args[0])
            if not isinstance(args[0]._array, StandIn):
                inplace.check(op, args, kwargs)
        shapes: Any = kernels.expected_shape(op, args, kwargs)
    except TensorPlayError as error:
        return Result((None,) * count, (None,) * count, f"{type(error).__name__}: {error}")
    if count == 1:
        dtype = result_dtype(op, args, kwargs)
        name = dtype.name if dtype is not None else None
        if op.schema.returns_list and shapes is not None:
            return Result(tuple(shapes), (name,) * len(shapes))
        return Result((None if shapes is None else tuple(shapes),), (name,))
    if shapes is not None and all(isinstance(size, int) for size in shapes):  # one shape, which every result has
        shapes = (tuple(shapes),) * count
    return Result(tuple(shapes) if shapes is not None else (None,) * count, (None,) * count)


def result_dtype(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DType | None:
    """Returns the dtype that the promote rule gives; None where the kernel decides."""
    if plan_of(op).writes:
        return args[0].dtype  # type: ignore[no-any-return]
    given = dt.int32 if kwargs.get("out_int32") else kwargs.get("dtype")
    if given is not None:
        return given
    if not any(True for _ in tensors_in(args, {})):
        device = kwargs.get("device") or devices.default_device()
        return kernels.creation_dtype(op, args, device if devices.is_active(device.type) else Device("cpu"))
    common = typing_rules.tensor_dtype([value for _, value in typing_rules.promoted(op, args)])
    if common is None or op.promote == "none":
        return None
    compute = typing_rules.compute_dtype(op, common)
    integer = integer_among(next(iter(tensors_in(args, {})))._type.api.dtypes)
    return {
        "bool": dt.bool_,
        "index": integer,
        "sum": compute if compute.is_inexact else integer,
        "real": compute.real_dtype,
    }.get(op.promote, compute)


class StandIn:
    """An array that has a shape and nothing else: explaining a call needs no memory."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


__all__ = [
    "MISSING", "PROMISED", "RUNS", "SKIPPED", "UNREACHED", "Result", "RoadStep", "StandIn", "has_node", "kernel_label",
    "left_out", "recording", "result_dtype", "result_of", "road", "short_location",
]  # fmt: skip
