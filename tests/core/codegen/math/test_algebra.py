"""Algebra on formulas: laws that hold whatever the numbers are, and never at the cost of a NaN."""

from __future__ import annotations

import pytest

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.math import algebra

X, Y = ast.Name("x"), ast.Name("y")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (algebra.mul(X, algebra.ZERO), "0"),
        (algebra.mul(algebra.ONE, X), "x"),
        (algebra.add(algebra.ZERO, X), "x"),
        (algebra.sub(X, algebra.neg(Y)), "x + y"),
        (algebra.div(algebra.ZERO, X), "0"),
        (algebra.neg(algebra.neg(X)), "x"),
        (algebra.power(X, algebra.ONE), "x"),
        (algebra.compare("<", algebra.ONE, algebra.number(2)), "True"),
        (algebra.compare("==", parse_formula("1 / 3"), algebra.ZERO), "False"),
        (algebra.number(-0.0), "-0.0"),
        (algebra.where(ast.Constant("False"), X, Y), "y"),
    ],
)
def test_literals_are_computed_when_a_formula_is_made(made, expected):
    assert str(made) == expected


def test_a_product_goes_into_a_where_that_has_a_zero_and_the_zero_absorbs_it():
    condition = parse_formula("x > 0")
    inner = algebra.where(condition, X, algebra.ZERO)
    assert str(algebra.mul(inner, Y)) == "where(x > 0, x * y, 0)"
    assert str(algebra.div(inner, Y)) == "where(x > 0, x / y, 0)"
    assert str(algebra.neg(inner)) == "where(x > 0, -x, 0)"
    assert str(algebra.add(inner, algebra.where(condition, algebra.ZERO, Y))) == "where(x > 0, x, y)"
    assert str(algebra.mul(algebra.where(condition, X, Y), Y)) == "where(x > 0, x, y) * y"


def test_what_both_branches_ask_is_asked_once():
    a, b = parse_formula("x > 0"), parse_formula("x < 9")
    made = algebra.where(b, algebra.where(a, algebra.ZERO, X), algebra.where(a, algebra.ZERO, Y))
    assert str(made) == "where(x > 0, 0, where(x < 9, x, y))"


def test_a_call_as_it_stands_keeps_what_could_be_nan():
    assert str(algebra.plain("mul", (X, algebra.ZERO))) == "x * 0"
    assert str(algebra.plain("add", (X, algebra.ZERO))) == "x + 0"
    assert str(algebra.plain("div", (X, algebra.ONE))) == "x"
    assert str(algebra.plain("sub", (algebra.ONE, algebra.number(3)))) == "-2"
    assert str(algebra.plain("lt", (X, algebra.ONE))) == "x < 1"
