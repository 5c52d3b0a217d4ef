"""Long formulas broken into lines: the same formula, in lines that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.layout import layout
from tensorplay_core.codegen.formula.parser import parse_formula


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a + b", 80, ["a + b"]),
        ("a + b * c - d", 8, ["a", "+ b * c", "- d"]),
        ("a * (b + c)", 8, ["a", "* (", "    b", "    + c", ")"]),
        ("f(a, b, c=d)", 8, ["f(", "    a,", "    b,", "    c=d,", ")"]),
        ("x.f(a, b)", 6, ["x.f(", "    a,", "    b,", ")"]),
        ("(a + b).conj()", 8, ["(", "    a", "    + b", ").conj()"]),
        ("aaa if bbb else ccc", 9, ["aaa", "if bbb", "else ccc"]),
        ("a - (b - c)", 10, ["a", "- (b - c)"]),
    ],
)
def test_where_a_formula_is_broken(text, width, lines):
    assert layout(parse_formula(text), width) == lines


names = st.builds(ast.Name, st.sampled_from(["grad", "self", "other_1"]))
trees = st.recursive(
    names | st.integers(0, 99).map(lambda value: ast.Number(repr(value))),
    lambda expr: st.one_of(
        st.builds(ast.Binary, st.sampled_from(["+", "-", "*", "/", "**", "@"]), expr, expr),
        st.builds(ast.Unary, st.sampled_from(["-", "not"]), expr),
        st.builds(ast.Conditional, expr, expr, expr),
        st.builds(ast.Call, st.just("where"), st.lists(expr, min_size=1, max_size=3).map(tuple)),
        st.builds(ast.Method, expr, st.just("sum"), st.lists(expr, max_size=2).map(tuple)),
        st.builds(lambda a, b: ast.Call("f", (a,), (("dim", b),)), expr, expr),
    ),
    max_leaves=15,
)


@given(trees, st.integers(8, 40))
def test_lines_are_the_same_formula(expr, width):
    assert parse_formula(" ".join(line.strip() for line in layout(expr, width)).replace(", )", ")")) == expr
