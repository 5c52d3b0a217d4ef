"""From ``math`` to a program: which steps it has, and the exact message for whatever it cannot say."""

# ruff: noqa: E501 (messages stand as they are)

from __future__ import annotations

import math

import pytest

from tensorplay_core.codegen.contract import Contract, NativeFunction, Source, load_contract
from tensorplay_core.codegen.math.lower import text_of
from tensorplay_core.errors import ContractError
from tensorplay_core.types.program import Program

FILE = "native_functions_test.yaml"


def load(
    contract: Contract, math: str, func: str = "my::f(Tensor self) -> Tensor", more: str = "tags: real"
) -> NativeFunction:
    record = f"- func: {func}\n  math: {math}\n  {more}"
    return load_contract([Source(FILE, record)], known=contract, helpers=("zeros_like",)).functions[0]


def error(contract: Contract, math: str, func: str = "my::f(Tensor self) -> Tensor", more: str = "tags: real") -> str:
    with pytest.raises(ContractError) as caught:
        load(contract, math, func, more)
    return str(caught.value)


def steps(contract: Contract, math: str, func: str = "my::f(Tensor self) -> Tensor") -> list[str]:
    program = load(contract, math, func).program
    assert program is not None
    return str(program).splitlines()


def test_one_step_for_each_operator_and_common_ones_once(contract):
    assert steps(contract, "exp(self) / (1 + exp(self)) * self.sigmoid()") == [
        "t0 = exp(self)",
        "t1 = add(1, t0)",
        "t2 = div(t0, t1)",
        "t3 = sigmoid(self)",
        "t4 = mul(t2, t3)",
        "return t4",
    ]


def test_operators_that_are_made_of_math_are_written_out(contract):
    assert steps(contract, "silu(-self)") == ["t0 = neg(self)", "t1 = sigmoid(t0)", "t2 = mul(t0, t1)", "return t2"]
    assert steps(contract, "leaky_relu(self, negative_slope=0.5)") == [
        "t0 = gt(self, 0)",
        "t1 = mul(self, 0.5)",
        "t2 = where(t0, self, t1)",
        "return t2",
    ]


def test_numbers_are_computed_when_the_program_is_made(contract):
    assert steps(contract, "self * (2 * pi)") == ["t0 = mul(self, 6.283185307179586)", "return t0"]
    assert steps(contract, "self * sqrt(2 / pi)") == [f"t0 = mul(self, {math.sqrt(2 / math.pi)!r})", "return t0"]
    assert steps(contract, "self ** (2 ** 3)") == ["t0 = pow(self, 8)", "return t0"]
    assert steps(contract, "self * 9 ** 9 ** 9 ** 9") == ["t0 = mul(self, inf)", "return t0"]
    assert steps(contract, "where(1 < 2, self, nan) + where(False, 1, 2)") == ["t0 = add(self, 2)", "return t0"]
    assert steps(contract, "where(silu(1) > 0, self, 0) * silu(1)") == [
        f"t0 = mul(self, {1 / (1 + math.exp(-1))!r})",
        "return t0",
    ]
    assert steps(contract, "self * -0.0") == ["t0 = mul(self, -0.0)", "return t0"]
    assert steps(contract, "elu(1) > 0") == ["return True"]
    assert steps(contract, "self * 1 + 0 * self") == ["t0 = mul(0, self)", "t1 = add(self, t0)", "return t1"]


def test_arithmetic_on_number_arguments_is_done_apart(contract):
    program = load(contract, "self * (2 * alpha + 1)", "my::f(Tensor self, *, Scalar alpha=3) -> Tensor").program
    assert program is not None
    assert (program.inputs, program.keywords, program.numbers) == (("self",), (("alpha", 3),), ("alpha",))
    assert program.scalar_steps == (("t0", "mul", 2, "alpha"), ("t1", "add", "t0", 1))
    assert program.steps == (("t2", "mul", "self", "t1"),)


def test_names_of_steps_keep_clear_of_the_arguments(contract):
    assert steps(contract, "t0 * t0 + t1", "my::f(Tensor t0, Tensor t1) -> Tensor")[:2] == [
        "t2 = mul(t0, t0)",
        "t3 = add(t2, t1)",
    ]


def test_several_results(contract):
    program = load(
        contract, "[r * cos(phi), r * sin(phi)]", "my::polar(Tensor r, Tensor phi) -> (Tensor x, Tensor y)"
    ).program
    assert program is not None
    assert program.results == ("t1", "t3") and program.operators() == {"cos", "sin", "mul"}


def test_the_text_of_a_program_makes_it_again(contract):
    program = load(
        contract, "where(self > alpha, nan, self * inf)", "my::f(Tensor self, *, Scalar alpha=3) -> Tensor"
    ).program
    assert program is not None
    again = eval("dict(" + "\n".join(text_of(program)) + ")", {"Program": Program})["math"]
    assert str(again) == str(program) and again.steps[-1][3] != again.steps[-1][3]


def test_rules_follow_from_the_formula(contract):
    function = load(contract, "self * sigmoid(self)")
    assert (function.shape, function.promote, function.composite) == ("same", "float", "explicit")
    assert function.tags == ("real", "pointwise")
    function = load(contract, "self * other", "my::f(Tensor self, Tensor other) -> Tensor")
    assert (function.shape, function.promote) == ("broadcast", "default")
    assert load(contract, "self * self").promote == "keep"
    assert load(contract, "self * 0.5").promote == "float"
    assert load(contract, "self / 2").promote == "float"
    assert load(contract, "self > 2").promote == "bool"
    assert load(contract, "self * slope", "my::f(Tensor self, Scalar slope=0.5) -> Tensor").promote == "float"
    assert load(contract, "self * self", more="promote: float\n  shape: broadcast").shape == "broadcast"


ONE = "my::f(Tensor self) -> Tensor"
ERRORS = {
    "self * sigmoyd(self)": "'sigmoyd' is no operator of the contract. Did you mean 'sigmoid' or 'logsigmoid' or 'log_sigmoid'?",
    "slef * 2": "no input is named 'slef'. Did you mean 'self'?",
    "x * 2": "no input is named 'x'. Its inputs are self.",
    "sum(self)": "'sum' is not pointwise, so `math` cannot use it",
    "self @ self": "`self @ self` is not pointwise; `math` has + - * / **, comparisons and pointwise operators",
    "self % 2": "`self % 2` is not pointwise; `math` has + - * / **, comparisons and pointwise operators",
    "self[0]": "`self[0]` is not pointwise; `math` has + - * / **, comparisons and pointwise operators",
    "self.shape": "`self.shape` is not pointwise; `math` has + - * / **, comparisons and pointwise operators",
    "self if self > 0 else 0": "`a if c else b` is for Python values; write where(c, a, b)",
    "self > 0 and self < 1": "`and`, `or` and `not` are for Python values; nest where(c, a, b)",
    "where(self, 1, 2)": "the condition of where is a comparison",
    "exp(self, self)": "'exp' does not take these arguments: it is exp(Tensor self) -> Tensor",
    "maximum(self)": "'maximum' lacks 'other': it is maximum(Tensor self, Tensor other) -> Tensor",
    "add(self, self, alpha=2)": "'add' in `math` leaves alpha at its default",
    "f(self)": "'my::f' is defined by itself",
    "elu(self, alpha=self)": "'elu' takes a number as alpha, and `self` is a tensor",
    "elu(self, 2 * (self + 1))": "'elu' takes a number as alpha, and `self` is a tensor",
    "grad * self": "no input is named 'grad'. Its inputs are self.",
}


@pytest.mark.parametrize("math", ERRORS)
def test_what_math_cannot_say_is_told_with_a_caret(contract, math):
    message = error(contract, math)
    assert message.splitlines()[0] == f"{FILE}:2: {ERRORS[math]}"
    assert message.splitlines()[1] == f"  2 |   math: {math}" and "^" in message.splitlines()[2]


@pytest.mark.parametrize(
    ("math", "func", "more", "expected"),
    [
        ("self * exp(-alpha)", "my::f(Tensor self, Scalar alpha=1) -> Tensor", "tags: real", "`exp(-alpha)` is a function of a number alone, and of numbers `math` has + - * / ** only"),
        ("self * mode", "my::f(Tensor self, str mode) -> Tensor", "tags: real", "'mode' is a str; `math` computes with tensors and numbers"),
        ("self * 2", 'my::f(Tensor self, str mode="x") -> Tensor', "tags: real", "'mode' is a str; `math` computes with tensors and numbers"),
        ("self * 2", "my::f(Tensor self, Tensor? weight=None) -> Tensor", "tags: real", "'weight' is a Tensor?; `math` computes with tensors and numbers"),
        ("alpha * 2", "my::f(Scalar alpha) -> Tensor", "tags: real", "'my::f' has no tensor; `math` is computed element by element"),
        ("[self, self]", ONE, "tags: real", "math has 2 formulas, 'f' has 1 result"),
        ("self", "my::f(Tensor self) -> (Tensor, Tensor)", "tags: real", "math has 1 formula, 'f' has 2 results"),
        ("self * 2", ONE, "composite: implicit", "'my::f' has `math`, so its Composite kernel is explicit, not implicit"),
        ("exp(self)", ONE, "promote: keep", "`exp(self)` computes in floats, so integers must become floats; the record says `promote: keep`"),
        ("self * 2", ONE, "promote: bool", "`math` gives numbers; the record says `promote: bool`"),
        ("self > 2", ONE, "promote: float", "`math` gives bool; the record says `promote: float`"),
        ("[self > 2, self]", "my::f(Tensor self) -> (Tensor a, Tensor b)", "tags: real", "some results are comparisons and some are not; make them two operators"),
    ],
)  # fmt: skip
def test_a_record_that_its_formula_contradicts(contract, math, func, more, expected):
    assert error(contract, math, func, more).splitlines()[0] == f"{FILE}:2: {expected}"


def test_operators_that_are_defined_by_each_other(contract):
    record = (
        "- func: my::f(Tensor self) -> Tensor\n  math: g(self)\n- func: my::g(Tensor self) -> Tensor\n  math: f(self)"
    )
    with pytest.raises(ContractError, match="these operators are defined by each other: my::f -> my::g -> my::f"):
        load_contract([Source(FILE, record)], known=contract)
