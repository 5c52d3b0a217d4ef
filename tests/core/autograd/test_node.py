"""Nodes: names, edges, what they save and when they let it go; and what happens where there is no formula."""

from __future__ import annotations

import gc
import weakref

import pytest

import tensorplay as tp
from tensorplay_core.autograd.node import AccumulateGrad, Node, Output, save, unpack


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


def test_a_leaf_has_an_accumulating_node_and_no_grad_fn():
    x = leaf(1.0)
    assert x.grad_fn is None
    assert isinstance(x._node, AccumulateGrad)
    assert x._node.variable() is x
    assert x._node.edges == ()


def test_names_and_next_functions():
    x, y = leaf([1.0]), leaf([2.0])
    z = (x * y + 1).sum()
    assert z.grad_fn.name == "SumBackward"
    assert repr(z.grad_fn) == "<SumBackward>"
    ((add, index),) = z.grad_fn.next_functions
    assert (add.name, index) == ("AddBackward", 0)
    (mul, _), (nothing, _) = add.next_functions
    assert (mul.name, nothing) == ("MulBackward", None)
    assert [node for node, _ in mul.next_functions] == [x._node, y._node]


def test_next_functions_of_an_operator_with_several_results():
    x = leaf([[1.0, 2.0]])
    values, _ = x.max(1)
    assert isinstance(values._node, Output)
    assert values.grad_fn.name == "MaxDimBackward"
    ((node, index),) = (values * 2).grad_fn.next_functions[:1]
    assert (node.name, index) == ("MaxDimBackward", 0)


def test_nodes_are_ordered_and_leaves_come_last():
    """The order of a backward pass: a node's number lies beyond those of everything that it was computed from."""
    x = leaf(1.0)
    a = x * 2
    b = a * 3
    late = leaf(1.0)  # made after the nodes, and still a leaf
    c = b * late
    numbers = [t._node.number for t in (c, b, a)]
    assert numbers == sorted(numbers)
    assert all(n < t._node.number for n in numbers for t in (x, late))
    c.backward()
    assert (x.grad.item(), late.grad.item()) == (6.0, 6.0)


def test_a_node_saves_only_what_its_formulas_need():
    x, y = leaf([1.0]), tp.ones(1, dtype=tp.float64)
    assert (x * y)._node.saved[0] is None  # y needs no gradient, so x is not kept
    assert (x + y)._node.kind == 0
    z = x * 2
    ref = weakref.ref(z)
    w = z + 1  # keeps nothing of z but its node
    del z
    assert ref() is None
    w.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_nodes_keep_arrays_and_not_tensors():
    x = leaf([1.0, 2.0])
    y = x * 2
    ref = weakref.ref(y)
    z = (y * y).sum()
    del y
    assert ref() is None
    z.backward()
    assert x.grad.tolist() == [8.0, 16.0]


def test_backward_lets_go_of_what_was_saved():
    x = leaf([1.0, 2.0])
    y = x.exp()
    z = (y * y).sum()
    z.backward()
    assert z.grad_fn.next_functions[0][0].saved is None
    assert y.grad_fn.saved is None


def test_save_and_unpack():
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    saved = save(y)
    node = Node()
    plain = unpack(saved, node, "self", graph=False)
    assert plain.tolist() == [2.0, 4.0]
    assert plain._node is None
    assert unpack(saved, node, "self", graph=True)._node is y._node
    assert save(None) is None
    y.detach().add_(1)
    with pytest.raises(tp.AutogradError, match=r"Node saved 'self' \(float32, shape \(2,\)\).*version 0.*version 1"):
        unpack(saved, node, "self", graph=False)


def test_a_result_that_its_own_node_saves_is_no_cycle():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        y = x.exp()
        refs = weakref.ref(y), weakref.ref(y._node)
        del y
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


def test_a_saved_result_is_differentiable_again():
    x = leaf([0.5])
    (g,) = tp.autograd.grad(x.exp().sum(), x, create_graph=True)
    (h,) = tp.autograd.grad(g.sum(), x)
    tp.testing.assert_close(h.item(), 1.6487212707001282, rtol=1e-14, atol=0.0)


def test_results_that_are_integers_have_no_node():
    x = leaf([[1.0, 2.0]])
    assert x.argmax()._node is None
    assert (x > 1)._node is None
    assert x.max(1)[1]._node is None
    assert x.to(tp.int64)._node is None


@pytest.mark.parametrize(
    "parts", [lambda x: x.unbind(), lambda x: x.split(1), lambda x: x.chunk(2), lambda x: x.split([1, 1])]
)
def test_a_node_of_several_results_that_saved_no_tensor_can_be_walked_from_each(parts):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    first, second = parts(x)
    first.sum().backward()
    second.sum().backward()
    first.sum().backward()
    assert x.grad.sum(-1 if len(first.shape) == 1 else 1).tolist() == [4.0, 2.0]


def test_a_node_of_several_results_that_saved_a_tensor_is_freed_by_the_first_pass():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    values, _ = x.max(0)
    values.sum().backward()
    with pytest.raises(tp.AutogradError, match="MaxDimBackward has been walked by an earlier"):
        values.sum().backward()
