"""``requires_grad``, ``grad``, ``detach`` and their kin; copying and pickling of tensors that have gradients."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensorplay as tp


def leaf(data=(1.0, 2.0)):
    return tp.tensor(list(data), requires_grad=True)


def test_requires_grad():
    x = tp.ones(2)
    assert not x.requires_grad
    assert x.is_leaf
    assert x.requires_grad_() is x
    assert x.requires_grad
    x.requires_grad = False
    assert not x.requires_grad
    y = leaf() * 2
    assert y.requires_grad
    assert not y.is_leaf
    y.requires_grad_()  # nothing to do
    with pytest.raises(tp.AutogradError, match=r"(?s)only a leaf can stop.*detach"):
        y.requires_grad = False
    with pytest.raises(tp.ArgumentError, match="True or False"):
        x.requires_grad = 1


def test_the_grad_attribute():
    x = leaf()
    assert x.grad is None
    x.grad = tp.ones(2)
    assert x.grad.tolist() == [1.0, 1.0]
    for wrong, error, text in (
        (1.0, tp.ArgumentError, "Tensor or None"),
        (x, tp.AutogradError, "its own gradient"),
        (tp.ones(3), tp.AutogradError, r"shape \(3,\)"),
        (tp.ones(2, dtype=tp.float64), tp.AutogradError, "float64"),
        (tp.ones(2, device="loopback"), tp.AutogradError, "loopback"),
    ):
        with pytest.raises(error, match=text):
            x.grad = wrong
    assert x.grad.tolist() == [1.0, 1.0]
    x.grad = None
    assert x.grad is None
    assert tp.ones(2).grad is None


def test_detach():
    x = leaf()
    y = x * 2
    for z in (y.detach(), y.data):
        assert not z.requires_grad
        assert z.is_leaf
        assert z.numpy() is y.detach().numpy() or z._array is y._array
    z = y.detach()
    z.add_(1)
    assert y.tolist() == [3.0, 5.0]
    w = x * 2
    assert w.detach_() is w
    assert w.is_leaf


def test_deepcopy_of_a_leaf():
    x = leaf()
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad
    assert y.is_leaf
    assert y._type is x._type
    assert y.grad.tolist() == x.grad.tolist()
    with tp.no_grad():
        y.zero_()
        y.grad.zero_()
    assert (x.tolist(), x.grad.tolist()) == ([1.0, 2.0], [2.0, 4.0])
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
    a, b = copy.deepcopy([x, x])
    assert a is b


def test_deepcopy_of_a_computed_tensor_is_refused():
    with pytest.raises(tp.AutogradError, match=r"(?s)only leaves.*detach"):
        copy.deepcopy(leaf() * 2)


def test_copy_shares_memory():
    x = leaf()
    y = copy.copy(x)
    assert y.requires_grad
    assert y is not x
    with tp.no_grad():
        y.add_(1)
    assert x.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    for dtype in (tp.bool, tp.int8, tp.uint64, tp.float16, tp.bfloat16, tp.float32, tp.complex128):
        for data in (1, [0, 1], [[1, 0]], []):
            x = tp.tensor(data).to(dtype)
            y = pickle.loads(pickle.dumps(x, protocol))
            assert y._type is x._type
            assert (y.tolist(), y.shape, y.requires_grad) == (x.tolist(), x.shape, False)
    x = leaf()
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.requires_grad
    assert y.is_leaf
    (y * y).sum().backward()
    assert y.grad.tolist() == [2.0, 4.0]


def test_pickle_of_a_view_a_strided_tensor_and_another_device():
    x = tp.arange(12).reshape(3, 4)
    for y in (x[1], x.T, x[:, ::2], x.expand(2, 3, 4)):
        z = pickle.loads(pickle.dumps(y))
        assert z.tolist() == y.tolist()
    y = tp.ones(2, device="loopback")
    z = pickle.loads(pickle.dumps(y))
    assert z._type is y._type
    assert z.device == y.device


def test_pickle_of_a_computed_tensor_is_refused():
    with pytest.raises(tp.AutogradError, match=r"(?s)only leaves can be pickled.*detach"):
        pickle.dumps(leaf() * 2)


def test_types_dtypes_and_devices_stay_interned():
    x = tp.ones(2)
    for thing in (x._type, x.dtype, tp.bfloat16):
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert copy.copy(thing) is thing
        assert copy.deepcopy(thing) is thing
    assert pickle.loads(pickle.dumps(x.device)) == x.device
    assert copy.deepcopy(x)._type is x._type
    with tp.inference_mode():
        y = tp.ones(2)
    assert copy.deepcopy(y)._type is y._type
