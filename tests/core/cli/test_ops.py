"""``tensorplay ops show``: what it says of an operator that is one line of math, and of autocast."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from tensorplay_core.cli import main
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.types.program import Program


def shown(name: str) -> str:
    result = CliRunner().invoke(main, ["ops", "show", name, "--no-load"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def data(name: str) -> Any:
    result = CliRunner().invoke(main, ["ops", "show", name, "--no-load", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_formula_is_as_the_contract_has_it() -> None:
    for name in ("silu", "silu_"):
        assert data(name)["formula"] == "self * sigmoid(self)"
        assert "formula: self * sigmoid(self)" in shown(name)
    assert data("silu")["doc"].startswith("``x * sigmoid(x)``")
    selu = data("selu")["formula"]  # longer than a line of the docstring that it is read from
    assert (
        selu.startswith("where(self > 0, 1.05070098735548049") and selu.endswith("* expm1(self))") and "  " not in selu
    )


def test_an_operator_that_is_no_formula_has_none() -> None:
    assert data("add")["formula"] is None and "formula" not in shown("add")


def test_an_operator_without_a_docstring_shows_its_steps() -> None:
    steps = (("t0", "sigmoid", "self"), ("t1", "mul", "self", "t0"))
    op = REGISTRY.define(
        Operator("shown::swish(Tensor self) -> Tensor", math=Program(("self",), (), (), (), steps, ("t1",)))
    )
    try:
        assert data("shown::swish")["formula"] == "t0 = sigmoid(self); t1 = mul(self, t0); return t1"
    finally:
        REGISTRY.remove(op)


def test_the_kernel_of_an_autocast_policy_is_among_the_kernels() -> None:
    text = shown("matmul")
    assert (
        "autocast: lower_precision_fp" in text and "Autocast: autocast_lower_precision_fp from tensorplay-core" in text
    )


def test_a_derivative_is_shown_whole_and_whether_it_was_found() -> None:
    derivatives = {d.function.name: d for d in CodegenContext.load().contract.derivatives}
    (formula,) = derivatives["mish"].formulas  # longer than a line of the docstring that it is read from
    assert len(str(formula.expr)) > 120
    for name in ("mish", "mish_"):
        assert data(name)["gradients"] == [f"self: {formula.expr}"] and data(name)["symbolic"]
        assert f"gradients, found from the formula self: {formula.expr}" in shown(name)
    for name in ("softplus", "exp"):
        assert data(name)["gradients"] and not data(name)["symbolic"]
        assert "gradients self: " in shown(name)
