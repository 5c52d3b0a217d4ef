"""What of a long program is recorded: a few steps, after some that warm up, as PyTorch's schedules say it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from tensorplay_core.dispatch import devices
from tensorplay_core.errors import BackendError, DeviceUnavailable, ValueRangeError, fix

__all__ = ["ProfilerAction", "ProfilerActivity", "schedule", "supported_activities"]


class ProfilerActivity(Enum):
    """Whose work a program written for PyTorch wants to see; here the calls on all devices are recorded alike."""

    CPU = 0
    CUDA = 2
    PrivateUse1 = 4


def supported_activities() -> set[ProfilerActivity]:
    """Returns the activities that there can be here: CUDA's where its device can be used, and those of all others.

    Example:
        >>> import tensorplay as tp
        >>> tp.profiler.ProfilerActivity.CPU in tp.profiler.supported_activities()
        True
    """
    found = {ProfilerActivity.CPU, ProfilerActivity.PrivateUse1}
    try:
        devices.entry("cuda")
    except (DeviceUnavailable, BackendError):
        return found
    return found | {ProfilerActivity.CUDA}


class ProfilerAction(Enum):
    """What a profiler does in one step of a program."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


Schedule = Callable[[int], ProfilerAction]


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Schedule:
    """Returns a schedule for :class:`profile`: cycles that wait, warm up and record.

    Args:
        wait: how many steps of a cycle are not looked at.
        warmup: how many are recorded and thrown away.
        active: how many are recorded; ``on_trace_ready`` is called after the last of them.
        repeat: after how many cycles it ends; 0 is never.
        skip_first: how many steps come before the first cycle.
        skip_first_wait: where it is not 0, the first cycle does not wait.

    Raises:
        ValueRangeError: a number is negative, or nothing would be recorded.

    Example:
        >>> import tensorplay as tp
        >>> plan = tp.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [plan(step).name for step in range(6)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE', 'NONE']
    """
    numbers = {"wait": wait, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    for name, number in {**numbers, "active": active, "skip_first_wait": skip_first_wait}.items():
        least = 1 if name == "active" else 0
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ValueRangeError(
                f"schedule: {name} is an integer of at least {least}, not {number!r}"
                + fix("wait=1, warmup=1, active=3 records three steps after two others.")
            )

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if repeat and cycle >= repeat:
            return ProfilerAction.NONE
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action
