"""Gaps: what may be declared, and what becomes of outcomes that fall under one."""

from __future__ import annotations

import pytest

from tensorplay_core.errors import ArgumentError
from tensorplay_core.testing.suite import Profile
from tensorplay_core.testing.suite.outcome import FAILED, GAP, NOTHING, OK, Gaps, Outcome, parts
from tensorplay_core.testing.suite.subject import operators


def judged(outcome: Outcome, **gaps: str) -> Outcome:
    (found,) = Gaps(Profile(never={key.replace("__", ":"): reason for key, reason in gaps.items()})).judge(outcome)
    return found


WORKS = Outcome("exp", "forward", OK, "float32", 3)
REFUSES = Outcome("exp", "forward", FAILED, "int32", 0, "raised KernelMissing", "program", refused=True)
WRONG = Outcome("exp", "forward", FAILED, "int32", 1, "gives 2", "program")


def test_a_refusal_that_is_declared_is_a_gap_with_its_reason():
    found = judged(REFUSES, exp="no exp unit")
    assert (found.status, found.what) == (GAP, "never: no exp unit")
    assert judged(REFUSES, log="no log unit") == REFUSES


def test_what_works_although_it_is_declared_fails():
    found = judged(WORKS, exp="no exp unit")
    assert found.status == FAILED
    assert "take it out of the profile" in found.what


def test_a_wrong_result_is_no_gap():
    found = judged(WRONG, exp="no exp unit")
    assert found.status == FAILED
    assert "must refuse rather than be wrong" in found.what


def test_a_gap_may_be_of_one_dtype_or_one_area():
    profile = Profile(not_yet={"exp[int32]": "32-bit integers", "exp:out": "out="})
    gaps = Gaps(profile)
    assert next(gaps.judge(REFUSES)).status == GAP
    assert next(gaps.judge(REFUSES._replace(dtype="int64"))).status == FAILED
    assert next(gaps.judge(REFUSES._replace(dtype="int64", area="out"))).status == GAP
    assert next(gaps.judge(WORKS)) == WORKS
    assert not gaps.whole("exp")


def test_what_was_not_checked_is_neither():
    nothing = Outcome("exp", "forward", NOTHING)
    assert judged(nothing, exp="no exp unit") == nothing


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (Profile(never={"ex": "no"}), "there is no operator 'ex'. Did you mean 'exp'"),
        (Profile(never={"exp:outt": "no"}), "Did you mean 'out'"),
        (Profile(never={"exp[float23]": "no"}), "Did you mean 'float32'"),
        (
            Profile(never={"exp[float64]": "no"}),
            "'exp[float64]': the device has no float64, so nothing is checked in it",
        ),
        (Profile(never={"exp:errors": "no"}), "a bad call must raise, whatever a device lacks"),
        (Profile(never={"random[float32]": "no"}), "a check of the device has no dtypes and areas"),
        (Profile(never={"exp": "no"}, not_yet={"exp": "later"}), "'exp' is declared twice: not yet: later; never: no"),
        (Profile(never={"exp": " "}), "needs a reason"),
        (Profile(never={"exp": 3}), "needs a reason"),
        (Profile(accuracy={"ex": 2}), "there is no operator 'ex'. Did you mean 'exp'"),
        (Profile(accuracy={"exp": 0.5}), "accuracy is a factor of 1 to 64, not 0.5"),
        (Profile(accuracy=65), "accuracy is a factor of 1 to 64, not 65"),
    ],
)
def test_a_profile_that_means_nothing_is_refused(profile, says):
    with pytest.raises(ArgumentError) as caught:
        profile.check_names([*operators()], ("float32", "int32"))
    assert says in str(caught.value)


def test_names_with_dots_and_devices_checks_are_known():
    Profile(never={"max.dim:out": "no", "random": "no numbers", "max.dim[int8]": "no"}).check_names([*operators()])
    assert parts("max.dim[int8]") == ("max.dim", "int8", "")


@pytest.mark.parametrize(
    ("key", "area", "outcomes", "idle"),
    [
        ("exp", "forward", [REFUSES], False),
        ("exp", "forward", [REFUSES._replace(status=NOTHING)], True),
        ("exp[int32]", "forward", [REFUSES], False),
        ("exp[int32]", "forward", [WORKS], True),
        ("exp[int32]", "out", [WORKS], False),  # forward is what must show it
        ("exp:out", "out", [], True),
        ("exp:out", "forward", [], False),
        ("exp[int32]:out", "out", [REFUSES], False),
        ("log", "forward", [], False),
    ],
)
def test_a_gap_of_which_nothing_was_checked_fails(key, area, outcomes, idle):
    found = [*Gaps(Profile(never={key: "no unit"})).idle("exp", area, outcomes)]
    assert [one.status for one in found] == [FAILED] * idle
    assert all(
        f"declared as a gap ({key!r}: never: no unit), and there is nothing to check" in one.what for one in found
    )


def test_accuracy_is_that_of_all_operators_or_of_some():
    whole, some = Profile(accuracy=2), Profile(accuracy={"div": 3, "exp": 1.5}, flushes=True)
    assert (whole.factor("div"), whole.lesser) == (2, "2 times the usual errors")
    assert [some.factor(name) for name in ("div", "div_", "exp", "add_")] == [3, 3, 1.5, 1]
    assert some.lesser == (
        "3 times the usual errors of div and 1.5 times the usual errors of exp and "
        "0 for numbers below the smallest normal one"
    )
    assert Profile().lesser == ""
