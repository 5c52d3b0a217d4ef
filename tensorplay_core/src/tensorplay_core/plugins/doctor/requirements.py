"""Checks that what a backend's distribution requires is installed, by name and version.

pip makes sure of it once, and then an environment lives: packages are removed, downgraded, installed with
``--no-deps``. The backend then fails somewhere in its import; its metadata says what is really missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion

from tensorplay_core.plugins.discovery import GROUP
from tensorplay_core.plugins.doctor.case import Case
from tensorplay_core.plugins.doctor.findings import OUR_DISTRIBUTIONS, Finding, Severity, reinstall
from tensorplay_core.plugins.doctor.installed import Installed, attempt, version_of
from tensorplay_core.plugins.records import canonical


def requirements(case: Case) -> Iterator[Finding]:
    """Finds requirements of backends, and of our distributions, that are missing or of a wrong version."""
    for one in case.first_copies:
        if one.entries.get(GROUP) or one.key in OUR_DISTRIBUTIONS:
            yield from _of(case, one)


def _of(case: Case, one: Installed) -> Iterator[Finding]:
    record = next((record for record in case.records if canonical(record.info.distribution) == one.key), None)
    remedy = reinstall(one.name, (record.info.url if record is not None else "") or one.url)
    # What an extra of a requirement needs is required too: numpy[fast] is numpy, and what "fast" adds to it.
    waiting = [(line, "", one.label) for line in one.requires]
    seen = set()
    while waiting:
        line, extra, by = waiting.pop(0)
        if (line, extra, by) in seen:
            continue
        seen.add((line, extra, by))
        try:
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            what = f"{by} requires {line!r}, which cannot be read"
            yield Finding("warning", one.name, what, f"correct Requires-Dist in the metadata of {by.split()[0]}")
            continue
        finding = _lacks(case, one, by, requirement, remedy)
        if finding is not None:
            yield finding
            continue
        more = _requires(case.everything[canonical(requirement.name)]) if requirement.extras else ()
        for wanted in requirement.extras:
            waiting += [(line, wanted, f"{requirement.name}[{wanted}]") for line in more if "extra" in line]


def _requires(distribution: metadata.Distribution) -> tuple[str, ...]:
    return attempt(lambda: tuple(distribution.requires or ()), ())


def _lacks(case: Case, one: Installed, by: str, requirement: Requirement, remedy: str) -> Finding | None:
    name = canonical(requirement.name)
    wanted = f"{requirement.name}{requirement.specifier}"
    installed = case.everything.get(name)
    if installed is None:
        return Finding("error", one.name, f"{by} requires {wanted}, which is not installed", remedy)
    version = version_of(installed)
    try:
        fits = requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        fits = False
    if fits or (name in OUR_DISTRIBUTIONS and one.key in OUR_DISTRIBUTIONS):  # a mixture of releases is told elsewhere
        return None
    # Another release of ours than a plugin was made for is known not to work; another of a third party may well.
    severity: Severity = "error" if name in OUR_DISTRIBUTIONS else "warning"
    what = f"{by} requires {wanted}, and {requirement.name} {version} is installed"
    if name in OUR_DISTRIBUTIONS:
        remedy = f"use the release of {one.name} that was made for {requirement.name} {version}"
    return Finding(severity, one.name, what, remedy)
