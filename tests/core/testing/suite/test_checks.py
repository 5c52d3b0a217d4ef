"""The suite on backends that are right, that lack something, and that say so or do not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import fallbacks
from tensorplay_core.errors import ArgumentError, BackendError, LinAlgError
from tensorplay_core.testing.references import names as referenced
from tensorplay_core.testing.suite import Profile
from tensorplay_core.testing.suite.checks import ON_THE_DEVICE, OPERATOR_CHECKS, applies, check, gaps_of, run, steps
from tensorplay_core.testing.suite.further_bad_calls import BAD_ARGS, BAD_CALLS, NAMED
from tensorplay_core.testing.suite.outcome import AREAS, DEVICE_CHECKS, FAILED, GAP, OK, Outcome, parts
from tensorplay_core.testing.suite.refusals import BAD, BEYOND, bad_calls
from tensorplay_core.testing.suite.subject import QUICK, Subject, chosen, operators


@pytest.fixture
def library() -> Any:
    tp.zeros(1, device="loopback")
    made = tp.library.Library("tp", "IMPL", "loopback")
    yield made
    made.close()


def outcomes(*names: str, profile: Profile | None = None, **options: Any) -> list[Outcome]:
    subject = Subject("loopback", quick=True, profile=profile, **options)
    return list(run(subject, chosen(names), device=False))


def refuses(x: Any) -> Any:
    raise NotImplementedError("no exp unit")


def test_every_area_of_every_operator_is_run_and_is_in_the_table():
    assert [*OPERATOR_CHECKS] == [*AREAS]
    assert [*ON_THE_DEVICE] == [*DEVICE_CHECKS]
    planned = steps(operators(), device=True, quick=False)
    assert {name for name, area in planned if area == "forward"} == {*operators()}
    assert [name for name, area in planned if not area] == [*DEVICE_CHECKS]
    assert applies(operators()["add"], "inplace") and not applies(operators()["eq"], "gradient")


def test_every_operator_whose_result_is_a_function_of_its_arguments_has_a_reference():
    without = {name for name, op in operators().items() if "random" not in op.tags and name != "empty"}
    assert without <= {*referenced()}


UNREFUSING = {
    *("argwhere", "kron", "median", "msort", "nonzero", "ravel", "_unique2", "zero_", "random_", "bitwise_not"),
    *("atleast_1d", "atleast_2d", "atleast_3d", "hardshrink", "hardtanh", "std", "std_mean", "var", "var_mean"),
}
"""What takes every tensor of its dtypes, whatever its shape; and so does all whose result has the same shape."""


def test_every_operator_that_can_refuse_a_shape_or_a_number_has_bad_calls():
    without = {
        name for name, op in operators().items()
        if op.shape != "same" and all(case.name.startswith(("no tensor", "tensors of")) for case in bad_calls(op))
    }  # fmt: skip
    assert without == UNREFUSING


def test_a_bad_call_is_of_an_operator_or_of_a_rule_that_there_is():
    rules = {op.shape for op in operators().values()}
    named = {*BAD, *BAD_ARGS, *BEYOND, *NAMED, *(name for name, *_ in BAD_CALLS)}
    assert named <= rules | {*operators()}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("linalg_eigvalsh", lambda self, UPLO="L": np.linalg.eigvalsh(self, "U" if UPLO.upper() == "U" else "L")),
        ("unfold", lambda self, dimension, size, step: np.lib.stride_tricks.sliding_window_view(self, size, dimension)),
        ("clamp", lambda self, min=None, max=None: self if min is None and max is None else np.clip(self, min, max)),
        ("bmm", lambda self, mat2: np.matmul(self, mat2)),
    ],
)
def test_a_kernel_that_takes_what_the_shape_rule_refuses_is_found(library, name, kernel):
    library.impl(name, kernel, override=True)
    found = [one.what for one in outcomes(name) if one.area == "errors" and one.status == FAILED]
    assert any("must raise, and gives" in what for what in found), found


def test_a_singular_matrix_in_a_batch_must_be_named(library):
    def kernel(A: Any) -> Any:
        try:
            return np.linalg.inv(A)
        except np.linalg.LinAlgError:
            raise LinAlgError("a matrix is singular") from None

    library.impl("linalg_inv", kernel, override=True)
    found = [one.what for one in outcomes("linalg_inv") if one.area == "errors" and one.status == FAILED]
    assert len(found) == 1 and "names not which item it is" in found[0]


def test_a_right_backend_passes_and_every_dtype_is_compared():
    subject = Subject("loopback", seed=7)
    found = list(run(subject, chosen(("add", "max")), device=False))
    assert [one for one in found if one.status != OK and one.calls] == []
    compared = {one.dtype for one in found if one.operator == "add" and one.area == "forward" and one.calls > 40}
    assert compared == {*subject.dtypes}


def test_a_missing_operator_that_is_not_declared_fails_and_one_that_is_declared_is_a_gap(library):
    library.impl("exp", refuses, override=True)
    found = outcomes("exp")
    assert {one.area for one in found if one.status == FAILED} >= {"forward", "large", "gradient", "inplace", "out"}
    assert all(one.refused for one in found if one.status == FAILED)
    assert "no exp unit" in found[0].what
    found = outcomes("exp", profile=Profile(never={"exp": "the device has no exp unit"}))
    assert {one.status for one in found if one.area == "forward"} == {GAP}
    assert FAILED not in {one.status for one in found}


def test_an_operator_that_works_although_it_is_declared_missing_fails():
    found = outcomes("exp", profile=Profile(not_yet={"exp": "soon"}))
    assert all("take it out of the profile" in one.what for one in found if one.area == "forward" and one.calls)
    assert FAILED in {one.status for one in found}


def test_a_gap_of_one_dtype_leaves_the_others_checked(library):
    def add(x, y):
        if x.dtype == "int32":
            raise NotImplementedError("no 32-bit integers")
        with np.errstate(all="ignore"):
            return np.add(x, y)

    library.impl("add", add, override=True)
    assert {one.dtype for one in outcomes("add") if one.status == FAILED and one.area == "forward"} == {"int32"}
    found = outcomes("add", profile=Profile(never={"add[int32]": "no 32-bit integers"}))
    assert {one.dtype for one in found if one.status == GAP} == {"int32"}
    assert FAILED not in {one.status for one in found}
    assert "float32" in {one.dtype for one in found if one.status == OK}


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("exp:out", "'exp:out': never: no), and it works: take it out of the profile"),
        ("exp:threads", "'exp:threads': never: no), and it works: take it out of the profile"),
        ("exp[float16]", "'exp[float16]': never: no), and it works: take it out of the profile"),
        ("maximum[complex64]", "'maximum[complex64]': never: no), and there is nothing to check of it"),
    ],
)
def test_a_gap_that_is_none_fails(key, says):
    subject = Subject("loopback", profile=Profile(never={key: "no"}))
    found = [one for area in ("forward", "out", "threads") for one in of_area(subject, parts(key)[0], area)]
    assert {says in one.what for one in found if one.status == FAILED} == {True}


def of_area(subject: Subject, name: str, area: str) -> list[Outcome]:
    return list(check(operators()[name], area, subject, gaps_of(subject)))


def test_a_gap_of_an_area_that_an_operator_has_not_is_refused():
    subject = Subject("loopback", profile=Profile(never={"eq:gradient": "no"}))
    with pytest.raises(ArgumentError, match="there is no gradient of eq"):
        list(run(subject, chosen(("exp",)), device=False))


def test_a_quick_run_of_a_device_without_the_usual_dtypes_takes_others_of_each_kind():
    subject = Subject("loopback", quick=True)
    for has, checked in (
        (subject.dtypes, QUICK),
        (("float64", "int64", "bool"), ("float64", "int64", "bool")),
        (("bfloat16", "float64"), ("bfloat16",)),
        (("uint8", "int32", "int16", "complex128"), ("uint8", "int32", "complex128")),
        (("int16", "uint16"), ("int16",)),
    ):
        subject.dtypes = has
        assert {*subject.checked_dtypes} == {*checked}


def test_a_device_without_floating_dtypes_is_checked_in_threads_too():
    subject = Subject("loopback", quick=True)
    subject.dtypes, subject.integer = ("int32", "bool"), "int32"
    found = of_area(subject, "add", "threads")
    assert {(one.dtype, one.status) for one in found} == {("int32", OK), ("bool", OK)}


def test_a_device_whose_dtypes_have_other_names_is_refused(monkeypatch):
    api = Subject("loopback").api
    monkeypatch.setattr(type(api), "dtypes", {"f4": "f4"}, raising=False)
    monkeypatch.setitem(api.__dict__, "dtypes", {"f4": "f4"})
    with pytest.raises(BackendError, match=r"none of TensorPlay's dtypes: bool, uint8.*; its own are \['f4'\]"):
        Subject("loopback")


def test_the_same_seed_finds_the_same(library):
    def mul(x, y):
        return x * y * x.dtype.type(1.001 if x.dtype.kind == "f" else 1)

    library.impl("mul", mul, override=True)
    first, again, other = (outcomes("mul", seed=seed) for seed in (1, 1, 2))
    assert [one.what for one in first] == [one.what for one in again]
    assert [one.what for one in first] != [one.what for one in other]


def test_one_operator_alone_is_given_the_same_inputs(library):
    library.impl("mul", lambda x, y: x + y, override=True)
    alone = outcomes("mul", seed=5)
    among = [one for one in outcomes("exp", "mul", seed=5) if one.operator == "mul"]
    assert alone == among


def test_the_cpu_does_not_stand_in_for_a_missing_kernel(library, monkeypatch):
    monkeypatch.setattr(fallbacks, "mode", "allow")
    library.impl("exp", refuses, override=True)
    assert FAILED in {one.status for one in outcomes("exp")}
    assert fallbacks.mode == "allow"


def test_a_warning_that_reaches_the_user_fails(library):
    def exp(x):
        warnings.warn("slow", RuntimeWarning, stacklevel=1)
        return np.exp(x)

    library.impl("exp", exp, override=True)
    assert any("RuntimeWarning reached the user: slow" in one.what for one in outcomes("exp"))


def test_a_device_may_declare_lesser_accuracy_within_limits(library):
    def exp(x):
        with np.errstate(all="ignore"):
            return np.exp(x) * x.dtype.type(1 + 20 * np.finfo(x.dtype).eps)

    def statuses(**options):
        found = outcomes("exp", **options)
        return {one.status for one in found if one.area == "forward" and one.dtype == "float32"}

    library.impl("exp", exp, override=True)
    assert FAILED in statuses() and FAILED not in statuses(profile=Profile(accuracy=32))
    for accuracy in (0.5, 1000, float("nan")):
        with pytest.raises(ArgumentError, match="a factor of 1 to 64"):
            outcomes("exp", profile=Profile(accuracy=accuracy))


def test_a_profile_with_an_unknown_operator_is_refused_before_anything_runs():
    with pytest.raises(ArgumentError, match="Did you mean 'softmax'"):
        outcomes("add", profile=Profile(never={"sofmax": "no"}))


def test_names_of_operators():
    assert [*chosen(("max",))] == ["max", "max.dim", "max.other"]
    assert [*chosen(("add_", "exp"))] == ["add", "exp"]
    assert [*chosen(())] == [*operators()]
    with pytest.raises(ArgumentError, match="Did you mean 'softmax'"):
        chosen(("sofmax",))


def test_a_seed_is_an_integer():
    with pytest.raises(ArgumentError, match="seed"):
        Subject("loopback", seed="1")  # type: ignore[arg-type]
    assert Subject("loopback").seed != Subject("loopback").seed
