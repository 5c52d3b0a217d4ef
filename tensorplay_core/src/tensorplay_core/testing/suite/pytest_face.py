"""The suite as pytest sees it: one test for each operator and area, so that a failure is named.

A test module gets these names by ``from tensorplay_core.testing.suite import *``; what it sets (``BACKEND``,
``PROFILE``, ``SEED``, ``QUICK``, ``OPERATORS``) is read from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tensorplay_core.errors import DeviceUnavailable
from tensorplay_core.plugins import public as backends
from tensorplay_core.plugins.records import State
from tensorplay_core.testing.suite import checks
from tensorplay_core.testing.suite.outcome import FAILED, GAP, OK, Gaps, Outcome, Profile
from tensorplay_core.testing.suite.subject import Subject, chosen, operators


class Conformance(NamedTuple):
    """What the tests of one module share: the device, and the gaps that its backend declares."""

    subject: Subject
    gaps: Gaps


@pytest.fixture(scope="module")
def conformance(request: pytest.FixtureRequest) -> Conformance:
    """Loads the backend; where its probe finds no such hardware, the tests are skipped with the reason."""
    module = request.module
    profile = getattr(module, "PROFILE", Profile())
    name = _backend(module)
    try:
        subject = Subject(
            name, seed=getattr(module, "SEED", None), quick=getattr(module, "QUICK", False), profile=profile
        )
    except DeviceUnavailable as error:
        if backends.info(name).state is not State.UNAVAILABLE:
            raise
        pytest.skip(str(error))
    return Conformance(subject, checks.gaps_of(subject))


def _backend(module: ModuleType) -> str:
    name = getattr(module, "BACKEND", None)
    if not isinstance(name, str):
        raise pytest.UsageError(f'{module.__name__}: BACKEND must name the device to be checked, as in BACKEND = "foo"')
    return name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives each test its operator and area."""
    if metafunc.function is test_device:
        metafunc.parametrize("check", [*checks.ON_THE_DEVICE])
    elif metafunc.function is test_operator:
        module = metafunc.module
        _backend(module)
        quick = getattr(module, "QUICK", False)
        pairs = checks.steps(chosen(tuple(getattr(module, "OPERATORS", ()))), device=False, quick=quick)
        metafunc.parametrize(("operator", "area"), pairs, ids=[f"{name}-{area}" for name, area in pairs])


def test_device(check: str, conformance: Conformance) -> None:
    """The plugin, transfers, random numbers, pickling."""
    _judge(conformance, checks.check_device(check, conformance.subject, conformance.gaps))


def test_operator(operator: str, area: str, conformance: Conformance) -> None:
    """One area of one operator."""
    op = operators()[operator]
    _judge(conformance, checks.check(op, area, conformance.subject, conformance.gaps))


def _judge(conformance: Conformance, outcomes: Iterator[Outcome]) -> None:
    found = list(outcomes)
    failures = [outcome for outcome in found if outcome.status == FAILED]
    if failures:
        seed = f"seed {conformance.subject.seed}: SEED = {conformance.subject.seed} in the test file repeats this run"
        pytest.fail("\n\n".join([*map(_text, failures), seed]), pytrace=False)
    if gaps := [outcome for outcome in found if outcome.status == GAP]:
        if not any(outcome.status == OK for outcome in found):
            pytest.skip(f"declared gap: {gaps[0].what}")
    elif not any(outcome.status == OK for outcome in found):
        pytest.skip("there is nothing to check")


def _text(outcome: Outcome) -> str:
    program: Any = outcome.program and "\n\n    " + outcome.program.replace("\n", "\n    ")
    return f"{outcome.what}{program}"
