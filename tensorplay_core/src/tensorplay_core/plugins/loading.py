"""Loads one backend: import, hooks, probe, device, registration, each step guarded.

Here foreign code runs. Whatever it does (short of killing the process) comes out as one :class:`LoadFailure` that
says at which step it happened, where, and what helps; nothing is visible to the dispatcher before :func:`activate`
commits everything at once.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pluggy

from tensorplay_core.errors import RegistrationError, TensorPlayError
from tensorplay_core.plugins import hookspecs
from tensorplay_core.plugins.hookspecs import Availability
from tensorplay_core.plugins.records import BackendRecord, Code, State, install_hint

if TYPE_CHECKING:
    from tensorplay_core.dispatch.device_api import DeviceAPI
    from tensorplay_core.dispatch.staging import Staging

T = TypeVar("T")

SHOWN = 10
"""How many problems of a backend's registrations its reason lists; all of them are in its error."""


class LoadFailure(Exception):
    """A step of loading failed; becomes the state of the record and is never shown itself."""

    def __init__(self, state: State, reason: str, fix: str, error: BaseException | None = None) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.fix = fix
        self.error = error


@attrs.frozen
class Prepared:
    """A backend that is ready to be activated."""

    staging: Staging
    hooks: pluggy.PluginManager
    device: DeviceAPI | None
    device_count: int


def prepare(record: BackendRecord) -> Prepared:
    """Runs every step before activation; changes nothing outside ``record`` and the staging.

    Raises:
        LoadFailure: a step failed, or the probe said no.
        KeyboardInterrupt: the user interrupted; the record is as before, and loading can be tried again.
    """
    code = record.code or _import(record)
    record.code = code
    hooks = guarded(record, "hooks", lambda: _hooks(record, code.plugin))
    availability = guarded(record, "probe", lambda: _probe(record, hooks))
    if not availability.ok:
        remedy = availability.fix or f"see what {record.info.distribution} requires{_where_to_read(record)}"
        raise LoadFailure(State.UNAVAILABLE, availability.reason.strip(), remedy)
    device = guarded(record, "device", lambda: _device(record, hooks))
    staging = guarded(record, "register", lambda: _stage(record, code, hooks))
    count = max(availability.device_count, 1) if device is not None else 0
    return Prepared(staging, hooks, device, count)


def activate(record: BackendRecord, prepared: Prepared) -> None:
    """Commits the kernels and installs the device, both or neither.

    Raises:
        LoadFailure: the batch conflicts with what others registered meanwhile, or the device cannot be installed.
    """
    from tensorplay_core.dispatch import devices, tensor_type

    committed = guarded(record, "activate", prepared.staging.commit)
    if prepared.device is not None:
        api, count = prepared.device, prepared.device_count
        try:
            guarded(record, "activate", lambda: devices.install(record.name, api, count, record.info.distribution))
            tensor_type.renew(devices.entry(record.name))
        except BaseException:
            devices.uninstall(record.name)
            committed.undo()
            raise
    record.committed, record.hooks, record.device_count = committed, prepared.hooks, prepared.device_count


def deactivate(record: BackendRecord) -> LoadFailure | None:
    """Undoes :func:`activate`, then calls ``tensorplay_unload``; returns that hook's failure, if any."""
    from tensorplay_core.dispatch import devices

    hooks, committed = record.hooks, record.committed
    record.hooks, record.committed = None, None
    if committed is not None:
        committed.undo()
    if record.owns_device:
        devices.uninstall(record.name)
    record.device_count = 0
    if hooks is not None:
        try:
            guarded(record, "unload", hooks.hook.tensorplay_unload)
        except LoadFailure as failure:
            return failure
    return None


def guarded(record: BackendRecord, stage: str, step: Callable[[], T]) -> T:
    """Runs one step and turns whatever it raises, ``SystemExit`` too, into a :class:`LoadFailure`."""
    record.stage = stage
    try:
        return step()
    except LoadFailure:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # the user's; in any other thread it is the plugin's own
        raise _failure(record, stage, error) from error


def forget(record: BackendRecord, before: set[str]) -> None:
    """Drops what a failed load imported, so that a load after ``refresh()`` runs the code anew and not half of it.

    Only modules that this load brought in and that lie in the plugin's own package go: others may be in use.
    """
    record.code = None
    module = record.info.module.partition(":")[0].strip()
    package = module.rpartition(".")[0] or module
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        if name not in before:
            gone = sys.modules.pop(name)
            parent, _, child = name.rpartition(".")
            # ``from package import child`` looks at the attribute before it looks at sys.modules.
            if vars(sys.modules.get(parent, sys)).get(child) is gone:
                delattr(sys.modules[parent], child)


def _import(record: BackendRecord) -> Code:
    from tensorplay_core.dispatch import library

    name, _, attribute = (part.strip() for part in record.info.module.partition(":"))
    before = set(sys.modules)

    def step() -> Code:
        with library.collect() as blocks:
            plugin: Any = importlib.import_module(name)
            for part in attribute.split(".") if attribute else ():
                plugin = getattr(plugin, part)
        return Code(plugin, (*library.claim(name), *blocks))

    try:
        return guarded(record, "import", step)
    except BaseException:
        forget(record, before)
        raise


def _hooks(record: BackendRecord, plugin: Any) -> pluggy.PluginManager:
    manager = hookspecs.plugin_manager()
    manager.register(plugin, record.name)
    problems = hookspecs.problems(manager, plugin)
    if problems:
        remedy = f"correct the hooks in {record.info.module}{_not_mine(record)}"
        raise LoadFailure(State.ERROR, f"{record.info.module}: {'; '.join(problems)}", remedy)
    return manager


def _probe(record: BackendRecord, hooks: pluggy.PluginManager) -> Availability:
    answer = hooks.hook.tensorplay_probe()
    if answer is None and not hooks.hook.tensorplay_probe.get_hookimpls():
        return Availability(ok=True)
    if not isinstance(answer, Availability):
        raise TypeError(f"tensorplay_probe must return an Availability, got {answer!r}")
    return answer


def _device(record: BackendRecord, hooks: pluggy.PluginManager) -> DeviceAPI | None:
    from tensorplay_core.dispatch.device_api import DeviceAPI

    implemented = bool(hooks.hook.tensorplay_device.get_hookimpls())
    if not record.owns_device:
        if implemented:
            raise TypeError(f"{record.name!r} extends other devices, so it must not implement tensorplay_device")
        return None
    if not implemented:
        raise TypeError(
            f"the owner of device {record.name!r} must implement tensorplay_device; a backend without a device of its"
            " own says 'extends: [...]' in its backend.yaml"
        )
    device = hooks.hook.tensorplay_device()
    if not isinstance(device, DeviceAPI):
        raise TypeError(f"tensorplay_device must return a DeviceAPI, got {device!r}")
    return device


def _stage(record: BackendRecord, code: Code, hooks: pluggy.PluginManager) -> Staging:
    from tensorplay_core.dispatch.registry import REGISTRY

    info = record.info
    staging = REGISTRY.stage(record.name, info.distribution, info.priority)
    problems: list[str] = []
    for block in code.blocks:
        try:
            block.apply(staging)
        except RegistrationError as error:
            problems.append(f"{block.where}: {error}")
    hooks.hook.tensorplay_register(registry=staging)
    problems += staging.problems()
    if problems:
        number = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        lines = "".join("\n  - " + problem.replace("\nfix: ", " Remedy: ") for problem in problems[:SHOWN])
        if len(problems) > SHOWN:  # one wrong key is wrong for every kernel of its block
            lines += f"\n  - and {len(problems) - SHOWN} more, listed by: tensorplay backends info {info.name}"
        raise LoadFailure(
            State.ERROR, f"its registrations have {number} and none was made:{lines}",
            f"correct them in {info.distribution}{_not_mine(record)}", RegistrationError("; ".join(problems)),
        )  # fmt: skip
    return staging


def _failure(record: BackendRecord, stage: str, error: BaseException) -> LoadFailure:
    text, _, inner_fix = str(error).partition("\nfix: ")
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = _place(record, error)
    steps = {"import": "its module raised", "unload": "its tensorplay_unload raised"}
    reason = f"{steps.get(stage, f'it failed at its {stage} step:')} {what}"
    remedy = _missing(record, error) if isinstance(error, ModuleNotFoundError) else ""
    if not remedy and isinstance(error, TensorPlayError):
        remedy = inner_fix
    remedy = remedy or (
        f"see tensorplay.backends.info({record.name!r}).traceback; correct {record.info.distribution} and call"
        f" tensorplay.backends.refresh(){_not_mine(record)}"
    )
    return LoadFailure(State.ERROR, f"{reason}{f' ({place})' if place else ''}", remedy, error)


def _missing(record: BackendRecord, error: ModuleNotFoundError) -> str:
    missing, distribution = error.name or "", record.info.distribution
    own = record.info.module.partition(":")[0].strip()
    if missing and (own == missing or own.startswith(f"{missing}.")):
        stale = "its metadata is stale or its files are incomplete"
        return f"{stale}: reinstall {distribution}, or pip uninstall {distribution}"
    if distribution.lower().replace("_", "-") == f"tensorplay-{record.name}" and install_hint(record.name):
        return install_hint(record.name)
    return f"install the package with the module {missing!r}, as {distribution} documents{_where_to_read(record)}"


def _place(record: BackendRecord, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    top = record.info.module.partition(":")[0].strip().partition(".")[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if top in frame.filename.replace(os.sep, "/").split("/")]
    own = own or [frame for frame in frames if os.path.basename(frame.filename) == f"{top}.py"]
    return f"{_short(own[-1].filename)}:{own[-1].lineno}" if own else ""


def _short(filename: str) -> str:
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        if filename.startswith(folder.rstrip(os.sep) + os.sep):
            return os.path.relpath(filename, folder)
    return filename


def _not_mine(record: BackendRecord) -> str:
    return f", or report it to the authors of {record.info.distribution}{_where_to_read(record)}"


def _where_to_read(record: BackendRecord) -> str:
    return f" ({record.info.url})" if record.info.url else ""
