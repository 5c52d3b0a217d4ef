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
    assert "the gradient of output 0 with respect to input 0 is wrong" in text
    assert "element 0 of the output by element 0 of the input is 2.01" in text
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


def test_empty_and_0d():
    assert tp.autograd.gradcheck(lambda a: a * a, leaf([]))
    assert tp.autograd.gradcheck(lambda a: a * a, leaf(2.0))
    assert tp.autograd.gradgradcheck(lambda a: a * a, leaf([]))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(tp.AutogradError, match="nothing to check"):
        tp.autograd.gradcheck(lambda a: a, tp.ones(2))
    with pytest.raises(tp.AutogradError, match="float32; differences need float64"):
        tp.autograd.gradcheck(lambda a: a, leaf([1.0], tp.float32))
    with pytest.raises(tp.AutogradError, match="no output depends"):
        tp.autograd.gradgradcheck(lambda a: a.detach(), leaf([1.0]))


def test_the_inputs_are_not_changed():
    x = leaf([1.0, 2.0])
    tp.autograd.gradcheck(lambda a: a * a, x)
    tp.autograd.gradgradcheck(lambda a: a * a, x)
    assert x.tolist() == [1.0, 2.0]
    assert x.grad is None
