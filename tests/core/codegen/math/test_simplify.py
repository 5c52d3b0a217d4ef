"""Formulas made short: the same value in fewer steps, and a text that parses back to what it is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.math import algebra
from tensorplay_core.codegen.math.numeric import evaluate
from tensorplay_core.codegen.math.simplify import simplified


def short(text: str, *, real: bool = True) -> str:
    return str(simplified(parse_formula(text), real=real))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "x"),
        ("x + x", "2 * x"),
        ("x - x", "0"),
        ("x * y + y * x", "2 * x * y"),
        ("x * y / x", "y"),
        ("x / 6 + (x + 3) / 6", "x / 3 + 1 / 2"),
        ("2 * x * 3", "6 * x"),
        ("0.5 * x * 4", "2.0 * x"),
        ("-x * -y", "x * y"),
        ("-(x - y)", "y - x"),
        ("x * x * x", "x * x * x"),
        ("x ** 2 * x ** 3", "x ** 5"),
        ("x ** -1", "1 / x"),
        ("g * a + g * b", "g * (a + b)"),
        ("1 / v - (v - 1) / v / v", "1 / v / v"),
        ("x * sgn(x)", "abs(x)"),
        ("abs(x) * sgn(x)", "x"),
        ("exp(x + x)", "exp(2 * x)"),
        ("conj(conj(x))", "x"),
        ("where(x > 0, y + y, 0)", "where(x > 0, 2 * y, 0)"),
        ("where(x > 0, y, y)", "y"),
    ],
)
def test_a_formula_becomes_short(text, expected):
    assert short(text) == expected


def test_conjugates_are_kept_for_complex_numbers_and_taken_once():
    assert short("g * conj(x) * conj(exp(x))", real=False) == "g * conj(x * exp(x))"
    assert short("g * (conj(x) + conj(y))", real=False) == "g * conj(x + y)"
    assert short("g * conj(x)", real=True) == "g * x"


def test_numbers_that_overflow_are_infinite():
    assert short("1e300 * x * 1e300") == "inf * x"
    assert short("x / 1e300 / 1e300") == "0.0 * x"


def test_a_long_product_is_not_multiplied_out():
    product = " * ".join(f"(x + {i})" for i in range(1, 31))
    assert short(f"{product} - y * {product}").count("x + ") <= 60


def names():
    return st.sampled_from([ast.Name("x"), ast.Name("y"), *map(algebra.number, (0, 1, 2, 3, -1))])


def formulas():
    return st.recursive(
        names(),
        lambda inner: st.one_of(
            st.builds(ast.Binary, st.sampled_from("+-*/"), inner, inner),
            st.builds(lambda a: ast.Unary("-", a), inner),
            st.builds(lambda a: ast.Call("sigmoid", (a,)), inner),
            st.builds(lambda a: ast.Call("abs", (a,)), inner),
            st.builds(lambda a: ast.Binary("**", a, ast.Number("2")), inner),
            st.builds(
                lambda a, b, c: ast.Call("where", (ast.Compare(">", a, ast.Number("1")), b, c)), inner, inner, inner
            ),
        ),
        max_leaves=10,
    )


@given(formulas(), st.sampled_from([0.75, -1.25, 3.0]), st.sampled_from([0.5, -2.0, 1.5]))
def test_a_short_formula_has_the_same_value(expr, x, y):
    before = evaluate(expr, {"x": x, "y": y})
    after = evaluate(simplified(expr, real=True), {"x": x, "y": y})
    if math.isfinite(before):  # what is 0 / 0 may have become a number
        assert after == pytest.approx(before, rel=1e-9, abs=1e-9)


@given(formulas())
def test_what_is_short_parses_and_stays_as_it_is(expr):
    once = simplified(expr, real=True)
    assert parse_formula(str(once)) == once
