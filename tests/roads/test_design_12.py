"""Faults seen elsewhere (DESIGN section 12), as tests here: those that can be reached with the operators that exist."""

from __future__ import annotations

import gc
import math
import sys
import weakref

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY

NAN = float("nan")
F = tp.nn.functional


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


# ------------------------------------------------------------------------------------------ silently wrong gradients


def test_writing_through_an_index_is_never_silently_without_a_gradient():
    w = leaf(2.0)
    x = tp.zeros(3, dtype=tp.float64)
    x[0] = w
    (x * x).sum().backward()
    assert w.grad.item() == 4.0
    v = leaf([1.0, 2.0, 3.0])
    y = v * 1
    y[1] = 0.0
    y.sum().backward()
    assert v.grad.tolist() == [1.0, 0.0, 1.0]


def test_the_target_of_cross_entropy_has_a_gradient():
    logits = leaf([[0.5, -1.0, 2.0], [1.0, 0.0, -2.0]])
    target = leaf([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    F.cross_entropy(logits, target).backward()
    expected = (-tp.log_softmax(logits.detach(), 1) / 2).tolist()
    tp.testing.assert_close(target.grad.tolist(), expected, rtol=1e-12, atol=1e-12)
    for reduction in ("mean", "sum", "none"):
        for smoothing in (0.0, 0.1):
            assert tp.autograd.gradcheck(
                lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction, label_smoothing=smoothing),  # noqa: B023
                (logits, target, leaf([1.0, 0.5, 2.0])),
            )


def test_the_weight_of_cross_entropy_has_a_gradient():
    logits, weight = leaf([[0.5, -1.0, 2.0], [1.0, 0.0, -2.0]]), leaf([1.0, 0.5, 2.0])
    target = tp.tensor([2, 0])
    for reduction in ("mean", "sum"):
        assert tp.autograd.gradcheck(
            lambda x, w: F.cross_entropy(x, target, w, reduction=reduction),  # noqa: B023
            (logits, weight),
        )


def test_log_of_a_sum_of_exponentials_along_a_dim():
    """``logsumexp`` from the operators that exist, over each dim, kept and not."""
    x = leaf([[0.5, -1.0, 2.0], [1.0, 0.0, -2.0]])
    for dim in (0, 1, -1, (0, 1), None):
        for keepdim in (False, True):

            def function(x, dim=dim, keepdim=keepdim):
                return x.exp().sum(dim, keepdim).log()

            assert tp.autograd.gradcheck(function, x)
            assert tp.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.tanh(),  # tanhshrink
        lambda x: x * x.sigmoid(),  # silu
        lambda x: x[:2] * x[2:].sigmoid(),  # glu
        lambda x: x[1:] - x[:-1],  # diff
        lambda x: tp.where(x > 0, x, 1.67 * (x.exp() - 1)),  # selu
        lambda x: x.softmax(0) * x.log_softmax(0),
    ],
)
def test_second_gradients(function):
    assert tp.autograd.gradcheck(function, leaf([0.5, -1.0, 2.0, 0.25]))
    assert tp.autograd.gradgradcheck(function, leaf([0.5, -1.0, 2.0, 0.25]))


def test_every_operator_has_a_second_gradient_or_says_that_it_has_none():
    """The formulas are made of operators, so each can be differentiated again: no node is ever a dead end."""
    for op in REGISTRY.operators.values():
        if op.node is not None:
            assert "backward" in vars(op.node), op.qualified_name


def test_nan_is_found_by_every_max():
    x = tp.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]])
    assert math.isnan(x.max().item())
    values, indices = x.max(1)
    assert math.isnan(values[0].item())
    assert (values[1].item(), indices.tolist()) == (6.0, [1, 2])
    values, indices = x.max(0)
    assert math.isnan(values[1].item())
    assert indices.tolist() == [1, 0, 1]
    assert x.argmax().item() == 1
    assert x.argmax(1).tolist() == [1, 2]
    for dtype in (tp.float16, tp.bfloat16, tp.float64):
        assert math.isnan(x.to(dtype).max(1)[0][0].item())
        assert x.to(dtype).argmax(1).tolist() == [1, 2]
    assert math.isnan(tp.relu(tp.tensor(NAN)).item())


def test_a_second_backward_is_an_error_and_not_nothing():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    with pytest.raises(tp.AutogradError, match="retain_graph"):
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    y = (x * x).sum()
    x.grad = None
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


# --------------------------------------------------------------------------------------------------------- no crashes


def test_negative_sizes_are_errors():
    for make in (
        lambda: tp.zeros(-1),
        lambda: tp.ones(2, -3),
        lambda: tp.empty(-(2**40)),
        lambda: tp.full((-1,), 0),
        lambda: tp.rand(-2),
        lambda: tp.randn((3, -1)),
        lambda: tp.eye(-1),
        lambda: tp.randperm(-1),
        lambda: tp.zeros(2).expand(-3, 2),
        lambda: tp.zeros(2).reshape(-2, -1),
        lambda: tp.zeros(2).reshape(-3),
        lambda: tp.zeros(6).view(-2, -3),
        lambda: tp.zeros(2).new_zeros(-1),
    ):
        with pytest.raises(tp.TensorPlayError):
            make()


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0,), (0, 0), (2, 0, 3), ()])
def test_softmax_of_an_empty_tensor(shape):
    for function in (tp.softmax, tp.log_softmax):
        for dim in range(-max(len(shape), 1), max(len(shape), 1)):
            for device in ("cpu", "loopback"):
                x = tp.zeros(shape, device=device, requires_grad=True)
                y = function(x, dim)
                assert y.shape == shape
                y.sum().backward()
                assert x.grad.shape == shape


def test_reductions_of_nothing():
    x = tp.zeros(0, 3)
    assert x.sum().item() == 0
    assert x.sum(0).tolist() == [0.0, 0.0, 0.0]
    assert math.isnan(x.mean().item())
    assert all(math.isnan(v) for v in x.mean(0).tolist())
    assert x.max(1)[0].shape == (0,)
    for wrong in (lambda: x.max(), lambda: x.argmax(), lambda: x.max(0), lambda: x.argmax(0)):
        with pytest.raises(tp.TensorPlayError):
            wrong()
    assert (tp.zeros(2, 0) @ tp.zeros(0, 3)).tolist() == [[0.0] * 3] * 2
    y = leaf([])
    y.sum().backward()
    assert y.grad.shape == (0,)


def test_a_stride_of_zero():
    x = tp.ones(1, 3).expand(4, 3)
    assert x.stride() == (0, 1)
    assert x.sum(0).tolist() == [4.0] * 3
    assert (x @ x.T).tolist() == [[3.0] * 4] * 4
    assert x.softmax(0).tolist() == [[0.25] * 3] * 4
    assert x.clone().stride() == (3, 1)
    assert x.reshape(12).shape == (12,)
    assert x.contiguous().is_contiguous()
    assert tp.cat([x, x]).shape == (8, 3)
    assert x[[3, 0]].tolist() == [[1.0] * 3] * 2
    assert x.max(0)[1].tolist() == [0, 0, 0]
    with pytest.raises(tp.ShapeError, match="overlaps itself"):
        x.add_(1)
    with pytest.raises(tp.TensorPlayError):
        tp.zeros(3)[slice(None, None, 0)]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(5),
        lambda x: x.sum((0, 0)),
        lambda x: x.sum((0, -2)),
        lambda x: x.mean(-3),
        lambda x: x.max(2),
        lambda x: x.argmax(-5),
        lambda x: x.softmax(2),
        lambda x: x.permute(0),
        lambda x: x.permute(0, 0),
        lambda x: x.permute(0, 2),
        lambda x: x.transpose(0, 9),
        lambda x: x.unsqueeze(4),
        lambda x: x.squeeze(7),
        lambda x: x.expand(3),
        lambda x: x.expand(5, 5),
        lambda x: x.reshape(7),
        lambda x: x.reshape(2, 2, 2),
        lambda x: x.select(0, 2),
        lambda x: x.select(3, 0),
        lambda x: x @ x,
        lambda x: x @ tp.ones(()),
        lambda x: x + tp.ones(4),
        lambda x: tp.where(x > 0, x, tp.ones(4)),
        lambda x: tp.cat([]),
        lambda x: tp.cat([x, tp.ones(3)]),
        lambda x: tp.cat([x], 5),
        lambda x: tp.index(x, [None, None, tp.tensor([0])]),
        lambda x: F.linear(x, tp.ones(2, 2)),
        lambda x: F.cross_entropy(x, tp.tensor([0, 9])),
        lambda x: F.cross_entropy(x, tp.tensor([0])),
        lambda x: x.to(tp.int64).mean(),
        lambda x: x.to(tp.complex64) < 1,
        lambda x: x.to(tp.complex64).max(),
        lambda x: tp.exp("a"),
        lambda x: tp.exp(None),
        lambda x: tp.add(x, None),
        lambda x: tp.add(1, 2),
        lambda x: x.sum("a"),
        lambda x: x.sum(1.5),
        lambda x: x.reshape("a"),
        lambda x: x.reshape(2.0, 3.0),
        lambda x: x + tp.ones(2, 3, device="loopback"),
        lambda x: -x.to(tp.bool),
        lambda x: x.to(tp.bool) - x.to(tp.bool),
    ],
)
def test_wrong_calls_are_errors_of_ours_with_and_without_a_gradient(call):
    """Both paths, both with and without a gradient: the same class and the same text."""
    seen = set()
    for grad in (False, True):
        x = tp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=grad)
        with pytest.raises(tp.TensorPlayError) as caught:
            call(x)
        seen.add((type(caught.value), str(caught.value)))
        with tp.testing.force_slow_path(), pytest.raises(tp.TensorPlayError) as caught:
            call(x)
        seen.add((type(caught.value), str(caught.value)))
        assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert len(seen) == 1, seen


def test_a_graph_of_two_hundred_thousand_nodes_is_dropped():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    gc.disable()
    try:
        x = leaf([1.0])
        y = x
        for _ in range(200_000):
            y = y.exp() if y is x else y * 1.0
        last = weakref.ref(y._node)
        del y
        assert last() is None
    finally:
        gc.enable()
        sys.setrecursionlimit(limit)


# ------------------------------------------------------------------------------------------------------- registrations


def test_a_plugin_can_override_a_built_in_operator_with_and_without_a_gradient():
    lib = tp.library.Library("tp", "IMPL")
    lib.impl("neg", lambda self: self * 0 + 7, "CPU", override=True)
    x = tp.tensor([1.0], requires_grad=True)
    try:
        assert tp.neg(tp.tensor([1.0])).tolist() == [7.0]
        assert tp.neg(x).tolist() == [7.0]
        assert (-x).tolist() == [7.0]
    finally:
        lib.close()
    assert (-x).tolist() == [-1.0]


def test_a_device_of_somebody_elses_has_gradients():
    x = tp.ones(3, device="loopback", requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert x.grad.device == x.device
