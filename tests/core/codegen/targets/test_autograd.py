"""The table that joins operators and nodes."""

from __future__ import annotations

from tensorplay_core.autograd.node import Node
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.targets import autograd
from tensorplay_core.codegen.targets.nodes import node_name
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.ops._generated_autograd import NODES


def test_every_derivative_record_is_in_it_once(ours: CodegenContext) -> None:
    wanted = {
        f.qualified_name: node_name(derivative)
        for f in ours.contract.functions
        if (derivative := ours.derivative(f)) is not None
    }
    assert {op.qualified_name: node.__name__ for op, node in NODES} == wanted
    assert len(NODES) == len(wanted) > 35
    for op, node in NODES:
        assert issubclass(node, Node) and node.op is op and op.node is node


def test_an_operator_without_a_gradient_is_not_in_it(ours: CodegenContext) -> None:
    inside = {op.qualified_name for op, _ in NODES}
    assert not inside & {"tp::eq", "tp::argmax", "tp::zeros", "tp::linear"}
    assert REGISTRY.find("eq").node is None
    for f in ours.contract.functions:
        if f.composite == "implicit":
            assert f.qualified_name not in inside, "an implicit operator gets its gradient from its parts"


def test_the_file(ours: CodegenContext) -> None:
    ((name, text),) = autograd.generate(ours)
    assert name == "_generated_autograd.py"
    assert "    (reduction.MAX_DIM, reduction_nodes.MaxDimBackward),\n" in text
