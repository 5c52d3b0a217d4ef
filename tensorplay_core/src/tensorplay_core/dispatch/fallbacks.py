"""What serves a call where a backend has no kernel of its own, how often that happened, and when the host may.

Composite comes first. Where it has nothing either, :data:`mode` says whether the call may run on the host, with its
tensors copied there and the results copied back. Either is slower than a kernel, and neither is an error that anybody
would see; so each call is counted, and :func:`fallback_report` names the operators that a backend should bring next.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey, device_of_page
from tensorplay_core.dispatch.operator import Operator, Registration, Slot, location
from tensorplay_core.dispatch.resolution import Step, at_key, composite_at, ended_at, takes
from tensorplay_core.errors import TensorPlayError

MODES = ("raise", "warn", "allow")
mode = "raise"
"""What happens where neither the backend nor Composite serves: ``raise`` KernelMissing, or run on the host and ``warn``
once per operator and device, or ``allow`` it in silence. The plugins floor sets it, from TENSORPLAY_FALLBACK."""

HOST: Slot = "Host"
"""What stands for a slot in the step of a call that runs on the host; no table has it."""
WIDTH = 80


# -------------------------------------------------------------------------------------------------------- the report


class FallbackRow(NamedTuple):
    """How often an operator fell back on a device.

    Attributes:
        op: the operator's name.
        device: the device type.
        how: ``composite`` (the kernel at Composite served) or ``host`` (it ran on the cpu).
        calls: how many calls.
    """

    op: str
    device: str
    how: str
    calls: int


class FallbackReport:
    """The calls of this process that no kernel of their backend served, the most frequent operator first.

    Attributes:
        rows: one row per operator, device type and way.

    Example:
        >>> rows = FallbackRow("softmax", "foo", "composite", 3), FallbackRow("lgamma", "foo", "host", 12)
        >>> report = FallbackReport(rows)
        >>> print(report)
        calls  how        device  operator
           12  host       foo     lgamma
            3  composite  foo     softmax
        >>> len(report), report.as_dict()["rows"][0]["op"]
        (2, 'lgamma')
    """

    def __init__(self, rows: Iterable[FallbackRow]) -> None:
        """See the class."""
        self.rows = tuple(sorted(rows, key=lambda row: (-row.calls, row.device, row.op, row.how)))

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain values: ``{"rows": [{"op", "device", "how", "calls"}, …]}``."""
        return {"rows": [row._asdict() for row in self.rows]}

    def __iter__(self) -> Iterator[FallbackRow]:
        """Iterates over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def __str__(self) -> str:
        """A table of at most 80 columns; a long name goes on in the next line."""
        import textwrap  # here, because an import of the package can do without it

        if not self.rows:
            return "no call fell back: each ran on a kernel of its backend"
        cells = [("calls", "how", "device", "operator")]
        cells += [(str(row.calls), row.how, row.device, row.op) for row in self.rows]
        calls, how, device = (max(len(row[i]) for row in cells) for i in range(3))
        device = min(device, WIDTH // 3)
        start = calls + how + device + 6
        lines: list[str] = []
        for row in cells:
            text = f"{row[0]:>{calls}}  {row[1]:<{how}}  {row[2]:<{device}}  {row[3]}"
            lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * start, drop_whitespace=True) or [text]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Says how many calls there were."""
        return f"<FallbackReport: {sum(row.calls for row in self.rows)} calls of {len(self.rows)} operators>"


class FallbackLog:
    """Counts calls; exact, whichever threads they are made in."""

    def __init__(self) -> None:
        """Makes an empty log."""
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str, str, int, str], int] = {}

    def count(self, op: Operator, key: int, how: str) -> None:
        """Counts one call of an operator that fell back at a backend key."""
        row = (op.namespace, op.name, op.overload, key, how)  # its full name is made when somebody reads it
        with self._lock:
            self._calls[row] = self._calls.get(row, 0) + 1

    def report(self, reset: bool = False) -> FallbackReport:
        """Returns what was counted; ``reset`` starts anew, and loses no call that is made meanwhile."""
        with self._lock:
            calls = dict(self._calls)
            if reset:
                self._calls.clear()
        found: dict[tuple[str, str, str], int] = {}
        for (namespace, name, overload, key, how), count in calls.items():
            op = f"{namespace}::{name}{'.' * bool(overload)}{overload}".removeprefix("tp::")
            row = (op, device_type_of(key), how)
            found[row] = found.get(row, 0) + count
        return FallbackReport([FallbackRow(*row, count) for row, count in found.items()])


LOG = FallbackLog()
count = LOG.count


def fallback_report(reset: bool = False) -> FallbackReport:
    """Returns which operators no kernel of their backend served, on which device, how, and how often.

    Counted is every call at a backend key that Composite serves, and every call that runs on the host, in all threads.
    An implicit operator counts where its Composite kernel stood in for a backend's (no gradient was recorded); where it
    decomposes above the backends, for the sake of a gradient, its inner calls alone can count. An in-place form counts
    as the operator that computes for it.

    Args:
        reset: begin to count anew.

    Example:
        >>> import tensorplay as tp
        >>> _ = tp.backends.fallback_report(reset=True)
        >>> x = tp.add(tp.ones(2), tp.ones(2), alpha=2)  # NumPy's add has no alpha
        >>> print(tp.backends.fallback_report())
        calls  how        device  operator
            1  composite  cpu     add
    """
    return LOG.report(reset)


_at_exit = False


def report_at_exit(on: bool = True) -> None:
    """Prints the report to stderr when the process ends, unless nothing fell back; or no longer does."""
    global _at_exit
    if on and not _at_exit:
        import atexit

        atexit.unregister(_print_report)
        atexit.register(_print_report)
    _at_exit = on


def _print_report() -> None:
    report = LOG.report()
    if not _at_exit or not report or sys.stderr is None:
        return
    try:
        sys.stderr.write(f"tensorplay: calls that no kernel of their backend served:\n{report}\n")
    except (OSError, ValueError):  # a stream that is closed or full: there is nobody to tell
        return


def device_type_of(key: int) -> str:
    """Returns the device type of a backend key on any page, such as ``"cpu"`` of 0; of page 0's key Sparse ``sparse``.

    Example:
        >>> device_type_of(0), device_type_of(1)
        ('cpu', 'cuda')
    """
    page, step = divmod(key, PAGE)
    return _ON_PAGE_0[step] if page == 0 else device_of_page(page) or f"page{page}"


_ON_PAGE_0 = tuple(key.name.lower() for key in DispatchKey)


# ---------------------------------------------------------------------------------------------------------- the host


on_host: Callable[[Operator, KeySet, tuple[Any, ...], dict[str, Any]], Any] | None = None
"""Runs a call on the host; set by the operators' floor."""


class HostKernel(Registration):
    """Stands for the kernel in a step that runs on the host. It is in no table, so no slot of a type ever gets it."""

    __slots__ = ()

    @property
    def kernel_name(self) -> str:
        """What a reader is told."""
        return "host fallback"


def host_step(op: Operator, key: int, kwargs: dict[str, Any]) -> Step | None:
    """Returns the step by which the host serves a call at a backend key, or None where :data:`mode` or the call forbid.

    Args:
        op: the operator.
        key: the backend key at which nothing serves.
        kwargs: the keyword-only arguments that differ from their defaults.
    """
    run = on_host
    if mode == "raise" or run is None or refusal(op, key, kwargs):
        return None

    def host_fallback(keys: KeySet, /, *args: Any, **kwargs: Any) -> Any:
        return run(op, keys, args, kwargs)

    core = "tensorplay-core"
    kernel = HostKernel(
        host_fallback,
        op=op.qualified_name,
        key=HOST,
        owner=core,
        distribution=core,
        where=location(run),
        level="host",
        with_keyset=True,
    )
    return Step(key, HOST, kernel, because())


def because() -> str:
    """Returns what a call does that the host serves, and why, as the end of a sentence."""
    return f"runs on the host, because TENSORPLAY_FALLBACK={mode}"


def advice(op: Operator, key: int, kwargs: dict[str, Any]) -> str:
    """Returns what the host could do for a call that nothing serves at a key, as the end of a sentence, or nothing."""
    if key % PAGE >= BACKENDS or device_type_of(key) in ("cpu", "meta"):
        return ""
    why = refusal(op, key, kwargs)
    if mode == "raise":
        return "" if why else "; with TENSORPLAY_FALLBACK=warn it would run on the host"
    return f"; TENSORPLAY_FALLBACK={mode} does not help: {why}" if why else ""


def step_on_host(op: Operator, keys: KeySet, kwargs: dict[str, Any]) -> Step | None:
    """Returns the step by which the host serves a call whose keys give no kernel, or None."""
    key = ended_at(op, keys)
    return None if key is None else host_step(op, key, kwargs)


def refusal(op: Operator, key: int, kwargs: dict[str, Any]) -> str:
    """Returns why a call at a backend key cannot run on the host, whatever :data:`mode` says; empty where it can."""
    device_type = device_type_of(key)
    if key % PAGE >= BACKENDS or key % PAGE == DispatchKey.Sparse:
        return "only calls on dense tensors at a backend key can run on the host"
    if device_type == "cpu":
        return "the cpu is the host"
    if device_type == "meta":
        return "meta tensors have no data to copy there"
    if not devices.is_active(device_type):
        return f"the device {device_type} is not active"
    return _of_its_nature(op, device_type) or _of_the_host(op, kwargs)


def _of_its_nature(op: Operator, device_type: str) -> str:
    """Returns what forbids an operator to run on copies of its arguments."""
    api = devices.entry(device_type).api
    shares = api.mutable and api.views  # elsewhere a view is a copy, and core keeps it and its base alike
    arguments = op.schema.arguments
    for argument in arguments:
        if argument.is_write:
            return f"it writes to its argument {argument.name}, and the host would write to a copy"
        if argument.alias is not None and shares:
            return f"its result is a view of {argument.name}, and what comes from the host shares no memory with it"
    if "device" in op.tags:
        return "it moves data between devices itself"
    if not any(argument.type.base.value in ("Tensor", "Device") for argument in arguments):
        return "it takes neither a tensor nor a device that could be replaced by the host's"
    return ""


def _of_the_host(op: Operator, kwargs: dict[str, Any]) -> str:
    """Returns why the host does not serve an operator."""
    try:
        key = devices.entry("cpu").key
    except TensorPlayError as error:
        return f"the host cannot be used: {str(error).partition(chr(10))[0]}"
    there = at_key(op, key)
    if _without_host(op, there, kwargs)[1] is not None:
        return ""
    taken = f" that takes {', '.join(kwargs)}" * (there.registration is not None)
    return f"the cpu has no kernel for it{taken} either"


def serving(op: Operator, step: Step, kwargs: dict[str, Any]) -> tuple[Slot | None, Registration | None]:
    """Returns the slot and the kernel that serve a call at one step; None where nothing does.

    The kernel at the key is not always the one: an array kernel that does not take a changed keyword leaves the call to
    Composite, and what neither serves may run on the host.

    Args:
        op: the operator.
        step: what was found at the key.
        kwargs: the keyword-only arguments that differ from their defaults.
    """
    slot, kernel = _without_host(op, step, kwargs)
    if kernel is None and step.key % PAGE < BACKENDS and (host := host_step(op, step.key, kwargs)) is not None:
        return host.slot, host.registration
    return slot, kernel


def _without_host(op: Operator, step: Step, kwargs: dict[str, Any]) -> tuple[Slot | None, Registration | None]:
    found = step.registration
    if found is None or found.level != "array" or step.slot == DispatchKey.Composite or takes(found, kwargs):
        return step.slot, found
    return int(DispatchKey.Composite), composite_at(op, step.key)


def _after_fork() -> None:
    """Gives a forked child a lock that no thread of its parent's holds."""
    LOG._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
