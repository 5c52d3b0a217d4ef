"""Checks of the environment variables: each read for itself, so that one bad value does not hide the next."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from tensorplay_core.errors import EnvironmentVariableError
from tensorplay_core.plugins import environment
from tensorplay_core.plugins.doctor.case import Case
from tensorplay_core.plugins.doctor.findings import Finding, Severity


def variables(case: Case) -> Iterator[Finding]:
    """Finds values that mean nothing, backends that are not installed, and names that nothing reads."""
    yield from of(os.environ, [record.name for record in case.records])


def of(environ: Mapping[str, str], installed: Iterable[str]) -> list[Finding]:
    """Returns what is wrong with an environment where these backends are installed."""
    found, good = [], {}
    for name in environment.VARIABLES.values():
        if name in environ:
            said = _said(name, partial(environment.read, {name: environ[name]}))
            found += said
            good.update({} if said else {name: environ[name]})
    found += _said("", lambda: environment.warn_of_unknown(environ))
    for part in ({environment.ALLOW}, good.keys() - {environment.ALLOW}):
        settings = environment.read({name: good[name] for name in part & good.keys()})
        found += _said("", partial(environment.check_names, settings, installed))
    return found


def _said(subject: str, step: Callable[[], object]) -> list[Finding]:
    """Returns what a step that reads variables raises and warns of."""
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            step()
        except EnvironmentVariableError as error:
            found.append(_finding("error", subject, str(error)))
    return found + [_finding("warning", subject, str(one.message)) for one in caught]


def _finding(severity: Severity, subject: str, text: str) -> Finding:
    what, _, remedy = text.partition("\nfix: ")
    named = re.match(r"T(ENSORPLAY|P)_\w+", what)  # each of these messages begins with the variable
    subject = subject or (named[0] if named is not None else "environment")
    return Finding(severity, subject, what, remedy or f"correct or unset {subject}")
