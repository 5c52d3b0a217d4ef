"""Guards: a branch that is not taken stays finite when a derivative is differentiated again."""

from __future__ import annotations

import pytest

from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.math.differentiate import Rule
from tensorplay_core.codegen.math.guards import guarded
from tensorplay_core.codegen.math.numeric import slopes
from tensorplay_core.codegen.math.safety import Trial

RULES = {
    "mul": Rule(("self", "other"), {"self": parse_formula("grad * other"), "other": parse_formula("grad * self")}),
    "exp": Rule(("self",), {"self": parse_formula("grad * result")}),
    "log": Rule(("self",), {"self": parse_formula("grad / self")}),
    "div": Rule(
        ("self", "other"),
        {"self": parse_formula("grad / other"), "other": parse_formula("-grad * (self / other / other)")},
    ),
    "where": Rule(
        ("condition", "self", "other"),
        {"self": parse_formula("where(condition, grad, 0)"), "other": parse_formula("where(condition, 0, grad)")},
    ),
    "gt": Rule(("self", "other"), {}),
    "lt": Rule(("self", "other"), {}),
    "add": Rule(("self", "other"), {"self": parse_formula("grad"), "other": parse_formula("grad")}),
}


def trial(value: str, gradient: str, constants: dict[str, float] | None = None) -> Trial:
    return Trial(parse_formula(value), {"x": parse_formula(gradient)}, constants or {}, RULES.get)


def test_a_branch_that_overflows_where_it_is_not_taken_gets_a_guard():
    found, refusal = guarded(trial("where(x > 0, x, exp(x))", "where(x > 0, grad, grad * exp(x))"), "x")
    assert refusal is None
    assert str(found) == "where(x > 0, grad, grad * exp(where(x > 0, 0, x)))"


def test_a_branch_that_is_finite_gets_none():
    gradient = "where(x > 0, grad, grad * x)"
    assert str(guarded(trial("where(x > 0, x, x * x / 2)", gradient), "x")[0]) == gradient


def test_a_division_by_zero_in_the_other_branch_gets_a_guard_that_divides_by_none():
    found, refusal = guarded(trial("where(x > 0, log(x), 0)", "where(x > 0, grad / x, 0)"), "x")
    assert refusal is None
    assert str(found) == "where(x > 0, grad / where(x > 0, x, 1), 0)"


def test_branches_of_one_condition_get_guards_together():
    gradient = "where(x > 20, x, exp(x)) * where(x > 20, grad, grad * exp(x))"
    found, refusal = guarded(trial("where(x > 20, x * x / 2, exp(2 * x) / 2)", gradient), "x")
    assert refusal is None
    assert str(found) == gradient.replace("exp(x)", "exp(where(x > 20, 0, x))")


def test_conditions_in_a_branch_keep_their_inputs():
    nested = "where(x > 0, grad, where(x > -1, grad * exp(x), grad / x))"
    found, refusal = guarded(trial("where(x > 0, x, where(x > -1, exp(x), log(x)))", nested), "x")
    assert refusal is None
    assert "where(x > -1, " in str(found) and "> -1" not in str(found).replace("x > -1", "")


def test_a_branch_that_overflows_in_float32_alone_gets_a_guard_too():
    gradient = "where(x < 5, grad * x * x * x, 0)"
    found, refusal = guarded(trial("where(x < 5, x * x * x * x / 4, 0)", gradient), "x")
    assert refusal is None
    assert str(found) == "where(x < 5, grad * where(x < 5, x, 0) * where(x < 5, x, 0) * where(x < 5, x, 0), 0)"
    assert slopes(found, {"x": 1e30, "grad": 1.0}, RULES.get, single=True)["x"] == 0


def test_what_no_guard_helps_is_refused_with_the_place():
    kept, refusal = guarded(trial("x", "grad / (1 + exp(-1 * x))"), "x")
    assert refusal is not None and refusal.reason == "its second derivative is NaN at x = -1000, and need not be"
    assert str(kept) == "grad / (1 + exp(-1 * x))"


@pytest.mark.parametrize("text", ["my_op(x)", "x * my_op(x)"])
def test_what_cannot_be_computed_stays_as_it_is(text):
    unknown = trial(text, "grad * my_slope(x)")
    assert guarded(unknown, "x") == (unknown.gradients["x"], None)
