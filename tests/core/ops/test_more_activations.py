"""The activations with bounds, shrinkages, gates and normal chances: values by hand, kinks, tails, refusals."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp
import tensorplay.nn.functional as F

INF, NAN = math.inf, math.nan


def grad_of(function, values):
    x = tp.tensor(values, dtype=tp.float64, requires_grad=True)
    function(x).sum().backward()
    return x.grad.tolist()


def test_bounds_are_flat_at_their_ends():
    x = tp.tensor([-2.0, -1.0, 0.5, 1.0, 7.0])
    assert F.hardtanh(x).tolist() == [-1.0, -1.0, 0.5, 1.0, 1.0]
    assert F.hardtanh(x, 0.0, 2.0).tolist() == [0.0, 0.0, 0.5, 1.0, 2.0]
    assert F.relu6(x).tolist() == [0.0, 0.0, 0.5, 1.0, 6.0]
    assert grad_of(F.hardtanh, x.tolist()) == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert grad_of(F.relu6, [0.0, 1.0, 6.0]) == [0.0, 1.0, 0.0]
    with pytest.raises(tp.ValueRangeError, match=r"min_val must not be larger than max_val, but 2.0 > 1.0"):
        F.hardtanh(x, 2.0, 1.0)


def test_threshold_and_shrinkages():
    x = tp.tensor([-2.0, -0.5, 0.25, 0.5, 3.0])
    assert F.threshold(x, 0.25, 9.0).tolist() == [9.0, 9.0, 9.0, 0.5, 3.0]
    assert F.hardshrink(x).tolist() == [-2.0, 0.0, 0.0, 0.0, 3.0]
    assert F.softshrink(x).tolist() == [-1.5, 0.0, 0.0, 0.0, 2.5]
    assert grad_of(F.hardshrink, x.tolist()) == grad_of(F.softshrink, x.tolist()) == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert math.isnan(F.hardshrink(tp.tensor(NAN)).item())
    with pytest.raises(tp.ValueRangeError, match="lambd must not be negative"):
        F.softshrink(x, -1.0)


def test_the_slope_of_tanhshrink_keeps_its_digits_near_0():
    assert grad_of(F.tanhshrink, [1e-6]) == pytest.approx([1e-12], rel=1e-9)


def test_celu_is_smooth_at_0():
    assert F.celu(tp.tensor([-2.0, 0.0, 1.5], dtype=tp.float64), 2.0).tolist() == [2 * math.expm1(-1), 0.0, 1.5]
    assert grad_of(lambda x: F.celu(x, 2.0), [-2.0, 1.0]) == pytest.approx([math.exp(-1), 1.0])
    with pytest.raises(tp.ValueRangeError, match="alpha must not be 0"):
        F.celu(tp.tensor([1.0]), 0.0)


def test_log_sigmoid_at_both_ends():
    x = tp.tensor([-1000.0, 0.0, 1000.0], dtype=tp.float64)
    assert F.logsigmoid(x).tolist() == [-1000.0, -math.log(2), 0.0]
    assert grad_of(F.logsigmoid, [-1000.0, 0.0, 50.0]) == pytest.approx([1.0, 0.5, math.exp(-50)], rel=1e-12)


def below(x):
    return math.erfc(-x / math.sqrt(2)) / 2


@pytest.mark.parametrize("count", [9, 70_001])
@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_gelu_is_x_times_the_chance_below_it(name, count):
    dtype = getattr(tp, name)
    x = tp.tensor([-8.0 + 16.0 * i / count for i in range(count)], dtype=dtype)
    step = max(1, count // 300)
    pairs = list(zip(x.tolist(), F.gelu(x).tolist(), strict=True))[::step]
    eps = {"float16": 2.0**-10, "float32": 2.0**-21, "float64": 2.0**-50}[name]
    smallest = {"float16": 2.0**-24, "float32": 0.0, "float64": 0.0}[name]
    for v, y in pairs:
        exact = v * below(v)
        assert abs(y - exact) <= eps * (1 + v * v) * abs(exact) + smallest, (v, y, exact)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_the_ends_of_gelu_and_of_its_slope(approximate, name):
    x = tp.tensor([-INF, -100.0, 100.0, INF], dtype=getattr(tp, name), requires_grad=True)
    y = F.gelu(x, approximate=approximate)
    assert y.tolist() == [0.0, 0.0, 100.0, INF]
    y.backward(tp.ones_like(y) if hasattr(tp, "ones_like") else tp.ones(4, dtype=y.dtype))
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert math.isnan(F.gelu(tp.tensor(NAN, dtype=x.dtype), approximate=approximate).item())


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_slope_of_gelu_in_blocks_is_that_of_float64(approximate):
    values = [-6.0 + 12.0 * i / 70_001 for i in range(70_001)]
    slopes = []
    for dtype in (tp.float32, tp.float64):
        x = tp.tensor(values, dtype=dtype, requires_grad=True)
        F.gelu(x, approximate=approximate).sum().backward()
        slopes.append(x.grad.double())
    assert (slopes[0] - slopes[1]).abs().max().item() < 1e-6


def test_gelu_refuses_other_approximations():
    with pytest.raises(tp.ValueRangeError, match="approximate must be one of 'none' and 'tanh', not 'tan'"):
        F.gelu(tp.tensor([1.0]), approximate="tan")


def test_prelu_has_a_weight_for_each_channel():
    x = tp.tensor([[-1.0, -2.0], [3.0, -4.0]])
    assert F.prelu(x, tp.tensor([0.5, 0.25])).tolist() == [[-0.5, -0.5], [3.0, -1.0]]
    assert F.prelu(x, tp.tensor([0.5])).tolist() == [[-0.5, -1.0], [3.0, -2.0]]
    weight = tp.tensor([0.5, 0.25], requires_grad=True)
    F.prelu(x, weight).sum().backward()
    assert weight.grad.tolist() == [-1.0, -6.0]
    with pytest.raises(tp.ShapeError, match="weight must have one element or 2"):
        F.prelu(x, tp.tensor([1.0, 2.0, 3.0]))


def test_glu_halves_a_dim():
    x = tp.tensor([[1.0, 2.0, 0.0, 0.0]])
    assert F.glu(x).tolist() == [[0.5, 1.0]]
    assert F.glu(x.reshape(4, 1), 0).tolist() == [[0.5], [1.0]]
    with pytest.raises(tp.ShapeError, match="halving dim 0 needs an even size, but it is 1"):
        F.glu(x, 0)
    with pytest.raises(tp.DimError, match="0-d"):
        F.glu(tp.tensor(1.0))


FLAGGED = ["relu", "elu", "leaky_relu", "selu", "silu", "mish", "hardsigmoid", "hardswish", "hardtanh", "relu6", "celu"]


@pytest.mark.parametrize("name", FLAGGED)
def test_inplace_writes_to_the_input(name):
    x = tp.tensor([-2.0, 0.5, 7.0])
    wanted = getattr(F, name)(x)
    assert x.tolist() == [-2.0, 0.5, 7.0]
    assert getattr(F, name)(x, inplace=True) is x
    assert x.tolist() == wanted.tolist()


def test_threshold_takes_the_flag_after_its_numbers():
    x = tp.tensor([1.0, 3.0])
    assert F.threshold(x, 2.0, 9.0, True) is x
    assert x.tolist() == [9.0, 3.0]
    with pytest.raises(TypeError):
        tp.relu(x, inplace=True)
