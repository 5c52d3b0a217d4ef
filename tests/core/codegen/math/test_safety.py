"""The search for what makes a derivative unsafe: each kind is found at its place, and nothing where nothing is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.math.differentiate import Rule
from tensorplay_core.codegen.math.safety import Trial, choice_in

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
}


def trial(value: str, gradient: str, constants: dict[str, float] | None = None) -> Trial:
    return Trial(parse_formula(value), {"x": parse_formula(gradient)}, constants or {}, RULES.get)


@pytest.mark.parametrize(
    ("value", "gradient"),
    [
        ("x * x", "2 * grad * x"),
        ("exp(x)", "grad * exp(x)"),
        ("1 / x", "-grad / x / x"),
        ("sqrt(x)", "grad / (2 * sqrt(x))"),
        ("log(x)", "grad / x"),
        ("x / (1 + abs(x))", "grad / (1 + abs(x)) / (1 + abs(x))"),
        ("where(x > 0, x, 0)", "where(x > 0, grad, 0)"),
        ("sin(x)", "grad * cos(x)"),
        ("x * sigmoid(x)", "grad * sigmoid(x) * (1 + x * sigmoid(-x))"),
    ],
)
def test_a_good_derivative_passes(value, gradient):
    assert trial(value, gradient).refusal() is None


@pytest.mark.parametrize(
    ("value", "gradient", "reason"),
    [
        ("tanh(x)", "grad * (1 - tanh(x) * tanh(x))", "cancels: at x = 5 "),
        ("1 / (1 + exp(-x))", "grad * exp(-x) / ((1 + exp(-x)) * (1 + exp(-x)))", "is NaN at x = -1000, where"),
        ("x * x", "grad * (x * x * 2 / x)", "is NaN at x = 0, where the value is 0"),
        ("sin(x) / x", "grad * 0 / x", "removable singularity at x = 0"),
        ("abs(x)", "grad * sgn(x)", "jumps at x = 0, where `abs(x)` has a kink"),
        ("maximum(x, 7)", "where(x > 7, grad, 0)", "jumps at x = 7, where `maximum(x, 7)` has a kink"),
        ("abs(x * x - 2)", "2 * grad * x * sgn(x * x - 2)", "jumps at x = -1.41421, where"),
    ],
)  # fmt: skip
def test_a_bad_one_is_found_with_its_place(value, gradient, reason):
    refusal = trial(value, gradient).refusal()
    assert refusal is not None and reason in refusal.reason


def test_the_arguments_that_are_numbers_take_part():
    good = trial("where(x > alpha, x, alpha)", "where(x > alpha, grad, 0)", {"alpha": 0.125})
    assert good.refusal() is None
    assert {0.125, -0.125} <= {point["x"] for point in good.points()}
    assert all(point["alpha"] == 0.125 for point in good.points())


def test_what_it_cannot_compute_is_not_refused():
    unknown = trial("my_op(x)", "grad * my_slope(x)")
    assert not unknown.can_be_tried() and unknown.refusal() is None
    assert unknown.guarded("x") == (unknown.gradients["x"], None)


def test_a_branch_that_overflows_where_it_is_not_taken_gets_a_guard():
    guarded, refusal = trial("where(x > 0, x, exp(x))", "where(x > 0, grad, grad * exp(x))").guarded("x")
    assert refusal is None
    assert str(guarded) == "where(x > 0, grad, grad * exp(where(x > 0, 0, x)))"


def test_a_branch_that_is_finite_gets_none():
    gradient = "where(x > 0, grad, grad * x)"
    assert str(trial("where(x > 0, x, x * x / 2)", gradient).guarded("x")[0]) == gradient


def test_a_division_by_zero_in_the_other_branch_gets_a_guard_that_divides_by_none():
    guarded, refusal = trial("where(x > 0, log(x), 0)", "where(x > 0, grad / x, 0)").guarded("x")
    assert refusal is None
    assert str(guarded) == "where(x > 0, grad / where(x > 0, x, 1), 0)"


def test_choices_are_seen_in_the_formula_at_their_place():
    found = choice_in(parse_formula("x + where(x == 1, 2, x)"), ("x",), takes_complex=False)
    assert found is not None and found.position == 10 + 2
    assert choice_in(parse_formula("where(y == 1, 2, x)"), ("x",), takes_complex=False) is None
    assert choice_in(parse_formula("abs(x)"), ("x",), takes_complex=True) is not None
    assert choice_in(parse_formula("abs(x)"), ("x",), takes_complex=False) is None
    assert choice_in(parse_formula("exp(x) * x"), ("x",), takes_complex=True) is None


def test_points_are_exact_in_single_precision():
    for point in trial("x * 0.1", "grad * 0.1").points():
        assert math.isinf(point["x"]) or np.float32(point["x"]).item() == point["x"]
