"""The doctor: looks at what is installed and says what is wrong with it, each finding with what mends it.

It is for whoever stands before an environment that does not work, or that works differently from yesterday, and does
not know where to look. Whatever it meets is a finding and never an exception: it reads what others broke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from tensorplay_core.errors import EnvironmentVariableError
from tensorplay_core.plugins.configuration import limit
from tensorplay_core.plugins.discovery import describe, discover, distributions
from tensorplay_core.plugins.doctor import backends, cuda, metadata, variables, versions
from tensorplay_core.plugins.doctor.case import Case, Check
from tensorplay_core.plugins.doctor.findings import SEVERITIES, Finding, Severity, reinstall
from tensorplay_core.plugins.doctor.installed import attempt, index, read
from tensorplay_core.plugins.environment import Settings
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.plugins.records import BackendRecord

__all__ = ["CHECKS", "Finding", "Report", "Severity", "examine"]


def _requirements(case: Case) -> Iterator[Finding]:
    # Imported here, because a missing ``packaging`` is one of the things that may be wrong.
    from tensorplay_core.plugins.doctor.requirements import requirements

    return requirements(case)


CHECKS: tuple[Check, ...] = (
    variables.variables,
    versions.core,
    versions.core_files,
    versions.releases,
    versions.foreign,
    versions.namespace,
    versions.python,
    metadata.leftovers,
    metadata.unreadable,
    metadata.copies,
    metadata.groups,
    metadata.descriptions,
    metadata.files,
    _requirements,
    cuda.cupy,
    backends.needed,
    backends.states,
    backends.waiting,
    backends.hooks,
    backends.imports,
    backends.extenders,
    backends.kernels,
)
"""Every check, causes before what follows from them."""

Started = Callable[[BackendRecord], None]
"""Told which backend is tried next."""


@attrs.frozen
class Report:
    """What an examination found.

    Attributes:
        findings: errors, then warnings, then notes.
        records: every backend, tried where it may be.
        distributions: the distributions that were looked at.
    """

    findings: tuple[Finding, ...]
    records: tuple[BackendRecord, ...]
    distributions: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return all(finding.severity == "note" for finding in self.findings)

    def with_findings(self, more: Iterable[Finding]) -> Report:
        """Returns the report with further findings, in their places."""
        ordered = sorted([*more, *self.findings], key=lambda finding: SEVERITIES.index(finding.severity))
        return attrs.evolve(self, findings=tuple(ordered))

    def count(self, severity: Severity) -> int:
        """Returns how many findings there are of a severity."""
        return sum(finding.severity == severity for finding in self.findings)


def examine(timeout: float | None = 20.0, started: Started | None = None, *, load: bool = True) -> Report:
    """Reads what is installed, tries every backend that may be tried, and makes every check.

    Args:
        load: try the backends; otherwise no code of theirs runs.
        timeout: seconds for each backend, None for no limit.
        started: called before each try, with the backend's record.

    Raises:
        ArgumentError, ValueRangeError: a timeout that is no number of seconds.
    """
    timeout = limit("doctor", timeout)
    found = [*distributions()]
    records, problems = _records(timeout, started, load)
    case = Case(read(found), index(found), records)
    for check in CHECKS:
        for finding in _made(check, case):
            if all(
                (finding.subject, finding.what) != (one.subject, one.what) for one in problems
            ):  # a cause that the backend's own state repeats
                problems.append(finding)
    looked_at = tuple(dict.fromkeys(one.key for one in case.installed))
    return Report((), records, looked_at).with_findings(problems)


def _records(
    timeout: float | None, started: Started | None, load: bool
) -> tuple[tuple[BackendRecord, ...], list[Finding]]:
    try:
        return (MANAGER.load_all(timeout, started) if load else MANAGER.records()), []
    except EnvironmentVariableError:
        # A bad value may have been meant to keep a backend from running: they are described, and none is run.
        return tuple(describe(one, Settings()) for one in discover()), []
    except Exception as error:
        what = f"the backends could not be tried: {type(error).__name__}: {error}"
        return attempt(MANAGER.records, ()), [
            Finding("error", versions.CORE, what, reinstall(versions.CORE, whole=True))
        ]


def _made(check: Check, case: Case) -> list[Finding]:
    name = check.__name__.strip("_").replace("_", " ")
    try:
        return [*check(case)]
    except ModuleNotFoundError as error:
        what = f"the module {error.name!r} is missing, so the check of {name} was not made"
        return [Finding("error", versions.CORE, what, reinstall(versions.CORE))]
    except Exception as error:
        what = f"the check of {name} could not be made: {type(error).__name__}: {error}"
        return [Finding("warning", versions.CORE, what, "report it to the authors of TensorPlay")]
