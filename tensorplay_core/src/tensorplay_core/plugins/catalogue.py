"""The catalogue of backends: which are installed, what the settings make of them, and in which state each is.

Apart from loading because it runs no plugin's code: whoever only lists, explains or configures stays here. Finding and
describing live in ``discovery`` and are imported when they are needed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorplay_core.errors import ArgumentError, BackendError, TensorPlayError, fix
from tensorplay_core.plugins.forks import lose
from tensorplay_core.plugins.records import BackendRecord, State, unknown

if TYPE_CHECKING:
    from tensorplay_core.plugins.environment import Settings


class Catalogue:
    """Knows every installed backend; reading its records takes no lock.

    Attributes:
        settings: what is in force; None before anybody has asked.
    """

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self._overrides: Mapping[str, Any] = {}
        self._environment: Settings | None = None
        """What the environment said at the last discovery: the records follow it, whatever it says by now."""
        self._records: dict[str, BackendRecord] | None = None
        self._discovery = threading.RLock()
        self._lost: frozenset[str] = frozenset()
        """Backends that were initialised before this process was forked, and cannot work in it."""

    @property
    def timeout(self) -> float | None:
        """Seconds that a probe may take, and that a thread waits for another one's load; None for no limit."""
        return 60.0 if self.settings is None else self.settings.timeout

    @property
    def autoload(self) -> bool:
        """Whether naming a device may load its backend; false before the first discovery, which asks the settings."""
        return self.settings is not None and self.settings.autoload

    def records(self) -> tuple[BackendRecord, ...]:
        """Returns every installed backend in the order of (priority, name); loads none.

        Raises:
            EnvironmentVariableError: a variable has a value that means nothing.
        """
        return tuple(self._discovered().values())

    def record(self, name: str) -> BackendRecord:
        """Returns one backend's record; loads nothing.

        Raises:
            ArgumentError: the name is no str.
            BackendError: no such backend is installed (DeviceUnavailable where it is one of ours).
        """
        if not isinstance(name, str):
            hint = f"pass {name.type!r}, its type" if hasattr(name, "type") else "pass a name, such as 'cpu'"
            raise ArgumentError(f"a backend's name must be a str, got {name!r}" + fix(hint))
        found = self._discovered().get(name)
        if found is None:
            raise unknown(name, self.records(), device=False)
        return found

    def add(self, record: BackendRecord) -> None:
        """Adds a backend that a program has made, after all others of its priority, or in the place of its older self.

        Raises:
            BackendError: the settings block it, or its device cannot have the name; nothing is changed.
        """
        with self._discovery:
            known = self._discovered()
            assert self.settings is not None
            if blocked := _blocked(record, self.settings):
                _block(record, blocked, self.settings)
            else:
                _assign_page(record)
            if record.state is not State.DISCOVERED:
                raise record.exception()
            ordered = sorted({**known, record.name: record}.values(), key=lambda one: one.info.priority)
            self._records = {one.name: one for one in ordered}

    def owns_module(self, module: str) -> bool:
        """Whether a module is in the package of an installed backend."""
        return self.plugin_of(module) is not None

    def plugin_of(self, module: str) -> tuple[str, str, int] | None:
        """Returns as whom a plugin's module registers: name, distribution and priority; None for any other module."""
        package = module.partition(".")[0]
        for record in self.records():
            if record.info.module.partition(".")[0] == package:
                return record.name, record.info.distribution, record.info.priority
        return None

    def effective(self) -> Settings:
        """Returns the settings in force; before the first discovery, those that it would find.

        Raises:
            EnvironmentVariableError: a variable has a value that means nothing.
        """
        from tensorplay_core.plugins import configuration

        if self._records is not None and self.settings is not None:
            return self.settings
        return configuration.merged(self._overrides)

    def _installed(self) -> list[str]:
        from tensorplay_core.plugins import discovery

        if self._records is not None:
            return [*self._records]
        return [entry.name for entry in discovery.discover()]

    def _apply(self, overrides: Mapping[str, Any]) -> Settings:
        """Puts settings into force that no record depends on."""
        from tensorplay_core.plugins import configuration

        with self._discovery:
            settings = configuration.merged(overrides, self._environment)
            self._overrides, self.settings = overrides, settings
            configuration.tell(settings, overrides)
        return settings

    def _discovered(self) -> dict[str, BackendRecord]:
        records = self._records
        if records is None:
            with self._discovery:
                if self._records is None:
                    self._discover(self._overrides)
                records = self._records
                assert records is not None
        return records

    def _discover(self, overrides: Mapping[str, Any]) -> list[BackendRecord]:
        """Looks at what is installed and at the settings; returns the active backends that may not run any more.

        Raises:
            EnvironmentVariableError: a variable has a value that means nothing; nothing is changed.
        """
        import importlib

        from tensorplay_core.plugins import configuration, discovery, environment

        with self._discovery:
            importlib.invalidate_caches()
            said = environment.read()
            settings = configuration.merged(overrides, said)
            environment.warn_of_unknown()
            found = discovery.discover()
            made = [old.name for old in (self._records or {}).values() if old.made is not None]
            environment.check_names(settings, [*(entry.name for entry in found), *made])
            fresh = {entry.name: discovery.describe(entry, settings) for entry in found}
            leaving = [old for old in (self._records or {}).values() if old.active and _blocked(old, settings)]
            for old in (self._records or {}).values():
                self._carry_over(old, fresh, settings)
            ordered = sorted(fresh.values(), key=lambda record: (record.info.priority, record.name))
            for record in ordered:
                _assign_page(record)
                if record.name in self._lost and record.state is State.DISCOVERED:
                    lose(record)
            for record in leaving:
                _block(record, _blocked(record, settings), settings)
            self._overrides, self._environment, self.settings = overrides, said, settings
            self._records = {record.name: record for record in ordered}
            configuration.tell(settings, overrides)
        return leaving

    def _carry_over(self, old: BackendRecord, fresh: dict[str, BackendRecord], settings: Settings) -> None:
        """Keeps of a backend's record what a new look at the metadata must not forget."""
        new = fresh.get(old.name)
        hangs = old.worker is not None and old.worker.is_alive()  # and holds its module's import lock
        blocked = _blocked(old, settings)
        if new is None and old.made is not None and (blocked or old.state is State.BLOCKED):
            new = fresh[old.name] = BackendRecord(old.info)  # a program's own stays, as it is in no metadata
            new.code = old.code
            if blocked:
                _block(new, blocked, settings)
        elif old.active or ((old.state is State.UNLOADED or hangs) and not blocked):
            fresh[old.name] = old
            priority = settings.priority.get(old.name, old.info.priority if new is None else new.info.priority)
            if priority != old.info.priority:
                from tensorplay_core.plugins.activation import rank

                rank(old, priority)
        elif new is not None and new.info.module == old.info.module:
            new.code = old.code  # it ran, and collected its blocks; an interpreter runs a module once
            new.import_seconds, new.survives_fork, new.worker = old.import_seconds, old.survives_fork, old.worker


def _blocked(record: BackendRecord, settings: Settings) -> str:
    """Returns what forbids a backend; an allow list does not speak of one that the program itself has made."""
    return "" if record.made is not None and record.name not in settings.block else settings.blocked(record.name)


def _block(record: BackendRecord, reason: str, settings: Settings) -> None:
    record.state, record.reason, record.fix = State.BLOCKED, reason, settings.remedy(record.name)


def _assign_page(record: BackendRecord) -> None:
    # A device has its keys from discovery on, also when blocked, so that ``explain`` can speak of it.
    if not record.owns_device or (record.state is State.ERROR and record.stage == "describe"):
        return
    from tensorplay_core.dispatch import devices
    from tensorplay_core.dispatch.keys import assign_page

    try:
        if record.name in devices.built_in:
            raise BackendError(f"no device of a backend can be called {record.name!r}: core brings it itself")
        assign_page(record.name)
    except TensorPlayError as error:
        record.state, record.stage = State.ERROR, "describe"
        record.reason = str(error)
        record.fix = f"rename the device in the metadata of {record.info.distribution}"
        record.error = error
