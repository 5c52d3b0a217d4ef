"""Registered gradients: values of all orders, contexts, what a node keeps, and each wrong use with its remedy."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.autograd.node import AccumulateGrad
from tensorplay_core.dispatch.registry import REGISTRY

custom_op = tp.library.custom_op


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


@pytest.fixture
def mul():
    @custom_op("t::mul", mutates_args=())
    def mul(x: tp.Tensor, y: tp.Tensor, scale: float = 1.0) -> tp.Tensor:
        return tp.from_numpy(x.numpy() * y.numpy() * scale)

    def setup_context(ctx, inputs, output):
        x, y, ctx.scale = inputs
        ctx.save_for_backward(x, y)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y * ctx.scale, grad * x * ctx.scale, None

    mul.register_autograd(backward, setup_context=setup_context)
    return mul


def test_values_and_gradients_of_every_order(mul):
    x, y = leaf([1.0, -2.0]), leaf([3.0, 0.5])
    z = mul(x, y, 2.0)
    assert z.tolist() == [6.0, -2.0] and z.grad_fn.name == "MulBackward"
    z.sum().backward()
    assert x.grad.tolist() == [6.0, 1.0] and y.grad.tolist() == [2.0, -4.0]
    tp.autograd.gradcheck(lambda x, y: mul(x, y, 0.5), (x, y))
    tp.autograd.gradgradcheck(lambda x, y: mul(x, y, 0.5), (x, y))
    (g,) = tp.autograd.grad(mul(mul(x, x), x).sum(), x, create_graph=True)  # x ** 3
    (h,) = tp.autograd.grad(g.sum(), x, create_graph=True)
    (third,) = tp.autograd.grad(h.sum(), x)
    assert (g.tolist(), h.tolist(), third.tolist()) == ([3.0, 12.0], [6.0, -12.0], [6.0, 6.0])


def test_a_gradient_is_summed_over_what_was_broadcast_and_cast_to_its_input(mul):
    x, y = tp.ones(3, 1, requires_grad=True), leaf([[1.0, 2.0]])
    z = mul(x, y)
    assert z.shape == (3, 2)
    z.sum().backward()
    assert x.grad.tolist() == [[3.0]] * 3 and x.grad.dtype is tp.float32 and y.grad.tolist() == [[3.0, 3.0]]


def test_the_node_is_like_that_of_a_built_in_operator(mul):
    x, y = leaf([1.0]), tp.ones(1, dtype=tp.float64)
    node = mul(x, y).grad_fn
    assert repr(node) == "<MulBackward>" and not node.is_leaf
    (edge, _), (none, _) = node.next_functions
    assert isinstance(edge, AccumulateGrad) and none is None
    (table_top, placeholder) = REGISTRY.find("t::mul").table["Autograd"]
    assert table_top.where.startswith(__file__) and table_top.kernel_name.endswith("MulBackward")
    assert placeholder.placeholder


def test_explain_and_ops_show_name_the_formula(mul):
    from click.testing import CliRunner

    from tensorplay_core.cli import main

    x = leaf([1.0])
    for what in (mul, tp.ops.t.mul, "t::mul"):
        text = str(tp.explain(what, x, x.detach()))
        assert "records MulBackward, because x requires grad" in text and "test_gradient.py:" in text
    with tp.no_grad():
        assert "records nothing: gradients are off here" in str(tp.explain(mul, x, x))
    shown = CliRunner().invoke(main, ["ops", "show", "t::mul"]).output
    assert "x, y: mul.backward" in " ".join(shown.split()) and "test_gradient.py:" in shown
    assert "MulBackward from tests" in shown and "beneath it: no_formula" in shown


def test_nothing_is_recorded_without_need(mul):
    calls = []
    mul.register_autograd(lambda ctx, grad: (None,) * 3, setup_context=lambda ctx, inputs, output: calls.append(1))
    x = leaf([1.0])
    assert not mul(x.detach(), x.detach()).requires_grad
    with tp.no_grad():
        assert not mul(x, x).requires_grad
    with tp.inference_mode():
        assert not mul(x, x).requires_grad
    assert calls == []
    assert mul(x, x).requires_grad and calls == [1]


def test_the_context_says_whose_gradient_is_wanted():
    seen = []

    @custom_op("t::needs", mutates_args=())
    def op(x: tp.Tensor, n: int, y: tp.Tensor | None, zs: list[tp.Tensor], w: tp.Tensor) -> tp.Tensor:
        return x + 1

    def setup_context(ctx, inputs, output):
        seen.append((ctx.needs_input_grad, tp.is_grad_enabled(), inputs[3].__class__))

    op.register_autograd(
        lambda ctx, grad: (seen.append(ctx.needs_input_grad), (grad, None, None, [None, grad], None))[1],
        setup_context=setup_context,
    )
    x, z = leaf([1.0]), leaf([1.0])
    op(x, 1, None, [x.detach(), z], x.detach()).sum().backward()
    assert seen == [
        ((True, False, False, [False, True], False), False, list),
        (True, False, False, [False, True], False),
    ]
    assert x.grad.tolist() == z.grad.tolist() == [1.0]


# ------------------------------------------------------------------------------------------ several inputs and results


@pytest.fixture
def several():
    @custom_op("t::several", mutates_args=())
    def several(xs: list[tp.Tensor], k: float) -> tuple[tp.Tensor, list[tp.Tensor], tp.Tensor, int]:
        a = [x.numpy() for x in xs]
        return tp.from_numpy(sum(a) * k), [tp.from_numpy(v * v) for v in a], tp.from_numpy(a[0].argmax()), len(a)

    def setup_context(ctx, inputs, output):
        xs, ctx.k = inputs
        ctx.save_for_backward(*xs)
        several.contexts.append(ctx)

    def backward(ctx, grad, squares, none, number):
        several.got.append((grad, squares, none, number))
        zero = [0.0 if g is None else g * 2 * x for g, x in zip(squares, ctx.saved_tensors, strict=True)]
        return [z + (0.0 if grad is None else grad * ctx.k) for z in zero], None

    several.contexts, several.got = [], []
    several.register_autograd(backward, setup_context=setup_context)
    return several


def test_lists_of_tensors_go_in_and_come_out(several):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    total, (xx, yy), top, count = several([x, y], 2.0)
    assert (total.tolist(), xx.tolist(), yy.tolist()) == ([8.0, 14.0], [1.0, 4.0], [9.0, 25.0])
    assert (top.item(), count, top.requires_grad) == (1, 2, False)
    (total.sum() + yy.sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0] and y.grad.tolist() == [8.0, 12.0]
    ((grad, squares, none, number),) = several.got
    assert grad.tolist() == [1.0, 1.0] and [s.tolist() for s in squares] == [[0.0, 0.0], [1.0, 1.0]]
    assert none.tolist() == 0 and none.dtype is tp.int64 and number is None


def test_gradients_that_never_came_are_zeros_or_none(several):
    x = leaf([1.0, 2.0])
    _, (xx,), _, _ = several([x], 2.0)
    xx.sum().backward()
    assert several.got[-1][0].tolist() == [0.0, 0.0]
    tp.library.register_autograd(
        "t::several",
        lambda ctx, grad, squares, none, number: (several.got.append((grad, squares, none, number)), ([None], None))[1],
        setup_context=lambda ctx, inputs, output: ctx.set_materialize_grads(False),
    )
    _, (xx,), _, _ = several([x], 2.0)
    xx.sum().backward()
    grad, (square,), none, number = several.got[-1]
    assert (grad, none, number) == (None, None, None) and square.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [2.0, 4.0]  # None adds nothing


def test_second_gradients_through_lists(several):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 5.0])

    def function(x, y):
        total, (xx, yy), _, _ = several([x, y], 2.0)
        return total * xx, yy

    tp.autograd.gradcheck(function, (x, y))
    tp.autograd.gradgradcheck(function, (x, y))


def test_a_result_marked_as_not_differentiable():
    @custom_op("t::parts", mutates_args=())
    def parts(x: tp.Tensor) -> tuple[tp.Tensor, tp.Tensor]:
        return x * 2, x * 0 + 7

    parts.register_autograd(
        lambda ctx, a, b: a * 2, setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(output[1])
    )
    x = leaf([1.0])
    a, b = parts(x)
    assert a.requires_grad and not b.requires_grad
    (a + b).sum().backward()
    assert x.grad.tolist() == [2.0]
    parts.register_autograd(
        lambda ctx, a, b: a, setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(*output)
    )
    assert not any(r.requires_grad for r in parts(x))


def test_keyword_only_arguments_come_apart_with_their_defaults():
    seen = []

    @custom_op("t::keywords", mutates_args=())
    def op(x: tp.Tensor, n: int = 2, *, by: float = 3.0, sizes: list[int] | None = None) -> tp.Tensor:
        return x * n * by

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.n, ctx.by = inputs[1], keyword_only_inputs["by"]
        seen.append(keyword_only_inputs)

    op.register_autograd(lambda ctx, grad: (grad * ctx.n * ctx.by, None), setup_context=setup_context)
    x = leaf([1.0])
    (op(x) + op(x, by=5.0, sizes=(1, 2))).sum().backward()
    assert x.grad.tolist() == [16.0]
    assert seen == [{"by": 3.0, "sizes": None}, {"by": 5.0, "sizes": [1, 2]}]


# ------------------------------------------------------------------------------------------------ what a node keeps


def square_with(setup_context, backward):
    op = custom_op("t::square", lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(backward, setup_context=setup_context)
    return op


def save_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def save_output(ctx, inputs, output):
    ctx.save_for_backward(output, None)


@pytest.mark.parametrize(("setup", "name"), [(save_input, "x"), (save_output, "result")])
def test_a_saved_tensor_that_was_written_to_since_is_an_error(setup, name):
    op = square_with(setup, lambda ctx, grad: grad * ctx.saved_tensors[0])
    a = leaf([1.0, 2.0])
    x = a * 1
    y = op(x)
    with tp.no_grad():
        (x if name == "x" else y).add_(1)
    with pytest.raises(
        tp.AutogradError, match=rf"t::square saved '{name}' \(float64, shape \(2,\)\).* at version 1 now"
    ):
        y.sum().backward()
    assert a.grad is None


def test_a_tensor_kept_as_an_attribute_is_kept_like_a_saved_one():
    def setup_context(ctx, inputs, output):
        ctx.x, ctx.out, ctx.text = inputs[0], output, "kept"

    op = square_with(setup_context, lambda ctx, grad: grad * 2 * ctx.x * (1 if ctx.text == "kept" else 0))
    x = leaf([1.0, 2.0])
    tp.autograd.gradgradcheck(op, x)
    a = x * 1
    y = op(a)
    with tp.no_grad():
        a.add_(1)
    with pytest.raises(tp.AutogradError, match="t::square saved 'x'"):
        y.sum().backward()


def test_the_second_gradient_goes_through_saved_inputs_and_results():
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * 2 * y / x

    op = square_with(lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output), backward)
    x = leaf([1.0, -2.0])
    tp.autograd.gradcheck(op, x)
    tp.autograd.gradgradcheck(op, x)


@pytest.mark.parametrize("keep", ["saved", "attribute"])
@pytest.mark.parametrize("several", [False, True])
def test_memory_is_freed_without_the_collector(keep, several):
    def setup_context(ctx, inputs, output):
        outputs = output if several else (output,)
        if keep == "saved":
            ctx.save_for_backward(*inputs, *outputs)
        else:
            ctx.x, ctx.y = inputs[0], outputs[-1]
            ctx.big = np.ones(3)

    schema = f"(Tensor x) -> {'(Tensor, Tensor)' if several else 'Tensor'}"
    op = custom_op("t::kept", lambda x: (x * x, x + 1) if several else x * x, mutates_args=(), schema=schema)

    def backward(ctx, *grads):
        kept = ctx.saved_tensors[-1] if keep == "saved" else ctx.y
        return grads[0] * kept

    op.register_autograd(backward, setup_context=setup_context)
    gc.collect()
    gc.disable()
    try:
        for graph in (None, False, True):
            x = leaf([1.0, 2.0])
            a = x * 1
            result = op(a)
            y = result[0] if several else result
            watched = [weakref.ref(t) for t in (a, y, a._node, y._node)]
            if graph is not None:
                (g,) = tp.autograd.grad(y.sum(), x, create_graph=graph)
                watched.append(weakref.ref(g))
                g = None
            a = y = result = None
            assert [ref() for ref in watched] == [None] * len(watched), graph
    finally:
        gc.enable()


def test_a_pass_frees_what_the_context_kept_unless_told_not_to():
    class Thing:
        pass

    kept = []

    def setup_context(ctx, inputs, output):
        ctx.thing = Thing()
        kept.append(weakref.ref(ctx.thing))

    op = square_with(setup_context, lambda ctx, grad: (ctx.thing, grad)[1])
    y = op(leaf([1.0])).sum()
    y.backward(retain_graph=True)
    assert kept[0]() is not None
    y.backward()
    assert kept[0]() is None
    with pytest.raises(tp.AutogradError, match=r"SquareBackward has been walked .*\nfix: pass retain_graph=True"):
        y.backward()


def test_a_context_may_be_written_to_in_backward():
    def backward(ctx, grad):
        ctx.count = getattr(ctx, "count", 0) + 1
        return grad * ctx.count

    op = square_with(None, backward)
    x = leaf([1.0])
    y = op(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [3.0]


def test_threads_may_walk_one_graph(mul):
    x = leaf(np.arange(1.0, 50.0))
    y = mul(x, x).sum()
    found = []

    def walk():
        found.append(tp.autograd.grad(y, x, retain_graph=True)[0].tolist())

    threads = [threading.Thread(target=walk) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert found == [[2.0 * i for i in range(1, 50)]] * 8


def test_a_parameter_used_in_backward_leaves_no_graph_in_the_gradient():
    weight = leaf([3.0])
    op = square_with(None, lambda ctx, grad: grad * weight)
    x = leaf([1.0])
    op(x).sum().backward()
    assert x.grad.tolist() == [3.0] and x.grad.grad_fn is None and weight.grad is None


# ------------------------------------------------------------------------------------------------------ wrong use


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda g: g, r"returned 1 gradient, and the operator has 3 inputs \(x, y, scale\)"),
        (lambda g: (g, g), "returned 2 gradients, and the operator has 3 inputs"),
        (lambda g: (g,) * 4, "returned 4 gradients, and the operator has 3 inputs"),
        (lambda g: [g, g, None], "returned a list of 3, which counts as one gradient"),
        (lambda g: (g, g, g), "returned a gradient for scale, which is no tensor"),
        (lambda g: (2.0, g, None), "returned a float as the gradient of x"),
        (lambda g: (g, g.numpy(), None), "returned a ndarray as the gradient of y"),
        (
            lambda g: (g, g[:1].reshape(1, 1)[:, :0], None),
            r"returned a gradient of shape \(1, 0\) for y, whose shape is \(2,\)",
        ),
        (lambda g: (g.sum(), g, None), r"returned a gradient of shape \(\) for x, whose shape is \(2,\)"),
        (lambda g: ([g], g, None), "returned a list of 1 as the gradient of x"),
    ],
)
def test_what_backward_returned_is_checked(mul, given, message):
    mul.register_autograd(lambda ctx, grad: given(grad))
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    with pytest.raises(tp.AutogradError, match=rf"t::mul: its backward \(.*test_gradient.py:\d+\) {message}") as info:
        mul(x, y).sum().backward()
    assert "\nfix: return" in str(info.value) and x.grad is None and y.grad is None


def test_a_list_of_gradients_is_checked():
    op = custom_op("t::sum", lambda xs: xs[0] + xs[1], mutates_args=(), schema="(Tensor[] xs) -> Tensor")
    x = leaf([1.0])
    for given, message in [
        (lambda g: g, "returned a Tensor for xs, a list of 2 tensors"),
        (lambda g: [g], "returned a list of 1 for xs, a list of 2 tensors"),
        (lambda g: [g, 3.0], r"returned a float as the gradient of xs\[1\]"),
        (lambda g: (g, g), r"returned 2 gradients, and the operator has 1 inputs \(xs\)"),
    ]:
        op.register_autograd(lambda ctx, grad, given=given: given(grad))
        with pytest.raises(tp.AutogradError, match=message):
            op([x, x]).sum().backward()
    op.register_autograd(lambda ctx, grad: [grad, grad])
    op([x, x]).sum().backward()
    assert x.grad.tolist() == [2.0]
    op.register_autograd(lambda ctx, grad: None)
    (g,) = tp.autograd.grad(op([x, x]).sum(), x, allow_unused=True)
    assert g is None


@pytest.mark.parametrize(
    ("schema", "mutates", "message"),
    [
        ("(Tensor(a!) x) -> ()", {"x"}, "t::op writes to x; a gradient is of values that stay"),
        ("(Tensor(a) x) -> Tensor(a)", (), "t::op returns a view of an argument"),
        ("(Tensor x, *, Tensor? y=None) -> Tensor", (), "gradients are of positional tensors, and y is keyword-only"),
    ],
)
def test_operators_that_can_have_no_registered_gradient(schema, mutates, message):
    op = custom_op("t::op", lambda x, y=None: None, mutates_args=mutates, schema=schema)
    with pytest.raises(tp.RegistrationError, match=message) as info:
        op.register_autograd(lambda ctx, *grads: None)
    assert "\nfix: " in str(info.value)


def test_functions_that_cannot_be_called_are_refused_at_once(mul):
    for backward, setup, message in [
        (lambda ctx: None, None, r"(?s)backward\(ctx\) \(.*cannot be called as backward\(ctx, grad\)"),
        (lambda ctx, a, b: None, None, r"cannot be called as backward\(ctx, grad\)"),
        (3, None, "backward is a function, not 3"),
        (lambda ctx, g: None, lambda ctx, x, y: None, r"cannot be called as setup_context\(ctx, inputs, output\)"),
        (lambda ctx, g: None, lambda inputs, output: None, r"cannot be called as setup_context\(ctx, inputs, output\)"),
    ]:
        with pytest.raises(tp.RegistrationError, match=message):
            mul.register_autograd(backward, setup_context=setup)
    x = leaf([2.0])
    mul(x, x).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_wrong_use_of_the_context_is_answered(mul):
    mul.register_autograd(
        lambda ctx, grad: ctx.nothing, setup_context=lambda ctx, inputs, output: setattr(ctx, "thing", 3)
    )
    x = leaf([2.0])
    with pytest.raises(AttributeError, match="ctx has no attribute 'nothing'; setup_context has set: thing"):
        mul(x, x).sum().backward()
    mul.register_autograd(
        lambda ctx, grad: None, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    with pytest.raises(tp.AutogradError, match=r"(?s)keeps tensors, and argument 2 is float.*ctx\.name = value"):
        mul(x, x)


def test_an_error_of_the_formula_leaves_every_gradient_as_it_was(mul):
    def backward(ctx, grad):
        raise ZeroDivisionError("mine")

    mul.register_autograd(backward)
    x, y = leaf([2.0]), leaf([1.0])
    with pytest.raises(ZeroDivisionError, match="mine"):
        (mul(x, x) + y).sum().backward()
    assert x.grad is None and y.grad is None


def test_the_remedy_of_a_missing_formula_works_as_it_is_written():
    custom_op("t::thrice", lambda x: x * 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = leaf([1.0])
    with pytest.raises(tp.AutogradError) as info:
        tp.ops.t.thrice(x).sum().backward()
    text = str(info.value)
    remedy = text[text.index("tp.library.register_autograd") : text.index(";")].replace("...", "setup_context")
    scope = {"tp": tp, "backward": lambda ctx, grad: grad * 3, "setup_context": lambda ctx, inputs, output: None}
    exec(remedy, scope)
    tp.ops.t.thrice(x).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_a_built_in_operator_has_a_gradient_already(mul):
    with pytest.raises(tp.BackendConflict, match="exp at Autograd is taken by tensorplay-core"):
        tp.library.register_autograd("tp::exp", lambda ctx, grad: grad)
    lib = tp.library.Library("tp", "IMPL")
    tp.library.register_autograd("exp", lambda ctx, grad: grad * 7, lib=lib, override=True)
    x = leaf([0.0])
    tp.exp(x).sum().backward()
    assert x.grad.tolist() == [7.0]
    lib.close()
    tp.exp(x).sum().backward()
    assert x.grad.tolist() == [8.0]


@pytest.mark.parametrize("write", [lambda g: g.mul_(3), lambda g: g[:1].zero_(), lambda g: g.add_(0)])
def test_a_backward_that_writes_to_the_gradient_it_is_given_is_an_error(write):
    op = custom_op("t::same", lambda x: x * 1, mutates_args=(), schema="(Tensor x) -> Tensor")

    def backward(ctx, grad):
        write(grad)
        return grad

    op.register_autograd(backward)
    with pytest.raises(tp.AutogradError, match=r"(?s)wrote to a gradient .*test_gradient|test_gradient.*out-of-place"):
        op(leaf([1.0, 2.0])).backward(tp.ones(2, dtype=tp.float64))


def test_a_gradient_on_another_device_is_refused_and_a_number_is_moved():
    given = [tp.ones(2, device="loopback")]
    op = custom_op("t::same", lambda x: x * 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(lambda ctx, grad: given[0])
    with pytest.raises(tp.AutogradError, match=r"(?s)gradient on loopback:0 for x, which is on cpu.*\.to\('cpu'\)"):
        op(leaf([1.0, 2.0])).sum().backward()
    x, given[0] = leaf(3.0), tp.tensor(2.0, device="loopback")
    op(x).backward()
    assert x.grad.item() == 2.0


def test_the_remedy_for_a_view_is_not_a_gradient_that_would_be_refused():
    op = custom_op("t::tail", lambda x: x[1:], mutates_args=(), schema="(Tensor(a) x) -> Tensor(a)")
    with pytest.raises(tp.AutogradError, match="fix: define an operator that returns new tensors"):
        op(leaf([1.0, 2.0])).sum().backward()
