"""What a backward pass leaves in ``.grad``: a gradient of the tensor's own, added to what is there."""

from __future__ import annotations

import pytest

import tensorplay as tp


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


def test_a_stored_grad_is_never_an_alias():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    g = tp.tensor([1.0, 1.0], dtype=tp.float64)
    z = x + y
    z.backward(g, retain_graph=True)
    g.mul_(100)
    x.grad.mul_(10)
    assert (x.grad.tolist(), y.grad.tolist()) == ([10.0, 10.0], [1.0, 1.0])
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    w.sum().backward()
    w.grad.add_(1)  # not the expanded scalar
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    v = leaf([1.0, 2.0, 3.0, 4.0])
    g = tp.ones(2, 2, dtype=tp.float64)
    v.reshape(2, 2).backward(g)
    g.zero_()
    assert v.grad.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_a_stored_grad_is_no_alias_with_create_graph_either():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    g = tp.ones(2, dtype=tp.float64)
    (x + y).backward(g, create_graph=True)
    with tp.no_grad():
        x.grad.mul_(10)
    assert y.grad.tolist() == [1.0, 1.0]
    assert g.tolist() == [1.0, 1.0]


def test_accumulation_keeps_the_grad_object_so_that_optimisers_can_hold_it():
    x = leaf([1.0, 2.0])
    x.sum().backward()
    held = x.grad
    x.sum().backward()
    assert x.grad is held
    assert held.tolist() == [2.0, 2.0]


def test_accumulation_into_a_grad_that_overlaps_itself():
    x = leaf([1.0, 2.0])
    y = leaf(1.0)
    x.grad = tp.ones((), dtype=tp.float64).expand(2)
    try:
        (x.sum() * y).backward()
    except tp.TensorPlayError:
        assert y.grad is None
        assert x.grad.tolist() == [1.0, 1.0]
    else:
        assert x.grad.tolist() == [2.0, 2.0]


def test_a_gradient_that_nobody_saved_is_added_to_in_place_and_one_that_was_saved_is_counted():
    x = tp.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and first.tolist() == [4.0, 4.0]
    weight = tp.ones(2, requires_grad=True)
    saved = weight * first  # saves the gradient
    (x * 2).sum().backward()
    assert x.grad is first and first.tolist() == [6.0, 6.0]
    with pytest.raises(tp.AutogradError, match="modified in place"):
        saved.sum().backward()


def test_a_grad_can_be_deleted():
    x = leaf([1.0])
    x.sum().backward()
    del x.grad
    assert x.grad is None


def test_assigned_data_is_the_memory_of_a_leaf_that_stays_one():
    w = leaf([1.0, 2.0])
    earlier = (w * w).sum()
    new = tp.tensor([10.0, 20.0], dtype=tp.float64)
    w.data = new
    assert w.is_leaf and w.requires_grad and w.tolist() == [10.0, 20.0]
    earlier.backward()
    assert w.grad.tolist() == [2.0, 4.0]  # of what had been saved
    w.grad = None
    later = (w * w).sum()
    new.add_(1)
    with pytest.raises(tp.AutogradError, match="modified in place"):
        later.backward()
    (w * w).sum().backward()
    assert w.grad.tolist() == [22.0, 42.0]


def test_assigned_data_can_have_another_shape_and_dtype_and_hooks_stay():
    w, log = leaf([1.0, 2.0]), []
    w.register_hook(lambda grad: log.append(grad.shape))
    w.data = tp.ones(3, dtype=tp.float32)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0] and w.grad.dtype is tp.float32 and log == [(3,)]


def test_data_is_not_assigned_where_gradients_would_be_wrong():
    w = leaf([1.0, 2.0])
    h, view = w * 1, w[0]
    for target, value, error in (
        (w, None, TypeError),
        (w, tp.ones(2), RuntimeError),  # it has a view
        (view, tp.ones(()), RuntimeError),
        (h, tp.ones(3, dtype=tp.float64), RuntimeError),
    ):
        before = target.tolist()
        with pytest.raises(error, match=r"data.*\nfix: ") as raised:
            target.data = value
        assert isinstance(raised.value, tp.TensorPlayError) and target.tolist() == before


def test_assigned_data_leaves_the_family_of_an_array_that_is_rebound():
    x = tp.ones(2, device="loopback")
    same = x.detach()
    x.data = tp.zeros(2, device="loopback")
    same.add_(5)
    assert (x.tolist(), same.tolist()) == ([0.0, 0.0], [6.0, 6.0])
