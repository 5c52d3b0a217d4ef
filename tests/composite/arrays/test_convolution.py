"""Convolutions over NumPy: the ways that the kernels choose between, by hand and against the Composite kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import convolution as arrays
from tensorplay_composite.operators import convolution as composite
from tensorplay_core.ops import _generated_functional as F

conv2d = tp.nn.functional.conv2d


def random(*shape, seed=0):
    return tp.from_numpy(np.random.default_rng(seed).normal(size=shape))


def test_a_convolution_by_hand():
    x = tp.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
    w = tp.tensor([[[[1.0, 0.0], [0.0, -1.0]]]])
    assert conv2d(x, w).tolist() == [[[-4.0, -4.0], [-4.0, -4.0]]]
    assert conv2d(x, w, tp.tensor([10.0]), stride=2, padding=1).tolist() == [[[9.0, 7.0], [3.0, 6.0]]]
    assert conv2d(x, tp.ones(1, 1, 2, 2), dilation=2).tolist() == [[[20.0]]]


def test_its_gradients_by_hand():
    x = tp.tensor([[[1.0, 2.0, 3.0]]], requires_grad=True)
    w = tp.tensor([[[10.0, 1.0]]], requires_grad=True)
    b = tp.zeros(1, requires_grad=True)
    tp.nn.functional.conv1d(x, w, b).backward(tp.tensor([[[1.0, 100.0]]]))
    assert x.grad.tolist() == [[[10.0, 1001.0, 100.0]]]
    assert w.grad.tolist() == [[[201.0, 302.0]]]
    assert b.grad.tolist() == [101.0]


CALLS = {
    "few channels, all places copied": ((5, 2, 9, 8), (3, 2, 3, 3), (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
    "many channels, rows read in place": ((3, 20, 6, 7), (4, 20, 3, 3), (1, 1), (1, 0), (1, 2), False, (0, 0), 1),
    "more results than are few": ((3, 20, 6, 7), (17, 20, 3, 3), (1, 1), (1, 0), (1, 2), False, (0, 0), 1),
    "channels enough for all": ((2, 50, 4, 4), (17, 50, 2, 2), (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
    "groups": ((3, 40, 6, 5), (6, 20, 3, 3), (1, 1), (1, 1), (1, 1), False, (0, 0), 2),
    "depthwise": ((2, 6, 7, 7), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), False, (0, 0), 6),
    "stride": ((3, 4, 9, 8), (5, 4, 3, 2), (2, 3), (1, 1), (1, 1), False, (0, 0), 1),
    "pointwise": ((3, 8, 4, 4), (6, 4, 1, 1), (1, 1), (0, 0), (1, 1), False, (0, 0), 2),
    "transposed": ((3, 4, 5, 4), (4, 3, 3, 3), (2, 1), (1, 0), (1, 1), True, (1, 0), 1),
    "more padding than the kernel reaches": ((2, 3, 4, 4), (2, 3, 2, 2), (1, 1), (3, 3), (1, 1), False, (0, 0), 1),
}


@pytest.mark.parametrize("blocks", [1 << 17, 64])
@pytest.mark.parametrize("name", CALLS)
def test_every_way_agrees_with_the_general_one(name, blocks, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", blocks)
    x, w, *sizes = CALLS[name]
    x, w = random(*x), random(*w, seed=1)
    channels = w.shape[1] * sizes[-1] if sizes[3] else w.shape[0]
    b = random(channels, seed=2)
    y = tp.convolution(x, w, b, *sizes)
    tp.testing.assert_close(y, composite.convolution(x, w, b, *sizes), rtol=1e-12, atol=1e-12)
    g = random(*y.shape, seed=3)
    found = F.convolution_backward(g, x, w, [channels], *sizes, [True, True, True])
    wanted = composite.convolution_backward(g, x, w, [channels], *sizes, [True, True, True])
    for one, other in zip(found, wanted, strict=True):
        tp.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_what_is_infinite_in_no_window_stays_out_of_a_weights_gradient():
    x = tp.ones(1, 1, 3, 3, dtype=tp.float64)
    x[0, 0, 0, 0] = float("inf")
    w = tp.ones(1, 1, 2, 2, dtype=tp.float64, requires_grad=True)
    conv2d(x, w).sum().backward()
    assert w.grad.tolist() == [[[[float("inf"), 4.0], [4.0, 4.0]]]]


def test_layouts_half_precisions_and_integers():
    x, w = random(2, 3, 6, 6), random(4, 3, 3, 3, seed=1)
    wanted = conv2d(x, w)
    moved = x.permute(0, 2, 3, 1).clone().permute(0, 3, 1, 2)
    tp.testing.assert_close(conv2d(moved, w.transpose(2, 3).clone().transpose(2, 3)), wanted, rtol=1e-12, atol=1e-12)
    assert conv2d(x, w).is_contiguous()
    for dtype in (tp.float16, tp.bfloat16):
        ones = tp.ones(1, 300, 3, 3, dtype=dtype)
        assert conv2d(ones, ones[:, :, :1, :1]).tolist() == [[[[300.0] * 3] * 3]]  # in float32, and rounded once
    assert conv2d(tp.ones(1, 1, 2, 2, dtype=tp.int64), tp.full((1, 1, 2, 2), 3)).tolist() == [[[[12]]]]
    z = tp.tensor([[[1j, 1.0]]])
    assert tp.nn.functional.conv1d(z, tp.tensor([[[1j, 1.0 + 0j]]])).tolist() == [[[0j]]]


def test_results_share_no_memory_with_later_ones():
    x, w = random(4, 2, 6, 6), random(3, 2, 3, 3, seed=1)
    first = conv2d(x, w)
    kept = first.tolist()
    conv2d(x * 2, w)
    assert first.tolist() == kept


REFUSED = {
    "channels": (((1, 3, 4, 4), (2, 2, 1, 1)), {}, r"has 3 channels, but weight of shape \(2, 2, 1, 1\) takes 2"),
    "groups": (((1, 4, 4, 4), (3, 2, 1, 1)), {"groups": 2}, "must be divisible by groups=2, which 3 is not"),
    "no groups": (((1, 4, 4, 4), (3, 4, 1, 1)), {"groups": 0}, "groups must be greater than zero, but is 0"),
    "bias": (((1, 2, 4, 4), (3, 2, 1, 1)), {"bias": tp.ones(2)}, r"bias must have shape \(3,\)"),
    "kernel": (((1, 1, 2, 4), (1, 1, 3, 1)), {}, "spans 3 elements at spatial dim 0, and the input has size 2"),
    "stride": (((1, 1, 4, 4), (1, 1, 1, 1)), {"stride": 0}, "stride must be greater than zero, but is 0"),
    "padding": (((1, 1, 4, 4), (1, 1, 1, 1)), {"padding": -1}, "padding must not be negative, but is -1"),
    "three strides": (((1, 1, 4, 4), (1, 1, 1, 1)), {"stride": (1, 1, 1)}, "needs 2 numbers, one a spatial dim"),
    "name": (((1, 1, 4, 4), (1, 1, 1, 1)), {"padding": "sane"}, "'sane'.*same"),
    "same": (((1, 1, 4, 4), (1, 1, 1, 1)), {"padding": "same", "stride": 2}, "not supported for strided"),
    "dims": (((1, 1, 4), (1, 1, 1)), {}, "weight must have 4 dims"),
    "input": (((4, 4), (1, 1, 1, 1)), {}, "Expected 3D .* or 4D"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_also_after_a_call_that_did(name):
    shapes, given, message = REFUSED[name]
    conv2d(tp.ones(1, 1, 2, 2), tp.ones(1, 1, 1, 1))  # the kernel is known now, and is called directly
    with pytest.raises(tp.TensorPlayError, match=message):
        conv2d(*(tp.ones(*shape) for shape in shapes), **given)


def test_transposed_convolutions_check_their_output_padding():
    with pytest.raises(ValueError, match="output padding must be smaller than either stride or dilation"):
        tp.nn.functional.conv_transpose1d(tp.ones(1, 1, 2), tp.ones(1, 1, 2), output_padding=1)


def test_meta_tensors_have_the_shapes():
    x, w = tp.empty(2, 3, 8, 8, device="meta"), tp.empty(4, 3, 3, 3, device="meta", requires_grad=True)
    y = conv2d(x, w, padding="same")
    assert y.shape == (2, 4, 8, 8)
    y.sum().backward()
    assert w.grad.shape == w.shape
    assert tp.nn.functional.max_pool2d(y, 2, return_indices=True)[1].shape == (2, 4, 4, 4)
    assert tp.nn.functional.interpolate(tp.nn.functional.avg_pool2d(y, 2), scale_factor=3).shape == (2, 4, 12, 12)
