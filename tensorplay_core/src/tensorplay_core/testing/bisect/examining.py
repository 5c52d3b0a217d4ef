"""One call on two devices: what both give, and how the first is wrong: in its result, or in its inputs afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.fallbacks import serving
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.operator import Operator, Registration
from tensorplay_core.dispatch.resolution import resolve
from tensorplay_core.errors import BackendError, DeviceUnavailable, KernelMissing
from tensorplay_core.ops import call as slow
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.ops.packets import overload_of
from tensorplay_core.ops.slots import CORE
from tensorplay_core.testing.bisect.comparison import Compared, Difference, difference
from tensorplay_core.testing.bisect.moving import host_of, mapped, on, tensors_of
from tensorplay_core.types.device import Device

UNSET = frozenset({"empty", "empty_strided"})
"""Operators whose result is whatever lies in memory."""
ABSENT = (KernelMissing, DeviceUnavailable, BackendError)
"""What a device raises that lacks something: a gap, and no wrong result."""


class Examined(NamedTuple):
    """What was found.

    Attributes:
        result: the device's result.
        right: the other device's; None where nothing could be compared.
        difference: how the first is wrong, None where it is not.
        compared: whether there was something to compare.
    """

    result: Any
    right: Any
    difference: Difference | None
    compared: bool


def keys_of(device: Device) -> KeySet:
    """Returns the keys of a call below every layer."""
    entry = devices.entry(device.type)
    return KeySet(1 << entry.key, entry.page)


def run_below(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> Any:
    """Runs a call's kernel at the device's own key."""
    return slow.run(op, keys_of(device), args, kwargs)


def kernel_of(op: Operator, kwargs: dict[str, Any], device: Device) -> Registration | None:
    """Returns the kernel that serves a call on a device: of an in-place form that has none, its operator's."""
    step = resolve(op, keys_of(device))
    if step is None:
        return None
    _, kernel = serving(op, step, kwargs)
    if kernel is not None and op.functional is not None and kernel.owner == CORE:
        return kernel_of(op.functional, kwargs, device) or kernel
    return kernel


def concerns(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> bool:
    """Whether a call computes on the device, and on it alone, and gives what its arguments decide."""
    if "random" in op.tags or op.name in UNSET:
        return False
    places = {t.device.type for t in tensors_of((args, kwargs)) if t.shape or t.device.type != "cpu"}
    named = [value for value in (*args, *kwargs.values()) if isinstance(value, Device)]
    if not places and not named:
        return not tensors_of((args, kwargs)) and devices.default_device().type == device.type
    return all(place == device.type for place in (*places, *(one.type for one in named)))


def examine(
    op: Operator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    device: Device,
    against: Device,
    factor: float,
    run: Callable[..., Any] = run_below,
    before: tuple[Any, Any] | None = None,
) -> Examined:
    """Runs a call on both devices and compares.

    Args:
        op: the operator.
        args: its arguments, on the first device.
        kwargs: the keyword-only ones.
        device: the device that is examined.
        against: the one that is trusted.
        factor: what error budgets are multiplied by.
        run: runs it on the first.
        before: the arguments as copies on the second, where there are some.

    Raises:
        Exception: what the first device raises, where the other raises too, or where it only lacks a kernel.
    """
    there, there_kwargs = before or on(against, (args, kwargs), device.type)
    written = plan_of(op).written
    # what is written to there is a copy: the arguments as they were are needed for the comparison
    target, target_kwargs = on(against, (args, kwargs), device.type) if written else (there, there_kwargs)
    failed: Exception | None = None
    result: Any = None
    try:
        result = run(op, args, kwargs, device)
    except ABSENT:
        raise
    except Exception as error:
        failed = error
    try:
        right = overload_of(op)(*target, **target_kwargs)
    except Exception:
        if failed is not None:
            raise failed from None
        return Examined(result, None, None, False)
    if failed is not None:
        first = str(failed).partition("\n")[0]
        what = f"it raises {type(failed).__name__} ({first}), and {against.type} gives a result"
        return Examined(None, right, Difference(what, kind="raised"), True)
    found = difference(Compared(op, there, there_kwargs, factor), result, right)
    found = found or _writes(op, args, target) or _inputs(op, args, kwargs, there, there_kwargs)
    found = found or _views(op, args, result)
    return Examined(result, right, found, True)


def _writes(op: Operator, args: tuple[Any, ...], target: tuple[Any, ...]) -> Difference | None:
    """Whether several written arguments are right; one that is returned has been compared."""
    plan = plan_of(op)
    if not plan.written or plan.returned != (None,) * plan.returns:
        return None
    for spec, one, right in zip(plan.positional, args, target, strict=True):
        if spec.name in plan.written:
            found = difference(Compared(op, (), {}), one, right)
            if found is not None:
                return found._replace(what=f"what it has written to {spec.name}: {found.what}")
    return None


def _inputs(
    op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], there: tuple[Any, ...], there_kwargs: dict[str, Any]
) -> Difference | None:
    """Whether an argument that the operator does not write to has changed."""
    plan = plan_of(op)
    if plan.written:  # what is written to may overlap others
        return None
    for one, before in zip(tensors_of((args, kwargs)), tensors_of((there, there_kwargs)), strict=True):
        if one is not before and host_of(one).tobytes() != host_of(before).tobytes():
            return Difference("it has written to one of its arguments, which its signature does not say", kind="input")
    return None


def _views(op: Operator, args: tuple[Any, ...], result: Any) -> Difference | None:
    """Whether the result of a view operator shares the memory of what it was taken from."""
    plan = plan_of(op)
    if not (plan.view or plan.several_views) or "may_copy" in op.tags or not tensors_of(args):
        return None
    base = tensors_of(args)[0]
    api = base._type.api
    if base._type.rebinds or not api._implements("may_alias") or not base.numel():
        return None
    for view in tensors_of(result):
        if view.numel() and not api.may_alias(base._array, view._array):
            what = "the view is stale: it does not share its base's memory, so a write to one is not seen in the other"
            return Difference(what, kind="view")
    return None


def copies(device: Device, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Returns arguments with contiguous copies of their tensors on a device."""
    made: tuple[Any, Any] = mapped((args, kwargs), lambda tensor: on(device, tensor, tensor.device.type))
    return made
