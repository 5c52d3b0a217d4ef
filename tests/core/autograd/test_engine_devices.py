"""Backward on devices of somebody else's: gradients stay where their tensors are, and what is missing is named."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


@pytest.fixture(scope="module")
def three():
    tp.backends.from_namespace(np, name="threefold", device_count=3)
    return [tp.device("threefold", i) for i in range(3)]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_gradient_is_on_its_tensors_device_and_index(three, index):
    here = three[index]
    x = tp.ones(2, 3, device=here, requires_grad=True)
    w = tp.full((3,), 2.0, device=here, requires_grad=True)
    seen = []
    h = (x * w).exp()
    h.retain_grad()
    h.register_hook(lambda g: seen.append(g.device))
    values, _ = h.max(1)
    loss = (values * tp.tensor(3.0)).sum()  # a 0-d tensor of the cpu joins any device
    loss.backward(create_graph=True)
    assert [t.grad.device for t in (x, w, h)] + seen == [here] * 4
    (second,) = tp.autograd.grad(x.grad.sum(), w)
    assert second.device == here


def test_a_move_between_indices_is_differentiable(three):
    x = tp.ones(2, device=three[1], requires_grad=True)
    (x.to(three[2]) * 3).to("cpu").sum().backward()
    assert x.grad.device == three[1] and x.grad.tolist() == [3.0, 3.0]


def test_a_gradient_of_another_index_is_refused(three):
    x = tp.ones(2, device=three[1], requires_grad=True)
    with pytest.raises(tp.AutogradError, match="threefold:2, its tensor on threefold:1"):
        (x * 2).backward(tp.ones(2, device=three[2]))
    y = x * 2
    y.register_hook(lambda g: g.to(three[2]))
    with pytest.raises(tp.AutogradError, match="device: it was given threefold:1 and returned threefold:2"):
        y.sum().backward()
    assert x.grad is None


def test_a_backward_operator_that_a_backend_lacks_is_named_and_leaves_grad_as_it_was(three):
    """The forward operator has kernels everywhere, and its backward one on the cpu alone."""
    library = tp.library.Library("engine_devices", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.define("double_backward(Tensor grad) -> Tensor")
    library.impl("double", lambda x: 2 * x, "CPU")
    library.impl("double", lambda x: 2 * x, "threefold")
    library.impl("double_backward", lambda grad: 2 * grad, "CPU")
    ops = tp.ops.engine_devices
    tp.library.register_autograd("engine_devices::double", lambda ctx, grad: ops.double_backward(grad))
    try:
        x = tp.ones(2, device=three[1], requires_grad=True)
        w = tp.ones(2, device=three[1], requires_grad=True)
        h = ops.double(x) * w
        h.retain_grad()
        with pytest.raises(tp.KernelMissing, match=r"engine_devices::double_backward: no kernel at \w*hreefold"):
            h.sum().backward()
        assert (x.grad, w.grad, h.grad) == (None, None, None)
        x = tp.ones(2, requires_grad=True)
        ops.double(x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    finally:
        library.close()
