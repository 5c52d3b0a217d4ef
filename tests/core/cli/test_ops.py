"""``tensorplay ops show``: what it says of an operator that is one line of math, and of autocast."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import tensorplay as tp
from tensorplay_core.cli import main
from tensorplay_core.cli.backends import coverage
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.dispatch.library import Library
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


def test_an_opt_out_of_composite_is_shown_with_whose_it_is_and_in_the_coverage() -> None:
    lib = Library("tp", "IMPL", "CPU")
    try:
        lib.without_composite("linear")
        (one,) = data("linear")["opted_out_of_composite"]
        assert (one["slot"], one["key"], one["owner"], one["version"]) == ("CPU", 0, __name__, None)
        assert one["where"].startswith(f"{__file__}:")
        assert f"CPU (0): opted out of Composite by {__name__.partition('.')[0]} " in shown("linear")
        assert coverage(0)["opted_out_of_composite"] == {"linear": __name__.partition(".")[0]}
    finally:
        lib.close()
    assert data("linear")["opted_out_of_composite"] == [] and coverage(0)["opted_out_of_composite"] == {}


@pytest.mark.parametrize("columns", [80, 160])
def test_a_stack_is_readable_at_any_width(columns: int) -> None:
    tp.ones(1)
    lib = Library("tp", "IMPL", "CPU")
    try:
        lib.impl("add", lambda self, other: self, override=True)
        result = CliRunner().invoke(main, ["ops", "show", "add"], env={"COLUMNS": str(columns)})
        lines = result.stdout.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("  CPU (0): "))
        top, where, beneath, below = lines[start : start + 4]
        assert top.endswith(" [wins, override, registered at run time]") and where.strip().startswith("test_ops.py:")
        assert beneath == f"      beneath it: numpy.add from tensorplay-cpu {tp.__version__}"
        assert below.startswith("          tensorplay_cpu/plugin.py:") and max(map(len, lines)) <= columns
        assert not any("[wins" in line for line in lines[start + 2 :])  # said only where there is something beneath
    finally:
        lib.close()
