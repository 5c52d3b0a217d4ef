from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.autograd import engine
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples

POINTWISE = sorted(name for name, op in REGISTRY.operators.items() if op.node is not None and op.node.pointwise)


def test_which_operators_are_proved():
    proved = {"add", "sub", "mul", "div", "pow", "neg", "abs", "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "where"}
    assert proved <= {name.removeprefix("tp::") for name in POINTWISE}
    for name in ("sum", "mean", "matmul", "reshape", "expand", "softmax", "index", "cat", "max.dim"):
        assert not REGISTRY.find(name).node.pointwise, name
    assert not REGISTRY.find("sgn").node.pointwise  # its formula calls a helper, into which the proof does not look


@pytest.mark.parametrize("name", POINTWISE)
def test_what_is_proved_is_true_of_every_sample(name):
    """The engine trusts it, so a gradient of another shape would pass unnoticed."""
    op = REGISTRY.operators[name]
    seen = 0
    for sample in (s for dtype in ("float64", "complex128") for s in samples(op, dtype=dtype)):
        args, kwargs = sample.build(tp)
        args = [
            a.requires_grad_() if isinstance(a, tp.Tensor) and a.is_leaf and a.dtype.is_inexact else a for a in args
        ]
        result = op.function(*args, **kwargs)
        node = result.grad_fn
        if node is None or type(node) is not op.node:
            continue
        for edge, grad in zip(node.edges, node.backward(tp.ones_like(result).detach(), False), strict=True):
            if edge is not None:
                assert grad.shape == result.shape, sample.name
                assert engine.fit(grad, edge).shape == edge.shape
                seen += 1
    assert seen
