"""``autograd.Function``: what forward may return and keep, what backward may return, and what is refused."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import tensorplay as tp
from tensorplay.autograd import Function
from tensorplay.autograd.function import FunctionCtx, once_differentiable


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


def function(forward, backward=None, **more) -> type[Function]:
    """A Function ``F`` of plain functions."""
    body = {"forward": staticmethod(forward), **{name: staticmethod(f) for name, f in more.items()}}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    return type("F", (Function,), body)


def grad(y, *xs, **options):
    found = tp.autograd.grad(y.sum(), xs, allow_unused=True, **options)
    return [None if g is None else g.tolist() for g in found]


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x


Identity = function(lambda ctx, x: x, lambda ctx, g: g * 3)


def test_values_gradients_and_names():
    x = leaf([1.0, 2.0])
    y = Square.apply(x)
    assert y.tolist() == [1.0, 4.0]
    assert type(y.grad_fn).__name__ == "SquareBackward"
    assert repr(y) == "tensor([1., 4.], dtype=tensorplay.float64, grad_fn=<SquareBackward>)"
    assert grad(y, x) == [[2.0, 4.0]]
    assert tp.autograd.gradcheck(Square.apply, x) and tp.autograd.gradgradcheck(Square.apply, x)


def test_forward_runs_below_autograd_and_backward_only_records_with_create_graph():
    modes = []

    def forward(ctx, x):
        modes.append(tp.is_grad_enabled())
        return x * 2

    def backward(ctx, g):
        modes.append(tp.is_grad_enabled())
        return g * 2

    x = leaf([1.0])
    F = function(forward, backward)
    grad(F.apply(x), x)
    grad(F.apply(x), x, create_graph=True)
    assert modes == [False, False, False, True]


def test_a_result_that_forward_recorded_gets_the_node_of_the_function():
    def forward(ctx, x):
        with tp.enable_grad():
            return x * x

    x = leaf([1.0, 2.0])
    assert grad(function(forward, lambda ctx, g: g * 100).apply(x), x) == [[100.0, 100.0]]


def test_setup_context_takes_defaults_and_keywords():
    F = function(
        lambda x, a=2: x * a,
        lambda ctx, g: (g * ctx.a, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "a", inputs[1]),
    )
    x = leaf([1.0, 2.0])
    assert grad(F.apply(x), x) == [[2.0, 2.0]]
    assert grad(F.apply(x, a=5), x) == [[5.0, 5.0]]
    with pytest.raises(TypeError, match=r"F.apply: .*unexpected keyword argument 'b'\nfix: see its forward"):
        F.apply(x, b=5)


def test_keywords_count_as_positions():
    F = function(lambda ctx, x, y=1, z=2: x * y * z, lambda ctx, g: (g, None, None))
    x = leaf([1.0])
    assert F.apply(x=x).requires_grad
    assert F.apply(x, z=5).tolist() == [5.0]
    with pytest.raises(tp.ArgumentError, match="keyword-only arguments"):
        function(lambda ctx, x, *, k=1: x).apply(x, k=2)


def test_vjp_is_another_name_of_backward():
    x = leaf([1.0, 2.0])
    assert grad(function(lambda ctx, x: x * 2, vjp=lambda ctx, g: g * 7).apply(x), x) == [[7.0, 7.0]]
    both = function(lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(tp.AutogradError, match="defines both backward and vjp"):
        grad(both.apply(x), x)


def test_what_is_not_defined_is_named():
    x = leaf([1.0])
    with pytest.raises(NotImplementedError, match=r"F \(.*test_function.py:\d+\) has no backward"):
        grad(function(lambda ctx, x: x * 2).apply(x), x)
    with pytest.raises(NotImplementedError, match="a Function needs a forward"):
        type("F", (Function,), {}).apply(x)
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = Square()
    with pytest.raises(RuntimeError, match=r"call Square.apply"):
        instance(x)


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda ctx, g: g, "returned 1 gradient, and forward was given 2 arguments"),
        (lambda ctx, g: (g, None, g), "returned 3 gradients, and forward was given 2 arguments"),
        (lambda ctx, g: [g, g], "returned a list of 2, which counts as one gradient"),
        (lambda ctx, g: (g, g), "returned a gradient for argument 1, which was no tensor"),
        (lambda ctx, g: (3, None), r"returned 3 \(int\) as the gradient of argument 0"),
        (lambda ctx, g: (tp.ones(3), None), r"returned a gradient of shape \(3,\) for argument 0"),
        (lambda ctx, g: (tp.ones(1), None), r"returned a gradient of shape \(1,\) for argument 0"),
        (lambda ctx, g: (g * 1j, None), "returned a complex gradient"),
        (lambda ctx, g: (g.to("loopback"), None), "returned a gradient on loopback:0 for argument 0, which is on cpu"),
    ],
)
def test_wrong_gradients_are_refused_with_the_name_and_the_line(backward, message):
    x = leaf([1.0, 2.0])
    y = function(lambda ctx, x, n: x * n, backward).apply(x, 2)
    with pytest.raises(tp.AutogradError, match=rf"F: its backward \(.*test_function.py:\d+\) {message}.*\n*fix: "):
        y.sum().backward()
    assert x.grad is None


def test_gradients_that_fit_are_cast_and_summed():
    x = leaf([1.0, 2.0])
    double = function(lambda ctx, x, n=0: x * 2, lambda ctx, g: (tp.ones(3, 2), None, None))
    assert grad(double.apply(x), x) == [[3.0, 3.0]]  # broadcast, and more Nones than arguments
    for made in (tp.ones(2), tp.tensor([1, 1])):
        (g,) = tp.autograd.grad(function(lambda ctx, x: x, lambda ctx, g, m=made: m).apply(x).sum(), x)
        assert g.dtype is tp.float64 and g.tolist() == [1.0, 1.0]
    assert grad(function(lambda ctx, x: x * 2, lambda ctx, g: None).apply(x), x) == [None]


def test_a_backward_that_writes_to_its_gradient_is_refused():
    x = leaf([1.0])
    y = function(lambda ctx, x: x * 1, lambda ctx, g: g.mul_(2)).apply(x)
    with pytest.raises(tp.AutogradError, match="wrote to a gradient that it was given"):
        y.backward()


def test_several_results_of_any_kind():
    seen = []

    def forward(ctx, x):
        ctx.mark_non_differentiable(constant := x + 1)
        return x * 2, constant, (x > 1), None, "text"

    def backward(ctx, *grads):
        seen.append(grads)
        return grads[0]

    x = leaf([1.0, 2.0])
    y, constant, mask, none, text = function(forward, backward).apply(x)
    assert (y.requires_grad, constant.requires_grad, mask.requires_grad, none, text) == (
        True,
        False,
        False,
        None,
        "text",
    )
    assert grad(y, x) == [[1.0, 1.0]]
    _, zeros, no, *rest = seen[0]
    assert zeros.tolist() == [0.0, 0.0] and no.dtype is tp.bool and rest == [None, None]


def test_set_materialize_grads():
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    x, seen = leaf([1.0]), []
    y, _ = function(forward, lambda ctx, g, h: (seen.append(h), g)[1]).apply(x)
    assert grad(y, x) == [[1.0]]
    assert seen == [None]


def test_tuples_come_back_as_tuples_and_lists_are_not_tracked():
    x = leaf([1.0])
    (y,) = function(lambda ctx, x: (x * 2,), lambda ctx, g: g * 2).apply(x)
    assert grad(y, x) == [[2.0]]
    assert not function(lambda ctx, x: [x * 2], lambda ctx, g: g).apply(x)[0].requires_grad
    assert not function(lambda ctx, xs: xs[0] * 2, lambda ctx, g: g).apply((x,)).requires_grad


def test_needs_input_grad():
    seen = []
    F = function(lambda ctx, *args: (seen.append(ctx.needs_input_grad), args[0] * 1)[1])
    F.apply(leaf([1.0]), tp.ones(1), 3)
    with tp.no_grad():
        F.apply(leaf([1.0]), leaf([1.0]), None)
    assert seen == [(True, False, False), (True, True, False)]


def test_an_input_that_comes_back_is_another_tensor():
    x = leaf([1.0, 2.0])
    y = Identity.apply(x)
    assert y is not x and grad(y, x) == [[3.0, 3.0]]
    assert x.is_leaf
    constant = tp.ones(2)
    assert Identity.apply(constant) is not constant
    with tp.no_grad():
        assert not Identity.apply(x).requires_grad
    marked = function(lambda ctx, x: (ctx.mark_non_differentiable(x), x)[1]).apply(x)
    assert not marked.requires_grad and x.requires_grad


def test_a_result_that_is_there_twice_has_both_gradients():
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf([1.0])
    a, b = function(forward, lambda ctx, g, h: g * 10 + h).apply(x)
    assert grad(a + b, x) == [[11.0]]


def test_a_leaf_that_forward_closes_over_stays_a_leaf():
    x, w = leaf([1.0]), leaf([5.0])
    y = function(lambda ctx, x: w, lambda ctx, g: g).apply(x)
    assert y is not w and w.is_leaf and grad(y, x) == [[1.0]]


def test_modes():
    x = leaf([1.0])
    with tp.no_grad():
        assert not Square.apply(x).requires_grad
    with tp.inference_mode():
        y = Square.apply(x)
    assert y.is_inference() and not y.requires_grad
    assert not Square.apply(tp.ones(2)).requires_grad
    with tp.testing.force_slow_path():
        assert grad(Square.apply(x), x) == [[2.0]]


def test_an_exception_in_forward_records_nothing():
    x = leaf([1.0])
    h = x * 1
    with pytest.raises(ZeroDivisionError):
        function(lambda ctx, x: 1 / 0).apply(h)
    assert tp.is_grad_enabled()
    assert h.grad_fn.name == "MulBackward" and grad(h, x) == [[1.0]]


def test_nothing_is_a_cycle():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0, 2.0])
        y = Square.apply(x)
        node = weakref.ref(y.grad_fn)
        (g,) = tp.autograd.grad(y.sum(), x, create_graph=True)
        del y, g
        assert node() is None

        class Kept(Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(y)
                return y, y * 2

            @staticmethod
            def backward(ctx, g, h):
                return g * ctx.saved_tensors[0]

        outputs = Kept.apply(x)
        node = weakref.ref(outputs[0].grad_fn)
        del outputs
        assert node() is None
    finally:
        gc.enable()


def test_threads_back_up_through_one_graph():
    x = leaf([1.0, 2.0])
    y = Square.apply(x).sum()
    found = []

    def run():
        found.extend(tp.autograd.grad(y, x, retain_graph=True)[0].tolist() for _ in range(50))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[2.0, 4.0]] * 200


def test_once_differentiable_raises_rather_than_being_wrong():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0].detach()

    x = leaf([1.0, 2.0])
    assert grad(Once.apply(x), x) == [[2.0, 4.0]]
    (g,) = tp.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(tp.AutogradError, match=r"Once.backward \(.*test_function.py:\d+\) is once_differentiable"):
        g.sum().backward()
    assert x.grad is None


def test_the_context_takes_attributes_and_names_those_it_lacks():
    def forward(ctx, x):
        ctx.shape, ctx.name, ctx.kind = x.shape, "n", 3  # names that a node has too
        return x * 1

    x = leaf([1.0])
    y = function(forward, lambda ctx, g: g * ctx.factor).apply(x)
    assert y.grad_fn.ctx.shape == (1,)
    with pytest.raises(AttributeError, match="ctx has no attribute 'factor'; forward has set: shape, name, kind"):
        y.backward()
    assert not hasattr(FunctionCtx(), "anything")


@pytest.mark.parametrize(("save", "twice"), [(False, True), (True, False)])
def test_a_function_of_several_results_is_freed_by_a_pass_only_where_it_saved_tensors(save, twice):
    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            if save:
                ctx.save_for_backward(x)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            assert not save or ctx.saved_tensors
            return first * 2 + second * 3

    x = tp.tensor(1.0, requires_grad=True)
    one, other = Pair.apply(x)
    one.backward()
    if twice:
        other.backward()
        assert x.grad.item() == 5.0
    else:
        with pytest.raises(tp.AutogradError, match="walked by an earlier backward pass"):
            other.backward()


def test_an_argument_that_comes_back_is_a_view_of_it_also_where_nothing_is_recorded():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    x, w = tp.zeros(2), tp.ones((), requires_grad=True)
    y = Same.apply(x)
    x[0] = w  # y has the value of w now, and could have no gradient of it
    with pytest.raises(tp.AutogradError, match="has been written to since"):
        y.sum()
