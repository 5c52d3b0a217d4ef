"""The gradient check itself: that it accepts what is right and finds what is wrong."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.autograd.node import Node, record, save, unpack
from tensorplay_core.tensor.tensor import wrap


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


class WrongBackward(Node):
    """Multiplies by a factor, and is off by another in the gradient."""

    __slots__ = ()
    slope = 2.0

    def backward(self, grad, graph):
        (x,) = self.saved
        x = unpack(x, self, "x", graph)
        return (grad * (self.slope * x + 1e-2),)


def wrong_square(x):
    y = wrap((x.detach() * x.detach())._array, x._type)
    if x.requires_grad:
        node = WrongBackward()
        record(node, (x,), y)
        node.saved = (save(x),)
    return y


def test_right_gradients_pass():
    x, y = leaf([0.5, 2.0, -1.0]), leaf([[1.0], [2.0]])
    assert tp.autograd.gradcheck(lambda a, b: (a * b).tanh(), (x, y))
    assert tp.autograd.gradgradcheck(lambda a, b: (a * b).tanh(), (x, y))
    z = leaf([1 + 1j, 0.5 - 2j], tp.complex128)
    assert tp.autograd.gradcheck(lambda z: z * z.conj() * z, z)
    assert tp.autograd.gradgradcheck(lambda z: z * z.conj() * z, z)


def test_wrong_gradients_are_found_and_described():
    x = leaf([1.0, 2.0])
    with pytest.raises(tp.AutogradError) as caught:
        tp.autograd.gradcheck(wrong_square, x)
    text = str(caught.value)
    assert text.startswith(
        "gradcheck: the gradient of output 0 with respect to input 0 is wrong, worst at output[0] by input[0] "
        "(2 of 4 elements are wrong)\n  by autograd: 2.01\n"
    )
    assert "\n  difference: 1.000e-02, allowed 2.010e-03 (atol=1e-05, rtol=0.001)" in text
    assert isinstance(caught.value, tp.autograd.GradcheckError) and isinstance(caught.value, RuntimeError)
    assert tp.autograd.gradcheck.GradcheckError is tp.autograd.GradcheckError
    assert tp.autograd.gradcheck(wrong_square, x, raise_exception=False) is False
    assert tp.autograd.gradcheck(wrong_square, x, atol=0.1)


def test_a_gradient_that_is_cut_is_found():
    x = leaf([1.0, 2.0])
    assert not tp.autograd.gradcheck(lambda x: x.detach() * x, x, raise_exception=False)
    assert not tp.autograd.gradcheck(lambda x: x.detach() * 2, x, raise_exception=False)
    assert tp.autograd.gradcheck(lambda x: tp.zeros(2, dtype=tp.float64) + 0 * x, x)


def test_a_wrong_second_gradient_is_found():
    def half_detached(x):
        (g,) = tp.autograd.grad((x * x * x).sum(), x, create_graph=True)
        return (x * x * x) + 0 * (g.detach() * x)

    x = leaf([1.5, 2.0])
    assert tp.autograd.gradgradcheck(half_detached, x)

    class Cut(WrongBackward):
        __slots__ = ()

        def backward(self, grad, graph):
            x = unpack(self.saved[0], self, "x", False)
            return (grad * 2 * x,)

    def square(x):
        y = wrap((x.detach() * x.detach())._array, x._type)
        node = Cut()
        record(node, (x,), y)
        node.saved = (save(x),)
        return y

    assert tp.autograd.gradcheck(square, x)
    assert not tp.autograd.gradgradcheck(square, x, raise_exception=False)


def test_several_outputs_and_unused_inputs():
    x, y = leaf([1.0, 2.0]), leaf([3.0])
    assert tp.autograd.gradcheck(lambda a, b: (a * a, a.exp()), (x, y))
    assert tp.autograd.gradcheck(lambda a, n, b: a * b * n, (x, 3, y))
    assert tp.autograd.gradcheck(lambda a: a.max(0), (x,))


def test_nan_fails():
    x = leaf([1.0])
    assert not tp.autograd.gradcheck(lambda a: a * float("nan"), x, raise_exception=False)


def test_a_complex_gradient_whose_absolute_value_overflows_is_compared():
    z = tp.tensor([1.0 + 0.0j], dtype=tp.complex128, requires_grad=True)
    assert tp.autograd.gradcheck(lambda a: a * complex(1.5e308, 1.5e308), z)


def test_a_function_that_returns_another_number_of_elements_nearby_is_wrong_there():
    x = leaf([1.0, 1.0, 2.0])
    assert not tp.autograd.gradcheck(lambda a: a.unique(), x, raise_exception=False)
    with pytest.raises(tp.AutogradError, match="the function has a kink or a jump here"):
        tp.autograd.gradcheck(lambda a: a.unique(), x)
    with pytest.raises(
        tp.AutogradError, match="returns 1 elements a little beside this input, where element 1 is none"
    ):
        tp.autograd.gradcheck(lambda a: a[a > 0], leaf([1.0, 5e-7]))
    assert tp.autograd.gradcheck(lambda a: a.unique(), leaf([1.0, 3.0, 2.0]))


def test_empty_and_0d():
    assert tp.autograd.gradcheck(lambda a: a * a, leaf([]))
    assert tp.autograd.gradcheck(lambda a: a * a, leaf(2.0))
    assert tp.autograd.gradgradcheck(lambda a: a * a, leaf([]))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(tp.AutogradError, match="nothing to check"):
        tp.autograd.gradcheck(lambda a: a, tp.ones(2))
    for option in ("check_batched_grad", "check_batched_forward_grad"):
        with pytest.raises(tp.ArgumentError, match="of a whole batch are not compared"):
            tp.autograd.gradcheck(lambda a: a, leaf([1.0]), **{option: True})
    with pytest.raises(tp.ArgumentError, match="there is nothing to check"):
        tp.autograd.gradcheck(lambda a: a, leaf([1.0]), check_backward_ad=False)
    with pytest.raises(tp.ArgumentError, match="2 grad_outputs for 1 outputs"):
        tp.autograd.gradgradcheck(lambda a: a * a, leaf([1.0]), [leaf([1.0]), leaf([1.0])])
    with pytest.raises(tp.AutogradError, match="no output depends"):
        tp.autograd.gradgradcheck(lambda a: a.detach(), leaf([1.0]))


def test_the_inputs_are_not_changed():
    x = leaf([1.0, 2.0])
    tp.autograd.gradcheck(lambda a: a * a, x)
    tp.autograd.gradgradcheck(lambda a: a * a, x)
    assert x.tolist() == [1.0, 2.0]
    assert x.grad is None


def failure(func, inputs, check=tp.autograd.gradcheck, **options) -> str:
    with pytest.raises(tp.autograd.GradcheckError) as caught:
        check(func, inputs, **options)
    return str(caught.value)


def test_float32_is_warned_of_and_named_as_the_cause():
    x = leaf([1.0], tp.float32)
    with pytest.warns(UserWarning, match="input 0 is float32"):
        text = failure(lambda a: a * a * a, x)
    assert "likely cause: input 0 is float32, and differences with eps=1e-06 need float64" in text
    with pytest.warns(UserWarning):
        assert tp.autograd.gradcheck(lambda a: a * a, x, eps=1e-2, atol=1e-2)


def test_the_worst_element_is_named_by_its_index():
    wrong = tp.zeros(2, 3, dtype=tp.float64)
    wrong[1, 2] = 1.0

    class Off(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g + wrong * 0.1 * g

    text = failure(Off.apply, leaf([[0.0] * 3, [0.0] * 3]))
    assert "worst at output[1, 2] by input[1, 2] (1 of 36 elements are wrong)" in text


def test_likely_causes():
    x = leaf([0.0, 1.0])
    assert "a kink or a jump here: its slope is 0 on one side, 1 on the other" in failure(lambda a: a.relu(), x)
    assert "no gradient arrives: the input was detached" in failure(lambda a: a.detach() * 1 + 0 * a, leaf([1.0]))
    assert "the function is not finite near this input" in failure(lambda a: a * float("inf"), leaf([1.0]))
    calls = iter(range(1000))
    assert "two calls with the same inputs differ" in failure(lambda a: a * next(calls), leaf([1.0]))

    class Conjugated(tp.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return 2 * (g * ctx.saved_tensors[0].conj()).conj()

    assert "a formula lacks .conj()" in failure(Conjugated.apply, leaf([1 + 2j], tp.complex128))
    overlapping = leaf([[1.0], [2.0]]).detach().expand((2, 3)).requires_grad_()
    assert "elements of input 0 overlap (strides (1, 0))" in failure(lambda a: a.detach() + 0 * a, overlapping)


def test_a_backward_that_gives_something_else_each_time_is_found():
    noise = iter(range(1000))

    class Noisy(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g + next(noise) * 1e-9

    text = failure(Noisy.apply, leaf([1.0]))
    assert "backward is not deterministic" in text and "nondet_tol 0.0" in text
    assert tp.autograd.gradcheck(Noisy.apply, leaf([1.0]), nondet_tol=1e-8)


def test_a_backward_that_loses_gradients_where_another_is_none_is_found():
    class Either(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 if g is not None else h * 3

    x = leaf([1.0])
    assert "backing up from all outputs gives" in failure(Either.apply, x)
    assert tp.autograd.gradcheck(Either.apply, x, check_undefined_grad=False)


def test_fast_mode():
    x, z = leaf([[0.5, 2.0], [1.0, 3.0]]), leaf([1 + 1j, 0.5 - 2j], tp.complex128)
    assert tp.autograd.gradcheck(lambda a: (a.exp(), a.sum()), x, fast_mode=True)
    assert tp.autograd.gradcheck(lambda a: a * a.conj() * a, z, fast_mode=True)
    assert tp.autograd.gradgradcheck(lambda a: a.exp(), x, fast_mode=True)
    assert "worst at output[0] by input[0]" in failure(wrong_square, leaf([1.0, 2.0]), fast_mode=True)
    assert not tp.autograd.gradcheck(lambda a: a * a.detach(), z, fast_mode=True, raise_exception=False)


def test_forward_mode():
    x = leaf([0.5, 2.0])
    assert tp.autograd.gradcheck(lambda a: a.exp() * a, x, check_forward_ad=True)
    assert tp.autograd.gradgradcheck(lambda a: a.exp() * a, x, check_fwd_over_rev=True)

    class Wrong(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    assert tp.autograd.gradcheck(Wrong.apply, x)
    assert "the tangent of output 0 with respect to input 0 is wrong" in failure(Wrong.apply, x, check_forward_ad=True)
    assert failure(Wrong.apply, x, check_forward_ad=True, check_backward_ad=False)


def test_cotangents_of_the_second_order():
    x = leaf([[0.5, 2.0], [1.0, 3.0]])
    seen = []

    class Square(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            seen.append((g.is_contiguous(), g.tolist()))
            return g * 2 * ctx.saved_tensors[0]

    assert tp.autograd.gradgradcheck(Square.apply, x, gen_non_contig_grad_outputs=True)
    assert not seen[0][0]
    seen.clear()
    assert tp.autograd.gradgradcheck(Square.apply, x, tp.ones(2, 2, dtype=tp.float64))
    assert seen[0][1] == [[1.0, 1.0], [1.0, 1.0]]


def test_a_failure_of_the_second_order_says_so():
    class Cut(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0].detach()

    text = failure(Cut.apply, leaf([1.0]), tp.autograd.gradgradcheck)
    assert text.startswith("gradgradcheck: the gradient of output 0 with respect to input 0 is wrong")


def test_a_function_without_a_tensor_in_its_result_is_refused():
    x = tp.ones(2, dtype=tp.float64, requires_grad=True)
    with pytest.raises(TypeError, match=r"returned float, which has no gradient\nfix: return a tensor"):
        tp.autograd.gradcheck(lambda x: x.sum().item(), x)
