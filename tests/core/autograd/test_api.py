"""``tp.autograd.backward`` and ``grad``: their arguments, in every form that PyTorch takes."""

from __future__ import annotations

import pytest

import tensorplay as tp


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


def test_public_names():
    for name in ("backward", "grad", "gradcheck", "gradgradcheck", "no_grad", "enable_grad", "inference_mode", "Node"):
        assert hasattr(tp.autograd, name)


def test_outputs_and_inputs_as_tensor_list_tuple_or_generator():
    x, y = leaf(2.0), leaf(3.0)
    expected = [3.0, 2.0]
    for inputs in ([x, y], (x, y), (t for t in (x, y))):
        assert [g.item() for g in tp.autograd.grad(x * y, inputs)] == expected
    assert tp.autograd.grad([x * y], x)[0].item() == 3.0
    assert isinstance(tp.autograd.grad(x * y, x), tuple)


def test_the_same_input_twice():
    x = leaf(2.0)
    a, b = tp.autograd.grad(x * x, [x, x])
    assert (a.item(), b.item()) == (4.0, 4.0)


def test_grad_outputs():
    x = leaf([1.0, 2.0])
    y = x * x
    g = tp.tensor([1.0, 10.0], dtype=tp.float64)
    assert tp.autograd.grad(y, x, g)[0].tolist() == [2.0, 40.0]
    assert tp.autograd.grad([x * x, x.sum()], x, [g, None])[0].tolist() == [3.0, 41.0]
    with pytest.raises(tp.ArgumentError, match="1 tensors and 2 gradients"):
        tp.autograd.grad(x * x, x, [g, g])
    with pytest.raises(tp.AutogradError, match="implied only for a tensor of one element"):
        tp.autograd.grad(x * x, x)


def test_a_gradient_that_requires_grad_is_differentiated_with_create_graph():
    x, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (g,) = tp.autograd.grad(x * x, x, v, create_graph=True)
    assert tp.autograd.grad(g.sum(), v)[0].tolist() == [2.0, 4.0]
    (g,) = tp.autograd.grad(x * x, x, v)
    assert not g.requires_grad


def test_what_is_no_tensor_is_refused():
    x = leaf(1.0)
    with pytest.raises(tp.ArgumentError, match="outputs are tensors, not float"):
        tp.autograd.grad([1.0], x)
    with pytest.raises(tp.ArgumentError, match="inputs are tensors, not str"):
        tp.autograd.grad(x * 2, ["x"])
    with pytest.raises(tp.ArgumentError, match="not int"):
        tp.autograd.backward(3)
    with pytest.raises(tp.AutogradError, match="at least one tensor"):
        tp.autograd.backward([])


def test_backward_accepts_what_the_method_does():
    x = leaf([1.0, 2.0])
    tp.autograd.backward(x * x, tp.ones(2, dtype=tp.float64), retain_graph=True)
    (x * x).backward(gradient=tp.ones(2, dtype=tp.float64))
    assert x.grad.tolist() == [4.0, 8.0]


def test_inputs_that_were_computed_retain_their_gradient():
    x = leaf(2.0)
    h = x * 2
    (h * h).backward(inputs=[h], retain_graph=True)
    assert (h.grad.item(), h.retains_grad, x.grad) == (8.0, True, None)
    (h * h).backward(inputs=[x, h])
    assert (h.grad.item(), x.grad.item()) == (16.0, 16.0)
    with pytest.raises(tp.AutogradError, match="input 0"):
        (x * 2).backward(inputs=[tp.ones(())])


def test_one_element_of_any_shape_implies_its_gradient():
    x = leaf([[3.0]])
    (x * x).backward()
    assert x.grad.tolist() == [[6.0]]


def test_backward_inside_other_modes():
    x = leaf(2.0)
    y = x * x
    with tp.no_grad():
        y.backward(retain_graph=True)
        assert not x.grad.requires_grad
        (g,) = tp.autograd.grad(y, x, create_graph=True)
        assert g.requires_grad
    with tp.testing.force_slow_path():
        (x * x).backward()
    assert x.grad.item() == 8.0
    assert tp.is_grad_enabled()


def test_complex_gradients_are_conjugate_wirtinger_derivatives():
    z = tp.tensor(1 + 2j, dtype=tp.complex128, requires_grad=True)
    (z * z.conj()).real().backward()
    assert z.grad.item() == 2 + 4j
    w = tp.tensor(1 + 2j, dtype=tp.complex128, requires_grad=True)
    w.abs().backward()
    tp.testing.assert_close(w.grad.item(), (1 + 2j) / 5**0.5, rtol=1e-14, atol=0.0)


def test_gradients_stay_on_their_device():
    x = tp.tensor([1.0, 2.0], device="loopback", requires_grad=True)
    (x * x).sum().backward()
    assert str(x.grad.device).startswith("loopback")
    y = tp.tensor([1.0, 2.0], requires_grad=True)
    (y.to("loopback") * x).sum().backward()
    assert y.grad.device.type == "cpu"
    assert y.grad.tolist() == [1.0, 2.0]
    s = tp.tensor(3.0, requires_grad=True)  # a 0-d cpu tensor joins
    (x * s).sum().backward()
    assert s.grad.device.type == "cpu"
    assert s.grad.item() == 3.0


def test_a_batch_of_gradients_gives_a_jacobian():
    x, unused = leaf([1.0, 2.0]), leaf(1.0)
    y = x * x
    eye = tp.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=tp.float64)
    (jacobian,) = tp.autograd.grad(y, x, eye, is_grads_batched=True, create_graph=True)
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert tp.autograd.grad(jacobian.sum(), x, retain_graph=True)[0].tolist() == [2.0, 2.0]
    found = tp.autograd.grad(y, [x, unused], eye, is_grads_batched=True, materialize_grads=True, retain_graph=True)
    assert [g.shape for g in found] == [(2, 2), (2,)]
    assert tp.autograd.grad(y, [x, unused], eye, is_grads_batched=True, allow_unused=True)[1] is None
    with pytest.raises(tp.AutogradError, match="has been walked"):
        tp.autograd.grad(y, x, tp.ones(2, dtype=tp.float64))
    with pytest.raises(tp.ArgumentError, match=r"batch along their first dim"):
        tp.autograd.grad(x * x, x, is_grads_batched=True)


def test_inputs_by_name():
    x, y = leaf(2.0), leaf(3.0)
    found = tp.autograd.grad(x * x, {"x": x, "y": y}, materialize_grads=True)
    assert {name: g.item() for name, g in found.items()} == {"x": 4.0, "y": 0.0}


def test_contradictions_and_nothing():
    x = leaf(2.0)
    with pytest.raises(ValueError, match="allow_unused=False contradicts it"):
        tp.autograd.grad(x * x, x, materialize_grads=True, allow_unused=False)
    with pytest.raises(tp.AutogradError, match="grad: inputs is empty"):
        tp.autograd.grad(x * x, [])
    with pytest.raises(tp.AutogradError, match="backward: inputs is empty"):
        (x * x).backward(inputs=[])


def test_a_complex_loss_implies_no_gradient():
    x = leaf(2.0)
    with pytest.raises(tp.AutogradError, match="implied only for a real tensor; this one is complex128"):
        (x * (1 + 1j)).backward()
    (x * (1 + 1j)).backward(tp.tensor(1.0 + 0j, dtype=tp.complex128))
    assert x.grad.item() == 1.0
