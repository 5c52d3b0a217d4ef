"""The chain rule over records: every path counts, `result` is used where it is known, and what has no rule says so."""

from __future__ import annotations

import pytest

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.math.differentiate import NoRule, Rule, depends, gradients, substituted

GRAD = ast.Name("grad")
RULES = {
    "add": Rule(
        ("self", "other", "alpha"),
        {"self": GRAD, "other": parse_formula("grad if alpha == 1 else grad * alpha")},
        {"alpha": ast.Number("1")},
    ),
    "mul": Rule(("self", "other"), {"self": parse_formula("grad * other"), "other": parse_formula("grad * self")}),
    "exp": Rule(("self",), {"self": parse_formula("grad * result")}),
    "tanh": Rule(("self",), {"self": parse_formula("grad * (1 - result * result)")}),
    "where": Rule(
        ("condition", "self", "other"),
        {"self": parse_formula("where(condition, grad, 0)"), "other": parse_formula("where(condition, 0, grad)")},
    ),
    "gt": Rule(("self", "other"), {}),
    "odd": Rule(("self",), {"self": parse_formula("grad.sum(self.shape)")}),
    "needy": Rule(("self", "mode"), {"self": parse_formula("grad if mode else 0")}),
}


def derivative(text: str, *inputs: str, result: bool = False) -> dict[str, str]:
    expr = parse_formula(text)
    known: dict[Expr, Expr] = {expr: ast.Name("result")} if result else {}
    found = gradients({expr: GRAD}, inputs or ("x",), RULES.get, known)
    return {name: str(gradient) for name, gradient in found.items()}


def test_every_path_to_an_input_counts():
    assert derivative("x * x") == {"x": "grad * x + grad * x"}
    assert derivative("x * exp(x)") == {"x": "grad * exp(x) + grad * x * exp(x)"}


def test_a_common_part_is_differentiated_once():
    assert derivative("exp(x) * exp(x)") == {"x": "(grad * exp(x) + grad * exp(x)) * exp(x)"}


def test_the_whole_is_result():
    assert derivative("exp(x)", result=True) == {"x": "grad * result"}
    assert derivative("tanh(exp(x))", result=True) == {"x": "grad * (1 - result * result) * exp(x)"}


def test_several_inputs_and_one_that_takes_no_part():
    assert derivative("x * y", "x", "y", "z") == {"x": "grad * y", "y": "grad * x", "z": "0"}


def test_defaults_of_a_rule_decide_its_conditions():
    assert derivative("x + y", "x", "y") == {"x": "grad", "y": "grad"}


def test_each_branch_of_a_gradient_goes_through_a_rule_alone():
    assert derivative("where(x > 0, exp(x), 1)") == {"x": "where(x > 0, grad * exp(x), 0)"}


def test_a_condition_passes_nothing_back():
    assert derivative("where(x > 0, y, 1)", "x", "y") == {"x": "0", "y": "where(x > 0, grad, 0)"}


@pytest.mark.parametrize(
    ("text", "operator", "reason"),
    [
        ("sin(x)", "sin", "has no derivative record"),
        ("odd(x)", "odd", "has a derivative that computes `self.shape`"),
        ("needy(x)", "needy", "has a derivative that reads 'mode'"),
    ],
)
def test_what_has_no_usable_rule_says_which_and_why(text, operator, reason):
    with pytest.raises(NoRule) as caught:
        derivative(text)
    assert (caught.value.operator, caught.value.reason) == (operator, reason)


def test_no_rule_is_needed_for_what_does_not_depend_on_an_input():
    assert derivative("x * sin(y)") == {"x": "grad * sin(y)"}


def test_substitution_asks_conditions_of_literals_and_keeps_those_of_numbers():
    formula = parse_formula("grad if alpha == 1 else grad * alpha")
    assert str(substituted(formula, {"grad": GRAD, "alpha": ast.Number("3")}, "f")) == "grad * 3"
    known = {"grad": GRAD, "alpha": ast.Name("beta")}
    assert str(substituted(formula, known, "f")) == "where(beta == 1, grad, grad * beta)"


def test_an_argument_named_result_is_not_the_result():
    rules = {"f": Rule(("result",), {"result": parse_formula("grad * result")})}
    found = gradients({parse_formula("f(x)"): GRAD}, ("x",), rules.get, {})
    assert str(found["x"]) == "grad * x"


def test_depends_looks_everywhere():
    assert depends(parse_formula("f(1 + g(x))"), ("x",)) and not depends(parse_formula("f(y)"), ("x",))
