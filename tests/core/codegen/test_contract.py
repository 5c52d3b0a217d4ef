"""The contract: what records give, and an error gallery of a few lines of YAML each with the exact message."""

# ruff: noqa: E501 (messages and files stand as they are)

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplay_core import errors
from tensorplay_core.codegen.contract import DISPATCH_KEYS, IGNORED_FIELDS, Contract, Source, load_contract
from tensorplay_core.errors import ContractError

CONFIG = Path(errors.__file__).parent / "config"
F, D = "native_functions_test.yaml", "derivatives_test.yaml"
ADD = (
    "- func: add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n  variants: function, method\n  inplace: true"
)
SUM = "- func: sum(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor\n  variants: function, method"
MAX = "- func: max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
GATHER = "- func: gather(Tensor self, int dim, Tensor index) -> Tensor\n  variants: method"


def load(*records: str, derivatives: str = "", **options: object) -> Contract:
    return load_contract([Source(F, "\n".join(records)), Source(D, derivatives)], **options)  # type: ignore[arg-type]


def error(*records: str, derivatives: str = "", **options: object) -> str:
    with pytest.raises(ContractError) as caught:
        load(*records, derivatives=derivatives, **options)
    return str(caught.value)


# what records give


def test_a_record_with_every_field() -> None:
    (function,) = load(
        "- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n"
        "  variants: function, method\n  inplace: true\n  out: true\n  shape: broadcast\n  promote: default\n"
        "  dispatch:\n    CPU, CUDA: add\n    Composite: add_general\n  autocast: promote\n  composite: explicit\n"
        "  tags: [core, pointwise]\n  aliases: [plus]\n  doc: |\n    Adds.\n  python_module: nn\n  math: self + alpha * other\n"
        "  structured: True\n"
    ).functions
    assert function.qualified_name == "tp::add.Tensor" and (function.name, function.base_name) == ("add", "add.Tensor")
    assert function.variants == ("function", "method") and function.is_function and function.is_method
    assert function.inplace and function.out
    assert (function.shape, function.promote, function.autocast, function.composite) == (
        "broadcast",
        "default",
        "promote",
        "explicit",
    )
    assert function.dispatch == {"CPU": "add", "CUDA": "add", "Composite": "add_general"}
    assert function.tags == ("core", "pointwise") and function.aliases == ("plus",)
    assert (function.doc, function.python_module, function.math) == ("Adds.", "nn", "self + alpha * other")
    assert function.family == "test" and function.ignored == ("structured",)
    assert str(function.location) == f"{F}:1"


def test_a_record_that_is_silent() -> None:
    (function,) = load("- func: f(Tensor x) -> Tensor").functions
    assert function.variants == ("function",) and not function.inplace and not function.out
    assert (function.shape, function.promote, function.autocast, function.composite) == (None, "none", "none", "none")
    assert (function.dispatch, function.tags, function.aliases, function.doc, function.math) == ({}, (), (), "", None)


def test_a_record_brought_along_from_pytorch() -> None:
    (function,) = load(
        "- func: convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
        "bool transposed, int[] output_padding, int groups) -> Tensor\n"
        "  variants: function\n  dispatch:\n    CPU: convolution_cpu\n    CUDA: convolution_cuda\n  tags: core\n"
    ).functions
    assert function.dispatch == {"CPU": "convolution_cpu", "CUDA": "convolution_cuda"}
    assert function.tags == ("core",) and function.variants == ("function",)
    assert len(function.schema.arguments) == 9


@pytest.mark.parametrize("field", IGNORED_FIELDS)
def test_fields_of_torchgen_are_ignored(field: str) -> None:
    assert load(f"- func: f(Tensor x) -> Tensor\n  {field}: True").functions[0].ignored == (field,)


def test_a_derivative_written_for_pytorch_links_to_a_keyword_only_argument() -> None:
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


def test_a_derivative_by_name() -> None:
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


def test_one_call_answers_two_inputs() -> None:
    (derivative,) = load(
        ADD,
        derivatives="- name: add\n  self, other: add_backward(grad, needs[self], needs[other])",
        helpers={"add_backward"},
    ).derivatives
    (formula,) = derivative.formulas
    assert formula.targets == ("self", "other") and formula.key == "self, other"
    assert derivative.formula_of("self") == (formula, 0) and derivative.formula_of("other") == (formula, 1)
    assert derivative.formula_of("alpha") is None


def test_not_differentiable_in_both_spellings() -> None:
    for text in ("not_differentiable: [index]", "not_differentiable: index", "index: non_differentiable"):
        (derivative,) = load(GATHER, derivatives=f"- name: gather\n  self: grad\n  {text}").derivatives
        assert derivative.not_differentiable == ("index",) and [f.key for f in derivative.formulas] == ["self"]


def test_an_operator_without_any_gradient() -> None:
    (derivative,) = load(ADD, derivatives="- name: add\n  output_differentiability: [false]").derivatives
    assert not derivative.is_differentiable and derivative.formulas == ()


def test_shared_work_of_a_record() -> None:
    (derivative,) = load(
        ADD,
        derivatives="- name: add\n  self: h(grad * result) * other\n  other: h(grad * result) * self",
        helpers={"h"},
    ).derivatives
    assert [str(d.expr) for d in derivative.shared().definitions] == ["h(grad * result)"]


def test_overloads_families_and_names() -> None:
    contract = load_contract(
        [
            Source("native_functions_a.yaml", MAX),
            Source("native_functions.yaml", "- func: max(Tensor self) -> Tensor\n  aliases: top"),
        ]
    )
    assert [f.base_name for f in contract.overloads["max"]] == ["max.dim", "max"]
    assert [f.base_name for f in contract.overloads["top"]] == ["max"]
    assert list(contract.families) == ["a", ""]
    assert list(contract.by_name) == ["tp::max.dim", "tp::max"]


def test_formulas_of_a_plugin_may_call_known_operators() -> None:
    plugin = load(
        "- func: mine::twice(Tensor self) -> Tensor",
        derivatives="- name: mine::twice\n  self: add(grad, grad) + grad.sum(0)",
        known=load(ADD, SUM),
    )
    assert list(plugin.by_name) == ["mine::twice"] and len(plugin.derivatives) == 1
    assert "second record for 'add'" in error(ADD, known=load(ADD))


def test_keys_of_other_devices() -> None:
    record = "- func: f(Tensor x) -> Tensor\n  dispatch:\n    Loopback: f"
    assert load(record, dispatch_keys=["Loopback"]).functions[0].dispatch == {"Loopback": "f"}
    assert "unknown dispatch key 'Loopback'" in error(record)
    assert len([key for key in DISPATCH_KEYS if key not in ("Autograd", "Autocast", "Vmap")]) == 25


def test_calls_are_checked_against_signatures() -> None:
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


def test_helpers_may_be_left_to_others() -> None:
    text = "- name: sum\n  self: unknown_to_us(grad)"
    assert load(SUM, derivatives=text, helpers=None).derivatives[0].analysis.total.calls == {"unknown_to_us"}
    assert "neither an operator" in error(SUM, derivatives=text)
    assert load(SUM, derivatives=text, helpers={"unknown_to_us"}).derivatives


# the shipped contract


def test_the_shipped_contract_loads() -> None:
    """Names of helpers are checked by the generator, which knows them; everything else is checked here."""
    contract = load_contract(CONFIG, helpers=None)
    assert len(contract.functions) >= 45
    for function in contract.functions:
        assert function.doc, function.base_name


# the error gallery: operators

FUNCTION_ERRORS = {
    "- func: f(Tensor x) -> Tensor\n  dispach: {CPU: f}": (
        f"{F}:2: unknown field 'dispach' of an operator's record. Did you mean 'dispatch'?\n"
        "  2 |   dispach: {CPU: f}\n    |   ^"
    ),
    "- fun: f(Tensor x) -> Tensor": (
        f"{F}:1: unknown field 'fun' of an operator's record. Did you mean 'func'?\n"
        "  1 | - fun: f(Tensor x) -> Tensor\n    |   ^"
    ),
    "- variants: function": (
        f"{F}:1: a record without `func:`\n  1 | - variants: function\n    |   ^\n"
        "fix: start it with `- func: name(Tensor self) -> Tensor`"
    ),
    "- func: f(Tenso x) -> Tensor": (
        f"{F}:1: unknown type 'Tenso'. Did you mean 'Tensor'?\n  1 | - func: f(Tenso x) -> Tensor\n    |           ^"
    ),
    "- func: f(Tensor x,\n    Tenso y) -> Tensor": (
        f"{F}:2: unknown type 'Tenso'. Did you mean 'Tensor'?\n  2 |     Tenso y) -> Tensor\n    |     ^"
    ),
    "- func: [f]": (
        f"{F}:1: func is one text\n  1 | - func: [f]\n    |         ^\n"
        'fix: put a text that starts with a bracket into "quotes"'
    ),
    "- func:": f"{F}:1: func is empty\n  1 | - func:\n    |        ^",
    "- func: f(Tensor x) -> Tensor\n  func: g(Tensor x) -> Tensor": (
        f"{F}:2: duplicate key 'func'; the first is on line 1\n  2 |   func: g(Tensor x) -> Tensor\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: function, metod": (
        f"{F}:2: unknown variant 'metod'. Did you mean 'method'?\n  2 |   variants: function, metod\n    |                       ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: function,": (
        f"{F}:2: nothing stands between two commas, or before or after one\n  2 |   variants: function,\n    |                      ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: [function, function]": (
        f"{F}:2: variant 'function' is given twice\n  2 |   variants: [function, function]\n    |                        ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  variants: method": (
        f"{F}:2: a method needs a positional argument `Tensor self`; 'f' has none\n  2 |   variants: method\n    |   ^"
    ),
    "- func: f(Tensor self) -> Tensor\n  inplace: maybe": (
        f"{F}:2: inplace is true or false\n  2 |   inplace: maybe\n    |            ^"
    ),
    "- func: f(int n) -> Tensor\n  inplace: true": (
        f"{F}:2: 'f_' needs a tensor as its first argument\n  2 |   inplace: true\n    |   ^"
    ),
    "- func: f(Tensor self) -> (Tensor, Tensor)\n  inplace: true": (
        f"{F}:2: 'f_' needs one Tensor as its result\n  2 |   inplace: true\n    |   ^"
    ),
    "- func: f(Tensor(a) self) -> Tensor(a)\n  out: true": (
        f"{F}:2: 'f' writes to an argument or returns a view; it has no such variant\n  2 |   out: true\n    |   ^"
    ),
    "- func: f(Tensor self) -> int\n  out: true": (
        f"{F}:2: `out=` needs results that are tensors; 'f' has others\n  2 |   out: true\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  promote: defualt": (
        f"{F}:2: unknown value of promote 'defualt'. Did you mean 'default'?\n  2 |   promote: defualt\n    |            ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  autocast: fp23": (
        f"{F}:2: unknown value of autocast 'fp23'. Did you mean 'fp32'?\n  2 |   autocast: fp23\n    |             ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  composite: yes": (
        f"{F}:2: unknown value of composite 'yes'. Valid are explicit, implicit, none.\n"
        "  2 |   composite: yes\n    |              ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch:\n    CPU, CUDDA: f": (
        f"{F}:3: unknown dispatch key 'CUDDA'. Did you mean 'CUDA' or 'VmapCUDA'?\n  3 |     CPU, CUDDA: f\n    |          ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch:\n    CompositeExplicitAutograd: f": (
        f"{F}:3: unknown dispatch key 'CompositeExplicitAutograd'\n  3 |     CompositeExplicitAutograd: f\n    |     ^\n"
        "fix: write `Composite: f`, and `composite: explicit` in the record"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch:\n    CPU: f\n    CUDA, CPU: g": (
        f"{F}:4: dispatch key 'CPU' is given twice\n  4 |     CUDA, CPU: g\n    |           ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  dispatch: f": (
        f"{F}:2: dispatch maps dispatch keys to kernel names\n  2 |   dispatch: f\n    |             ^\n"
        "fix: write for example `CPU, CUDA: add`"
    ),
    "- func: f(Tensor x) -> Tensor\n  tags: [core, 3d]": (
        f"{F}:2: '3d' in tags is not a name\n  2 |   tags: [core, 3d]\n    |                ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  tags: {core: 1}": (
        f"{F}:2: tags is one text\n  2 |   tags: {{core: 1}}\n    |         ^\n"
        'fix: put a text that starts with a bracket into "quotes"'
    ),
    "- func: f(Tensor x) -> Tensor\n  math: x ? 1 : 2": (
        f"{F}:2: not YAML: mapping values are not allowed in this context\n  2 |   math: x ? 1 : 2\n    |               ^\n"
        'fix: put a value that has `: `, ` #` or a leading bracket into "quotes"'
    ),
    "- func: f(Tensor x) -> Tensor\n  math: x &&  y": (
        f"{F}:2: '&&' is not in the formula language; write `and`\n  2 |   math: x &&  y\n    |           ^"
    ),
    "- func: f(Tensor x) -> Tensor\n- func: f(Tensor x, int n) -> Tensor": (
        f"{F}:2: a second record for 'f'; the first is at {F}:1\n  2 | - func: f(Tensor x, int n) -> Tensor\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  inplace: true\n- func: f_(Tensor(a!) x) -> Tensor(a!)": (
        f"{F}:3: 'f' says `inplace: true` at {F}:1, which makes this operator already\n"
        "  3 | - func: f_(Tensor(a!) x) -> Tensor(a!)\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  aliases: g\n- func: g(Tensor x) -> Tensor": (
        f"{F}:1: alias 'g' of 'f' is an operator's name\n  1 | - func: f(Tensor x) -> Tensor\n    |   ^"
    ),
    "- func: f(Tensor x) -> Tensor\n  aliases: h\n- func: g(Tensor x) -> Tensor\n  aliases: [h]": (
        f"{F}:3: alias 'h' of 'g' is an alias of 'f' too\n  3 | - func: g(Tensor x) -> Tensor\n    |   ^"
    ),
}


@pytest.mark.parametrize("text", FUNCTION_ERRORS, ids=lambda text: text.replace("\n", "|"))
def test_errors_in_operators(text: str) -> None:
    assert error(text) == FUNCTION_ERRORS[text]


def test_an_unknown_shape_rule() -> None:
    record = "- func: f(Tensor x) -> Tensor\n  shape: brodcast"
    assert error(record, shape_rules=["broadcast", "same"]) == (
        f"{F}:2: unknown shape rule 'brodcast'. Did you mean 'broadcast'?\n  2 |   shape: brodcast\n    |          ^"
    )
    assert load(record).functions[0].shape == "brodcast"


# the error gallery: derivatives

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
def test_errors_in_derivatives(text: str) -> None:
    assert error(ADD, SUM, MAX, derivatives=text) == DERIVATIVE_ERRORS[text]


# several errors, and files


def test_all_problems_are_shown_at_once() -> None:
    message = error(
        "- func: f(Tenso x) -> Tensor", "- func: g(Tensor x) -> Tensor\n  promote: x", "- func: h(Tensor x) -> Tensor"
    )
    assert message.startswith("2 problems in the contract\n\n")
    assert f"{F}:1: unknown type 'Tenso'" in message and f"{F}:3: unknown value of promote" in message
    many = error(*(f"- func: f{i}(Tenso x) -> Tensor" for i in range(50)))
    assert many.startswith("50 problems") and many.endswith("... and 30 more")


def test_derivatives_wait_for_sound_operators() -> None:
    message = error("- func: f(Tenso x) -> Tensor", derivatives="- name: f\n  x: grad")
    assert "derivative" not in message


def test_a_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "native_functions_b.yaml").write_text(SUM)
    (tmp_path / "native_functions_a.yaml").write_text(ADD)
    (tmp_path / "derivatives_b.yaml").write_text("- name: sum\n  self: grad")
    (tmp_path / "other.yaml").write_text("- nothing")
    contract = load_contract(tmp_path)
    assert [f.family for f in contract.functions] == ["a", "b"] and len(contract.derivatives) == 1
    assert load_contract(tmp_path / "native_functions_a.yaml").functions == contract.functions[:1]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ContractError, match=r"empty: holds neither native_functions\*\.yaml nor derivatives\*\.yaml"):
        load_contract(empty)
    with pytest.raises(
        ContractError, match=r"native_function\.yaml: a contract file is named .* Did you mean 'native_functions'\?"
    ):
        load_contract(Source("native_function.yaml", ""))


SEED = f"{ADD}\n{SUM}\n  dispatch:\n    CPU, CUDA: sum\n  tags: [core]\n"
SEED_DERIVATIVES = (
    "- name: add\n  self: grad\n  other: grad * alpha\n- name: sum\n  self: grad.sum(dim, keepdim) + self.size(0)\n"
)


@given(st.data())
def test_mutated_files_give_a_contract_or_a_clean_error(data: st.DataObject) -> None:
    texts = [SEED, SEED_DERIVATIVES]
    which = data.draw(st.sampled_from([0, 1]))
    text = texts[which]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 6)))
    texts[which] = text[:start] + data.draw(st.text("()[]{}?!*,=->:. \t\n'\"\\#&0aT|²\x00", max_size=5)) + text[end:]
    try:
        load_contract([Source(F, texts[0]), Source(D, texts[1])])
    except ContractError as caught:
        assert F in str(caught) or D in str(caught)
