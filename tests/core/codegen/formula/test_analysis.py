"""What formulas read, and how they are rewritten: saved values, metadata, gradients, shared subexpressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import METADATA_KINDS, Scope, Uses, analyze, uses_of
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.formula.rewrite import replace_metadata, saved_name, shared
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.types.schema import parse_schema

SCOPE = Scope.of(
    parse_schema(
        "op(Tensor self, Tensor? bias, Tensor[] tensors, int dim, *, Scalar alpha=1, Tensor(a!) out) -> Tensor"
    )
)
SEVERAL = Scope.of(
    parse_schema("max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)"),
    output_differentiability=[True, False],
)
MANY = Scope.of(parse_schema("svd(Tensor A) -> (Tensor U, Tensor S, Tensor V)"))


def uses(text: str, scope: Scope = SCOPE) -> Uses:
    return uses_of(scope, parse_formula(text))


def metadata(text: str, scope: Scope = SCOPE) -> dict[str, set[str]]:
    return {name: set(kinds) for name, kinds in uses(text, scope).metadata.items()}


def test_the_scope_of_an_operator() -> None:
    assert SCOPE.tensors == {"self", "bias"} and SCOPE.lists == {"tensors"} and SCOPE.others == {"dim", "alpha"}
    assert SCOPE.outputs == ("result",) and SCOPE.gradients == (0,)
    assert SEVERAL.outputs == ("values", "indices") and SEVERAL.gradients == (0,)
    assert MANY.gradients == (0, 1, 2)


def test_values_and_arguments() -> None:
    found = uses("grad * self.conj() + bias * alpha - f(tensors, dim)")
    assert found.values == {"self", "bias", "tensors"}
    assert found.arguments == {"alpha", "dim"}
    assert found.gradients == {0} and not found.outputs and not found.metadata
    assert found.calls == {"f"} and found.methods == {"conj"}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("grad.reshape(self.shape)", {"self": {"shape"}}),
        ("self.size(dim) + self.size(-1)", {"self": {"shape"}}),
        ("self.size()", {"self": {"shape"}}),
        ("self.ndim + self.dim()", {"self": {"ndim"}}),
        ("self.numel()", {"self": {"numel"}}),
        ("f(self.dtype, self.device)", {"self": {"dtype", "device"}}),
        ("self.stride()", {"self": {"stride"}}),
        ("self.stride(0)", {"self": {"stride"}}),
        ("1 if self.is_complex() else 2", {"self": {"is_complex"}}),
        ("1 if bias is None else 2", {"bias": {"present"}}),
        ("1 if bias is not None else 2", {"bias": {"present"}}),
        ("f(tensors.shape, tensors.size(dim), len(tensors))", {"tensors": {"shape", "length"}}),
        ("tensors[0].shape", {"tensors": {"shape"}}),
        ("result.shape", {"result": {"shape"}}),
        ("self.shape[dim]", {"self": {"shape"}}),
        ("grad.shape", {}),
        ("self.conj().shape", {}),
    ],
)
def test_metadata_is_not_a_value(text: str, kinds: dict[str, set[str]]) -> None:
    found = uses(text)
    assert metadata(text) == kinds
    assert all(kind in METADATA_KINDS for name in kinds for kind in kinds[name])
    if kinds:
        assert not found.values and not found.outputs


def test_metadata_beside_a_value() -> None:
    found = uses("f(self, self.shape)")
    assert found.values == {"self"} and metadata("f(self, self.shape)") == {"self": {"shape"}}


def test_an_index_inside_metadata_is_read() -> None:
    assert uses("self.size(dim)").arguments == {"dim"}
    assert uses("tensors[dim].shape").arguments == {"dim"}


def test_outputs() -> None:
    assert uses("grad * result").outputs == {"result"}
    assert uses("f(grad, indices, self.shape)", SEVERAL).outputs == {"indices"}
    assert uses("f(grads[0], grads[2], U)", MANY).outputs == {"U"}


def test_gradients() -> None:
    assert uses("grad", SEVERAL).gradients == {0}
    assert uses("f(grads[0], grads[2])", MANY).gradients == {0, 2}


def test_needs() -> None:
    found = uses('f(grad, needs[self], needs["tensors"])')
    assert found.needs == {"self", "tensors"} and not found.values


def test_tangents() -> None:
    scope = Scope.of(parse_schema("mul(Tensor self, Tensor other) -> Tensor"), tangents=True)
    found = uses("self_t * other_p + other_t * self", scope)
    assert found.tangents == {"self", "other"} and found.values == {"self", "other"}


ERRORS = {
    "grad * othr": (SCOPE, 7, "no input or output is named 'othr'."),
    "grad * slf": (SCOPE, 7, "no input or output is named 'slf'. Did you mean 'self'?"),
    "grads[1]": (SCOPE, 5, "there is no such gradient; there is grads[0]"),
    "grads[dim]": (SCOPE, 5, "there is no such gradient; there is grads[0]"),
    "f(grads)": (SCOPE, 2, "'grads' is indexed with an output's number, grads[0]"),
    "f(needs)": (SCOPE, 2, "'needs' is indexed with an input's name, needs[self]"),
    "needs[dim]": (SCOPE, 5, "needs[...] takes the name of a tensor input."),
    "needs[selv]": (SCOPE, 5, "needs[...] takes the name of a tensor input. Did you mean 'self'?"),
    "out * 2": (SCOPE, 0, "no input or output is named 'out'."),
    "grad * 2": (MANY, 0, "'grad' may be any of 3 gradients; write grads[i], or say output_differentiability"),
    "self_t": (SCOPE, 0, "no input or output is named 'self_t'. Did you mean 'self'?"),
    "grads[1] * 2": (SEVERAL, 5, "there is no such gradient; there is grads[0]"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_names_that_do_not_exist(text: str) -> None:
    scope, position, reason = ERRORS[text]
    with pytest.raises(FormulaError) as caught:
        uses(text, scope)
    assert caught.value.position == position
    assert caught.value.reason.startswith(reason)


def test_no_gradient_at_all() -> None:
    scope = Scope.of(parse_schema("eq(Tensor self, Tensor other) -> Tensor"), output_differentiability=[False])
    with pytest.raises(FormulaError, match="'grad' is used, but no output is differentiable"):
        uses("grad", scope)


def test_each_formula_apart() -> None:
    scope = Scope.of(parse_schema("mul(Tensor self, Tensor other) -> Tensor"))
    texts = {"self": "grad * other.conj()", "other": "grad * self.conj() * self.size(0)"}
    found = analyze(scope, {key: parse_formula(text) for key, text in texts.items()})
    assert found.formulas["self"].values == {"other"}
    assert found.total.values == {"self", "other"} and found.total.gradients == {0}
    assert found.value_readers("other") == ("self",)
    assert found.value_readers("self") == ("other",)
    assert found.value_readers("result") == ()
    assert found.metadata_readers("self", "shape") == ("other",)
    assert found.metadata_readers("self", "dtype") == ()


def test_an_input_named_grad_gives_way_to_the_gradient() -> None:
    scope = Scope.of(parse_schema("index_backward(Tensor grad, SymInt[] input_sizes) -> Tensor"))
    found = uses("index(grad, input_sizes)", scope)
    assert found.gradients == {0} and not found.values


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("grad.reshape(self.shape)", "grad.reshape(self_shape)"),
        ("self.size(dim)", "self_shape[dim]"),
        ("self.size()[0]", "self_shape[0]"),
        ("self.dim() + self.ndim", "self_ndim + self_ndim"),
        ("self.stride(1)", "self_stride[1]"),
        ("a(bias is None, bias is not None)", "a(not bias_present, bias_present)"),
        ("tensors.size(dim)", "[each[dim] for each in tensors_shape]"),
        ("tensors.shape", "tensors_shape"),
        ("tensors[0].size(dim) + len(tensors)", "tensors_shape[0][dim] + tensors_length"),
        ("self.size(self.ndim - 1)", "self_shape[self_ndim - 1]"),
        ("f(self, self.dtype)", "f(self, self_dtype)"),
        ("grad.shape", "grad.shape"),
    ],
)
def test_metadata_become_names_of_saved_values(text: str, rewritten: str) -> None:
    expr = replace_metadata(SCOPE, parse_formula(text))
    assert str(expr) == rewritten
    left = {node.name for node in ast.walk(expr) if isinstance(node, ast.Name)} & (SCOPE.tensors | SCOPE.lists)
    assert left == uses(text).values
    for name, kinds in uses(text).metadata.items():
        assert all(saved_name(name, kind) in rewritten for kind in kinds)


def sharing(**texts: str) -> tuple[list[str], dict[str, str]]:
    found = shared({key: parse_formula(text) for key, text in texts.items()})
    definitions = [f"{d.name} = {d.expr} for {'+'.join(sorted(d.users))}" for d in found.definitions]
    return definitions, {key: str(expr) for key, expr in found.formulas.items()}


def test_what_two_formulas_share_is_computed_once() -> None:
    assert sharing(a="f(grad * x) * y", b="f(grad * x) * z") == (
        ["shared_0 = f(grad * x) for a+b"],
        {"a": "shared_0 * y", "b": "shared_0 * z"},
    )


def test_a_smaller_one_inside_a_larger_one() -> None:
    assert sharing(a="f(g(x * y) + 1)", b="f(g(x * y) + 1) * z", c="g(x * y)") == (
        ["shared_1 = g(x * y) for a+b+c", "shared_0 = f(shared_1 + 1) for a+b"],
        {"a": "shared_0", "b": "shared_0 * z", "c": "shared_1"},
    )


def test_names_metadata_and_literals_are_not_shared() -> None:
    for text in ("grad", "self.shape", "self.size(0)", "grads[0]", "2 * 3", "-1", "(grad, x)", "x.dtype"):
        assert sharing(a=f"f({text})", b=f"g({text})")[0] == []


def test_what_one_formula_computes_twice_is_shared_too() -> None:
    assert sharing(a="f(x) + f(x)") == (["shared_0 = f(x) for a"], {"a": "shared_0 + shared_0"})
    assert sharing(a="f(x) + g(x)") == ([], {"a": "f(x) + g(x)"})


def test_branches_are_not_computed_early() -> None:
    assert sharing(a="f(x) if needs[x] else y", b="f(x) * 2")[0] == []
    assert sharing(a="f(x) if f(x) > 0 else y", b="f(x) * 2") == (
        ["shared_0 = f(x) for a+b"],
        {"a": "shared_0 if shared_0 > 0 else y", "b": "shared_0 * 2"},
    )
    assert sharing(a="c and f(x)", b="c and f(x)")[0] == []


def test_names_that_are_taken_are_skipped() -> None:
    assert sharing(a="f(shared_0)", b="g(f(shared_0))")[0] == ["shared_1 = f(shared_0) for a+b"]


names = st.sampled_from(["x", "y", "grad"]).map(ast.Name)
trees = st.recursive(
    names,
    lambda expr: st.one_of(
        st.builds(lambda a: ast.Call("f", (a,)), expr),
        st.builds(ast.Binary, st.sampled_from(["+", "*"]), expr, expr),
        st.builds(ast.Conditional, expr, expr, expr),
        st.builds(lambda a: ast.Method(a, "conj"), expr),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), trees))
def test_sharing_changes_no_meaning(formulas: dict[str, ast.Expr]) -> None:
    """Put back, the definitions give the formulas; each refers to earlier ones only."""
    found = shared(formulas)
    defined: dict[str, ast.Expr] = {}

    def put_back(expr: ast.Expr) -> ast.Expr:
        return ast.transform(expr, lambda node: defined.get(node.name) if isinstance(node, ast.Name) else None)

    for definition in found.definitions:
        assert definition.users and definition.users <= set(formulas)
        defined[definition.name] = put_back(definition.expr)
        assert "shared" not in str(defined[definition.name])
    assert {key: put_back(expr) for key, expr in found.formulas.items()} == formulas
