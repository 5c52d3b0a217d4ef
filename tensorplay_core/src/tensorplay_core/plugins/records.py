"""The state of one backend, as people and programs see it, and the errors that its states turn into.

Apart from the manager because the CLI, the errors and the environment check read records without loading anything;
plain classes, so that connecting the loader at import costs nothing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_core.errors import BackendError, DeviceUnavailable, TensorPlayError, did_you_mean, fix

if TYPE_CHECKING:
    from threading import Thread
    from types import ModuleType

    import pluggy

    from tensorplay_core.dispatch.library import Block
    from tensorplay_core.dispatch.operator import Operator
    from tensorplay_core.dispatch.staging import Committed
    from tensorplay_core.plugins.info import BackendInfo

COMPOSITE = "composite"
"""The extender of every device: loaded before any owner, and never in need of being allowed by name."""

OURS = {
    "cpu": "tensorplay-cpu{pin}",
    "cuda": "tensorplay[cuda]{pin}",
    COMPOSITE: "tensorplay-composite{pin}",
    "loopback": "",
    "vulkan": "",
}
"""The only names for which a message may say what to install: name to requirement, empty where none is published."""


class State(enum.StrEnum):
    """Where a backend is in its life."""

    DISCOVERED = "discovered"
    BLOCKED = "blocked"
    INCOMPATIBLE = "incompatible"
    UNAVAILABLE = "unavailable"
    ACTIVE = "active"
    ERROR = "error"
    UNLOADED = "unloaded"


class Code:
    """What importing a plugin gave.

    Attributes:
        plugin: the object with its hooks.
        blocks: the ``library_impl`` blocks that it declared.
        committed: what it registered at once while it was imported, with a ``Library`` of its own. An interpreter runs
            a module once, so these leave and come back with the backend.
        operators: the operators that it defined then; they stay for as long as the module.
    """

    __slots__ = ("blocks", "committed", "operators", "plugin")

    def __init__(
        self,
        plugin: ModuleType | Any,
        blocks: tuple[Block, ...],
        committed: tuple[Committed, ...] = (),
        operators: tuple[Operator, ...] = (),
    ) -> None:
        self.plugin = plugin
        self.blocks = blocks
        self.committed = committed
        self.operators = operators

    def withdraw(self) -> None:
        """Takes what the import registered out of the tables."""
        for committed in reversed(self.committed):
            committed.undo()

    def restore(self) -> None:
        """Puts it in again.

        Raises:
            BackendConflict: a slot has another owner now.
        """
        for committed in self.committed:
            committed.redo()


class Made(Code):
    """What a program gave in the place of a plugin's module: an object with the hooks, and what it was made of.

    Attributes:
        xp: the array module.
        options: the other arguments that it was made with.
    """

    def __init__(self, plugin: Any, xp: Any, options: Mapping[str, Any]) -> None:
        super().__init__(plugin, ())
        self.xp = xp
        self.options = options


class BackendRecord:
    """One backend: what describes it, its state, and why it is in that state.

    Attributes:
        name: the device type, or the extender's name.
        info: what its metadata says; defaults where that could not be read.
        state: see :class:`State`.
        reason: why it is not usable; empty when discovered or active.
        fix: the remedy that errors end with.
        error: the first exception, kept until ``refresh()``.
        traceback: that exception's traceback as text.
        stage: what loading was doing last: import, hooks, probe, device, register, activate.
        load_seconds: how long the last load took, or None.
        import_seconds: how long importing its module took, and all that the module imports, or None before that.
        device_count: how many devices the probe counted.
        committed: the registrations while active; ``committed.registrations`` are its kernels.
        notes: findings that do not prevent use, such as a second copy of its metadata.
        survives_fork: whether a child of fork may use it, as far as its device has been started.
        worker: the thread of a listing that was given up while it imported the module, if it hangs there still.
    """

    __slots__ = (
        "code", "committed", "device_count", "error", "fix", "hooks", "import_seconds", "info", "load_seconds", "name",
        "notes", "reason", "stage", "state", "survives_fork", "traceback", "worker",
    )  # fmt: skip

    def __init__(self, info: BackendInfo, state: State = State.DISCOVERED, reason: str = "", fix: str = "") -> None:
        self.name = info.name
        self.info = info
        self.state = state
        self.reason = reason
        self.fix = fix
        self.error: BaseException | None = None
        self.traceback = ""
        self.stage = ""
        self.load_seconds: float | None = None
        self.import_seconds: float | None = None
        self.device_count = 0
        self.committed: Committed | None = None
        self.hooks: pluggy.PluginManager | None = None
        self.code: Code | None = None
        self.notes: tuple[str, ...] = ()
        self.survives_fork = True
        self.worker: Thread | None = None

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<BackendRecord {self.name} ({self.info.label}) {self.state}{reason}>"

    @property
    def active(self) -> bool:
        """Whether its kernels and its device are in force."""
        return self.state is State.ACTIVE

    @property
    def made(self) -> Made | None:
        """What a program made it of, with ``from_namespace``; None for a backend that is installed."""
        return self.code if isinstance(self.code, Made) else None

    @property
    def owns_device(self) -> bool:
        """Whether the backend brings a device, rather than extending those of others."""
        return bool(self.info.devices)

    @property
    def refused(self) -> bool:
        """Whether its kernels were refused, as those of another stood where they should."""
        return self.state is State.ERROR and self.stage in ("register", "activate")

    def forget_failure(self) -> None:
        """Makes it one that was not tried yet."""
        self.state, self.reason, self.fix, self.error, self.traceback = State.DISCOVERED, "", "", None, ""

    def as_dict(self) -> dict[str, Any]:
        """Returns the record as plain values, for ``--json``."""
        info = self.info
        return {
            "name": self.name, "distribution": info.distribution, "version": info.version, "state": str(self.state),
            "reason": self.reason, "fix": self.fix, "stage": self.stage, "traceback": self.traceback,
            "summary": info.summary, "api": info.api, "priority": info.priority, "devices": [*info.devices],
            "extends": [*info.extends], "mutable": info.mutable, "views": info.views,
            "requirements": [*info.requirements], "url": info.url, "module": info.module,
            "device_count": self.device_count, "load_seconds": self.load_seconds,
            "import_seconds": self.import_seconds, "notes": [*self.notes],
            "registrations": len(self.committed.registrations) if self.committed is not None else 0,
        }  # fmt: skip

    def exception(self) -> TensorPlayError:
        """Returns a new error that says why the backend cannot be used, the same however often it is asked for."""
        subject = f"Backend {self.name!r} ({self.info.label})"
        if self.owns_device:
            subject = f"Device {self.name!r} cannot be used: its backend ({self.info.label})"
        kind = BackendError if self.state in (State.ERROR, State.INCOMPATIBLE) else DeviceUnavailable
        verb = {State.ERROR: "is broken", State.UNLOADED: "was unloaded"}.get(self.state, f"is {self.state}")
        reason = f": {self.reason}" if self.reason else "."
        return kind(f"{subject} {verb}{reason}" + fix(self.fix or "see its documentation"))


def canonical(name: str) -> str:
    """Returns a distribution's name in the one form in which names are equal.

    Example:
        >>> canonical("TensorPlay_Foo")
        'tensorplay-foo'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def install_hint(name: str) -> str:
    """Returns how to install a backend of ours, or an empty string for any other name."""
    if name not in OURS:
        return ""
    if not OURS[name]:
        return f"it is not published; in a checkout of TensorPlay: pip install ./backends/tensorplay_{name}"
    pin = core_version()
    requirement = OURS[name].format(pin=f"=={pin}" if pin else "")
    return f"pip install {requirement}" if "[" not in requirement else f"pip install '{requirement}'"


def core_version() -> str:
    """Returns the version of the installed core, to which a hint is pinned: other projects use similar names."""
    from importlib import metadata

    try:
        return metadata.version("tensorplay-core") or ""
    except Exception:  # a broken installation must not hide the error that is being worded
        return ""


def circle(name: str, loading: list[str]) -> BackendError:
    """Returns the error for a backend that is used before its load has ended, alone or by those that it loads."""
    members = loading[loading.index(name) :]
    who = f"let {members[0]!r}" if len(members) == 1 else f"let one of {' and '.join(map(repr, members))}"
    return BackendError(
        f"Backend {name!r} is used while it is still being loaded ({' → '.join((*loading, name))})."
        + fix(f"{who} create tensors after it was loaded, not at import or in a hook")
    )


def unknown(name: str, records: Iterable[BackendRecord], *, device: bool) -> TensorPlayError:
    """Returns the error for a device (or a backend) that no installed distribution provides."""
    by_name = {record.name: record for record in records if record.owns_device or not device}
    choices = ", ".join(sorted(by_name)) or "none"
    extender = device and any(record.name == name for record in records)
    if extender or (device and name == COMPOSITE):
        return DeviceUnavailable(
            f"{name!r} is not a device: that backend extends the devices of others. Installed devices: {choices}."
            + fix("name one of the installed devices")
        )
    what = "device" if device else "backend"
    kind = DeviceUnavailable if device or name in OURS else BackendError
    hint = did_you_mean(name, by_name)
    message = f"No installed backend provides the device {name!r}." if device else f"No backend {name!r} is installed."
    message += f"{hint} Installed {what}s: {choices}."
    return kind(
        message + fix(install_hint(name) or f"name an installed {what}, or install the backend that provides {name!r}"
                      " as its authors say; after installing, call tensorplay.backends.refresh()")
    )  # fmt: skip
