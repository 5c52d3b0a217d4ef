"""Formulas computed at points: as IEEE arithmetic has it, in double precision or rounded to single at each step."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.math import algebra
from tensorplay_core.codegen.math.differentiate import Rule
from tensorplay_core.codegen.math.numeric import FUNCTIONS, evaluate, slopes, values

UNARY = [
    "neg", "abs", "sgn", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu", "conj",
    "real", "clone",
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"]
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan]


def same(a: float, b: float) -> bool:
    return (a != a and b != b) or a == pytest.approx(b, rel=1e-14, abs=0)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number_are_those_of_the_backend(name):
    for x in POINTS:
        expected = float(getattr(tp, name, None)(tp.tensor(x, dtype=tp.float64)).item())
        assert same(evaluate(parse_formula(f"{name}(x)"), {"x": x}), expected), (x, expected)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers_are_those_of_the_backend(name):
    for x in POINTS:
        for y in POINTS:
            if (name, x, y) == ("pow", -math.inf, 0.5):  # NumPy takes the square root, which differs from C's pow here
                continue
            expected = float(getattr(tp, name)(tp.tensor(x, dtype=tp.float64), tp.tensor(y, dtype=tp.float64)).item())
            assert same(evaluate(parse_formula(f"{name}(x, y)"), {"x": x, "y": y}), expected), (x, y, expected)


def test_every_function_is_compared():
    assert set(FUNCTIONS) == {*UNARY, *BINARY, "where"}


def test_signs_and_numbers_of_the_language():
    point = {"x": 3.0, "y": 2.0}
    for text, expected in {
        "x + y * 2": 7.0, "-x / y": -1.5, "x ** y": 9.0, "x > y": 1.0, "pi": math.pi, "-inf": -math.inf,
        "where(x < y, 1, 2)": 2.0, "where(True, x, y)": 3.0,
    }.items():  # fmt: skip
        assert evaluate(parse_formula(text), point) == expected


def test_single_precision_rounds_every_step():
    x = np.float32(0.1)
    expected = (x * x + np.float32(1)) - np.float32(1)
    assert evaluate(parse_formula("x * x + 1 - 1"), {"x": x.item()}, single=True) == expected.item()
    assert evaluate(parse_formula("exp(x)"), {"x": 100.0}, single=True) == math.inf


def test_values_come_in_the_order_of_computation():
    assert [str(expr) for expr in values(parse_formula("x * (y + 1)"), {"x": 1.0, "y": 2.0})] == [
        "x",
        "y",
        "1",
        "y + 1",
        "x * (y + 1)",
    ]


def test_a_slope_is_what_the_engine_computes_zero_times_infinity_included():
    rules = {
        "exp": Rule(("self",), {"self": parse_formula("grad * result")}),
        "where": Rule(
            ("condition", "self", "other"),
            {"self": parse_formula("where(condition, grad, 0)"), "other": parse_formula("where(condition, 0, grad)")},
        ),
        "lt": Rule(("self", "other"), {}),
    }
    formula = parse_formula("where(x < 0, exp(x), 1)")
    assert slopes(formula, {"x": -1.0}, rules.get)["x"] == pytest.approx(math.exp(-1))
    assert slopes(formula, {"x": 1.0}, rules.get)["x"] == 0
    assert math.isnan(slopes(formula, {"x": 1000.0}, rules.get)["x"])
    assert slopes(formula, {"x": 100.0}, rules.get)["x"] == 0
    assert math.isnan(slopes(formula, {"x": 100.0}, rules.get, single=True)["x"])


def test_an_integer_that_no_float_holds_is_infinite():
    assert evaluate(algebra.sub(ast.Name("x"), algebra.number(10**400)), {"x": 1.0}) == -math.inf
