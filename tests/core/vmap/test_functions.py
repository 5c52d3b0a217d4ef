"""Custom operators and ``autograd.Function`` under vmap: their own rules, made ones, loops; no gradient is lost."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import TransformError
from tensorplay_core.vmap.loop import VmapLoopWarning

X = tp.tensor([1.0, 2.0, 3.0], dtype=tp.float64)
W = tp.tensor(2.0, dtype=tp.float64)


class Cube(tp.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x * x * x * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * 3 * x * x * w, grad * x**3

    @staticmethod
    def jvp(ctx, x_t, w_t):
        raise AssertionError("not used")


class Doubled(tp.autograd.Function):
    calls = 0

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def vmap(info, in_dims, x):
        Doubled.calls += 1
        assert info.batch_size == 3 and info.randomness == "error" and in_dims == (0,)
        return Doubled.apply(x.unsqueeze(1)), 0


class Old(tp.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_rule_is_made_of_forward_and_backward():
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    y = tp.vmap(Cube.apply, (0, None))(x, w)
    assert y.tolist() == [2.0, 16.0, 54.0]
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 24.0, 54.0] and w.grad.item() == 36.0


def test_gradients_of_each_sample_and_of_what_they_share():
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    found = tp.vmap(tp.func.grad(Cube.apply), (0, None))(x, w)
    assert found.tolist() == [6.0, 24.0, 54.0]
    found.sum().backward()  # of 3 x² w: the outer tape sees through both levels
    assert x.grad.tolist() == [12.0, 24.0, 36.0] and w.grad.item() == 42.0


def test_nested_gradients():
    assert tp.func.grad(tp.func.grad(Cube.apply))(W, W).item() == 24.0
    assert tp.vmap(tp.func.grad(tp.func.grad(Cube.apply)), (0, None))(X, W).tolist() == [12.0, 24.0, 36.0]


def test_a_rule_of_its_own():
    Doubled.calls = 0
    x = X.clone().requires_grad_()
    y = tp.vmap(Doubled.apply)(x)
    assert y.shape == (3, 1) and Doubled.calls == 1
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_what_says_nothing_of_levels_is_refused():
    with pytest.raises(TransformError, match=r"(?s)forward takes ctx.*fix: .*setup_context"):
        tp.vmap(Old.apply)(X)

    class Silent(Cube):
        generate_vmap_rule = False

    with pytest.raises(TransformError, match=r"(?s)says nothing about batches.*generate_vmap_rule"):
        tp.vmap(Silent.apply, (0, None))(X, W)


class Square(tp.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, scale=1.0):
        return x * x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.scale = inputs
        ctx.save_for_backward(x, None)
        ctx.save_for_forward(None, x)

    @staticmethod
    def backward(ctx, grad):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return 2 * x * grad * ctx.scale, None

    @staticmethod
    def jvp(ctx, tangent, _):
        nothing, x = ctx.saved_tensors
        assert nothing is None
        return 2 * x * tangent * ctx.scale


def ones():
    return tp.ones(3, dtype=tp.float64)


def test_tangents_and_gradients_save_apart():
    two_x = [2.0, 4.0, 6.0]
    assert tp.vmap(tp.func.grad(Square.apply))(X).tolist() == two_x
    assert tp.func.jvp(tp.vmap(Square.apply), (X,), (ones(),))[1].tolist() == two_x
    assert tp.vmap(lambda x: tp.func.jvp(Square.apply, (x,), (x,))[1])(X).tolist() == [2.0, 8.0, 18.0]
    assert tp.func.hessian(lambda x: Square.apply(x).sum())(X).tolist() == np.diag([2.0, 2.0, 2.0]).tolist()
    assert tp.func.jacfwd(tp.vmap(lambda x: Square.apply(x, 2.0)))(X).tolist() == np.diag([4.0, 8.0, 12.0]).tolist()


def test_tangents_of_several_results_some_of_which_have_none():
    class Rounded(tp.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return x * w, x.round()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, grad, _):
            x, w = ctx.saved_tensors
            return grad * w, None if not ctx.needs_input_grad[1] else grad * x

        @staticmethod
        def jvp(ctx, x_t, w_t):
            x, w = ctx.saved_tensors
            return x_t * w + x * w_t, None

    w = W.clone().requires_grad_()
    batched = tp.vmap(Rounded.apply, (0, None))
    assert [t.tolist() for t in tp.func.jvp(batched, (X, w), (ones(), W))[1]] == [[4.0, 6.0, 8.0], [0.0, 0.0, 0.0]]
    assert tp.func.grad(lambda x, w: batched(x, w)[0].sum(), (0, 1))(X, W)[1].item() == 6.0
    assert tp.func.grad(lambda x: batched(x, W)[0].sum())(X).tolist() == [2.0, 2.0, 2.0]


def test_a_made_rule_serves_every_level():
    square = np.array([1.0, 4.0, 9.0])
    both = tp.stack([X, X + 1])
    assert tp.vmap(tp.vmap(Square.apply))(both).tolist() == (both.numpy() ** 2).tolist()
    found = tp.vmap(tp.func.grad(lambda r: tp.vmap(Square.apply)(r).sum()))(both)
    assert found.tolist() == (2 * both.numpy()).tolist()
    assert tp.vmap(tp.func.jacrev(tp.vmap(Square.apply)))(both)[0].tolist() == np.diag(2 * X.numpy()).tolist()
    shared = X.clone().requires_grad_()
    tp.vmap(lambda row: tp.vmap(Square.apply)(shared) + row)(both).sum().backward()
    assert shared.grad.tolist() == [4.0, 8.0, 12.0] and square.sum() == 14.0


def test_results_that_are_no_tensors():
    class Counted(Square):
        @staticmethod
        def forward(x):
            return x * 2, 7

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    def function(x):
        double, seven = Counted.apply(tp.ones(()))
        assert seven == 7
        return x + double

    assert tp.vmap(function)(X).tolist() == [3.0, 4.0, 5.0]


def test_lists_without_a_batched_tensor():
    class Scaled(Square):
        @staticmethod
        def forward(x, scales):
            return x * scales[0]

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.scales = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.scales[0], None

    assert tp.vmap(lambda x: x + Scaled.apply(tp.ones(()), [2.0, 3.0]))(X).tolist() == [3.0, 4.0, 5.0]
    assert tp.vmap(lambda x: Scaled.apply(x, [2.0, 3.0]))(X).tolist() == [2.0, 4.0, 6.0]


@pytest.fixture
def total():
    lib = tp.library.Library("vmapped", "FRAGMENT")
    lib.define("total(Tensor x, float factor=1.0) -> Tensor")
    lib.impl("total", lambda x, factor: x.sum() * factor, "Composite")
    yield lib
    lib.close()


def test_an_operator_without_a_rule_runs_its_composite_kernel(total):
    assert tp.vmap(tp.ops.vmapped.total)(tp.ones(2, 3)).tolist() == [3.0, 3.0]


def test_a_rule_for_an_operator(total):
    def rule(info, in_dims, x, factor):
        assert info.batch_size == 2 and in_dims == (0, None)
        return x.sum(1) * factor + 100, 0

    tp.library.register_vmap("vmapped::total", rule, lib=total)
    assert tp.vmap(lambda x: tp.ops.vmapped.total(x, 2.0))(tp.ones(2, 3)).tolist() == [106.0, 106.0]


def test_a_rule_that_returns_something_else_is_refused(total):
    tp.library.register_vmap("vmapped::total", lambda info, in_dims, x, factor: x, lib=total)
    with pytest.raises(TransformError, match="must return a pair"):
        tp.vmap(tp.ops.vmapped.total)(tp.ones(2, 3))


def test_a_kernel_that_asks_for_values_is_called_in_a_loop_and_keeps_its_gradient():
    @tp.library.custom_op("vmapped::sine", mutates_args=())
    def sine(x: tp.Tensor) -> tp.Tensor:
        return tp.from_numpy(np.sin(x.numpy()))

    sine.register_autograd(
        lambda ctx, grad: grad * ctx.x.cos(), setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0])
    )
    x = X.clone().requires_grad_()
    with pytest.warns(VmapLoopWarning, match="register_vmap"):
        y = tp.vmap(sine)(x)
    assert np.allclose(y.detach().numpy(), np.sin(X.numpy()))
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), np.cos(X.numpy()))
