"""What happens when nothing serves a call: an error that says what is there, and a trace for whoever asks for it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from tensorplay_core.dispatch import devices, fallbacks
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import key_name, slot_name
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import EnvironmentVariableError, KernelMissing, fix

FRAMES = 32
trace: bool | None = None
"""What ``tensorplay.backends.configure`` has set; None asks the environment."""


def trace_misses() -> bool:
    """Whether ``TP_TRACE_KERNEL_MISS``, or the program itself, asks for a trace.

    Raises:
        EnvironmentVariableError: the variable is neither 0 nor 1.
    """
    if trace is not None:
        return trace
    value = os.environ.get("TP_TRACE_KERNEL_MISS", "0").strip()
    if value not in ("", "0", "1"):
        raise EnvironmentVariableError(
            f"TP_TRACE_KERNEL_MISS is 0 (no trace) or 1 (trace to stderr), not {value!r}"
            + fix("correct or unset TP_TRACE_KERNEL_MISS")
        )
    return value == "1"


def registered(op: Operator) -> str:
    """Lists the slots of an operator that hold a kernel."""
    slots = sorted(op.table, key=str)
    return ", ".join(slot_name(slot) for slot in slots) or "nothing"


def make_active(keys: KeySet) -> bool:
    """Makes the device of a call active where it was not any more: its tensors outlive the backend.

    Returns:
        Whether that changed anything, so that the call is worth another look at the tables.

    Raises:
        DeviceUnavailable, BackendError: it cannot be.
    """
    device_type = fallbacks.device_type_of(keys.lowest) if keys.bits else "sparse"
    if device_type != "sparse" and not devices.is_active(device_type):
        devices.entry(device_type)
        return True
    return False


def _print_trace(op: Operator, keys: KeySet) -> None:
    """Prints operator, key, what is registered, and the stack of who called :func:`kernel_missing`."""
    import traceback

    stack = [
        line
        for frame in traceback.extract_stack(sys._getframe(2), limit=FRAMES)
        for line in traceback.format_list([frame])  # one by one: together, the lines of a recursion would be folded
    ]
    key = key_name(keys.highest) if keys else "no key"
    text = f"tensorplay: kernel miss: operator {op.qualified_name}, key {key} of {keys!r}\n"
    text += f"registered: {registered(op)}\nPython stack, at most {FRAMES} frames, innermost last:\n"
    with suppress(Exception):  # a stream that is closed or absent: the error itself must not be lost for it
        sys.stderr.write(text + "".join(stack))


def kernel_missing(
    op: Operator, keys: KeySet, why: str = "", *, at: int | None = None, kwargs: dict[str, Any] | None = None
) -> KernelMissing:
    """Returns the error for a call that nothing serves; prints the trace first when it is asked for.

    Args:
        op: the operator.
        keys: the keys of the call.
        why: what is wrong, where it is not that nothing is registered.
        at: the key at which the call ended, where the host could have served it.
        kwargs: the keyword-only arguments of the call.

    Raises:
        DeviceUnavailable, BackendError: the device's backend was unloaded.
    """
    make_active(keys)
    backend = [key_name(k) for k in keys][-1] if keys else "none"
    head = f"{op.display_name}: no kernel at {backend}, nor at Composite"
    if keys and (who := op.opted_out_by([*keys][-1])):
        head = f"{op.display_name}: no kernel at {backend}, which {who} opted out of Composite for it"
    if why:
        head = f"{op.display_name}: {why}"
    advice = "" if at is None else fallbacks.advice(op, at, kwargs or {})
    if fallbacks.mode != "raise":
        head += advice
    if trace_misses():
        _print_trace(op, keys)
    remedy = (
        f"register a kernel for {op.display_name!r} at {backend} or at Composite, or move the tensors to a device "
        "that has one"
    )
    if advice and fallbacks.mode == "raise":
        remedy += "; or set TENSORPLAY_FALLBACK=warn, and it runs on the host, its tensors copied there and back"
    remedy += "."
    if backend == "Meta":
        remedy = (
            f"say what the result looks like: tp.library.register_fake({op.qualified_name!r}, fn), where fn takes the "
            "call's arguments and returns an empty tensor of the right shape and dtype."
        )
    return KernelMissing(f"{head}. Registered: {registered(op)}." + fix(remedy))
