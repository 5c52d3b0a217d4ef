"""``retain_grad``: the gradients of computed tensors, kept as those of leaves are."""

from __future__ import annotations

import tensorplay as tp


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


def test_retain_grad_stores_what_arrives_after_all_hooks_and_adds_up():
    x = leaf(2.0)
    h = x * 3
    assert not h.retains_grad
    h.register_hook(lambda g: g * 10)
    h.retain_grad()
    h.retain_grad()
    h.register_hook(lambda g: g + 1)
    assert h.retains_grad
    (h * h).backward(retain_graph=True)
    assert (h.grad.item(), x.grad.item()) == (121.0, 363.0)
    (h * h).backward(inputs=[x])
    assert h.grad.item() == 242.0


def test_retain_grad_of_a_leaf_changes_nothing():
    x = leaf(2.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * 2).backward()
    assert x.grad.item() == 2.0


def test_retain_grad_follows_a_tensor_that_is_written_to():
    x = leaf([1.0, 1.0])
    h = x * 2
    h.retain_grad()
    h.mul_(3)
    assert h.retains_grad
    (h * 5).sum().backward()
    assert h.grad.tolist() == [5.0, 5.0] and x.grad.tolist() == [30.0, 30.0]


def test_retain_grad_with_create_graph_and_under_grad():
    x = leaf(2.0)
    h = x * x
    h.retain_grad()
    tp.autograd.grad(h * h, x, create_graph=True)
    assert h.grad.item() == 8.0
    assert tp.autograd.grad(h.grad, x)[0].item() == 8.0


def test_retain_grad_of_a_tensor_that_is_gone_is_passed_over():
    x = leaf(2.0)
    h = x * 3
    h.retain_grad()
    y = h * h
    del h
    y.backward()
    assert x.grad.item() == 36.0


def test_retain_grad_of_one_result_of_several():
    x = leaf([[1.0, 5.0]])
    values, _ = x.max(1)
    values.retain_grad()
    (values * 3).sum().backward()
    assert values.grad.tolist() == [3.0] and x.grad.tolist() == [[0.0, 3.0]]


def test_retain_grad_of_a_view_whose_base_is_written_to():
    x = leaf([1.0, 2.0])
    base = x * 1
    view = base[0:1]
    view.retain_grad()
    base.mul_(3)
    (view * 5).sum().backward()
    assert view.retains_grad and view.grad.tolist() == [5.0] and x.grad.tolist() == [15.0, 0.0]


def test_nothing_stays_of_a_tensor_that_is_gone():
    from tensorplay_core.autograd.node import RETAINED, WATCHED_LEAVES

    before = len(RETAINED), len(WATCHED_LEAVES)
    x = leaf([1.0])
    x.register_hook(print)
    h = x * 2
    h.retain_grad()
    assert (len(RETAINED), len(WATCHED_LEAVES)) == (before[0] + 1, before[1] + 1)
    del x, h
    assert (len(RETAINED), len(WATCHED_LEAVES)) == before
