"""New tensors under vmap: what shares their memory sees every write, from whichever side, and no gradient."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp

X = np.array([[1.0, 2.0], [3.0, 4.0]])


def tensor(values=X):
    return tp.tensor(np.asarray(values).tolist(), dtype=tp.float64)


def zeros():
    return tp.zeros(2, dtype=tp.float64)


@pytest.mark.parametrize("other_of", [lambda y: y.detach(), lambda y: y.data, lambda y: y.detach().detach()])
@pytest.mark.parametrize("part", [slice(None), slice(1), slice(1, None)])
@pytest.mark.parametrize("back", [False, True])
def test_a_detached_tensor_shares_what_is_written(other_of, part, back):
    def function(x, y):
        whole = y[part]
        other = other_of(whole)
        one, two = (other, y[part]) if back else (y[part], other)
        one.copy_(x[part])
        return y, whole, two, other

    found = tp.vmap(lambda x: function(x, zeros()))(tensor())
    wanted = [function(x, zeros()) for x in tensor()]
    for i, parts in enumerate(wanted):
        for one, alone in zip(found, parts, strict=True):
            assert np.array_equal(one[i].numpy(), alone.numpy())


def test_a_detached_tensor_that_is_written_to_alone():
    def function(x):
        detached = zeros().detach()
        detached[0] = x[1]
        return detached

    assert tp.vmap(function)(tensor()).tolist() == [[2.0, 0.0], [4.0, 0.0]]


def test_the_values_of_a_constant_can_be_asked_for_when_it_is_detached():
    found = tp.vmap(lambda x: x * float(tp.tensor(2.0).detach()) + tp.ones(2).detach().numpy()[0].item())(tensor())
    assert np.array_equal(found.numpy(), 2 * X + 1)


def test_only_the_tensor_itself_has_the_gradient():
    w = tensor([10.0, 20.0]).requires_grad_()

    def function(x):
        y = zeros() + w
        detached = y.detach()
        with tp.no_grad():
            detached.add_(x)
        return y, detached

    y, detached = tp.vmap(function)(tensor())
    assert y.requires_grad and not detached.requires_grad
    for one in (y.detach(), detached):
        assert np.array_equal(one.numpy(), X + np.array([10.0, 20.0]))
    y.sum().backward()  # a write without gradients leaves those of before, as in a loop
    assert w.grad.tolist() == [2.0, 2.0]
