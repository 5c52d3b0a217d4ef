"""What happens when nothing serves a call: an error that says what is there, and a trace for whoever asks for it."""

from __future__ import annotations

import os
import sys

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey, device_of_page, key_name, slot_name
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import EnvironmentVariableError, KernelMissing, fix

FRAMES = 32


def trace_misses() -> bool:
    """Whether ``TP_TRACE_KERNEL_MISS`` asks for a trace.

    Raises:
        EnvironmentVariableError: the variable is neither 0 nor 1.
    """
    value = os.environ.get("TP_TRACE_KERNEL_MISS", "0")
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


def _check_active(keys: KeySet) -> None:
    """Raises why a device has no kernels where it is no longer active: its tensors outlive the backend."""
    device_type = device_of_page(keys.page)
    if device_type is None and keys:
        device_type = DispatchKey([*keys][-1]).name.lower()
    if device_type is not None and device_type != "sparse" and device_type not in devices.active_devices():
        devices.entry(device_type)


def kernel_missing(op: Operator, keys: KeySet, why: str = "") -> KernelMissing:
    """Returns the error for a call that nothing serves; prints the trace first when it is asked for.

    Raises:
        DeviceUnavailable, BackendError: the device's backend was unloaded.
    """
    _check_active(keys)
    key = key_name(keys.highest) if keys else "no key"
    backend = [key_name(k) for k in keys][-1] if keys else "none"
    head = f"{op.display_name}: no kernel at {backend}, nor at Composite"
    if why:
        head = f"{op.display_name}: {why}"
    if trace_misses():
        import traceback

        stack = [
            line
            for frame in traceback.extract_stack(sys._getframe(1), limit=FRAMES)
            for line in traceback.format_list([frame])  # one by one: together, the lines of a recursion would be folded
        ]
        text = f"tensorplay: kernel miss: operator {op.qualified_name}, key {key} of {keys!r}\n"
        text += f"registered: {registered(op)}\nPython stack, at most {FRAMES} frames, innermost last:\n"
        sys.stderr.write(text + "".join(stack))
    remedy = (
        f"register a kernel for {op.display_name!r} at {backend} or at Composite, or move the tensors to a device "
        "that has one."
    )
    if backend == "Meta":
        remedy = (
            f"say what the result looks like: tp.library.register_fake({op.qualified_name!r}, fn), where fn takes the "
            "call's arguments and returns an empty tensor of the right shape and dtype."
        )
    return KernelMissing(f"{head}. Registered: {registered(op)}." + fix(remedy))
