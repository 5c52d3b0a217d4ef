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
from tensorplay_core.testing.suite.calls import ENDS, REFUSALS, Skip
from tensorplay_core.testing.suite.device_checks import pickling, plugin, transfers
from tensorplay_core.testing.suite.formulas import formulas
from tensorplay_core.testing.suite.forward import forward, layouts, threads
from tensorplay_core.testing.suite.gradients import gradient, has_gradient, second
from tensorplay_core.testing.suite.large import large
from tensorplay_core.testing.suite.numbers_kept import memory
from tensorplay_core.testing.suite.outcome import (
    AREAS,
    DEVICE_CHECKS,
    FAILED,
    GAP,
    IDLE,
    NOTHING,
    Finding,
    Gaps,
    Outcome,
    Profile,
    parts,
)
from tensorplay_core.testing.suite.program import runnable
from tensorplay_core.testing.suite.random_numbers import random
from tensorplay_core.testing.suite.refusals import errors
from tensorplay_core.testing.suite.shared_memory import views
from tensorplay_core.testing.suite.subject import Subject, inplace_of, operators, strict
from tensorplay_core.testing.suite.writes import has_out, inplace, out

OPERATOR_CHECKS: dict[str, Callable[[Subject, Operator], Iterator[Outcome]]] = {
    "forward": forward, "layouts": layouts, "large": large, "gradient": gradient, "second": second,
    "inplace": inplace, "out": out, "errors": errors, "threads": threads,
}  # fmt: skip
ON_THE_DEVICE: dict[str, Callable[[Subject], Iterator[Outcome]]] = {
    "plugin": plugin, "transfers": transfers, "random": random, "pickle": pickling,
    "memory": memory, "views": views, "formulas": formulas,
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
    yield from _judged(name, area, OPERATOR_CHECKS[area](subject, op), subject, gaps)


def check_device(name: str, subject: Subject, gaps: Gaps) -> Iterator[Outcome]:
    """Checks one thing of a device apart from its operators: one of ``DEVICE_CHECKS``."""
    yield from _judged(name, "device", ON_THE_DEVICE[name](subject), subject, gaps)


def _judged(name: str, area: str, outcomes: Iterator[Outcome], subject: Subject, gaps: Gaps) -> Iterator[Outcome]:
    """Yields what a check yields, set against the gaps, and then the gaps that nothing fell under."""
    found = []
    for outcome in guarded(name, area, outcomes):
        found.append(outcome)
        yield from gaps.judge(outcome._replace(program=runnable(outcome.program, subject.device)))
    if not subject.quick:  # which leaves out dtypes
        yield from gaps.idle(name, area, found)


def guarded(name: str, area: str, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Yields what a check yields; whatever else it raises is a failure too, and so is a warning of the backend's."""
    with warnings.catch_warnings(record=True) as warned, strict():
        warnings.simplefilter("always")
        try:
            yield from outcomes
        except Skip:
            yield Outcome(name, area, NOTHING)
        except Finding as finding:
            yield Outcome(name, area, FAILED, what=finding.what, program=finding.program, refused=finding.refused)
        except ENDS:
            raise
        except BaseException as error:
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


def gaps_of(subject: Subject) -> Gaps:
    """Returns the gaps that a device's backend declares.

    Raises:
        ArgumentError: one is of an area in which its operator is never checked.
    """
    known = operators()
    for key in subject.profile.gaps:
        name, _, area = parts(key)
        if area and not applies(known[name], area):
            raise ArgumentError(f"Profile: {key!r}: there is no {area} of {name}, so nothing is checked of it{IDLE}")
    return Gaps(subject.profile)


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
    gaps = gaps_of(subject)
    for name, area in steps(names, device=device, quick=subject.quick):
        started(name, area)
        if area:
            yield from check(names[name], area, subject, gaps)
        else:
            yield from check_device(name, subject, gaps)


def profile_of(name: str) -> Profile:
    """Returns the profile that a backend's own package declares: ``PROFILE`` of ``<package>.conformance``.

    A device that a program made of an array module has that which the maker of its kernels knows of the module:
    ``NAMESPACES`` of ``tensorplay_composite.conformance``, by the module's name.

    Raises:
        ArgumentError: it is there and is no Profile.
    """
    from tensorplay_core.plugins import public as backends

    record = backends.info(name)
    made = record.made
    module = (record.info.module or "").partition(":")[0] if made is None else type(made.plugin).__module__
    package = module.partition(".")[0]
    if not package or find_spec(package) is None or find_spec(f"{package}.conformance") is None:
        return Profile()
    declared, where = import_module(f"{package}.conformance"), f"{package}.conformance.PROFILE"
    found = getattr(declared, "PROFILE", None)
    if made is not None:
        of = getattr(made.xp, "__name__", "")
        found, where = getattr(declared, "NAMESPACES", {}).get(of), f"{package}.conformance.NAMESPACES[{of!r}]"
    if found is None:
        return Profile()
    if not isinstance(found, Profile):
        raise ArgumentError(f"{where} must be a Profile, not {type(found).__name__}")
    return found
