from __future__ import annotations

import math

import numpy as np
import pytest

X = np.random.default_rng(1).standard_normal((3, 7))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_sums_and_products(k, name, dim):
    for dtype in ("float32", "float64", "complex64"):
        result = k[name](X.astype(dtype), dim)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, getattr(np, name)(X, axis=dim), rtol=1e-4)
    for dtype in ("bool", "uint8", "int32"):
        whole = np.array([[1, 2, 3], [0, 1, 1]]).astype(dtype)
        result = k[name](whole, dim)
        assert result.dtype == "int64"
        assert np.array_equal(result, getattr(np, name)(whole.astype("int64"), axis=dim % 2))


def test_halves_accumulate_in_float32(k):
    x = np.full(3000, 1, "float16")
    assert float(k["cumsum"](x, 0)[-1]) == 3000
    assert k["cumsum"](x, 0).dtype == "float16"


def test_logcumsumexp(k):
    x = np.array([-np.inf, 0.0, 0.0, 1000.0, np.inf], "float32")
    expected = [-math.inf, 0.0, math.log(2), 1000.0, math.inf]
    np.testing.assert_allclose(k["logcumsumexp"](x, 0), expected, rtol=1e-6)
    np.testing.assert_allclose(k["logcumsumexp"](X, 1), np.log(np.cumsum(np.exp(X), 1)))


def test_running_extremes_name_the_last_of_equal_ones(k):
    x = np.array([1, 3, 2, 3, 0])
    values, indices = k["cummax"](x, 0)
    assert values.tolist() == [1, 3, 3, 3, 3]
    assert indices.tolist() == [0, 1, 1, 3, 3]
    values, indices = k["cummin"](np.array([3, 1, 2, 1]), 0)
    assert values.tolist() == [3, 1, 1, 1]
    assert indices.tolist() == [0, 1, 1, 3]


def test_nan_stays_the_running_extreme(k):
    x = np.array([[1.0, np.nan, 3.0, np.nan, 0.0]], "float32")
    for name in ("cummax", "cummin"):
        values, indices = k[name](x, 1)
        assert np.isnan(values[0]).tolist() == [False, True, True, True, True]
        assert indices.tolist() == [[0, 1, 1, 3, 3]]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_0d_and_empty(k, name):
    found = k[name](np.array(2.0), -1)
    assert all(np.shape(one) == () for one in (found if isinstance(found, tuple) else (found,)))
    found = k[name](np.zeros((0, 3)), 0)
    assert all(one.shape == (0, 3) for one in (found if isinstance(found, tuple) else (found,)))
