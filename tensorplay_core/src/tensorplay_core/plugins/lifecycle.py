"""The manager of backends: which there are, in which state, and their way from discovered to active.

Nothing is imported for a backend until its device is first used, so this module itself imports only what costs
nothing; finding, describing and running plugins live in ``discovery`` and ``loading``, and are imported when they are
needed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorplay_core.errors import BackendError, DeviceUnavailable, TensorPlayError, fix
from tensorplay_core.plugins.locks import Holder, LoadLock
from tensorplay_core.plugins.records import COMPOSITE, BackendRecord, State, unknown

if TYPE_CHECKING:
    from tensorplay_core.plugins.environment import Settings
    from tensorplay_core.plugins.loading import LoadFailure

_FAILED = frozenset({State.BLOCKED, State.INCOMPATIBLE, State.UNAVAILABLE, State.ERROR})


class BackendManager:
    """Knows every installed backend and loads each at most once.

    Reading records takes no lock; loading takes one re-entrant lock, apart from the registry's.

    Attributes:
        time_limit: seconds that a thread waits for another one's load before it gets an error naming it.
        settings: what the environment asked for at the last discovery.
        before_load: called before each load, to define the operators that a plugin's kernels are checked against.
    """

    def __init__(self, time_limit: float = 60.0) -> None:
        self.time_limit = time_limit
        self.settings: Settings | None = None
        self.before_load: Callable[[], None] = _nothing
        self._records: dict[str, BackendRecord] | None = None
        self._ready: frozenset[str] = frozenset()
        self._own: frozenset[str] = frozenset()
        self._lock = LoadLock()
        self._discovery = threading.RLock()

    # -- what there is

    def records(self) -> tuple[BackendRecord, ...]:
        """Returns every installed backend in the order of (priority, name); loads none.

        Raises:
            EnvironmentVariableError: a variable has a value that means nothing.
        """
        return tuple(self._discovered().values())

    def record(self, name: str) -> BackendRecord:
        """Returns one backend's record; loads nothing.

        Raises:
            BackendError: no such backend is installed (DeviceUnavailable where it is one of ours).
        """
        found = self._discovered().get(name)
        if found is None:
            raise unknown(name, self.records(), device=False)
        return found

    def owns_module(self, module: str) -> bool:
        """Whether a module is in the package of an installed backend."""
        package = module.partition(".")[0]
        return any(record.info.module.partition(".")[0] == package for record in self.records())

    def refresh(self) -> tuple[BackendRecord, ...]:
        """Looks again at what is installed and at the environment; failed backends get a new try at their next use.

        Active backends stay active and unloaded ones unloaded; new devices get their pages after the existing ones.
        """
        with self._lock.hold("Refreshing the backends", self.time_limit):
            self._discover()
            if self.settings is not None and self.settings.autoload:
                active = [record for record in self.records() if record.owns_device and record.active]
                self._ready = frozenset()
                for record in active:  # a device in use takes extenders that were installed since
                    self._load_device(record)
                for device_type in self._own:
                    self.extend_device(device_type)
        return self.records()

    def _discovered(self) -> dict[str, BackendRecord]:
        records = self._records
        if records is None:
            with self._discovery:
                records = self._discover() if self._records is None else self._records
        return records

    def _discover(self) -> dict[str, BackendRecord]:
        import importlib

        from tensorplay_core.plugins import discovery, environment

        with self._discovery:
            importlib.invalidate_caches()
            settings = environment.read()
            found = discovery.discover()
            environment.check_names(settings, [entry.name for entry in found])
            fresh = {entry.name: discovery.describe(entry, settings) for entry in found}
            for name, old in (self._records or {}).items():
                if old.state in (State.ACTIVE, State.UNLOADED):
                    fresh[name] = old
                elif name in fresh and fresh[name].info.module == old.info.module:
                    fresh[name].code = old.code  # it ran, and collected its blocks; an interpreter runs a module once
            ordered = sorted(fresh.values(), key=lambda record: (record.info.priority, record.name))
            for record in ordered:
                _assign_page(record)
            self.settings = settings
            self._records = {record.name: record for record in ordered}
            return self._records

    # -- loading

    def load(self, name: str) -> BackendRecord:
        """Loads a backend; for a device also the extenders that it takes, unless autoload is off.

        Raises:
            DeviceUnavailable: it is not installed, blocked, or cannot work on this machine.
            BackendError: it is broken or incompatible; the error of the first try is kept and chained.
        """
        record = self.record(name)
        if record.owns_device and self.settings is not None and self.settings.autoload:
            self._load_device(record)
        else:
            self._load(record)
        return record

    def ensure_device(self, device_type: str) -> None:
        """Makes a device usable: loads composite, then its owner, then each extender that names it, once.

        Raises:
            DeviceUnavailable: nothing installed provides it, or it is blocked, unloaded or cannot work here.
            BackendError: its backend is broken or incompatible.
        """
        if device_type in self._ready:
            return
        record = self._discovered().get(device_type)
        if record is None or not record.owns_device:
            raise unknown(device_type, self.records(), device=True)
        if record.state is State.UNLOADED:
            raise record.exception()
        if record.state is State.DISCOVERED and self.settings is not None and not self.settings.autoload:
            raise DeviceUnavailable(
                f"Device {device_type!r} is not loaded, and TENSORPLAY_BACKEND_AUTOLOAD=0 forbids loading it by itself."
                + fix(f"call tensorplay.backends.load({device_type!r}), or unset TENSORPLAY_BACKEND_AUTOLOAD")
            )
        self._load_device(record)

    def extend_device(self, device_type: str) -> None:
        """Loads what extends a device that core brings itself: composite, then each extender that names it, once.

        Raises:
            EnvironmentVariableError: a variable has a value that means nothing.
        """
        self._own |= {device_type}
        self._discovered()
        if device_type in self._ready or self.settings is None or not self.settings.autoload:
            return
        with self._lock.hold(f"Loading what extends {device_type!r}", self.time_limit) as holder:
            if device_type in self._ready or holder.loading:
                return  # done meanwhile, or an extender uses the device that it is about to extend
            self._load_composite()
            self._load_extenders(device_type)

    def load_all(self, timeout: float | None = 20.0) -> tuple[BackendRecord, ...]:
        """Tries every discovered backend, for listings; failures stay in the records. Loads none when autoload is off.

        Args:
            timeout: seconds for each backend; one that takes longer is recorded as an error and the next is tried.
                None waits for ever, in this thread.
        """
        records = self.records()
        if self.settings is not None and not self.settings.autoload:
            return records
        order = sorted(records, key=lambda record: (record.name != COMPOSITE, not record.owns_device))
        for record in order:
            if record.state is State.DISCOVERED:
                if timeout is None:
                    self._try(record, self.time_limit)
                else:
                    self._try_in_thread(record, timeout)
        return self.records()

    def unload(self, name: str) -> BackendRecord:
        """Removes an active backend's kernels and device; ``load(name)`` brings them back. Others do nothing.

        Raises:
            BackendError: its ``tensorplay_unload`` raised; it is unloaded all the same.
        """
        record = self.record(name)
        with self._lock.hold(f"Unloading {name!r}", self.time_limit):
            if not record.active:
                return record
            from tensorplay_core.plugins import loading

            self._ready -= {name}
            record.state, record.reason = State.UNLOADED, "tensorplay.backends.unload was called"
            record.fix = f"call tensorplay.backends.load({name!r})"
            failure = loading.deactivate(record)
            if failure is not None:
                message = f"Backend {name!r} was unloaded, but {failure.reason}" + fix(failure.fix)
                raise BackendError(message) from failure.error
        return record

    def _load_device(self, record: BackendRecord) -> None:
        _raise_kept(record)
        with self._lock.hold(f"Loading {record.name!r}", self.time_limit) as holder:
            if record.name in self._ready or (record.active and holder.loading):
                return  # done meanwhile, or an extender uses the device that it is about to extend
            self._load_composite()
            self._load(record)
            self._load_extenders(record.name)

    def _load_composite(self) -> None:
        composite = self._discovered().get(COMPOSITE)
        if composite is not None:
            self._try_quietly(composite)

    def _load_extenders(self, device_type: str) -> None:
        for extender in self._discovered().values():
            if extender.name != COMPOSITE and not extender.owns_device and extender.info.extends_device(device_type):
                self._try_quietly(extender)
        self._ready |= {device_type}

    def _try_quietly(self, extender: BackendRecord) -> None:
        if extender.state is State.DISCOVERED:  # once: its failure is kept in its record and is not the device's
            self._try(extender, self.time_limit)

    def _try(self, record: BackendRecord, limit: float) -> None:
        try:
            self._load(record, limit)
        except TensorPlayError as error:
            if record.state is State.DISCOVERED:  # not tried: another thread holds the lock
                record.reason = str(error).partition("\n")[0]

    def _try_in_thread(self, record: BackendRecord, timeout: float) -> None:
        worker = threading.Thread(
            target=self._try, args=(record, timeout), name=f"tensorplay-load-{record.name}", daemon=True
        )
        worker.start()
        worker.join(timeout + 0.5)
        if worker.is_alive() and worker.ident is not None and self._lock.abandon(worker.ident):
            record.reason = f"it did not finish within {timeout:g} s (it hangs at its {record.stage or 'import'} step)"
            authors = f"the authors of {record.info.distribution}"
            record.fix = f"set TENSORPLAY_BACKENDS_BLOCK={record.name}, or report it to {authors}"
            record.load_seconds = timeout
            record.state = State.ERROR

    def _load(self, record: BackendRecord, limit: float | None = None) -> None:
        if _settled(record):  # also before waiting for the lock: what is known needs no turn
            return
        with self._lock.hold(f"Loading {record.name!r}", self.time_limit if limit is None else limit) as holder:
            if _settled(record):
                return
            if record.name in holder.loading:
                chain = " → ".join((*holder.loading, record.name))
                raise BackendError(
                    f"Backend {record.name!r} is used while it is still being loaded ({chain})."
                    + fix(f"let {holder.loading[-1]!r} create tensors after it was loaded, not at import or in a hook")
                )
            holder.loading.append(record.name)
            try:
                self._run(record, holder)
            finally:
                holder.loading.remove(record.name)
        _raise_kept(record)

    def _run(self, record: BackendRecord, holder: Holder) -> None:
        from tensorplay_core.plugins import loading

        self.before_load()
        start, before = time.perf_counter(), set(sys.modules)
        try:
            prepared = loading.prepare(record)
            with self._lock.settle(holder) as mine:
                if mine:
                    loading.activate(record, prepared)
                    record.load_seconds = time.perf_counter() - start
                    record.reason, record.fix, record.stage, record.state = "", "", "", State.ACTIVE
        except loading.LoadFailure as failure:
            with self._lock.settle(holder) as mine:
                if mine:
                    record.load_seconds = time.perf_counter() - start
                    _keep(record, failure)
            if failure.state is State.ERROR:
                loading.forget(record, before)

    def _after_fork(self) -> None:
        # Only the forking thread exists in the child: a lock held by any other would never be released.
        self._lock = LoadLock()
        self._discovery = threading.RLock()


def _nothing() -> None:
    """Stands for no preparation."""


def _keep(record: BackendRecord, failure: LoadFailure) -> None:
    import traceback

    error = failure.error
    if error is not None:
        record.traceback = "".join(traceback.format_exception(error))
        traceback.clear_frames(error.__traceback__)  # the error is kept for long, what its frames held must not be
    record.error = error
    record.reason, record.fix, record.state = failure.reason, failure.fix, failure.state


def _settled(record: BackendRecord) -> bool:
    _raise_kept(record)
    return record.active


def _raise_kept(record: BackendRecord) -> None:
    # Each raise is a new exception: one that is raised again collects the tracebacks, and locals, of all who saw it.
    if record.state in _FAILED:
        first, error = record.error, record.exception()
        if first is None:
            record.error = record.exception()
        raise error from first


def _assign_page(record: BackendRecord) -> None:
    # A device has its keys from discovery on, also when blocked, so that ``explain`` can speak of it.
    if not record.owns_device or (record.state is State.ERROR and record.stage == "describe"):
        return
    from tensorplay_core.dispatch import devices
    from tensorplay_core.dispatch.keys import assign_page

    try:
        if record.name in devices.built_in:
            raise BackendError(f"core brings {record.name} itself")
        assign_page(record.name)
    except TensorPlayError as error:
        record.state, record.stage = State.ERROR, "describe"
        record.reason = f"{record.name!r} cannot be a device: {error}"
        record.fix = f"rename the device in the metadata of {record.info.distribution}"
        record.error = error


MANAGER = BackendManager()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=MANAGER._after_fork)


def connect(before_load: Callable[[], None] | None = None) -> None:
    """Lets the dispatcher load a backend when its device is first used; imports nothing besides the dispatcher's own.

    Args:
        before_load: called before each load; the floors above pass what defines the built-in operators, since a
            plugin's registrations are checked against them.
    """
    from tensorplay_core.dispatch import devices, library

    devices.loader = MANAGER.ensure_device
    library.is_plugin = MANAGER.owns_module
    library.apply_waiting()
    if before_load is not None:
        MANAGER.before_load = before_load
