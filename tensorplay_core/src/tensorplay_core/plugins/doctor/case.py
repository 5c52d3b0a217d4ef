"""What the checks of the doctor look at, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import metadata

import attrs

from tensorplay_core.plugins.doctor.findings import Finding
from tensorplay_core.plugins.doctor.installed import Installed
from tensorplay_core.plugins.records import BackendRecord


@attrs.frozen
class Case:
    """An installation.

    Attributes:
        installed: the distributions that have to do with TensorPlay, in the order of the path, copies included.
        everything: every distribution by canonical name, first copies only.
        records: the backends, tried where they may be.
    """

    installed: tuple[Installed, ...] = ()
    everything: Mapping[str, metadata.Distribution] = attrs.field(factory=dict)
    records: tuple[BackendRecord, ...] = ()

    @property
    def readable(self) -> tuple[Installed, ...]:
        """Those whose metadata says whose it is."""
        return tuple(one for one in self.installed if not one.problem and not one.leftover)

    @property
    def first_copies(self) -> tuple[Installed, ...]:
        """Of each name the one that Python takes."""
        firsts: dict[str, Installed] = {}
        for one in self.readable:
            firsts.setdefault(one.key, one)
        return tuple(firsts.values())

    def find(self, name: str) -> Installed | None:
        """Returns the first copy of a distribution, by its canonical name."""
        return next((one for one in self.first_copies if one.key == name), None)

    def backend(self, name: str) -> BackendRecord | None:
        """Returns a backend's record."""
        return next((record for record in self.records if record.name == name), None)


Check = Callable[[Case], Iterator[Finding]]
