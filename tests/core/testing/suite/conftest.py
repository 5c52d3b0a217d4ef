"""Registers a kernel that lies over a backend that is right, and looks at what the suite says."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.testing.suite import Profile
from tensorplay_core.testing.suite.checks import check_device, run
from tensorplay_core.testing.suite.outcome import DEVICE_CHECKS, FAILED, Gaps, Outcome
from tensorplay_core.testing.suite.subject import Subject, chosen


def quiet(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that is not found by NumPy's warnings."""

    @functools.wraps(kernel)
    def silent(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return kernel(*args, **kwargs)

    return silent


def failures(checked: str, quick: bool) -> Iterator[Outcome]:
    subject = Subject("loopback", seed=1, quick=quick)
    if checked in DEVICE_CHECKS:
        found: Iterator[Outcome] = check_device(checked, subject, Gaps(Profile()))
    else:
        found = run(subject, chosen((checked,)), device=False)
    return (outcome for outcome in found if outcome.status == FAILED)


def shows(outcome: Outcome) -> None:
    """The program of a failure runs, or raises what the failure says."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(compile(outcome.program, "program", "exec"), {})
        except BaseException as error:
            assert type(error).__name__ in outcome.what, outcome.program
            return
    assert printed.getvalue(), outcome.program


@pytest.fixture
def failures_of() -> Any:
    """Takes an operator, a kernel for it and what is checked; yields the failures, whose programs show them."""
    tp.zeros(1, device="loopback")
    library = tp.library.Library("tp", "IMPL", "loopback")

    def found(
        registered: str, kernel: Callable[..., Any] | None, checked: str, quick: bool = True
    ) -> Iterator[Outcome]:
        if kernel is not None:
            library.impl(registered, quiet(kernel), override=True)
        for outcome in failures(checked, quick):
            if outcome.program:
                shows(outcome)
            yield outcome

    yield found
    library.close()
