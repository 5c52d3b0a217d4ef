"""The normalisations by hand: values, running statistics, far means, gradients that vanish, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import DTypeError, ShapeError, ValueRangeError

F = tp.nn.functional
RNG = np.random.default_rng(0)


def test_layer_norm_of_a_row_has_mean_0_and_variance_1():
    x = tp.tensor(RNG.normal(3.0, 5.0, (8, 100)), dtype=tp.float64)
    y = F.layer_norm(x, [100], eps=0.0).numpy()
    np.testing.assert_allclose(y.mean(1), 0, atol=1e-14)
    np.testing.assert_allclose(y.var(1), 1, rtol=1e-13)


def test_weight_and_bias_are_applied_last():
    y = F.layer_norm(tp.tensor([1.0, 3.0]), [2], tp.tensor([2.0, 3.0]), tp.tensor([10.0, 20.0]), eps=0.0)
    assert y.tolist() == [8.0, 23.0]


@pytest.mark.parametrize("shape", [(1, 5000), (40, 300), (300, 40), (3, 2000)])
def test_no_digit_is_lost_to_a_large_mean(shape):
    """The variance is that of what is left after the mean was taken away: with E[x²] - E[x]² nothing would be right."""
    x = (1e4 + RNG.normal(size=shape)).astype("float32")
    exact = x.astype("float64") - x.astype("float64").mean(1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5)
    found = F.layer_norm(tp.tensor(x), [shape[1]]).numpy()
    np.testing.assert_allclose(found, exact, atol=4e-3)  # a unit in the last place of 1e4 is 1e-3


@pytest.mark.parametrize("shape", [(700, 30, 7), (5, 2000), (2, 3, 50000), (1, 4, 100)])
def test_batch_norm_of_several_blocks_is_that_of_all(shape):
    x = RNG.normal(size=shape)
    dims = tuple(d for d in range(len(shape)) if d != 1)
    exact = (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + 1e-5)
    found = F.batch_norm(tp.tensor(x), None, None, training=True)
    np.testing.assert_allclose(found.numpy(), exact, atol=1e-10)


def test_running_statistics_move_towards_the_mean_and_the_unbiased_variance():
    x = tp.tensor([[1.0, 0.0], [3.0, 8.0]])
    mean, var = tp.zeros(2), tp.ones(2)
    F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.tolist() == [1.0, 2.0]
    assert var.tolist() == [0.5 + 0.5 * 2.0, 0.5 + 0.5 * 32.0]
    F.batch_norm(x, mean, None, training=True, momentum=1.0)
    assert mean.tolist() == [2.0, 4.0]


def test_running_statistics_are_not_moved_by_evaluation_and_have_no_gradient():
    x = tp.tensor([[1.0, 0.0], [3.0, 8.0]], requires_grad=True)
    mean, var = tp.tensor([1.0, 2.0]), tp.tensor([4.0, 9.0])
    y = F.batch_norm(x, mean, var, eps=0.0)
    np.testing.assert_allclose(y.tolist(), [[0, -2 / 3], [1, 2]], rtol=1e-6)
    assert mean.tolist() == [1.0, 2.0]
    assert mean._version_number == 0
    F.batch_norm(x, mean, var, training=True).sum().backward()
    assert not mean.requires_grad
    assert mean._version_number == 1


def test_the_gradient_of_the_sum_of_a_normalised_row_is_0():
    x = tp.tensor(RNG.normal(size=(4, 6)), dtype=tp.float64, requires_grad=True)
    F.layer_norm(x, [6]).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 0, atol=1e-14)


def test_gradients_of_batch_norm_against_the_closed_form():
    x, g = RNG.normal(size=(50, 3, 4)), RNG.normal(size=(50, 3, 4))
    t = tp.tensor(x, requires_grad=True)
    w = tp.tensor([1.0, 2.0, -3.0], dtype=tp.float64, requires_grad=True)
    F.batch_norm(t, None, None, w, training=True, eps=0.25).backward(tp.tensor(g))
    r = 1 / np.sqrt(x.var((0, 2), keepdims=True) + 0.25)
    h = (x - x.mean((0, 2), keepdims=True)) * r
    gw = g * np.array([1.0, 2.0, -3.0])[:, None]
    rest = gw - gw.mean((0, 2), keepdims=True) - h * (gw * h).mean((0, 2), keepdims=True)
    np.testing.assert_allclose(t.grad.numpy(), r * rest, atol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), (g * h).sum((0, 2)), atol=1e-12)


def test_group_norm_with_one_group_a_channel_is_instance_norm():
    x = tp.tensor(RNG.normal(size=(2, 4, 5)))
    np.testing.assert_allclose(F.group_norm(x, 4).numpy(), F.instance_norm(x).numpy())


def test_instance_norm_moves_statistics_to_the_mean_of_the_examples():
    x = tp.tensor([[[1.0, 3.0]], [[5.0, 9.0]]])
    mean, var = tp.zeros(1), tp.zeros(1)
    F.instance_norm(x, mean, var, momentum=1.0)
    assert mean.tolist() == [4.5]
    assert var.tolist() == [(2.0 + 8.0) / 2]


def test_rms_norm_takes_the_epsilon_of_the_dtype():
    assert F.rms_norm(tp.zeros(4), [4]).tolist() == [0.0] * 4
    x = tp.tensor([2.0**-12] * 4)
    np.testing.assert_allclose(F.rms_norm(x, [4]).tolist(), 2.0**-12 / math.sqrt(2.0**-24 + 2.0**-23), rtol=1e-6)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precisions_compute_in_float32(name):
    x = tp.tensor(RNG.normal(300.0, 1.0, (2, 64)), dtype=getattr(tp, name))
    exact = F.layer_norm(x.to(tp.float32), [64])
    found = F.layer_norm(x, [64])
    assert found.dtype is x.dtype
    assert found.tolist() == exact.to(x.dtype).tolist()


def test_what_is_not_finite_stays_in_its_row():
    x = tp.tensor([[1.0, math.inf], [1.0, 3.0], [math.nan, 0.0]])
    y = F.layer_norm(x, [2], eps=0.0).tolist()
    assert y[1] == [-1.0, 1.0]
    assert all(math.isnan(v) for v in (*y[0], *y[2]))


def test_empty_inputs():
    assert F.layer_norm(tp.zeros(0, 3), [3]).shape == (0, 3)
    assert F.layer_norm(tp.zeros(3, 0), [0]).shape == (3, 0)
    assert F.group_norm(tp.zeros(0, 4, 2), 2).shape == (0, 4, 2)


def test_a_weight_that_is_not_in_memory_order():
    w = tp.tensor(RNG.normal(size=(3, 4))).transpose(0, 1)
    x = tp.tensor(RNG.normal(size=(2, 4, 3)))
    exact = F.layer_norm(x, [4, 3]) * w
    np.testing.assert_allclose(F.layer_norm(x, [4, 3], w).numpy(), exact.numpy())


REFUSED = [
    (ShapeError, r"normalized_shape \[3\] must be the last sizes.*pass normalized_shape=\[2\]",
     lambda: F.layer_norm(tp.zeros(3, 2), [3])),
    (ShapeError, "weight must have the shape of normalized_shape",
     lambda: F.layer_norm(tp.zeros(3, 2), [2], tp.zeros(3))),
    (DTypeError, "layer_norm: takes floating dtypes, not int64", lambda: F.layer_norm(tp.tensor([1, 2]), [2])),
    (ValueRangeError, "num_groups must divide the 6 channels.*use one of 1, 2, 3, 6",
     lambda: F.group_norm(tp.zeros(2, 6), 4)),
    (ShapeError, r"must be \(N, C\)", lambda: F.batch_norm(tp.zeros(3), None, None, training=True)),
    (ShapeError, "running_mean must have one element a channel",
     lambda: F.batch_norm(tp.zeros(3, 2), tp.zeros(3), None)),
    (ValueRangeError, "without training.*running_mean is None", lambda: F.batch_norm(tp.zeros(3, 2), None, None)),
    (ValueRangeError, "Expected more than 1 value", lambda: F.batch_norm(tp.zeros(1, 2), None, None, training=True)),
    (ValueRangeError, "Expected more than 1 value", lambda: F.instance_norm(tp.zeros(2, 2, 1))),
    (tp.ArgumentError, "momentum must be a float, not None",
     lambda: F.batch_norm(tp.zeros(3, 2), None, None, momentum=None)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "match", "call"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(error, match, call):
    with pytest.raises(error, match="(?s)" + match):
        call()
