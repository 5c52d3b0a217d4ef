"""The references of the activations give what their textbook formulas give with 50 digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tensorplay_core.testing.references import Array, reference

M = mpmath.MPContext()
M.dps = 50
POINTS = [0.0, 1e-9, -1e-9, 0.3, -0.7, 1.0, -1.0, 2.9, -2.9, 3.0, -3.0, 5.5, -5.5, 19.0, 21.0, -30.0, 88.5, -600.0]


def softplus(x, beta=1, threshold=20):
    return x if x * beta > threshold else M.log1p(M.exp(beta * x)) / beta


def hardsigmoid(x):
    return min(max(x / 6 + M.mpf(1) / 2, M.mpf(0)), M.mpf(1))


SCALE, ALPHA = M.mpf("1.0507009873554804934193349852946"), M.mpf("1.6732632423543772848170429916717")
TEXTBOOK = {
    "softplus": softplus,
    "silu": lambda x: x / (1 + M.exp(-x)),
    "mish": lambda x: x * M.tanh(softplus(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "elu": lambda x, alpha=1.0: x if x > 0 else alpha * M.expm1(x),
    "leaky_relu": lambda x, negative_slope=0.01: x if x > 0 else x * negative_slope,
    "selu": lambda x: SCALE * (x if x > 0 else ALPHA * M.expm1(x)),
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda x: x * hardsigmoid(x),
}
ARGUMENTS = {
    "softplus": [{}, {"beta": 2.5}, {"beta": 0.5, "threshold": 3}],
    "elu": [{}, {"alpha": 1.7}],
    "leaky_relu": [{}, {"negative_slope": 0.3}],
}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_the_textbook_in_float64(name):
    x = Array((len(POINTS),), POINTS, "float64")
    for kwargs in ARGUMENTS.get(name, [{}]):
        result = reference(name)(x, **kwargs)[0]
        assert (result.shape, result.dtype) == (x.shape, "float64")
        for point, actual in zip(POINTS, result.data, strict=True):
            right = TEXTBOOK[name](M.mpf(point), **kwargs)
            assert actual == pytest.approx(float(right), rel=1e-15, abs=1e-323), (point, kwargs)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_integers_become_the_default_dtype(name):
    ints = Array((4,), [-4, 0, 2, 100], "int8")
    result = reference(name)(ints)[0]
    assert result.dtype == "float32"
    assert result.data == pytest.approx([float(TEXTBOOK[name](M.mpf(k))) for k in ints.data])


def test_leaky_relu_of_integers_with_a_whole_slope_stays_in_them():
    result = reference("leaky_relu")(Array((3,), [-2, 0, 5], "int32"), 3)[0]
    assert (result.dtype, result.data) == ("int32", [-6, 0, 5])


def test_nan_and_infinities():
    """As PyTorch 2: silu and mish of -inf are -inf * 0."""
    x = Array((3,), [math.nan, math.inf, -math.inf], "float32")
    got = {name: [str(v) for v in reference(name)(x)[0].data] for name in TEXTBOOK}
    assert all(values[0] == "nan" for values in got.values())
    assert got["softplus"][1:] == ["inf", "0.0"]
    assert got["silu"][1:] == got["mish"][1:] == ["inf", "nan"]
    assert got["softsign"][1:] == ["nan", "nan"]
    assert got["elu"][1:] == ["inf", "-1.0"]
    assert got["leaky_relu"][1:] == ["inf", "-inf"]
    assert got["hardsigmoid"][1:] == ["1.0", "0.0"]
    assert got["hardswish"][1:] == ["inf", "0.0"]


def test_numbers_are_those_of_the_dtype_that_is_computed_in():
    """Half precisions compute in float32: the slope is float32's 0.01, not float16's."""
    x = Array((), [-1.0], "float16")
    assert reference("leaky_relu")(x, 0.01)[0].data == [-float(np.float32(0.01))]
    assert reference("leaky_relu")(x.cast("float64"), 0.01)[0].data == [-0.01]


def test_complex_numbers_are_refused():
    for name in TEXTBOOK:
        with pytest.raises(TypeError):
            reference(name)(Array((), [1j], "complex64"))
