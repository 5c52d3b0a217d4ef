"""The suite itself: the checks of a device and of its operators, as plain functions that yield what they find.

Both faces run these: pytest's, for a backend's own tests, and ``tensorplay backends check``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import ArgumentError, fix
from tensorplay_core.testing.suite.calls import REFUSALS, Skip
from tensorplay_core.testing.suite.device_checks import pickling, plugin, transfers
from tensorplay_core.testing.suite.forward import forward, layouts, threads
from tensorplay_core.testing.suite.gradients import gradient, has_gradient, second
from tensorplay_core.testing.suite.large import large
from tensorplay_core.testing.suite.outcome import (
    AREAS,
    DEVICE_CHECKS,
    FAILED,
    GAP,
    Finding,
    Gaps,
    Outcome,
    Profile,
)
from tensorplay_core.testing.suite.random_numbers import random
from tensorplay_core.testing.suite.refusals import errors
from tensorplay_core.testing.suite.subject import Subject, inplace_of, strict
from tensorplay_core.testing.suite.writes import has_out, inplace, out

OPERATOR_CHECKS: dict[str, Callable[[Subject, Operator], Iterator[Outcome]]] = {
    "forward": forward, "layouts": layouts, "large": large, "gradient": gradient, "second": second,
    "inplace": inplace, "out": out, "errors": errors, "threads": threads,
}  # fmt: skip
ON_THE_DEVICE: dict[str, Callable[[Subject], Iterator[Outcome]]] = {
    "plugin": plugin, "transfers": transfers, "random": random, "pickle": pickling,
}  # fmt: skip
assert [*OPERATOR_CHECKS] == [*AREAS] and [*ON_THE_DEVICE] == [*DEVICE_CHECKS]

QUIET = fix("compute under numpy.errstate(all='ignore'), or what the library has for it.")
QUICK_LEAVES_OUT = ("second",)
"""The areas that a quick run leaves out."""


def check(op: Operator, area: str, subject: Subject, gaps: Gaps) -> Iterator[Outcome]:
    """Checks one area of an operator.

    Args:
        op: the operator.
        area: one of ``AREAS``.
        subject: the device.
        gaps: what its backend declares not to do.
    """
    name = op.display_name
    if gaps.whole(name) and area != "forward":
        yield Outcome(name, area, GAP, what=gaps.declared[name])
        return
    for outcome in guarded(name, area, OPERATOR_CHECKS[area](subject, op)):
        yield from gaps.judge(outcome)


def check_device(name: str, subject: Subject, gaps: Gaps) -> Iterator[Outcome]:
    """Checks one thing of a device apart from its operators: one of ``DEVICE_CHECKS``."""
    for outcome in guarded(name, "device", ON_THE_DEVICE[name](subject)):
        yield from gaps.judge(outcome)


def guarded(name: str, area: str, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Yields what a check yields; whatever else it raises is a failure too, and so is a warning of the backend's."""
    with warnings.catch_warnings(record=True) as warned, strict():
        warnings.simplefilter("always")
        try:
            yield from outcomes
        except Skip:
            pass
        except Finding as finding:
            yield Outcome(name, area, FAILED, what=finding.what, program=finding.program, refused=finding.refused)
        except Exception as error:
            refused = isinstance(error, REFUSALS)
            yield Outcome(name, area, FAILED, what=f"raised {type(error).__name__}: {error}", refused=refused)
    for one in warned:
        if issubclass(one.category, (RuntimeWarning, UserWarning)):
            what = f"{one.category.__name__} reached the user: {one.message} ({one.filename}:{one.lineno}){QUIET}"
            yield Outcome(name, area, FAILED, what=what)
            return


def steps(names: dict[str, Operator], *, device: bool, quick: bool) -> list[tuple[str, str]]:
    """Returns what a run consists of: operators with areas, and before them the device's checks with no area."""
    first = [(name, "") for name in ON_THE_DEVICE] if device else []
    areas = [area for area in OPERATOR_CHECKS if not (quick and area in QUICK_LEAVES_OUT)]
    return first + [(name, area) for name, op in names.items() for area in areas if applies(op, area)]


def applies(op: Operator, area: str) -> bool:
    """Whether there is anything to check of an operator in an area."""
    special = {"gradient": has_gradient, "second": has_gradient, "inplace": inplace_of, "out": has_out}
    return area not in special or bool(special[area](op))


def run(
    subject: Subject,
    names: dict[str, Operator],
    *,
    device: bool = True,
    started: Callable[[str, str], None] = lambda name, area: None,
) -> Iterator[Outcome]:
    """Runs the suite.

    Args:
        subject: the device, with what its backend declares not to do.
        names: the operators.
        device: check what is not an operator's, too.
        started: is told what is checked next: an operator and an area, or a check of the device and an empty text.
    """
    gaps = Gaps(subject.profile)
    for name, area in steps(names, device=device, quick=subject.quick):
        started(name, area)
        if area:
            yield from check(names[name], area, subject, gaps)
        else:
            yield from check_device(name, subject, gaps)


def profile_of(name: str) -> Profile:
    """Returns the profile that a backend's own package declares: ``PROFILE`` of ``<package>.conformance``.

    Raises:
        ArgumentError: it is there and is no Profile.
    """
    from tensorplay_core.plugins import public as backends

    module = backends.info(name).info.module
    package = (module or "").partition(":")[0].partition(".")[0]
    if not package or find_spec(package) is None or find_spec(f"{package}.conformance") is None:
        return Profile()
    found = getattr(import_module(f"{package}.conformance"), "PROFILE", None)
    if found is None:
        return Profile()
    if not isinstance(found, Profile):
        raise ArgumentError(f"{package}.conformance.PROFILE must be a Profile, not {type(found).__name__}")
    return found
