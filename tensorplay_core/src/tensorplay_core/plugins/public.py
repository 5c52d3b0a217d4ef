"""``tensorplay.backends``: what users call to see, load and unload backends.

A thin face over the manager, so that its methods can change without changing what people type.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.fallbacks import FallbackReport, fallback_report
from tensorplay_core.errors import BackendError, DeviceUnavailable
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.plugins.records import BackendRecord, State

if TYPE_CHECKING:
    from tensorplay_core.plugins.doctor import Finding
    from tensorplay_core.plugins.environment import Settings

__all__ = [
    "BackendRecord",
    "FallbackReport",
    "State",
    "configure",
    "doctor",
    "fallback_report",
    "from_namespace",
    "info",
    "is_available",
    "list",
    "load",
    "refresh",
    "settings",
    "unload",
]


class _NotGiven(enum.Enum):
    """Stands for a field that a call does not give, as None gives it back to the environment."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "<not given>"


_NOT_GIVEN = _NotGiven.NOT_GIVEN


def list(
    load: bool = True, timeout: float | None = 20.0, started: Callable[[BackendRecord], None] | None = None
) -> builtins.list[BackendRecord]:
    """Returns every installed backend, in the order of (priority, name).

    Args:
        load: try each one that was not tried yet, so that its state is known; failures are in the records, not raised.
        timeout: seconds for each backend, None for no limit.
        started: called with each backend before it is tried, for whoever shows progress.

    Raises:
        ArgumentError, ValueRangeError: a timeout that is no number of seconds.
        EnvironmentVariableError: a ``TENSORPLAY_BACKEND…`` variable has a value that means nothing.
    """
    from tensorplay_core.plugins.configuration import limit

    timeout = limit("list", timeout)
    return [*(MANAGER.load_all(timeout, started) if load else MANAGER.records())]


def doctor(timeout: float | None = 20.0) -> builtins.list[Finding]:
    """Looks at what is installed, tries every backend, and returns what is wrong, the worst first, each with its fix.

    Args:
        timeout: seconds for each backend, None for no limit.

    Raises:
        ArgumentError, ValueRangeError: a timeout that is no number of seconds.

    Example:
        >>> import tensorplay as tp
        >>> [finding.fix for finding in tp.backends.doctor() if finding.severity == "error"]
        []
    """
    from tensorplay_core.plugins.doctor import examine

    return [*examine(timeout).findings]


def info(name: str) -> BackendRecord:
    """Returns a backend's record without loading it.

    Raises:
        BackendError: no such backend is installed (DeviceUnavailable where it is one of ours, with how to install it).
    """
    return MANAGER.record(name)


def load(name: str) -> BackendRecord:
    """Loads a backend now, rather than when its device is first used.

    Raises:
        DeviceUnavailable: it is not installed, is blocked, or cannot work on this machine.
        BackendError: it is broken or incompatible.
    """
    return MANAGER.load(name)


def unload(name: str) -> BackendRecord:
    """Removes an active backend's kernels and device; :func:`load` brings them back.

    Raises:
        BackendError: no such backend is installed, or its ``tensorplay_unload`` raised.
    """
    return MANAGER.unload(name)


def from_namespace(
    xp: Any,
    name: str = "npx",
    *,
    dtypes: Mapping[str, Any] | None = None,
    mutable: bool | None = None,
    views: bool | None = None,
    device_count: int = 1,
) -> BackendRecord:
    """Makes a device of a NumPy-like module, without a package, and returns its record.

    The device has every operator of the contract, with gradients. Where the module's arrays cannot be written to (as
    those of JAX), or where it cannot say which share memory (as the array API standard), an in-place operator gives the
    tensor, and those that are views of it, other arrays. A second call with the same arguments changes nothing.

    Args:
        xp: the module, such as ``numpy``, ``jax.numpy`` or ``array_api_strict``.
        name: the device's type, ``tp.ones(2, device=name)``.
        dtypes: dtype name to the module's dtype; by default every one that it has.
        mutable: whether arrays can be written to; by default it is tried.
        views: whether slices share memory with their array; by default it is tried.
        device_count: how many devices of the type there are.

    Raises:
        ArgumentError: the module is not NumPy-like, or an argument has the wrong type.
        ValueRangeError: a name that no device can have, or a count below 1.
        BackendError: another backend has the name, or the settings block it.

    Example:
        >>> import numpy
        >>> import tensorplay as tp
        >>> tp.backends.from_namespace(numpy, "again")
        <BackendRecord again (tensorplay-composite ...) active>
        >>> x = tp.ones(2, device="again", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 2.], device='again:0')
        >>> tp.backends.unload("again").active
        False
    """
    from tensorplay_core.plugins import namespaces

    options = {"dtypes": dtypes, "mutable": mutable, "views": views, "device_count": device_count}
    return namespaces.add(MANAGER, xp, name, options)


def refresh() -> builtins.list[BackendRecord]:
    """Looks again at what is installed and at the environment; backends that failed get a new try.

    An active backend that the settings block now is unloaded.

    Raises:
        EnvironmentVariableError: a ``TENSORPLAY_BACKEND…`` variable has a value that means nothing; nothing is changed.
    """
    return [*MANAGER.refresh()]


def configure(
    *,
    allow: str | Iterable[str] | _NotGiven | None = _NOT_GIVEN,
    block: str | Iterable[str] | _NotGiven | None = _NOT_GIVEN,
    priority: Mapping[str, int] | _NotGiven | None = _NOT_GIVEN,
    autoload: bool | _NotGiven | None = _NOT_GIVEN,
    fallback: str | _NotGiven | None = _NOT_GIVEN,
    trace: bool | _NotGiven | None = _NOT_GIVEN,
    trace_kernel_miss: bool | _NotGiven | None = _NOT_GIVEN,
    timeout: float | _NotGiven | None = _NOT_GIVEN,
) -> Settings:
    """Sets what the environment variables set, for this process, and returns the settings in force.

    What is not given stays as it is; None gives a field back to its variable. A change of ``allow``, ``block``,
    ``priority`` or ``autoload`` after backends were first needed refreshes them, as :func:`refresh` does.

    Args:
        allow: names of the only backends that may run, as an iterable or with commas between; ``""`` allows all.
        block: names of backends that must not run; one that is active is unloaded, and its tensors say why.
        priority: name to priority, in place of those of ``backend.yaml``; earlier ones of other names stay.
        autoload: whether naming a device may load its backend.
        fallback: what a call does without a kernel on its device: ``"raise"``, ``"warn"`` or ``"allow"``.
        trace: print every dispatch step to stderr.
        trace_kernel_miss: print the Python stack of a call that nothing serves.
        timeout: seconds that a probe may take, and that a thread waits for another one's load; 0 for no limit.

    Raises:
        ArgumentError: a value of the wrong type; nothing is changed by any error.
        ValueRangeError: a value that is not allowed, such as the name of a backend to allow that is not installed.
        EnvironmentVariableError: a variable has a value that means nothing.

    Example:
        >>> import tensorplay as tp
        >>> tp.backends.configure(timeout=5).timeout
        5.0
        >>> tp.backends.configure(timeout=None).timeout
        60.0
    """
    fields = {
        "allow": allow, "block": block, "priority": priority, "autoload": autoload, "fallback": fallback,
        "trace": trace, "trace_kernel_miss": trace_kernel_miss, "timeout": timeout,
    }  # fmt: skip
    return MANAGER.configure({name: value for name, value in fields.items() if value is not _NOT_GIVEN})


def settings() -> Settings:
    """Returns the settings in force, and where each that is not the default comes from.

    Raises:
        EnvironmentVariableError: a variable has a value that means nothing.

    Example:
        >>> import tensorplay as tp
        >>> tp.backends.settings().fallback
        'raise'
    """
    return MANAGER.effective()


def is_available(name: str) -> bool:
    """Returns whether a backend works here; loads it to find out. Of a device that core brings itself, true.

    Raises:
        EnvironmentVariableError: a ``TENSORPLAY_BACKEND…`` variable has a value that means nothing.
    """
    if name in devices.built_in:
        return True
    try:
        return MANAGER.load(name).active
    except (BackendError, DeviceUnavailable):
        return False
