"""``Tensor.to`` and its kin: every pair of dtypes and devices, what is returned as it is, and gradients through it."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp

ALL = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


@pytest.mark.parametrize("source", ALL)
def test_every_pair_of_dtypes(source):
    x = tp.tensor([0, 1, 3]).to(getattr(tp, source))
    for target in ALL:
        y = x.to(getattr(tp, target))
        assert y.dtype.name == target
        expected = [bool(v) for v in x.tolist()] if target == "bool" else x.tolist()
        assert y.tolist() == expected, (source, target)
        assert (y is x) is (source == target)


def test_all_spellings_of_the_target():
    x = tp.ones(2)
    other = tp.zeros(1, dtype=tp.float64, device="loopback")
    assert x.to(tp.float64).dtype is tp.float64
    assert x.to(dtype=tp.float64).dtype is tp.float64
    assert x.to("loopback").device.type == "loopback"
    assert x.to(tp.device("loopback")).device.type == "loopback"
    assert x.to(device="loopback", dtype=tp.int8).dtype is tp.int8
    y = x.to("loopback", tp.float64)
    assert (y.device.type, y.dtype) == ("loopback", tp.float64)
    z = x.to(other)
    assert (z.device, z.dtype) == (other.device, tp.float64)
    assert x.to(tp.float64, True).dtype is tp.float64  # non_blocking by position
    assert x.to(float).dtype is tp.float32
    assert x.to(bool).dtype is tp.bool
    assert x.to(tp.float32) is x
    assert x.to("cpu") is x
    assert x.to("cpu:0") is x
    assert x.to(tp.float32, copy=True) is not x
    assert not np.shares_memory(x.to(tp.float32, copy=True).numpy(), x.numpy())
    with pytest.raises(tp.TensorPlayError):
        x.to("no_such_device")
    with pytest.raises(tp.TensorPlayError):
        x.to(3.5)


def test_methods():
    x = tp.tensor([1.0, 2.0])
    for name, dtype in (
        *(("bool", tp.bool), ("int", tp.int32), ("long", tp.int64), ("half", tp.float16)),
        *(("bfloat16", tp.bfloat16), ("float", tp.float32), ("double", tp.float64)),
    ):
        assert getattr(x, name)().dtype is dtype
    assert x.type(tp.int8).dtype is tp.int8
    assert x.cpu() is x
    with pytest.raises(tp.TensorPlayError, match="cuda"):
        x.cuda()


def test_conversions_of_special_values():
    assert tp.tensor([float("inf"), float("nan"), 1e10]).to(tp.float16).tolist()[0] == float("inf")
    assert tp.tensor([1e10]).to(tp.float16).tolist() == [float("inf")]
    assert tp.tensor([2.7, -2.7]).to(tp.int64).tolist() == [2, -2]
    assert tp.tensor([1 + 2j]).to(tp.float32).tolist() == [1.0]
    assert tp.tensor([2j]).to(tp.bool).tolist() == [True]
    assert tp.tensor([300]).to(tp.uint8).tolist() == [44]  # wraps
    assert tp.tensor([float("nan")]).to(tp.bool).tolist() == [True]


@pytest.mark.parametrize("source", ["cpu", "loopback"])
@pytest.mark.parametrize("target", ["cpu", "loopback"])
def test_every_pair_of_devices(source, target):
    for layout in (lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[0, 0], lambda x: x[:0]):
        x = layout(tp.arange(12, device=source).reshape(3, 4))
        y = x.to(target)
        assert y.device.type == target
        assert y.tolist() == x.tolist()
        assert (y is x) is (source == target)
        if source != target and y.numel():
            y.zero_()
            assert x.tolist() == layout(tp.arange(12).reshape(3, 4)).tolist()


def test_a_dtype_that_the_target_device_lacks():
    x = tp.ones(2, dtype=tp.bfloat16)
    with pytest.raises(tp.DTypeError, match=r"(?s)loopback.*bfloat16"):
        x.to("loopback")
    assert x.to("loopback", tp.float32).tolist() == [1.0, 1.0]
    y = tp.ones(2, device="loopback").to("cpu", tp.bfloat16)
    assert (y.dtype, y.tolist()) == (tp.bfloat16, [1.0, 1.0])


def test_gradients_cross_dtypes_and_devices():
    x = tp.tensor([1.0, 2.0], dtype=tp.float16, requires_grad=True)
    y = x.to(tp.float64)
    z = y.to("loopback")
    (z * z).sum().backward()
    assert (x.grad.dtype, x.grad.device.type, x.grad.tolist()) == (tp.float16, "cpu", [2.0, 4.0])
    assert not x.to(tp.int32).requires_grad
    w = tp.tensor([1.0], requires_grad=True)
    w.to(tp.complex64).abs().sum().backward()
    assert (w.grad.dtype, w.grad.tolist()) == (tp.float32, [1.0])
    c = tp.tensor([3 + 4j], requires_grad=True)
    c.to(tp.float32).sum().backward()
    assert c.grad.tolist() == [1 + 0j]


def test_second_order_through_a_conversion():
    x = tp.tensor([2.0], requires_grad=True)
    y = x.to(tp.float64)
    (g,) = tp.autograd.grad((y * y * y).sum(), x, create_graph=True)
    (h,) = tp.autograd.grad(g.sum(), x)
    assert (h.dtype, h.tolist()) == (tp.float32, [12.0])


def test_the_name_of_a_dtype_is_not_taken_for_a_device():
    with pytest.raises(tp.ArgumentError, match=r"not 'float64' \(str\)\. Write tp\.float64\."):
        tp.ones(2).to("float64")
