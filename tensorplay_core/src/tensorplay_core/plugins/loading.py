"""Loads one backend: import, hooks, probe, device, registration, each step guarded.

Here foreign code runs. Whatever it does (short of killing the process) comes out as one :class:`LoadFailure` that
says at which step it happened, where, and what helps; nothing is visible to the dispatcher before
:func:`~tensorplay_core.plugins.activation.activate` commits everything at once.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pluggy

from tensorplay_core.errors import RegistrationError
from tensorplay_core.plugins import failures, hookspecs
from tensorplay_core.plugins.hookspecs import Availability
from tensorplay_core.plugins.records import COMPOSITE, BackendRecord, Code, State
from tensorplay_core.plugins.watch import TookTooLong

if TYPE_CHECKING:
    from tensorplay_core.dispatch.device_api import DeviceAPI
    from tensorplay_core.dispatch.operator import Operator
    from tensorplay_core.dispatch.staging import Committed, Staging
    from tensorplay_core.plugins.watch import Attempt

T = TypeVar("T")

SHOWN = 10
"""How many problems of a backend's registrations its reason lists; all of them are in its error."""


class LoadFailure(Exception):
    """A step of loading failed; becomes the state of the record and is never shown itself."""

    def __init__(
        self, state: State, reason: str, fix: str, error: BaseException | None = None, keeps_code: bool = False
    ) -> None:
        super().__init__(reason)
        self.state = state
        self.keeps_code = keeps_code or state is not State.ERROR
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


def prepare(record: BackendRecord, attempt: Attempt) -> Prepared:
    """Runs every step before activation; changes nothing outside ``record`` and the staging.

    Raises:
        LoadFailure: a step failed or took too long, or the probe said no.
        TookTooLong: the thread was given up meanwhile; nothing that it did counts.
        KeyboardInterrupt: the user interrupted; the record is as before, and loading can be tried again.
    """
    if record.code is None:
        attempt.enter("import")
        start = time.perf_counter()
        record.code = _import(record)  # also where it does not count any more: the module has run, for good
        record.import_seconds = time.perf_counter() - start
    code = record.code
    attempt.enter("hooks")
    hooks = guarded(record, "hooks", lambda: _hooks(record, code.plugin))
    attempt.enter("probe")
    availability = _probe_in_time(record, attempt, hooks)
    if not availability.ok:
        remedy = availability.fix or f"see what {record.info.distribution} requires{failures.where_to_read(record)}"
        raise LoadFailure(State.UNAVAILABLE, availability.reason.strip(), remedy)
    attempt.enter("device")
    device = guarded(record, "device", lambda: _device(record, hooks))
    attempt.enter("register")
    staging = guarded(record, "register", lambda: _stage(record, code, hooks))
    count = max(availability.device_count, 1) if device is not None else 0
    return Prepared(staging, hooks, device, count)


def guarded(record: BackendRecord, stage: str, step: Callable[[], T]) -> T:
    """Runs one step and turns whatever it raises, ``SystemExit`` too, into a :class:`LoadFailure`."""
    try:
        return step()
    except LoadFailure:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # the user's; in any other thread it is the plugin's own
        raise LoadFailure(State.ERROR, *failures.explain(record, stage, error), error) from error


def keep(record: BackendRecord, failure: LoadFailure) -> None:
    """Writes a failure into the record, where it stays until a refresh."""
    error = failure.error
    if error is not None:
        record.traceback = "".join(traceback.format_exception(error))
        traceback.clear_frames(error.__traceback__)  # the error is kept for long, what its frames held must not be
    record.error = error
    record.reason, record.fix, record.state = failure.reason, failure.fix, failure.state


def forget(record: BackendRecord, before: set[str]) -> None:
    """Drops what a failed load imported, so that a load after ``refresh()`` runs the code anew and not half of it.

    Only modules that this load brought in and that lie in the plugin's own package go: others may be in use. Where an
    earlier load ran the plugin's, its code is kept, as it would not run again.
    """
    module = record.info.module.partition(":")[0].strip()
    if module in before:
        return
    code, record.code = record.code, None
    if code is not None:
        _revoke(code.committed, code.operators)
    package = module.rpartition(".")[0] or module
    for name in [*sys.modules]:  # a copy: other threads import meanwhile
        if name not in before and (name == package or name.startswith(f"{package}.")):
            gone = sys.modules.pop(name, None)
            parent, _, child = name.rpartition(".")
            above = sys.modules.get(parent)
            # ``from package import child`` looks at the attribute before it looks at sys.modules.
            if gone is not None and getattr(above, "__dict__", {}).get(child) is gone:
                delattr(above, child)


def _revoke(committed: Iterable[Committed], operators: Iterable[Operator]) -> None:
    """Takes out what a module registered and defined that is forgotten: the next run of its code does both again."""
    from tensorplay_core.dispatch.registry import REGISTRY

    for batch in reversed([*committed]):
        batch.undo()
    for op in operators:
        REGISTRY.remove(op)


_defining: ContextVar[list[Operator] | None] = ContextVar("tensorplay_defining", default=None)


def _note_definition(op: Operator) -> None:
    operators = _defining.get()
    if operators is not None:
        operators.append(op)


def _import(record: BackendRecord) -> Code:
    from tensorplay_core.dispatch import library, staging
    from tensorplay_core.dispatch.registry import REGISTRY

    name, _, attribute = (part.strip() for part in record.info.module.partition(":"))
    before = set(sys.modules)
    committed: list[Committed] = []
    operators: list[Operator] = []
    if _note_definition not in REGISTRY.on_define:
        REGISTRY.on_define.append(_note_definition)

    def step() -> Code:
        with library.collect() as blocks:
            plugin: Any = importlib.import_module(name)
            for part in attribute.split(".") if attribute else ():
                if not hasattr(plugin, part):
                    reason, fix = failures.missing_attribute(record, plugin, part)
                    raise LoadFailure(State.ERROR, reason, fix)
                plugin = getattr(plugin, part)
        return Code(plugin, (*library.claim(name), *blocks), tuple(committed), tuple(operators))

    recorded, defined = staging.recording.set(committed), _defining.set(operators)
    try:
        return guarded(record, "import", step)
    except BaseException:
        _revoke(committed, operators)
        forget(record, before)
        raise
    finally:
        staging.recording.reset(recorded)
        _defining.reset(defined)


def _hooks(record: BackendRecord, plugin: Any) -> pluggy.PluginManager:
    manager = hookspecs.plugin_manager()
    problems = hookspecs.argument_problems(plugin)
    if not problems:
        manager.register(plugin, record.name)
        problems = hookspecs.problems(manager, plugin)
    if problems:
        remedy = f"correct the hooks in {record.info.module}{failures.not_mine(record)}"
        raise LoadFailure(State.ERROR, f"{record.info.module}: {'; '.join(problems)}", remedy)
    return manager


def _probe_in_time(record: BackendRecord, attempt: Attempt, hooks: pluggy.PluginManager) -> Availability:
    try:
        return attempt.in_time(lambda: guarded(record, "probe", lambda: _probe(record, hooks)))
    except TookTooLong:
        if not attempt.counts:
            raise
        raise LoadFailure(
            State.ERROR, f"its probe did not answer within {attempt.limit:g} s", too_slow(record), keeps_code=True
        ) from None


def too_slow(record: BackendRecord) -> str:
    """Returns what helps against a backend that did not get ready in time."""
    more = "give it more time with TENSORPLAY_BACKEND_TIMEOUT (in seconds; in a listing, with its timeout) and call"
    more += " tensorplay.backends.refresh()"
    return f"set TENSORPLAY_BACKENDS_BLOCK={record.name}, {more}{failures.not_mine(record)}"


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
    serves = None if info.name == COMPOSITE else lambda device: device in info.devices or info.extends_device(device)
    staging = REGISTRY.stage(record.name, info.distribution, info.priority, serves=serves)
    problems: list[str] = []
    raised: list[Exception] = []
    steps: list[tuple[str, Callable[[], Any]]] = [(b.where, partial(b.apply, staging)) for b in code.blocks]
    steps.append(("tensorplay_register", partial(hooks.hook.tensorplay_register, registry=staging)))
    for where, step in steps:
        try:
            step()
        except RegistrationError as error:
            problems.append(f"{where}: {error}")
        except Exception as error:  # the rest is asked for its problems all the same: one error tells them all
            raised.append(error)
    if staging.committed is not None:
        staging.committed.undo()
        raise RegistrationError("tensorplay_register called commit(): core does it, when everything has been checked")
    staging.seal()
    problems += staging.problems()
    if raised and not problems:
        raise raised[0]
    problems += [failures.what(record, error) for error in raised]
    if problems:
        number = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        lines = "".join("\n  - " + problem.replace("\nfix: ", " Remedy: ") for problem in problems[:SHOWN])
        if len(problems) > SHOWN:  # one wrong key is wrong for every kernel of its block
            lines += f"\n  - and {len(problems) - SHOWN} more, listed by: tensorplay backends info {info.name}"
        whole = RegistrationError("\n  - ".join([f"{info.distribution}: {number} in its registrations", *problems]))
        whole.__cause__ = raised[0] if raised else None
        raise LoadFailure(
            State.ERROR, f"its registrations have {number} and none was made:{lines}",
            f"correct them in {info.distribution}{failures.not_mine(record)}", whole,
        )  # fmt: skip
    return staging
