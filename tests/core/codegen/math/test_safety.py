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
        ("sin(3.7 * x)", "3.7 * grad * cos(3.7 * x)"),  # at 1e10 float32 knows nothing of the angle
        ("log(abs(x))", "grad * sgn(x) / abs(x)"),  # NaN at the pole alone
        ("abs(x) ** 1.5", "1.5 * grad * abs(x) ** 0.5 * sgn(x)"),  # steep at the kink, and no jump
        ("log1p(x * x)", "2 * grad * x / (1 + x * x)"),  # 0 where the formula itself is infinite in float32
        ("where(abs(x) < 2, x * x, 4 * abs(x) - 4)", "where(abs(x) < 2, 2 * grad * x, 4 * grad * sgn(x))"),
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
        ("x * sgn(x)", "grad * sgn(x)", "jumps at x = 0, where `sgn(x)` has a kink"),
        ("x / x", "0", "removable singularity at x = 0"),
        ("(x - 0.3) / (x - 0.3)", "0", "removable singularity at x = 0.3"),
        ("x / (1 + x * x)", "grad * (1 - 2 * x * x / (1 + x * x)) / (1 + x * x)", "is NaN in float32 at x = 1e+30"),
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


def test_a_function_of_two_is_no_number_where_it_is_defined_at_single_points():
    rules = {**RULES, "pow": None}
    power = Trial(
        parse_formula("x ** y"),
        {"x": parse_formula("grad * y * x ** (y - 1)"), "y": parse_formula("grad * x ** y * log(x)")},
        {},
        rules.get,
    )
    refusal = power.refusal()
    assert refusal is not None and "is NaN at x = 0, y = 0, where the value is 1" in refusal.reason  # not x = -1, y = 2


def test_a_kink_between_two_inputs_is_found_away_from_the_points():
    found = Trial(
        parse_formula("abs(x - 2 * y + 0.3)"),
        {"x": parse_formula("grad * sgn(x - 2 * y + 0.3)"), "y": parse_formula("-2 * grad * sgn(x - 2 * y + 0.3)")},
        {},
        RULES.get,
    ).refusal()
    assert found is not None and "has a kink" in found.reason


def test_what_it_cannot_compute_is_not_refused():
    unknown = trial("my_op(x)", "grad * my_slope(x)")
    assert not unknown.can_be_tried() and unknown.refusal() is None


def test_choices_are_seen_in_the_formula_at_their_place():
    found = choice_in(parse_formula("x + where(x == 1, 2, x)"), ("x",), takes_complex=False)
    assert found is not None and found.position == 10 + 2
    assert choice_in(parse_formula("where(y == 1, 2, x)"), ("x",), takes_complex=False) is None
    assert choice_in(parse_formula("abs(x)"), ("x",), takes_complex=True) is not None
    assert choice_in(parse_formula("abs(x)"), ("x",), takes_complex=False) is None
    assert choice_in(parse_formula("exp(x) * x"), ("x",), takes_complex=True) is None


def test_points_are_exact_in_single_precision_or_numbers_of_the_formula():
    points = {point["x"] for point in trial("x * 0.1", "grad * 0.1").points()}
    assert {0.1, -0.1, np.float32(0.1).item()} <= {*points}
    for x in points - {0.1, -0.1}:
        assert math.isfinite(x) and np.float32(x).item() == x


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
def test_the_points_of_many_inputs_are_few_and_reach_far_in_each(count):
    names = [f"x{i}" for i in range(count)]
    expr = parse_formula(" + ".join(names) + " + 0.7")
    points = Trial(expr, {name: parse_formula("grad") for name in names}, {}, RULES.get).points()
    assert len(points) < 2000
    for name in names:
        assert {1e-30, -1e-5, 0.0, 0.7, 40.0, -1e30} <= {float(f"{point[name]:.6g}") for point in points}
