"""The manager of backends: their way from discovered to active, and back.

Nothing is imported for a backend until its device is first used, so this module itself imports only what costs
nothing; what is installed is the catalogue's affair, and running plugins that of ``loading`` and ``activation``, which
are imported when they are needed.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_core.errors import BackendError, DeviceUnavailable, TensorPlayError, fix
from tensorplay_core.plugins.catalogue import Catalogue
from tensorplay_core.plugins.forks import lose, watch_forks
from tensorplay_core.plugins.locks import Holder, LoadLock
from tensorplay_core.plugins.records import COMPOSITE, BackendRecord, State, circle, unknown

if TYPE_CHECKING:
    from tensorplay_core.plugins.environment import Settings
    from tensorplay_core.plugins.loading import LoadFailure

_FAILED = frozenset({State.BLOCKED, State.INCOMPATIBLE, State.UNAVAILABLE, State.ERROR})
GRACE = 0.5
"""Seconds over its limit that a listing gives a load whose probe has a limit of its own."""


class BackendManager(Catalogue):
    """Knows every installed backend and loads each at most once.

    Reading records takes no lock; loading takes one re-entrant lock, apart from the registry's.

    Attributes:
        before_load: called before each load, to define the operators that a plugin's kernels are checked against.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before_load: Callable[[], None] = _nothing
        self._ready: frozenset[str] = frozenset()
        self._own: frozenset[str] = frozenset()
        self._lock = LoadLock()

    # -- settings

    def configure(self, given: Mapping[str, Any]) -> Settings:
        """Changes settings as :func:`tensorplay.backends.configure` says; returns those in force.

        Raises:
            ArgumentError, ValueRangeError, EnvironmentVariableError: a value that means nothing; nothing is changed.
            BackendError: a plugin calls it while it is being loaded.
        """
        from tensorplay_core.plugins import configuration

        self._refuse_in_a_load("tensorplay.backends.configure")
        with self._discovery:  # or another thread discovers between the question and the answer
            if self._records is None or not configuration.DESCRIBES & given.keys():
                installed = self._installed() if given.get("allow") is not None else ()
                return self._apply(configuration.updated(self._overrides, given, installed))
        with self._lock.hold("Configuring the backends", self.timeout):
            self._refresh(given)
        return self.effective()

    def refresh(self) -> tuple[BackendRecord, ...]:
        """Looks again at what is installed and at the environment; failed backends get a new try at their next use.

        Active backends stay active unless they are blocked now, and unloaded ones unloaded; new devices get their pages
        after the existing ones.

        Raises:
            EnvironmentVariableError: a variable has a value that means nothing; nothing is changed.
            BackendError: a plugin calls it while it is being loaded, or another load takes too long.
        """
        self._refuse_in_a_load("tensorplay.backends.refresh")
        with self._lock.hold("Refreshing the backends", self.timeout):
            self._refresh({})
        return self.records()

    def _refresh(self, given: Mapping[str, Any]) -> None:
        from tensorplay_core.plugins import configuration

        with self._discovery:  # from reading to writing, or what another thread configures meanwhile would be lost
            leaving = self._discover(configuration.updated(self._overrides, given, self._installed()))
        failures = {record.name: self._take_down(record) for record in leaving}
        if self.autoload:
            active = [record for record in self.records() if record.owns_device and record.active]
            self._ready = frozenset()
            for record in active:  # a device in use takes extenders that were installed since
                self._load_device(record)
            for device_type in self._own:
                self.extend_device(device_type)
        for name, failure in failures.items():  # last: where warnings are errors, everything else is done
            if failure is not None:
                warnings.warn(f"backend {name!r} was unloaded, but {failure.reason}", RuntimeWarning, stacklevel=4)

    def loading(self) -> str:
        """Returns the backend that this thread is loading, or an empty string."""
        return self._lock.loading if self._lock.mine is not None else ""

    def _refuse_in_a_load(self, what: str) -> None:
        name = self.loading()
        if name:
            raise BackendError(
                f"{what} was called while backend {name!r} is being loaded, and is the user's to call."
                + fix("remove the call from the backend's module and hooks")
            )

    # -- loading

    def load(self, name: str) -> BackendRecord:
        """Loads a backend; for a device also the extenders that it takes, unless autoload is off.

        Raises:
            DeviceUnavailable: it is not installed, blocked, or cannot work on this machine.
            BackendError: it is broken or incompatible; the error of the first try is kept and chained.
        """
        record = self.record(name)
        if record.owns_device and self.autoload:
            self._load_device(record)
        else:
            self._load(record, self.timeout)
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
            with self._lock.hold(f"Using {device_type!r}", self.timeout):  # another thread may be changing the state
                if record.state is State.UNLOADED:
                    raise record.exception()
        if record.state is State.DISCOVERED and not self.autoload:
            assert self.settings is not None
            origin = self.settings.origin("autoload")
            python = "configure" in origin
            forbids = "tensorplay.backends.configure(autoload=False)" if python else f"{origin}=0"
            undo = "call tensorplay.backends.configure(autoload=True)" if python else f"unset {origin}"
            raise DeviceUnavailable(
                f"Device {device_type!r} is not loaded, and {forbids} forbids loading it by itself."
                + fix(f"call tensorplay.backends.load({device_type!r}), or {undo}")
            )
        self._load_device(record)

    def extend_device(self, device_type: str) -> None:
        """Loads what extends a device that core brings itself: composite, then each extender that names it, once.

        Raises:
            EnvironmentVariableError: a variable has a value that means nothing.
        """
        self._own |= {device_type}
        self._discovered()
        if device_type in self._ready or not self.autoload:
            return
        with self._lock.hold(f"Loading what extends {device_type!r}", self.timeout) as holder:
            if device_type in self._ready or holder.loading:
                return  # done meanwhile, or an extender uses the device that it is about to extend
            self._load_composite()
            self._load_extenders(device_type, holder)

    def load_all(
        self, timeout: float | None = 20.0, started: Callable[[BackendRecord], None] | None = None
    ) -> tuple[BackendRecord, ...]:
        """Tries every discovered backend, for listings; failures stay in the records. Loads none when autoload is off.

        Args:
            timeout: seconds for each backend; one that takes longer is recorded as an error and the next is tried.
                None waits for ever, in this thread.
            started: called with each backend before it is tried.
        """
        records = self.records()
        if not self.autoload:
            return records
        order = sorted(records, key=lambda record: (record.name != COMPOSITE, not record.owns_device))
        for record in order:
            if record.state is State.DISCOVERED:
                if started is not None:
                    started(record)
                if timeout is None or self._lock.mine is not None:
                    self._try(record, timeout)
                else:
                    self._try_in_thread(record, timeout)
        return self.records()

    def unload(self, name: str) -> BackendRecord:
        """Removes an active backend's kernels and device; ``load(name)`` brings them back. Others do nothing.

        Raises:
            BackendError: its ``tensorplay_unload`` raised; it is unloaded all the same.
        """
        record = self.record(name)
        with self._lock.hold(f"Unloading {name!r}", self.timeout):
            if not record.active:
                return record
            record.state, record.reason = State.UNLOADED, "tensorplay.backends.unload was called"
            record.fix = f"call tensorplay.backends.load({name!r})"
            failure = self._take_down(record)
            if failure is not None:
                message = f"Backend {name!r} was unloaded, but {failure.reason}" + fix(failure.fix)
                raise BackendError(message) from failure.error
        return record

    def _take_down(self, record: BackendRecord) -> LoadFailure | None:
        from tensorplay_core.plugins import activation

        self._ready -= {record.name}
        return activation.deactivate(record)

    def _load_device(self, record: BackendRecord) -> None:
        _raise_kept(record)
        with self._lock.hold(f"Loading {record.name!r}", self.timeout) as holder:
            if record.name in self._ready or (record.active and holder.loading):
                return  # done meanwhile, or an extender uses the device that it is about to extend
            self._load_composite()
            self._load_owner(record)
            self._load_extenders(record.name, holder)

    def _load_owner(self, record: BackendRecord) -> None:
        """Loads the owner of a device; extenders that were loaded before it and stand in its way come after it."""
        early = [extender for extender in self._extenders(record.name) if extender.active]
        try:
            self._load(record, self.timeout)
        except BackendError:
            if not early or not record.refused:
                raise
            self._undo([*early, record])
            try:
                self._load(record, self.timeout)
            finally:
                self._try_each(early)

    def _undo(self, records: list[BackendRecord]) -> None:
        for record in records:
            if record.active:
                self._take_down(record)
            record.forget_failure()

    def _load_composite(self) -> None:
        self._try_each([record for record in [self._discovered().get(COMPOSITE)] if record is not None])

    def _extenders(self, device_type: str) -> list[BackendRecord]:
        return [
            record
            for record in self._discovered().values()
            if record.name != COMPOSITE and not record.owns_device and record.info.extends_device(device_type)
        ]

    def _load_extenders(self, device_type: str, holder: Holder) -> None:
        extenders = self._extenders(device_type)
        early = [extender for extender in extenders if extender.active]
        self._try_each(extenders)
        rest = extenders[next((i for i, one in enumerate(extenders) if one.refused), len(extenders)) :]
        if any(extender in early for extender in rest):  # loaded before one that they come after
            self._undo([extender for extender in rest if extender.active or extender.refused])
            self._try_each(rest)
        if self._lock.mine is holder:  # or the thread was given up, and nothing that it found counts
            self._ready |= {device_type}

    def _try_each(self, extenders: list[BackendRecord]) -> None:
        for extender in extenders:
            if extender.state is State.DISCOVERED:  # once: its failure is kept in its record and is not the device's
                self._try(extender, self.timeout)

    def _try(self, record: BackendRecord, limit: float | None) -> None:
        try:
            self._load(record, limit)
        except TensorPlayError as error:
            if record.state is State.DISCOVERED:  # not tried: another thread holds the lock
                record.reason = str(error).partition("\n")[0]

    def _try_in_thread(self, record: BackendRecord, timeout: float) -> None:
        from tensorplay_core.plugins import loading, watch

        run = contextvars.copy_context().run
        name = f"tensorplay-load-{record.name}"
        worker = threading.Thread(target=run, args=(self._try, record, timeout), name=name, daemon=True)
        if not watch.started(worker):
            self._try(record, timeout)
            return
        assert worker.ident is not None
        try:
            worker.join(timeout + GRACE)
        except BaseException:  # the user interrupted
            self._lock.abandon(worker.ident)
            raise
        if worker.is_alive() and self._lock.abandon(worker.ident):
            stage = record.stage or "import"
            record.worker = worker if stage == "import" else None
            record.reason = f"it did not finish within {timeout:g} s (it hangs at its {stage} step)"
            record.fix, record.load_seconds, record.state = loading.too_slow(record), timeout, State.ERROR

    def _load(self, record: BackendRecord, limit: float | None) -> None:
        if _settled(record):  # also before waiting for the lock: what is known needs no turn
            return
        with self._lock.hold(f"Loading {record.name!r}", limit) as holder:
            if _settled(record):
                return
            if record.name in holder.loading:
                raise circle(record.name, [*holder.loading])
            holder.loading[record.name] = set(sys.modules)
            try:
                self._run(record, holder, limit)
            finally:
                del holder.loading[record.name]
        _raise_kept(record)

    def _run(self, record: BackendRecord, holder: Holder, limit: float | None) -> None:
        from tensorplay_core.dispatch import active
        from tensorplay_core.plugins import activation, loading, watch

        if active.tell is not None:
            active.tell(f"loading backend {record.name!r} ({record.info.label})")
        self.before_load()
        start = time.perf_counter()
        attempt = watch.Attempt(record, self._lock, holder, limit)
        try:
            with attempt.told():
                # In a context of its own: what a plugin sets there (modes, the default device) is not the user's.
                prepared = contextvars.copy_context().run(loading.prepare, record, attempt)
                with self._lock.settle(holder) as mine:
                    if mine:
                        activation.activate(record, prepared)
                        record.load_seconds = time.perf_counter() - start
                        record.reason, record.fix, record.stage, record.state = "", "", "", State.ACTIVE
        except loading.LoadFailure as failure:
            with self._lock.settle(holder) as mine:
                if mine:
                    record.load_seconds = time.perf_counter() - start
                    loading.keep(record, failure)
                    if not failure.keeps_code:
                        loading.forget(record, holder.loading[record.name])
        except watch.TookTooLong:  # and somebody else has told so
            pass
        finally:
            if not record.active and record.code is not None:
                record.code.withdraw()

    def after_fork(self) -> list[tuple[BackendRecord, set[str]]]:
        """Makes the manager usable in a child of fork, where no other thread exists.

        Returns:
            The backends that such a thread was loading, each with the modules that there were before.
        """
        self._discovery = threading.RLock()
        records = self._records or {}
        for record in records.values():
            if not record.survives_fork:
                self._lost |= {record.name}
                if record.state not in _FAILED:
                    lose(record)
        self._ready -= self._lost
        return [(records[name], before) for name, before in self._lock.after_fork().items() if name in records]


def _nothing() -> None:
    """Stands for no preparation."""


def _settled(record: BackendRecord) -> bool:
    _raise_kept(record)
    return record.active


def _raise_kept(record: BackendRecord) -> None:
    # Each raise is a new exception: one that is raised again collects the tracebacks, and locals, of all who saw it.
    if record.state in _FAILED:
        raise record.exception() from record.error


MANAGER = BackendManager()
watch_forks(MANAGER)


def connect(before_load: Callable[[], None] | None = None) -> None:
    """Lets the dispatcher load a backend when its device is first used; imports nothing besides the dispatcher's own.

    Args:
        before_load: called before each load; the floors above pass what defines the built-in operators, since a
            plugin's registrations are checked against them.
    """
    from tensorplay_core.dispatch import blocks, devices

    devices.loader, devices.loading = MANAGER.ensure_device, MANAGER.loading
    blocks.is_plugin = MANAGER.owns_module
    blocks.plugin_of = MANAGER.plugin_of
    blocks.apply_waiting()
    if before_load is not None:
        MANAGER.before_load = before_load
