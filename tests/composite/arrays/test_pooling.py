"""Pools, padding and resizing: values by hand, at the edges, and what is refused."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp

F = tp.nn.functional
nan, inf = math.nan, math.inf


def test_max_pool_by_hand():
    x = tp.tensor([[[1.0, 5.0, 2.0, 0.0], [3.0, 4.0, 8.0, 7.0], [9.0, 1.0, 1.0, 1.0]]])
    assert F.max_pool2d(x, 2).tolist() == [[[5.0, 8.0]]]
    assert F.max_pool2d(x, 2, ceil_mode=True).tolist() == [[[5.0, 8.0], [9.0, 1.0]]]
    values, indices = F.max_pool2d(x, 3, stride=1, padding=1, return_indices=True)
    assert values.tolist() == [[[5.0, 8.0, 8.0, 8.0], [9.0, 9.0, 8.0, 8.0], [9.0, 9.0, 8.0, 8.0]]]
    assert indices[0, 0].tolist() == [1, 6, 6, 6]
    assert F.max_pool2d(x, 2, dilation=(1, 2), stride=1).tolist() == [[[8.0, 7.0], [9.0, 7.0]]]


def test_the_gradient_goes_to_the_first_of_equal_elements():
    for kernel, stride in ((2, 2), (2, 1)):
        x = tp.ones(1, 2, 4, requires_grad=True)
        F.max_pool2d(x, kernel, stride).sum().backward()
        assert x.grad.tolist() == [[[1.0, stride % 2, 1.0, 0.0], [0.0] * 4]]


def test_nan_is_the_largest_and_gets_the_gradient():
    x = tp.tensor([[1.0, nan, 3.0, 2.0]], requires_grad=True)
    y = F.max_pool1d(x, 2)
    assert math.isnan(y[0, 0].item())
    assert y[0, 1].item() == 3.0
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 1.0, 0.0]]


def test_infinities_and_integers():
    assert F.max_pool1d(tp.tensor([[-inf, -inf, inf, 0.0]]), 3, 1, 1).tolist() == [[-inf, inf, inf, inf]]
    assert F.max_pool2d(tp.full((1, 2, 2), -128, dtype=tp.int8), 2, 1, 1).tolist() == [[[-128] * 3] * 3]
    assert F.max_pool2d(tp.zeros(1, 2, 2, dtype=tp.uint8), 2).tolist() == [[[0]]]


def test_means_count_what_they_are_told_to():
    x = tp.ones(1, 1, 3, 3)
    assert F.avg_pool2d(x, 2, padding=1).tolist() == [[[[0.25, 0.5], [0.5, 1.0]]]]
    assert F.avg_pool2d(x, 2, padding=1, count_include_pad=False).tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]
    assert F.avg_pool2d(x, 3, divisor_override=2).tolist() == [[[[4.5]]]]
    assert F.avg_pool2d(tp.full((1, 100, 100), 100.0, dtype=tp.float16), 100).tolist() == [[[100.0]]]
    assert F.avg_pool1d(tp.tensor([[inf, 1.0, 2.0, 4.0]]), 2).tolist() == [[inf, 3.0]]


def test_adaptive_means_keep_what_is_infinite_to_their_windows():
    x = tp.tensor([[inf, 1.0, 2.0, 3.0, 4.0]])
    assert F.adaptive_avg_pool1d(x, 3).tolist() == [[inf, 2.0, 3.5]]
    assert F.adaptive_avg_pool2d(tp.arange(16.0).reshape(1, 4, 4), 2).tolist() == [[[2.5, 4.5], [10.5, 12.5]]]
    assert F.adaptive_avg_pool2d(tp.arange(6.0).reshape(1, 2, 3), (1, 1)).tolist() == [[[2.5]]]


REFUSED = {
    "stride": (lambda x: F.max_pool2d(x, 2, 0), "stride must be greater than zero"),
    "kernel": (lambda x: F.max_pool2d(x, 0), "kernel_size must be greater than zero"),
    "padding": (lambda x: F.max_pool2d(x, 2, padding=2), "at most half of the kernel's extent"),
    "window": (lambda x: F.avg_pool2d(x, 9), "Output size is too small"),
    "dims": (lambda x: F.avg_pool2d(x[0], 2), "Expected 3D or 4D input"),
    "divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=0), "divisor must be not zero"),
    "nothing but padding": (lambda x: F.max_pool2d(x[:, :, :1], 2, 2, 1, 2), "has no element of the input"),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (1, 2, 3)), "needs 2 numbers"),
    "reflect": (lambda x: F.pad(x, (4, 0), "reflect"), "the most is 3"),
    "mode": (lambda x: F.pad(x, (1, 0), "mirror"), "Unrecognised padding mode 'mirror'"),
    "odd": (lambda x: F.pad(x, (1, 0, 1)), "must be even"),
    "cut": (lambda x: F.pad(x, (-3, -3)), "cuts more off dim 2"),
    "too many": (lambda x: F.pad(x, (1,) * 8), "no more than twice the number"),
    "size": (lambda x: F.interpolate(x[None], size=0), "must be greater than 0"),
    "both": (lambda x: F.interpolate(x[None], size=2, scale_factor=2), "either size or scale_factor"),
    "linear": (lambda x: F.interpolate(x[None], size=2, mode="linear"), "mode='bilinear'"),
    "shuffle": (lambda x: F.pixel_shuffle(x, 2), "not divisible by 4"),
    "fold": (lambda x: F.fold(tp.ones(4, 3), (3, 3), 2), "must be 4, the number of windows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_also_after_calls_that_did(name):
    call, message = REFUSED[name]
    for function in (F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d):
        function(tp.ones(1, 4, 4), 2)
    with pytest.raises(tp.TensorPlayError, match=message):
        call(tp.ones(1, 4, 4))


def test_padding_by_hand():
    x = tp.tensor([[1, 2, 3]])
    assert F.pad(x, (2, 1)).tolist() == [[0, 0, 1, 2, 3, 0]]
    assert F.pad(x, (0, -1, 1, 0), value=7).tolist() == [[7, 7], [1, 2]]
    assert F.pad(x, (2, 2), "reflect").tolist() == [[3, 2, 1, 2, 3, 2, 1]]
    assert F.pad(x, (1, 3), "replicate").tolist() == [[1, 1, 2, 3, 3, 3, 3]]
    assert F.pad(x, (2, 3), "circular").tolist() == [[2, 3, 1, 2, 3, 1, 2, 3]]
    y = tp.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    F.pad(y, (2, 2), "reflect").backward(tp.tensor([[1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]]))
    assert y.grad.tolist() == [[1000100.0, 101010.0, 10001.0]]


def test_windows_and_pixels_by_hand():
    x = tp.arange(6).reshape(1, 2, 3)
    assert F.unfold(x, (2, 2)).tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert F.fold(F.unfold(x, (2, 2)), (2, 3), (2, 2)).tolist() == [[[0, 2, 2], [3, 8, 5]]]
    assert F.unfold(x, 2, padding=1, stride=3).tolist() == [[0, 0], [0, 0], [0, 2], [0, 0]]
    assert F.pixel_unshuffle(tp.arange(4).reshape(1, 2, 2), 2).reshape(-1).tolist() == [0, 1, 2, 3]


def test_resizing_by_hand():
    x = tp.tensor([[[0.0, 10.0]]])
    assert F.interpolate(x, size=3).tolist() == [[[0.0, 0.0, 10.0]]]
    assert F.interpolate(x, scale_factor=2, mode="linear").tolist() == [[[0.0, 2.5, 7.5, 10.0]]]
    assert F.interpolate(x, size=5, mode="linear", align_corners=True).tolist() == [[[0.0, 2.5, 5.0, 7.5, 10.0]]]
    y = tp.tensor([[[[1.0, 3.0]]]], requires_grad=True)
    F.interpolate(y, scale_factor=2).sum().backward()
    assert y.grad.tolist() == [[[[4.0, 4.0]]]]
