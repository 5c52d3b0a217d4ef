"""The checks that gradients are held to: that they accept what is right and find what is wrong."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.differentiation import calls, forward_agrees, is_differentiable


class Wrong(tp.autograd.Function):
    """Twice its argument; the tangent is that of something else."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, t):
        return t * 3


def test_forward_and_reverse_mode_agree_where_they_are_right():
    x = tp.tensor([0.0, 1.0], dtype=tp.float64, requires_grad=True)
    z = tp.tensor([1 + 2j], dtype=tp.complex128, requires_grad=True)
    assert forward_agrees(lambda x: (x.relu(), x.abs().sum()), [x]) is None  # at a kink too
    assert forward_agrees(lambda z, x: z * z.conj() * x.sum(), [z, x]) is None
    assert forward_agrees(lambda x: x.detach(), [x]) is None
    problem = forward_agrees(Wrong.apply, [x])
    assert problem is not None and "by forward mode" in problem


@pytest.mark.parametrize("name", ["tp::mul", "tp::mul_", "tp::masked_fill_.Scalar", "tp::cat", "tp::unbind"])
def test_calls_are_functions_of_their_floating_tensors(name):
    op = REGISTRY.operators[name]
    assert is_differentiable(op)
    found = list(calls(op, "float64"))
    assert len(found) > 2
    for call in found:
        before = [t.tolist() for t in call.tensors]
        assert all(t.requires_grad for t in call.tensors)
        call.function(*call.tensors)
        assert [t.tolist() for t in call.tensors] == before


def test_what_has_no_gradient_is_not_differentiable():
    assert not is_differentiable(REGISTRY.operators["tp::eq"])
