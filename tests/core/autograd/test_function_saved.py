"""What an ``autograd.Function`` saves, and what it writes to: version checks, freeing, ``mark_dirty``, forward mode."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay.autograd import Function, forward_ad


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


def grad(y, x, **options):
    (g,) = tp.autograd.grad(y.sum(), x, allow_unused=True, **options)
    return None if g is None else g.tolist()


class Scale(Function):
    """Twice its argument, in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, None, y)
        ctx.save_for_forward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, nothing, y = ctx.saved_tensors
        assert nothing is None
        return g * y, g * x

    @staticmethod
    def jvp(ctx, dx, dy):
        x, y = ctx.saved_tensors
        return dx * y + x * dy


class Exp(Function):
    """Saves its result, of which it has two."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y, y * 2

    @staticmethod
    def backward(ctx, g, h):
        (y,) = ctx.saved_tensors
        return (g + 2 * h) * y


def test_saved_tensors_are_those_that_were_given():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    z = Product.apply(x, y)
    saved = z.grad_fn.saved_tensors
    assert [t if t is None else t.tolist() for t in saved] == [[1.0, 2.0], None, [3.0, 4.0]]
    assert saved[0].requires_grad
    assert tp.autograd.gradgradcheck(Product.apply, (x, y))


def test_a_write_in_between_is_noticed():
    x = leaf([1.0, 2.0])
    h = x * 1
    y = Product.apply(h, h)
    with tp.no_grad():
        h.add_(1)
    with pytest.raises(tp.AutogradError, match=r"ProductBackward saved '[xy]' .* modified in place since"):
        y.sum().backward()


def test_a_freed_context_says_so_and_one_without_saved_tensors_is_not_freed():
    x, y = leaf([1.0]), leaf([2.0])
    z = Product.apply(x, y)
    z.backward()
    for again in (z.backward, lambda: z.grad_fn.saved_tensors):
        with pytest.raises(tp.AutogradError, match="retain_graph=True"):
            again()
    double = type("F", (Function,), {"forward": staticmethod(lambda ctx, x: x * 2),
                                     "backward": staticmethod(lambda ctx, g: g * 2)})  # fmt: skip
    w = double.apply(x)
    x.grad = None
    w.backward()
    w.backward()
    assert x.grad.tolist() == [4.0]


def test_a_saved_result_of_several_is_differentiated_through_both_ways():
    x = leaf([0.5, 1.0])
    assert tp.autograd.gradcheck(Exp.apply, x)
    assert tp.autograd.gradgradcheck(Exp.apply, x)
    y, _ = Exp.apply(x)
    (g,) = tp.autograd.grad(y.sum(), x, create_graph=True)
    expected = [2 * v for v in (x * 2).exp().tolist()]  # of y², once through y and once through what was saved
    assert tp.autograd.grad((g * y).sum(), x)[0].tolist() == pytest.approx(expected, rel=1e-14)


def test_what_is_no_tensor_is_not_saved():
    for method in ("save_for_backward", "save_for_forward", "mark_dirty", "mark_non_differentiable"):
        F = type("F", (Function,), {"forward": staticmethod(lambda ctx, x, m=method: getattr(ctx, m)([x]))})
        with pytest.raises(
            tp.ArgumentError, match=rf"ctx.{method} takes tensors.*list\nfix: write {method}\(\*tensors\)"
        ):
            F.apply(leaf([1.0]))


def test_saved_tensor_hooks_see_what_a_function_saves():
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t * 1

    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with tp.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 10):
        z = Product.apply(x, y)
    assert packed == [[1.0, 2.0], [3.0, 4.0]]
    assert grad(z, x) == [30.0, 40.0]


def test_mark_dirty_gives_the_input_itself_the_node():
    x = leaf([1.0, 2.0])
    h = x * 3
    y = Scale.apply(h)
    assert y is h and y.tolist() == [6.0, 12.0]
    assert y.grad_fn.name == "ScaleBackward"
    assert grad(y, x) == [6.0, 6.0]
    constant = tp.ones(2)
    assert Scale.apply(constant) is constant and not constant.requires_grad


def test_a_dirty_leaf_is_refused():
    with pytest.raises(tp.AutogradError, match=r"Scale .*the tensor is a leaf that requires grad"):
        Scale.apply(leaf([1.0]))
    with tp.no_grad():
        assert Scale.apply(leaf([1.0])).tolist() == [2.0]


def test_what_is_dirty_must_be_returned():
    class Lost(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(
        tp.AutogradError, match=r"Lost \(.*\) marked a tensor of shape \(1,\) as dirty and did not return"
    ):
        Lost.apply(leaf([1.0]) * 1)


def test_dirty_is_for_inputs():
    class Own(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

    with pytest.warns(UserWarning, match="mark_dirty is for inputs"):
        Own.apply(leaf([1.0]))


def test_forward_mode():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with forward_ad.dual_level():
        z = Product.apply(forward_ad.make_dual(x, tp.ones(2, dtype=tp.float64)), y)
        tangent = forward_ad.unpack_dual(z).tangent
        assert tangent.tolist() == [3.0, 4.0]
        assert grad(tangent, y) == [1.0, 1.0]  # reverse over forward
    assert tp.autograd.gradcheck(Product.apply, (x, y), check_forward_ad=True)
    assert tp.autograd.gradgradcheck(Product.apply, (x, y), check_fwd_over_rev=True)
    z = Product.apply(x, y)  # what was saved for forward mode does not stand for what was saved for backward
    assert grad(z, x) == [3.0, 4.0]


@pytest.mark.parametrize(
    ("jvp", "message"),
    [
        (None, "has no jvp, so no tangent can pass through it"),
        (lambda ctx, t: (t, t), "returned 2 tangents, and forward 1 results"),
        (lambda ctx, t: 3, "returned int as the tangent of result 0"),
        (lambda ctx, t: t.sum(), r"returned a tangent of shape \(\) for result 0, whose shape is \(2,\)"),
    ],
)
def test_wrong_tangents_are_refused(jvp, message):
    body = {"forward": staticmethod(lambda ctx, x: x * 2)}
    if jvp is not None:
        body["jvp"] = staticmethod(jvp)
    F = type("F", (Function,), body)
    with forward_ad.dual_level(), pytest.raises(tp.AutogradError, match=message):
        F.apply(forward_ad.make_dual(tp.ones(2), tp.ones(2)))


def test_a_write_to_a_view_reaches_its_base_and_the_other_views():
    x = leaf([1.0, 2.0])
    base = x * 1
    view, other = base[0:1], base[0:1]
    assert Scale.apply(view) is view
    assert base.tolist() == [2.0, 2.0]
    assert grad(base, x, retain_graph=True) == [2.0, 1.0]
    assert grad(other, x) == [2.0, 0.0]
    base = x * 1
    view = base[0:1]
    Scale.apply(base)
    assert grad(view, x) == [2.0, 0.0]


def test_a_view_of_a_leaf_is_refused():
    with pytest.raises(tp.AutogradError, match="the tensor is a view of a leaf that requires grad"):
        Scale.apply(leaf([1.0, 2.0])[0:1])


@pytest.mark.parametrize("forward", [lambda ctx, x: x, lambda ctx, x: x[0:1]])
def test_a_result_that_shares_memory_with_an_input_is_not_written_to(forward):
    F = type("F", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, g: tp.ones(2))})
    base = leaf([1.0, 2.0]) * 1
    y = F.apply(base)
    assert y.grad_fn.name == "FBackward"
    with pytest.raises(tp.AutogradError, match="the view was returned by a custom function"):
        y.mul_(2)
    assert base.tolist() == [1.0, 2.0]
