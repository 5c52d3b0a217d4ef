"""Checks of metadata: what is wrong with it, or would be if anything read it.

What makes a backend unusable is in its record already, and found there. Here is the rest: what discovery passes over,
and where the folder lies that someone has to remove.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

from tensorplay_core.errors import did_you_mean
from tensorplay_core.plugins.discovery import GROUP, INFO_GROUP
from tensorplay_core.plugins.doctor.case import Case
from tensorplay_core.plugins.doctor.findings import Finding, reinstall
from tensorplay_core.plugins.doctor.installed import Installed

SIMILAR = 0.85
"""How like one of ours a group's name must be to be taken for a slip; many plugins have groups of their own."""

SHOWN = 5
"""How many of the files that are gone a finding names."""


def leftovers(case: Case) -> Iterator[Finding]:
    """Finds folders that an interrupted pip left; Python still reads them, and may prefer them."""
    for one in case.installed:
        if one.leftover:
            what = f"{one.folder} is what an interrupted pip left of {one.name}, and Python still reads it"
            yield Finding("warning", one.name, what, "remove that folder, and the others beside it that begin with ~")


def unreadable(case: Case) -> Iterator[Finding]:
    """Finds metadata that cannot be read, or that does not say whose it is."""
    for one in case.installed:
        if one.problem and not one.leftover:
            names = ", ".join(repr(name) for name, _ in one.entries.get(GROUP, ()))
            what = f"{one.problem}{f', so its backend {names} cannot be used' if names else ''}"
            what += f" (it lies in {os.path.dirname(one.folder) or 'an archive'})"
            yield Finding("error", one.name, what, f"remove that folder, or reinstall {one.name}")


def copies(case: Case) -> Iterator[Finding]:
    """Finds distributions that are on the path more than once."""
    firsts: dict[str, Installed] = {}
    for one in case.readable:
        first = firsts.setdefault(one.key, one)
        if first is one:
            continue
        places = f"{first.folder}, then {one.folder}"
        if (first.version, first.entries) == (one.version, one.entries):
            what = f"{one.label} is listed twice, as an editable install may be; the copies agree: {places}"
            yield Finding("note", one.name, what, f"remove {one.folder}, unless an editable install put it there")
            continue
        again = f"{one.label} is also on the path, after {first.version}: the first counts"
        remedy = f"remove {one.folder}; or pip uninstall {one.name} until pip finds no more of it, and reinstall it"
        yield Finding("warning", one.name, f"{again} ({places})", remedy)


def groups(case: Case) -> Iterator[Finding]:
    """Finds groups of entry points that are nearly ours, so that nothing reads what they list."""
    for one in case.first_copies:
        for group in one.entries:
            if group in (GROUP, INFO_GROUP):
                continue
            spelt = group.lower().replace("-", ".").replace("_", ".").replace("backend.info", "backend_info")
            near = difflib.get_close_matches(spelt, (GROUP, INFO_GROUP), 1, SIMILAR)
            if near or group.lower().startswith("tensorplay."):
                meant = f"Did you mean {near[0]!r}?" if near else f"The groups are {GROUP!r} and {INFO_GROUP!r}."
                what = f"nothing reads the entry point group {group!r}. {meant}"
                yield Finding("warning", one.name, what, f"rename the group in the metadata of {one.name}")


def descriptions(case: Case) -> Iterator[Finding]:
    """Finds descriptions of backends that there are not."""
    for one in case.first_copies:
        backends = [name for name, _ in one.entries.get(GROUP, ())]
        for name, value in one.entries.get(INFO_GROUP, ()):
            if name not in backends:
                hint = did_you_mean(name, backends, limit=1)
                what = f"{INFO_GROUP} describes {name!r} ({value}), and {GROUP} of {one.label} has no such backend."
                remedy = f"give both entry points the same name in the metadata of {one.name}"
                yield Finding("warning", one.name, what + hint, remedy)


def files(case: Case) -> Iterator[Finding]:
    """Finds distributions whose files are not all there."""
    for one in case.first_copies:
        if one.missing and not one.leftover:
            number = f"{len(one.missing)} of its files are" if len(one.missing) > 1 else "one of its files is"
            more = f" and {len(one.missing) - SHOWN} more" if len(one.missing) > SHOWN else ""
            what = f"{number} gone: {', '.join(one.missing[:SHOWN])}{more} (installed in {os.path.dirname(one.folder)})"
            yield Finding("error", one.name, what, reinstall(one.name, one.url, whole=True))
