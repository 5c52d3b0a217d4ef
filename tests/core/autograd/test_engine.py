"""The backward pass: order, accumulation, what is freed, and errors that change nothing."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.autograd.fitting import sum_to_shape


def leaf(data, dtype=tp.float64):
    return tp.tensor(data, dtype=dtype, requires_grad=True)


# ---------------------------------------------------------------------------------------------- what is computed


def test_a_diamond_of_diamonds_is_walked_once_per_node():
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2**60 paths
        y = y + y
    (g,) = tp.autograd.grad(y, x)
    assert g.item() == 2.0**60


def test_gradients_arrive_before_they_are_handed_on():
    """A node that is reached by a short and by a long road waits for both."""
    x = leaf(3.0)
    a = x * 2
    long = a
    for _ in range(5):
        long = long * 1.0
    (a * long).backward()
    assert x.grad.item() == 24.0


def test_gradients_of_two_backward_passes_add_up():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_the_same_tensor_twice_in_one_call():
    x = leaf(3.0)
    (x * x).backward()
    assert x.grad.item() == 6.0
    (g,) = tp.autograd.grad(tp.cat([x.reshape(1), x.reshape(1)]).sum(), x)
    assert g.item() == 2.0


def test_several_roots():
    x = leaf(2.0)
    tp.autograd.backward([x * x, x * 3])
    assert x.grad.item() == 7.0
    assert tp.autograd.grad([x * x, x * 3], x)[0].item() == 7.0
    y = x * x
    assert tp.autograd.grad([y, y], x)[0].item() == 8.0


def test_a_root_that_is_a_leaf():
    x = leaf(2.0)
    x.backward()
    assert x.grad.item() == 1.0
    assert tp.autograd.grad(x, x)[0].item() == 1.0


def test_both_results_of_an_operator_with_several():
    x = leaf([[1.0, 5.0], [7.0, 2.0]])
    values, indices = x.max(1)
    assert not indices.requires_grad
    (values * tp.tensor([1.0, 10.0], dtype=tp.float64)).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0], [10.0, 0.0]]


def test_gradients_of_broadcast_inputs_are_summed_back():
    x = leaf([[1.0], [2.0]])
    y = leaf([3.0, 4.0, 5.0])
    z = leaf(2.0)
    (x * y * z).sum().backward()
    assert x.grad.tolist() == [[24.0], [24.0]]
    assert y.grad.tolist() == [6.0, 6.0, 6.0]
    assert z.grad.item() == 36.0
    assert sum_to_shape(tp.ones(2, 3), (1, 3)).tolist() == [[2.0, 2.0, 2.0]]
    with pytest.raises(tp.AutogradError, match="reached a tensor of shape"):
        sum_to_shape(tp.ones(2, 3), (2, 2))


def test_gradients_have_the_dtype_of_their_tensor():
    x = leaf([1.0, 2.0], tp.float32)
    y = leaf([1.0, 2.0], tp.float64)
    z = leaf([1.0, 2.0], tp.float16)
    (x * y * z).sum().backward()
    assert (x.grad.dtype, y.grad.dtype, z.grad.dtype) == (tp.float32, tp.float64, tp.float16)
    c = leaf([1j, 2.0], tp.complex128)
    (x * c).real().sum().backward()
    assert x.grad.dtype is tp.float32


def test_create_graph_up_to_the_fourth_order():
    x = leaf(0.7)
    y = x.exp() * x * x * x
    found = []
    for _ in range(4):
        (y,) = tp.autograd.grad(y, x, create_graph=True)
        found.append(y.item())
    v, e = 0.7, 2.718281828459045**0.7
    expected = [
        e * (v**3 + 3 * v**2),
        e * (v**3 + 6 * v**2 + 6 * v),
        e * (v**3 + 9 * v**2 + 18 * v + 6),
        e * (v**3 + 12 * v**2 + 36 * v + 24),
    ]
    tp.testing.assert_close(found, expected, rtol=1e-12, atol=0.0)


def test_create_graph_makes_grad_differentiable():
    x = leaf(3.0)
    (x * x * x).backward(create_graph=True)
    assert x.grad.requires_grad
    g = x.grad
    x.grad = None
    g.backward()
    assert x.grad.item() == 18.0


def test_grad_of_a_computed_tensor_leaves_every_grad_alone():
    x = leaf(3.0)
    h = x * 2
    y = h * h
    assert tp.autograd.grad(y, h, retain_graph=True)[0].item() == 12.0
    gx, gh = tp.autograd.grad(y, [x, h])
    assert (gx.item(), gh.item()) == (24.0, 12.0)
    assert x.grad is None
    assert h.grad is None


def test_grad_stops_at_what_was_asked_for():
    """What lies below a wanted tensor is not walked, so an operator without a formula there is no obstacle."""
    library = tp.library.Library("engine_test", "DEF")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: 2 * x, "CPU")
    x = leaf(3.0)
    h = tp.ops.engine_test.opaque(x)
    try:
        assert tp.autograd.grad(h * h, h)[0].item() == 12.0
    finally:
        library.close()


# ---------------------------------------------------------------------------------- what is freed, kept and refused


def test_a_second_backward_raises_and_changes_nothing():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(tp.AutogradError, match=r"(?s)MulBackward has been walked.*retain_graph=True"):
        y.backward()
    assert x.grad.item() == 6.0


def test_retain_graph_allows_a_second_backward():
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12.0
    with pytest.raises(tp.AutogradError, match="has been walked"):
        y.backward()


def test_a_pass_that_frees_a_shared_part_makes_the_other_root_raise():
    x = leaf(3.0)
    h = x.exp()
    a, b = h * 2, h * h
    a.backward()
    with pytest.raises(tp.AutogradError, match="has been walked"):
        b.backward()


@pytest.mark.parametrize("failing", ["first", "last"])
def test_an_exception_inside_backward_leaves_every_grad_as_it_was(failing):
    x, y, z = leaf([1.0, 2.0]), leaf([3.0, 4.0]), leaf([5.0, 6.0])
    x.grad = tp.tensor([7.0, 7.0], dtype=tp.float64)
    saved = (y * 1).detach()
    bad = x * saved if failing == "last" else z * saved
    good = y * z
    loss = (bad * bad).sum() + (good * good).sum() if failing == "first" else (good * bad).sum()
    saved.add_(1)  # makes the multiplication that saved it raise
    with pytest.raises(tp.AutogradError, match="modified in place"):
        loss.backward()
    assert x.grad.tolist() == [7.0, 7.0]
    assert y.grad is None
    assert z.grad is None


def test_a_kernel_that_fails_during_backward_leaves_every_grad_as_it_was():
    def broken(self):
        raise OSError("no such kernel")

    x = leaf([1.0, 2.0])
    y = leaf([1.0, 2.0])
    loss = (x.exp() * y).sum()
    library = tp.library.Library("tp", "IMPL")
    library.impl("conj", broken, "CPU", override=True)
    library.impl("mul", broken_mul, "CPU", override=True)
    try:
        with pytest.raises(tp.TensorPlayError):
            loss.backward()
    finally:
        library.close()
    assert x.grad is None
    assert y.grad is None


def broken_mul(self, other):
    raise OSError("no multiplication today")


def test_allow_unused_and_materialize_grads():
    x, unused = leaf(3.0), leaf([1.0, 2.0])
    y = x * x
    with pytest.raises(tp.AutogradError, match=r"(?s)input 1 .*was not used.*allow_unused=True"):
        tp.autograd.grad(y, [x, unused], retain_graph=True)
    g, none = tp.autograd.grad(y, [x, unused], retain_graph=True, allow_unused=True)
    assert (g.item(), none) == (6.0, None)
    g, zeros = tp.autograd.grad(y, [x, unused], retain_graph=True, materialize_grads=True)
    assert (g.item(), zeros.tolist(), zeros.dtype) == (6.0, [0.0, 0.0], tp.float64)
    with pytest.raises(tp.ValueRangeError, match="contradicts"):
        tp.autograd.grad(y, [x, unused], allow_unused=False, materialize_grads=True)


def test_backward_into_chosen_inputs_only():
    x, y = leaf(2.0), leaf(3.0)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 3.0
    assert y.grad is None
    (x * y).backward(inputs=y)
    assert (x.grad.item(), y.grad.item()) == (3.0, 2.0)
    with pytest.raises(tp.AutogradError, match="inputs is empty"):
        (x * y).backward(inputs=[])


def test_gradients_that_do_not_fit_are_refused():
    x = leaf([1.0, 2.0])
    y = x * 2
    with pytest.raises(tp.AutogradError, match=r"shape \(2,\)"):
        y.backward()
    with pytest.raises(tp.AutogradError, match=r"shape \(3,\)"):
        y.backward(tp.ones(3, dtype=tp.float64))
    with pytest.raises(tp.AutogradError, match=r"shape \(\)"):
        y.backward(tp.ones((), dtype=tp.float64))
    with pytest.raises(tp.AutogradError, match="complex"):
        y.backward(tp.ones(2, dtype=tp.complex128))
    with pytest.raises(tp.AutogradError, match="loopback"):
        y.backward(tp.ones(2, dtype=tp.float64, device="loopback"))
    with pytest.raises(tp.TensorPlayError, match="not float"):
        y.backward(2.0)
    with pytest.raises(tp.ArgumentError, match="one for each"):
        tp.autograd.backward([y], [None, None])
    assert x.grad is None
    y.backward(tp.ones(2, dtype=tp.float32))  # cast, as in PyTorch
    assert x.grad.dtype is tp.float64


def test_what_has_no_graph_is_refused():
    with pytest.raises(tp.AutogradError, match="does not require grad"):
        tp.ones(()).backward()
    x = leaf(1.0)
    with tp.no_grad():
        y = x * 2
    with pytest.raises(tp.AutogradError, match="does not require grad"):
        y.backward()
    with pytest.raises(tp.AutogradError, match="input 0"):
        tp.autograd.grad(x * 2, tp.ones(()))


def test_a_leaf_that_is_gone_is_passed_over():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    del x
    z.backward()
    assert y.grad.item() == 2.0


def test_integer_tensors_cannot_require_grad():
    for dtype in (tp.int64, tp.bool, tp.uint8):
        with pytest.raises(tp.AutogradError, match="only floating and complex"):
            tp.ones(2, dtype=dtype).requires_grad_()
    with pytest.raises(tp.AutogradError, match="only floating and complex"):
        tp.tensor([1, 2], requires_grad=True)
    assert not tp.ones(2, requires_grad=True).to(tp.int64).requires_grad
