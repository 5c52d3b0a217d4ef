"""Derivatives that nobody wrote: what is found, that it is right, and what is refused with which reason."""

# ruff: noqa: E501 (messages stand as they are)

from __future__ import annotations

import math
import time

import pytest

from tensorplay_core.codegen.contract import Contract, Source, load_contract
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.math.numeric import evaluate
from tensorplay_core.errors import ContractError


def load(contract: Contract, record: str, derivatives: str = "") -> Contract:
    files = [Source("native_functions_test.yaml", record), Source("derivatives_test.yaml", derivatives)]
    return load_contract(files, known=contract, helpers=("zeros_like",))


def found(
    contract: Contract, text: str, *, func: str = "my::f(Tensor self) -> Tensor", tags: str = "real"
) -> dict[str, str]:
    (derivative,) = load(contract, f"- func: {func}\n  math: {text}\n  tags: [{tags}]").derivatives
    assert derivative.symbolic
    return {key: str(expr) for key, expr in derivative.expressions.items()}


def refusal(contract: Contract, text: str, *, func: str = "my::f(Tensor self) -> Tensor", tags: str = "real") -> str:
    with pytest.raises(ContractError) as caught:
        load(contract, f"- func: {func}\n  math: {text}\n  tags: [{tags}]")
    return str(caught.value)


DERIVATIVES = {
    "self * sigmoid(self)": "grad * sigmoid(self) * (self * sigmoid(-self) + 1)",
    "self / (1 + abs(self))": "grad / (abs(self) + 1) / (abs(self) + 1)",
    "exp(self)": "grad * result",
    "exp(self * 2) + 1": "2 * grad * exp(2 * self)",
    "self ** 3": "3 * grad * self * self",
    "self ** 2.5": "2.5 * grad * self ** 1.5",
    "where(self > 0, log(self), 0)": "where(self > 0, grad / where(self > 0, self, 1), 0)",
    "log(sigmoid(self))": "grad * sigmoid(-self)",
    "where(self <= -3, 0, where(self >= 3, self, self * (self + 3) / 6))": "where(self <= -3, 0, where(self >= 3, grad, grad * (self / 3 + 1 / 2)))",
    "where(self > 1, 2, 3)": "zeros_like(grad)",
    "sin(self) * cos(self)": "grad * (cos(self) * cos(self) - sin(self) * sin(self))",
}


@pytest.mark.parametrize("text", DERIVATIVES)
def test_a_derivative_is_found_and_short(contract, text):
    assert found(contract, text) == {"self": DERIVATIVES[text]}


@pytest.mark.parametrize("text", DERIVATIVES)
@pytest.mark.parametrize("x", [-7.5, -2.25, 0.75, 2.0, 6.5])
def test_it_is_the_slope(contract, text, x):
    def value(at: float) -> float:
        return evaluate(parse_formula(text), {"self": at})

    slope = (value(x + 1e-6) - value(x - 1e-6)) / 2e-6
    gradient = parse_formula(found(contract, text)["self"].replace("zeros_like(grad)", "0"))
    got = evaluate(gradient, {"self": x, "grad": 1.0, "result": value(x)})
    if math.isfinite(slope):
        assert got == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_every_input_has_its_own(contract):
    func = "my::f(Tensor self, Tensor other, *, Scalar alpha=2) -> Tensor"
    assert found(contract, "self * exp(other) * alpha", func=func) == {
        "self": "grad * alpha * exp(other)",
        "other": "grad * alpha * self * exp(other)",
    }


def test_several_results_add_up(contract):
    record = "- func: my::polar(Tensor r, Tensor phi) -> (Tensor x, Tensor y)\n  tags: real\n  math: [r * cos(phi), r * sin(phi)]"
    (derivative,) = load(contract, record).derivatives
    assert {key: str(expr) for key, expr in derivative.expressions.items()} == {
        "r": "grads[1] * sin(phi) + grads[0] * cos(phi)",
        "phi": "r * (grads[1] * cos(phi) - grads[0] * sin(phi))",
    }


def test_complex_operands_get_conjugates_and_real_ones_none(contract):
    assert found(contract, "self * exp(self)", tags="core") == {"self": "grad * (result + exp(self)).conj()"} or found(
        contract, "self * exp(self)", tags="core"
    ) == {"self": "grad * (exp(self) * (self + 1)).conj()"}
    assert found(contract, "1 / self", tags="core") == {"self": "-grad / self.conj() / self.conj()"}
    assert found(contract, "1 / self") == {"self": "-grad / self / self"}


def test_an_operator_made_of_others_is_differentiated_through_their_records(contract):
    assert found(contract, "softplus(self) * 2") == {"self": "2 * grad * where(self > 20, 1, sigmoid(self))"}
    assert found(contract, "silu(-self)") == {"self": "-grad * sigmoid(-self) * (1 - self * sigmoid(self))"}


def test_a_comparison_has_no_gradient(contract):
    (derivative,) = load(contract, "- func: my::f(Tensor self) -> Tensor\n  math: self > 1\n  tags: real").derivatives
    assert derivative.symbolic and not derivative.is_differentiable
    assert derivative.function.promote == "bool"


def test_a_record_that_is_written_wins(contract):
    loaded = load(
        contract,
        "- func: my::f(Tensor self) -> Tensor\n  math: self - tanh(self)\n  tags: real",
        "- name: my::f\n  self: grad * tanh(self) ** 2",
    )
    (derivative,) = loaded.derivatives
    assert not derivative.symbolic and str(derivative.expressions["self"]) == "grad * tanh(self) ** 2"


def test_conditions_on_numbers_are_asked_in_python(contract):
    func = "my::f(Tensor self, Scalar p=2) -> Tensor"
    assert found(contract, "self ** p", func=func) == {
        "self": "zeros_like(grad) if p == 0 else grad * p * self ** (p - 1)"
    }
    assert found(contract, "self ** (1 / 3)") == {"self": "grad * self ** (-2 / 3) / 3"}
    assert found(contract, "2 ** self") == {"self": f"{math.log(2)!r} * grad * result"}
    assert found(contract, "p ** self", func=func) == {
        "self": "zeros_like(grad) if p == 0 else grad * result * log(zeros_like(grad) + p)"
    }
    assert found(contract, "relu(self - self) + self") == {"self": "grad"}


def test_of_two_forms_the_one_that_stays_finite_is_taken(contract):
    gradient = parse_formula(found(contract, "self / (1 + self * self)")["self"])
    assert evaluate(gradient, {"self": 1e30, "grad": 1.0}, single=True) == 0
    assert evaluate(gradient, {"self": 2.0, "grad": 1.0}) == pytest.approx(-3 / 25, rel=1e-15)


def test_an_argument_named_result_is_read_as_the_argument(contract):
    assert found(contract, "exp(result)", func="my::f(Tensor result) -> Tensor") == {"result": "grad * exp(result)"}


@pytest.mark.parametrize("name", ["grad", "grads", "needs"])
def test_an_argument_with_the_name_of_the_gradient_is_refused(contract, name):
    message = refusal(contract, f"exp({name}) * self", func=f"my::f(Tensor {name}, Tensor self) -> Tensor")
    assert f"its argument '{name}' has the name that formulas have for a gradient" in message
    assert "fix: give the argument another name than grad, grads, needs" in message


def test_guards_of_several_results_keep_their_gradients_apart(contract):
    record = (
        "- func: my::f(Tensor self) -> (Tensor a, Tensor b)\n  tags: real\n"
        "  math: ['where(self > 0, self, exp(self))', '2 * self']"
    )
    (derivative,) = load(contract, record).derivatives
    assert str(derivative.expressions["self"]) == (
        "2 * grads[1] + where(self > 0, grads[0], 0) + where(self > 0, 0, grads[0] * exp(where(self > 0, 0, self)))"
    )


def test_results_are_tried_apart_since_their_gradients_are_independent(contract):
    record = "- func: my::f(Tensor self) -> (Tensor a, Tensor b)\n  tags: real\n  math: [exp(self), exp(-self)]"
    (derivative,) = load(contract, record).derivatives
    assert str(derivative.expressions["self"]) == "grads[0] * a - grads[1] * b"


def test_an_input_that_no_result_depends_on_has_zeros_for_a_gradient(contract):
    record = "- func: my::f(Tensor self, Tensor other) -> (Tensor a, Tensor b)\n  tags: real\n  math: [self, 1 + self]"
    (derivative,) = load(contract, record).derivatives
    assert str(derivative.expressions["other"]) == "zeros_like(grads[0])"


def test_one_reason_is_told_once(contract):
    record = (
        "- func: my::g(Tensor self) -> Tensor\n  tags: real\n  math: f(self) * 2\n"
        "- func: my::f(Tensor self) -> Tensor\n  tags: real\n  math: abs(self)"
    )
    with pytest.raises(ContractError) as caught:
        load(contract, record)
    assert str(caught.value).count("has a kink") == 1


def test_four_inputs_take_seconds_at_most(contract):
    func = "my::f(Tensor i, Tensor f, Tensor g, Tensor c) -> Tensor"
    start = time.process_time()
    found(contract, "tanh(sigmoid(f) * c + sigmoid(i) * tanh(g))", func=func)
    assert time.process_time() - start < 15  # 2 s alone on a slow machine


ACCEPTED = {
    "where(abs(self) < 1, self * self / 2, abs(self) - 0.5)",
    "log1p(self * self)",
    "sqrt(self * self + 1)",
    "sin(pi * self)",
    "log(abs(self))",
    "1 / (self - 0.3)",
    "abs(self) ** 1.5",
    "self * tanh(where(self > 20, self, log1p(exp(self))))",
    "log(self) - log1p(-self)",
}


@pytest.mark.parametrize("text", sorted(ACCEPTED))
def test_what_is_harmless_is_not_refused(contract, text):
    assert found(contract, text)


REFUSALS = {
    "where(self == 0, 1, self)": "it tests `self == 0` for equality: what the derivative is there is a choice",
    "where(self != 2, self, 2)": "it tests `self != 2` for equality: what the derivative is there is a choice",
    "abs(self)": "its derivative jumps at self = 0, where `abs(self)` has a kink: what it is there is a choice",
    "abs(self - 0.3) * 2": "its derivative jumps at self = 0.3, where `abs(self - 0.3)` has a kink: what it is there is a choice",
    "maximum(self, 1)": "its derivative jumps at self = 1, where `maximum(self, 1)` has a kink: what it is there is a choice",
    "minimum(self * self, 1)": "its derivative jumps at self = -1, where `minimum(self * self, 1)` has a kink: what it is there is a choice",
    "relu(self) + self": "its derivative jumps at self = 0, where `relu(self)` has a kink: what it is there is a choice",
    "sin(self) / self": "it has a removable singularity at self = 0: it is NaN there, and 1 beside it",
    "expm1(self) / self": "it has a removable singularity at self = 0: it is NaN there, and 1 beside it",
    "self - tanh(self)": "its derivative `grad * (1 - 4 * sigmoid(2 * self) * sigmoid(-2 * self))` cancels: at self = 1e-05 float32 gets 0 of 24 bits right",
    "log1p(exp(self))": "its derivative `grad * exp(self) / (exp(self) + 1)` is NaN at self = 1000, where the value is inf",
    "sqrt(self * self)": "its derivative `grad * self / sqrt(self * self)` is NaN at self = 0, where the value is 0",
    "sgn(self) * self": "its derivative jumps at self = 0, where `sgn(self)` has a kink: what it is there is a choice",
    "self / self": "it has a removable singularity at self = 0: it is NaN there, and 1 beside it",
    "(self - 0.3) / (self - 0.3)": "it has a removable singularity at self = 0.3: it is NaN there, and 1 beside it",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSALS)
def test_what_is_a_choice_or_computes_badly_is_refused_with_the_reason(contract, text):
    message = refusal(contract, text)
    head, _, remedy = message.partition("\nfix: ")
    assert head.splitlines()[0] == (
        "native_functions_test.yaml:2: 'my::f' has no derivative record, and its `math` gives none: " + REFUSALS[text]
    )
    assert remedy == "write it by hand, as `- name: my::f` in derivatives*.yaml"


@pytest.mark.parametrize("text", ["self / (1 + abs(self))", "where(self > 0, self, 0)", "abs(self)"])
def test_what_is_not_holomorphic_is_refused_where_complex_tensors_come(contract, text):
    assert "is not holomorphic, and without the tag `real` the operator takes complex tensors" in refusal(
        contract, text, tags="core"
    )


def test_an_operator_without_a_derivative_gives_none(contract):
    record = "- func: my::g(Tensor self) -> Tensor\n  tags: pointwise\n- func: my::f(Tensor self) -> Tensor\n  math: my_g(self) * self"
    with pytest.raises(ContractError, match="'my_g' is no operator of the contract"):
        load(contract, record)
    with pytest.raises(ContractError, match="gives none: 'g' has no derivative record"):
        load(contract, record.replace("my_g(", "g("))


def test_a_branch_that_is_not_taken_stays_finite_in_the_second_derivative(contract):
    func = "my::f(Tensor self, Scalar alpha=1) -> Tensor"
    assert found(contract, "where(self > 0, self, alpha * expm1(self))", func=func) == {
        "self": "where(self > 0, grad, grad * alpha * exp(where(self > 0, 0, self)))"
    }


def test_the_symbolic_derivatives_of_the_contract(contract):
    symbolic = {d.function.name for d in contract.derivatives if d.symbolic}
    assert {"silu", "mish", "softsign", "elu", "leaky_relu", "hardswish", "square", "reciprocal", "rsqrt"} <= symbolic
    assert "softplus" not in symbolic and "tanh" not in symbolic
