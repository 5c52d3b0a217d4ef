"""The nodes: what each saves, what its backward computes and how often, from the plan down to a call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.autograd.node import MULTIPLE, PLAIN, SAVING, Node
from tensorplay_core.codegen.context import CodegenContext, constant
from tensorplay_core.codegen.generate import texts
from tensorplay_core.codegen.targets.node_plan import Plan, plan
from tensorplay_core.codegen.targets.nodes import node_name
from tensorplay_core.ops import _generated_functional as F


def plan_of(context: CodegenContext, name: str) -> Plan:
    derivative = context.derivative(context.contract.by_name[f"tp::{name}"])
    assert derivative is not None
    return plan(derivative)


def kinds(found: Plan) -> dict[str, tuple[str, str]]:
    return {entry.name: (entry.kind, entry.text) for entry in found.saved}


# the plan


def test_sum_saves_metadata_only(ours: CodegenContext) -> None:
    found = plan_of(ours, "sum")
    assert kinds(found) == {
        "self_shape": ("value", "self.shape"),
        "dim": ("value", "dim"),
        "keepdim": ("value", "keepdim"),
    }
    assert found.kind is None and found.saves_input == () and not found.saves_result
    assert found.saved_items("result", "node", {}) == ["self.shape", "dim", "keepdim"]


def test_mul_saves_each_input_only_for_the_other_ones_gradient(ours: CodegenContext) -> None:
    found = plan_of(ours, "mul")
    assert [(e.name, e.kind, e.readers) for e in found.saved] == [
        ("self", "tensor", ("other",)),
        ("other", "tensor", ("self",)),
    ]
    assert found.kind == "SAVING" and found.saves_input == ("self", "other")
    assert found.saved_items("result", "node", {"self": "n0", "other": "n1"}) == [
        "save(self) if n1 is not None else None",
        "save(other) if n0 is not None else None",
    ]


def test_exp_saves_its_result_and_log_its_input(ours: CodegenContext) -> None:
    exp, log = plan_of(ours, "exp"), plan_of(ours, "log")
    assert kinds(exp) == {"result": ("result", "result")} and exp.saves_result and exp.saves_input == ()
    assert exp.saved_items("y", "node", {}) == ["save(y, node)"]
    assert kinds(log) == {"self": ("tensor", "self")} and not log.saves_result


def test_a_list_of_tensors_is_saved_as_a_list(ours: CodegenContext) -> None:
    assert kinds(plan_of(ours, "cat")) == {
        "tensors_shape": ("value", "[x.shape for x in tensors]"),
        "dim": ("value", "dim"),
    }
    index = plan_of(ours, "index")
    assert index.inputs == ("self",) and kinds(index)["indices"] == ("tensors", "indices")
    assert "tuple([save(x) for x in indices])" in index.saved_items("result", "node", {})


def test_one_of_several_results_is_saved_by_its_number(ours: CodegenContext) -> None:
    found = plan_of(ours, "max.dim")
    assert found.kind == "MULTIPLE"
    assert found.saved_items("result", "node", {})[0] == "save(result[1], node)"


def test_every_plan_saves_what_its_formulas_read_and_nothing_else(ours: CodegenContext) -> None:
    for record in ours.contract.functions:
        derivative = ours.derivative(record)
        if derivative is None:
            continue
        found, total = plan(derivative), derivative.analysis.total
        assert {e.name for e in found.saved if e.kind in ("tensor", "tensors")} == set(total.values)
        assert {e.name for e in found.saved if e.kind == "result"} == set(total.outputs)
        assert len({e.name for e in found.saved}) == len(found.saved)
        assert found.inputs == tuple(a.name for a in derivative.inputs)


def test_names(ours: CodegenContext) -> None:
    names = {record.base_name: node_name(d) for record in ours.contract.functions if (d := ours.derivative(record))}
    assert (names["sum"], names["max.dim"], names["_to_copy"]) == ("SumBackward", "MaxDimBackward", "_ToCopyBackward")
    assert len(set(names.values())) == len(names)


# at run time, on the fast path and on the slow one


@pytest.fixture(params=[False, True], ids=["fast", "slow"])
def path(request: pytest.FixtureRequest) -> Any:
    if not request.param:
        yield
        return
    with tp.testing.force_slow_path():
        yield


def node_of(tensor: tp.Tensor) -> Node:
    node = tensor._node
    assert node is not None
    return node


@pytest.mark.usefixtures("path")
def test_what_real_nodes_hold() -> None:
    x, y, c = tp.ones(2, 3, requires_grad=True), tp.full((2, 3), 2.0, requires_grad=True), tp.full((2, 3), 3.0)
    assert node_of(x.sum(1, True)).saved == ((2, 3), 1, True) and node_of(x.sum()).kind == PLAIN
    both = node_of(x * y)
    assert [saved[0] for saved in both.saved] == [x._array, y._array] or all(
        saved[0] is array for saved, array in zip(both.saved, (x._array, y._array), strict=True)
    )
    left, right = node_of(x * c), node_of(c * y)
    assert left.saved[0] is None and left.saved[1][0] is c._array and left.kind == SAVING
    assert right.saved[1] is None and right.saved[0][0] is c._array
    exp = x.exp()
    ((array, _, of, _, _),) = node_of(exp).saved
    assert array is exp._array and of is None, "a node never holds itself"
    assert node_of(tp.cat([x, y], 1)).saved == ([(2, 3), (2, 3)], 1)
    index = tp.tensor([0, 0, 1])
    shape, indices = sorted(node_of(x[index]).saved, key=lambda saved: not isinstance(saved[0], int))
    assert shape == (2, 3) and indices[0][0] is index._array
    values, _ = x.max(1)
    assert node_of(values).edges[0].kind == MULTIPLE  # type: ignore[union-attr]


@pytest.mark.usefixtures("path")
def test_numbers_are_no_inputs() -> None:
    x = tp.full((2,), 3.0, requires_grad=True)
    node = node_of(x * 2)
    assert node.edges[1] is None and node.saved[0] is None
    assert tp.autograd.grad((2 / x).sum(), x)[0].tolist() == pytest.approx([-2 / 9] * 2)


# contracts of a few lines


Made = Callable[..., Any]


@pytest.fixture
def made(small: Callable[..., CodegenContext], monkeypatch: pytest.MonkeyPatch) -> Made:
    """Makes node classes of a small contract, over our functions; returns the namespace of the generated module."""

    def make(functions: str, derivatives: str) -> Any:
        context = small(functions, derivatives)
        schemas = ModuleType("schemas")
        for record in context.contract.functions:
            setattr(schemas, constant(record.base_name), tp.ops.tp.add._operators()[0])
        monkeypatch.setitem(sys.modules, "tensorplay_core.ops._generated_schemas_small", schemas)
        namespace = ModuleType("nodes")
        text = texts(context, ("nodes",))["_generated_nodes_small.py"]
        exec(compile(text, "_generated_nodes_small.py", "exec", dont_inherit=True), namespace.__dict__)
        return namespace

    return make


class Counting:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Counting]:
    def count(name: str) -> Counting:
        counting = Counting(getattr(F, name))
        monkeypatch.setattr(F, name, counting)
        return counting

    return count


def run(cls: Any, result: Any, *args: Any, grad: Any = None, **kwargs: Any) -> Any:
    """Records a call of which the result is known, and runs the node's backward."""
    cls.record(result, *args, **kwargs)
    node = result._node if isinstance(result, tp.Tensor) else result[0]._node.edges[0]
    return node.backward(tp.ones(2) if grad is None else grad, False)


def leaf(*values: float) -> tp.Tensor:
    return tp.tensor(values, requires_grad=True)


def test_a_shared_subexpression_is_computed_once(made: Made, calls: Callable[[str], Counting]) -> None:
    nodes = made(
        "- func: f(Tensor self, Tensor other) -> Tensor\n",
        "- name: f(Tensor self, Tensor other) -> Tensor\n"
        "  self: exp(self * other) * grad * other\n"
        "  other: exp(self * other) * grad * self\n",
    )
    exp = calls("exp")
    x, y = leaf(0.0, 1.0), leaf(2.0, 3.0)
    to_x, to_y = run(nodes.FBackward, (x.detach() * y.detach()), x, y)
    assert exp.calls == 1
    e = [1.0, tp.exp(tp.tensor(3.0)).item()]
    assert to_x.tolist() == pytest.approx([2.0 * e[0], 3.0 * e[1]]) and to_y.tolist() == pytest.approx([0.0, e[1]])


@pytest.mark.parametrize(("wants_x", "wants_y"), [(True, True), (True, False), (False, True)])
def test_only_what_is_wanted_is_computed(
    made: Made, calls: Callable[[str], Counting], wants_x: bool, wants_y: bool
) -> None:
    nodes = made(
        "- func: f(Tensor self, Tensor other) -> Tensor\n",
        "- name: f(Tensor self, Tensor other) -> Tensor\n  self: exp(other) * grad\n  other: log(self) * grad\n",
    )
    exp, log = calls("exp"), calls("log")
    x, y = tp.tensor([1.0, 2.0], requires_grad=wants_x), tp.tensor([0.0, 1.0], requires_grad=wants_y)
    to_x, to_y = run(nodes.FBackward, tp.ones(2), x, y)
    assert (exp.calls, log.calls) == (wants_x, wants_y)
    assert (to_x is not None, to_y is not None) == (wants_x, wants_y)


SEVERAL = (
    "- func: g(Tensor grad, Tensor self, Tensor other, bool first, bool second) -> (Tensor a, Tensor b)\n"
    "- func: f(Tensor self, Tensor other) -> Tensor\n"
)


def test_one_call_answers_several_inputs_and_knows_which_are_needed(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def g(grad: Any, x: Any, y: Any, first: bool, second: bool) -> tuple[Any, Any]:
        seen.append((first, second))
        return (grad * y if first else None), (grad * x if second else None)

    monkeypatch.setattr(F, "g", g, raising=False)
    nodes = made(
        SEVERAL,
        "- name: f(Tensor self, Tensor other) -> Tensor\n"
        "  self, other: g(grad, self, other, needs[self], needs[other])\n",
    )
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    to_x, to_y = run(nodes.FBackward, tp.ones(2), x, y)
    assert (to_x.tolist(), to_y.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    to_x, to_y = run(nodes.FBackward, tp.ones(2), x, y.detach())
    assert to_x.tolist() == [3.0, 4.0] and to_y is None
    assert seen == [(True, True), (True, False)], "one call for both"


def test_several_outputs(made: Made) -> None:
    nodes = made(
        "- func: f(Tensor self) -> (Tensor a, Tensor b)\n",
        "- name: f(Tensor self) -> (Tensor a, Tensor b)\n  self: grads[0] * b + grads[1] * a\n",
    )
    assert nodes.FBackward.kind == MULTIPLE
    x, a, b = leaf(0.0, 0.0), tp.tensor([1.0, 2.0]), tp.tensor([3.0, 4.0])
    (to_x,) = run(nodes.FBackward, (a, b), x, grad=[tp.ones(2), tp.full((2,), 10.0)])
    assert to_x.tolist() == [13.0, 24.0]
    assert a._node is not None and b._node is not None and a._node.edges == b._node.edges


def test_an_output_without_a_gradient_gets_no_node(made: Made) -> None:
    nodes = made(
        "- func: f(Tensor self) -> (Tensor a, Tensor b)\n",
        "- name: f(Tensor self) -> (Tensor a, Tensor b)\n  self: grads[0]\n  output_differentiability: [true, false]\n",
    )
    x, a, b = leaf(0.0, 0.0), tp.ones(2), tp.ones(2)
    nodes.FBackward.record((a, b), x)
    assert a._node is not None and b._node is None


def test_an_optional_input_that_is_absent(made: Made) -> None:
    nodes = made(
        "- func: f(Tensor self, Tensor? weight=None) -> Tensor\n",
        "- name: f(Tensor self, Tensor? weight=None) -> Tensor\n"
        "  self: grad if weight is None else grad * weight\n"
        "  weight: grad * self\n",
    )
    x, w = leaf(1.0, 2.0), leaf(5.0, 6.0)
    to_x, to_w = run(nodes.FBackward, tp.ones(2), x, None)
    assert to_x.tolist() == [1.0, 1.0] and to_w is None
    to_x, to_w = run(nodes.FBackward, tp.ones(2), x, w)
    assert (to_x.tolist(), to_w.tolist()) == ([5.0, 6.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("formula", "alpha", "beta", "expected"),
    [
        ("grad * (alpha / beta)", 1.0, 0.0, tp.inf),
        ("grad * (-alpha / beta)", 1.0, 0.0, -tp.inf),
        ("grad * (alpha / (beta * 2) + 1)", 3.0, 2.0, 1.75),
        ("grad * alpha ** beta", 0.0, -1.0, tp.inf),
        ("grad * alpha ** (beta - 1)", 3.0, 3.0, 9.0),
        ("grad * (1e200 * alpha) ** beta", 1e100, 2.0, tp.inf),
        ("grad / beta", 1.0, 0.0, tp.inf),
    ],
)
def test_numbers_divide_and_overflow_as_elements_do(
    made: Made, formula: str, alpha: float, beta: float, expected: float
) -> None:
    nodes = made(
        "- func: f(Tensor self, Scalar alpha, Scalar beta) -> Tensor\n",
        f"- name: f(Tensor self, Scalar alpha, Scalar beta) -> Tensor\n  self: {formula}\n",
    )
    (to_x,) = run(nodes.FBackward, tp.ones(2), leaf(1.0, 2.0), alpha, beta)
    assert to_x.tolist() == [expected, expected]


def test_a_list_of_tensors_that_is_saved(made: Made) -> None:
    nodes = made(
        "- func: f(Tensor self, Tensor?[] others) -> Tensor\n",
        "- name: f\n  self: grad * others[1]\n  not_differentiable: [others]\n",
    )
    x, c = leaf(1.0, 2.0), tp.tensor([7.0, 8.0])
    (to_x,) = run(nodes.FBackward, tp.ones(2), x, [None, c])
    assert to_x.tolist() == [7.0, 8.0]
    nodes.FBackward.record(y := tp.ones(2), x, [None, c])
    c.add_(1)
    with pytest.raises(tp.AutogradError, match="modified in place"):
        node_of(y).backward(tp.ones(2), False)


def test_a_list_of_tensors_that_is_differentiated(made: Made) -> None:
    nodes = made(
        "- func: f(Tensor[] tensors, int dim=0) -> Tensor\n",
        "- name: f(Tensor[] tensors, int dim=0) -> Tensor\n  tensors: cat_backward(grad, tensors.shape, dim)\n",
    )
    x, y = leaf(1.0, 2.0), leaf(3.0)
    to_x, to_y = run(nodes.FBackward, tp.ones(3), [x, y], 0, grad=tp.tensor([1.0, 2.0, 3.0]))
    assert (to_x.tolist(), to_y.tolist()) == ([1.0, 2.0], [3.0])


def test_one_gradient_of_a_list_of_results(made: Made) -> None:
    nodes = made("- func: f(Tensor self) -> Tensor[]\n", "- name: f(Tensor self) -> Tensor[]\n  self: grads[0] * 2\n")
    results = [tp.ones(2), tp.ones(2)]
    (to_x,) = run(nodes.FBackward, results, leaf(0.0, 0.0), grad=[tp.tensor([1.0, 3.0]), tp.ones(2)])
    assert to_x.tolist() == [2.0, 6.0]


def test_an_argument_may_be_named_as_the_result(made: Made) -> None:
    nodes = made(
        "- func: f(Tensor self, Tensor result) -> Tensor\n",
        "- name: f(Tensor self, Tensor result) -> Tensor\n  self: grad * result\n  result: grad * self\n",
    )
    to_self, to_result = run(nodes.FBackward, tp.ones(2), leaf(1.0, 2.0), leaf(3.0, 4.0))
    assert (to_self.tolist(), to_result.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_a_long_formula_is_broken_into_lines_and_right(made: Made, small: Callable[..., CodegenContext]) -> None:
    functions = "- func: f(Tensor self, Tensor other) -> Tensor\n"
    long = " + ".join(["exp(self) * other * grad"] * 4)
    derivatives = f"- name: f(Tensor self, Tensor other) -> Tensor\n  self: {long}\n  other: grad\n"
    text = texts(small(functions, derivatives))["_generated_nodes_small.py"]
    assert max(len(line) for line in text.splitlines()) <= 120
    to_x, _ = run(made(functions, derivatives).FBackward, tp.ones(2), leaf(0.0, 0.0), leaf(1.0, 2.0))
    assert to_x.tolist() == [4.0, 8.0]
