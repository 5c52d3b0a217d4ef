"""Records of derivatives: what they give, and an error gallery of a few lines of YAML each with the exact message."""

# ruff: noqa: E501 (messages and files stand as they are)

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorplay_core.codegen.contract import Contract

Load = Callable[..., Contract]
Error = Callable[..., str]


F, D = "native_functions_test.yaml", "derivatives_test.yaml"
ADD = (
    "- func: add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n  variants: function, method\n  inplace: true"
)
SUM = "- func: sum(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor\n  variants: function, method"
MAX = "- func: max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
GATHER = "- func: gather(Tensor self, int dim, Tensor index) -> Tensor\n  variants: method"


def test_a_derivative_written_for_pytorch_links_to_a_keyword_only_argument(load: Load) -> None:
    contract = load(
        ADD,
        derivatives="- name: add(Tensor self, Tensor other, Scalar alpha=1) -> Tensor\n  self: grad\n  other: grad * alpha",
    )
    (derivative,) = contract.derivatives
    assert derivative.function is contract.functions[0]
    assert {key: str(expr) for key, expr in derivative.expressions.items()} == {"self": "grad", "other": "grad * alpha"}
    assert [a.name for a in derivative.schema.keyword_only] == ["alpha"]
    assert contract.derivative_of(contract.functions[0]) is derivative
    assert derivative.analysis.formulas["other"].arguments == {"alpha"}
    assert [a.name for a in derivative.inputs] == ["self", "other"]


def test_a_derivative_by_name(load: Load) -> None:
    (derivative,) = load(
        MAX,
        derivatives="- name: max.dim\n  self: value_backward(grad, indices, self.shape)\n"
        "  output_differentiability: [true, false]\n  values: self_t.gather(dim, indices)",
        helpers={"value_backward"},
        members={"gather"},
    ).derivatives
    assert derivative.output_differentiability == (True, False) and derivative.is_differentiable
    assert derivative.analysis.total.outputs == {"indices"}
    assert derivative.result is not None and str(derivative.result.expr) == "self_t.gather(dim, indices)"


def test_one_call_answers_two_inputs(load: Load) -> None:
    (derivative,) = load(
        ADD,
        derivatives="- name: add\n  self, other: add_backward(grad, needs[self], needs[other])",
        helpers={"add_backward"},
    ).derivatives
    (formula,) = derivative.formulas
    assert formula.targets == ("self", "other") and formula.key == "self, other"
    assert derivative.formula_of("self") == (formula, 0) and derivative.formula_of("other") == (formula, 1)
    assert derivative.formula_of("alpha") is None


def test_not_differentiable_in_both_spellings(load: Load) -> None:
    for text in ("not_differentiable: [index]", "not_differentiable: index", "index: non_differentiable"):
        (derivative,) = load(GATHER, derivatives=f"- name: gather\n  self: grad\n  {text}").derivatives
        assert derivative.not_differentiable == ("index",) and [f.key for f in derivative.formulas] == ["self"]


def test_an_operator_without_any_gradient(load: Load) -> None:
    (derivative,) = load(ADD, derivatives="- name: add\n  output_differentiability: [false]").derivatives
    assert not derivative.is_differentiable and derivative.formulas == ()


def test_shared_work_of_a_record(load: Load) -> None:
    (derivative,) = load(
        ADD,
        derivatives="- name: add\n  self: h(grad * result) * other\n  other: h(grad * result) * self",
        helpers={"h"},
    ).derivatives
    assert [str(d.expr) for d in derivative.shared().definitions] == ["h(grad * result)"]


def test_formulas_of_a_plugin_may_call_known_operators(load: Load, error: Error) -> None:
    plugin = load(
        "- func: mine::twice(Tensor self) -> Tensor",
        derivatives="- name: mine::twice\n  self: add(grad, grad) + grad.sum(0)",
        known=load(ADD, SUM),
    )
    assert list(plugin.by_name) == ["mine::twice"] and len(plugin.derivatives) == 1
    assert "second record for 'add'" in error(ADD, known=load(ADD))


def test_calls_are_checked_against_signatures(load: Load, error: Error) -> None:
    records = (SUM, ADD, "- func: permute(Tensor(a) self, int[] dims) -> Tensor(a)\n  variants: method")
    for formula in (
        "grad.sum(dim, True)",
        "grad.sum(dim=dim, keepdim=True)",
        "grad.sum(axis=dim, keepdims=True)",
        "sum(grad)",
        "grad.permute(1, 0)",
        "grad.permute([1, 0])",
        "add(grad, other=grad, alpha=2)",
    ):
        load(*records, derivatives=f"- name: sum\n  self: {formula}")
    for formula in ("grad.sum(dim, True, 3, 4)", "grad.sum(dims=dim)", "sum()", "add(grad)", "grad.add(grad, other=1)"):
        assert "takes these arguments" in error(*records, derivatives=f"- name: sum\n  self: {formula}")


def test_helpers_may_be_left_to_others(load: Load, error: Error) -> None:
    text = "- name: sum\n  self: unknown_to_us(grad)"
    assert load(SUM, derivatives=text, helpers=None).derivatives[0].analysis.total.calls == {"unknown_to_us"}
    assert "neither an operator" in error(SUM, derivatives=text)
    assert load(SUM, derivatives=text, helpers={"unknown_to_us"}).derivatives


DERIVATIVE_ERRORS = {
    "- self: grad": (
        f"{D}:1: a record without `name:`\n  1 | - self: grad\n    |   ^\n"
        "fix: start it with `- name: <operator>`, by name or by signature"
    ),
    "- name: ad\n  self: grad": (
        f"{D}:1: a derivative for 'ad', which is no operator of the contract. Did you mean 'add'?\n"
        "  1 | - name: ad\n    |         ^"
    ),
    "- name: max\n  self: grad": (
        f"{D}:1: a derivative for 'max', which is no operator of the contract. Its overloads are max.dim.\n"
        "  1 | - name: max\n    |         ^"
    ),
    "- name: add_\n  self: grad": (
        f"{D}:1: 'add_' is generated from 'add' and shares its derivative; it has no record of its own\n"
        "  1 | - name: add_\n    |         ^"
    ),
    "- name: add(Tensor self, Scalar alpha=1) -> Tensor": (
        f"{D}:1: the signature has 2 arguments, the operator's has 3\n"
        "  1 | - name: add(Tensor self, Scalar alpha=1) -> Tensor\n    |         ^\n"
        "fix: the operator is add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    ),
    "- name: add(Tensor self, Tensor other, Scalar alpha=2) -> Tensor": (
        f"{D}:1: argument `Scalar alpha=2` does not match the operator's `Scalar alpha=1`\n"
        "  1 | - name: add(Tensor self, Tensor other, Scalar alpha=2) -> Tensor\n"
        "    |                                        ^\n"
        "fix: the operator is add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    ),
    "- name: add(Tensor self, Tensor rhs, Scalar alpha=1) -> Tensor": (
        f"{D}:1: argument `Tensor rhs` does not match the operator's `Tensor other`\n"
        "  1 | - name: add(Tensor self, Tensor rhs, Scalar alpha=1) -> Tensor\n    |                          ^\n"
        "fix: the operator is add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    ),
    "- name: add(Tensor self, Tensor other, Scalar alpha=1) -> int": (
        f"{D}:1: the results do not match the operator's\n"
        "  1 | - name: add(Tensor self, Tensor other, Scalar alpha=1) -> int\n"
        "    |                                                        ^\n"
        "fix: the operator is add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    ),
    "- name: add(Tensor self, Tensor other, Scalr alpha=1) -> Tensor": (
        f"{D}:1: unknown type 'Scalr'. Did you mean 'Scalar' or 'ScalarType'?\n"
        "  1 | - name: add(Tensor self, Tensor other, Scalr alpha=1) -> Tensor\n"
        "    |                                        ^"
    ),
    "- name: add\n  self: grad": (
        f"{D}:1: 'add' has no formula for 'other'\n  1 | - name: add\n    |   ^\n"
        "fix: add `other: <formula>`, or `not_differentiable: [other]`"
    ),
    "- name: add\n  alpha: grad": (
        f"{D}:2: a formula for 'alpha', which is a Scalar and has no gradient\n  2 |   alpha: grad\n    |   ^"
    ),
    "- name: add\n  self: grad\n  othr: grad": (
        f"{D}:3: a formula for 'othr', which is no input of 'add'. Did you mean 'other'?\n  3 |   othr: grad\n    |   ^"
    ),
    "- name: add\n  self, othr: grad": (
        f"{D}:2: a formula for 'othr', which is no input of 'add'. Did you mean 'other'?\n"
        "  2 |   self, othr: grad\n    |         ^"
    ),
    "- name: add\n  self: grad\n  other, self: grad": (
        f"{D}:3: a second formula for 'self'; the first is on line 2\n  3 |   other, self: grad\n    |          ^"
    ),
    "- name: add\n  self: grad\n  other: grad\n- name: add\n  self: grad\n  other: grad": (
        f"{D}:4: a second record for 'add'; the first is at {D}:1\n  4 | - name: add\n    |   ^"
    ),
    "- name: add\n  self: grad\n  other: grad\n  not_differentiable: [other]": (
        f"{D}:4: 'other' has a formula and is declared not_differentiable\n"
        "  4 |   not_differentiable: [other]\n    |   ^"
    ),
    "- name: add\n  self: grad\n  not_differentiable: [othr]": (
        f"{D}:3: unknown tensor input of 'add' 'othr'. Did you mean 'other'?\n"
        "  3 |   not_differentiable: [othr]\n    |                        ^"
    ),
    "- name: add\n  output_differentiability: [true, false]": (
        f"{D}:2: 2 flags for the 1 output of 'add'\n  2 |   output_differentiability: [true, false]\n"
        "    |                             ^"
    ),
    "- name: add\n  output_differentiability: [maybe]": (
        f"{D}:2: an item of output_differentiability is true or false\n  2 |   output_differentiability: [maybe]\n"
        "    |                              ^"
    ),
    "- name: add\n  output_differentiability: false": (
        f"{D}:2: output_differentiability is a list with true or false for each output\n"
        "  2 |   output_differentiability: false\n    |                             ^"
    ),
    "- name: max.dim\n  self: grad": (
        f"{D}:2: 'grad' may be any of 2 gradients; write grads[i], or say output_differentiability\n"
        "  2 |   self: grad\n    |         ^"
    ),
    "- name: sum\n  self: grad * slf": (
        f"{D}:2: no input or output is named 'slf'. Did you mean 'self'?\n  2 |   self: grad * slf\n    |                ^"
    ),
    "- name: sum\n  self: grad *": (
        f"{D}:2: expected a value, found the end of the formula\n  2 |   self: grad *\n    |               ^"
    ),
    "- name: sum\n  self: [grad]": (
        f"{D}:2: the formula of 'self' is one text\n  2 |   self: [grad]\n    |         ^\n"
        'fix: put a text that starts with a bracket into "quotes"'
    ),
    "- name: sum\n  self:": f"{D}:2: the formula of 'self' is empty\n  2 |   self:\n    |        ^",
    "- name: sum\n  self: 2 * summ(grad)": (
        f"{D}:2: 'summ' is neither an operator of the contract nor a helper. Did you mean 'sum'?\n"
        "  2 |   self: 2 * summ(grad)\n    |             ^"
    ),
    '- name: sum\n  self: "f(grad) *\n    gather(grad)"': (
        f"{D}:2: 'f' is neither an operator of the contract nor a helper.\n  2 |   self: \"f(grad) *\n    |          ^"
    ),
    "- name: sum\n  self: grad.summ()": (
        f"{D}:2: no method is named 'summ'. Did you mean 'sum'?\n  2 |   self: grad.summ()\n    |              ^"
    ),
    "- name: sum\n  self: grad.max(0)": (
        f"{D}:2: no method is named 'max'. It is a function; write max(...).\n"
        "  2 |   self: grad.max(0)\n    |              ^"
    ),
    "- name: sum\n  self: grad.shap": (
        f"{D}:2: no attribute is named 'shap'. Did you mean 'shape'?\n  2 |   self: grad.shap\n    |              ^"
    ),
    "- name: sum\n  self: grad.sum": (
        f"{D}:2: no attribute is named 'sum'. 'sum' is a method; write .sum().\n  2 |   self: grad.sum\n    |              ^"
    ),
    "- name: sum\n  self: grad + self.size(0, 1)": (
        f"{D}:2: .size() takes one positional argument at most\n  2 |   self: grad + self.size(0, 1)\n"
        "    |                     ^"
    ),
    "- name: sum\n  self: grad.sum(1, 2, 3)": (
        f"{D}:2: no signature of 'sum' takes these arguments\n  2 |   self: grad.sum(1, 2, 3)\n    |              ^\n"
        "fix: it is sum(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor"
    ),
    "- name: sum\n  self: grad\n  result: self_t.sum(dim) + nothing": (
        f"{D}:3: no input or output is named 'nothing'. There are: dim, keepdim, self, result, self_t.\n"
        "  3 |   result: self_t.sum(dim) + nothing\n    |                             ^"
    ),
}


@pytest.mark.parametrize("text", DERIVATIVE_ERRORS, ids=lambda text: text.replace("\n", "|"))
def test_errors_in_derivatives(error: Error, text: str) -> None:
    assert error(ADD, SUM, MAX, derivatives=text) == DERIVATIVE_ERRORS[text]


def test_two_gradients_of_one_name(error: Error) -> None:
    records = ("- func: foo_bar(Tensor x) -> Tensor", "- func: fooBar(Tensor x) -> Tensor")
    assert error(*records, derivatives="- name: foo_bar\n  x: grad\n- name: fooBar\n  x: grad") == (
        f"{D}:3: the gradients of 'fooBar' and of 'foo_bar' at {D}:1 are both FooBarBackward in generated code; rename one operator\n"
        "  3 | - name: fooBar\n    |   ^"
    )


def test_an_argument_may_be_called_as_numpy_spells_another(load: Load) -> None:
    """``axis`` is a second name of ``dim``, unless it is an argument's own."""
    record = "- func: f(Tensor x, *, int axis=0) -> Tensor"
    load(record, derivatives="- name: f\n  x: f(grad, axis=axis)")
