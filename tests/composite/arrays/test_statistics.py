from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.errors import DTypeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 5))
DIMS = [None, 0, -1, (0, 2), [1], ()]


def axes(dim):
    return None if dim is None or (not isinstance(dim, int) and len(dim) == 0) else tuple(np.atleast_1d(dim))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("name", ["var", "std"])
def test_spreads(k, name, dtype, dim, keepdim):
    x = (X + 1j * X[::-1] if dtype == "complex128" else X).astype(dtype)
    wide = x if dtype == "complex128" else x.astype("float64")
    for correction in (None, 0, 1.5):
        result = k[f"{name}.correction"](x, dim, correction=correction, keepdim=keepdim)
        ddof = 1 if correction is None else correction
        expected = getattr(np, name)(wide, axis=axes(dim), ddof=ddof, keepdims=keepdim)
        assert np.asarray(result).dtype == ("float64" if dtype == "complex128" else dtype)
        np.testing.assert_allclose(result, expected, rtol=1e-2 if dtype == "float16" else 1e-5)


def test_a_large_mean_cancels_no_digits(k):
    x = np.array([1e6 + 1, 1e6 + 2, 1e6 + 3], "float32")
    assert float(k["var.correction"](x)) == 1.0


def test_a_spread_without_freedom(k):
    one = np.array([[3.0], [5.0]], "float32")
    assert np.isnan(k["var.correction"](one, 1)).all()
    assert np.isposinf(k["var.correction"](one, 0, correction=2)).all()
    assert np.isnan(k["std.correction"](np.zeros((0, 2), "float32"), 0)).all()


@pytest.mark.parametrize("name", ["var.correction", "std.correction", "norm"])
def test_integers_are_refused(k, name):
    with pytest.raises(DTypeError, match="floating and complex"):
        k[name](np.array([1, 2]))


@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 0.5, -1, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_norms(k, dtype, order, dim):
    x = (X + 1j * X[::-1] if dtype == "complex64" else X).astype(dtype)
    size, p, axis = np.abs(x).astype("float64"), 2 if order is None else order, axes(dim)
    if p == 0:
        expected = (size != 0).sum(axis)
    elif math.isinf(p):
        expected = (np.max if p > 0 else np.min)(size, axis)
    else:
        expected = (size**p).sum(axis) ** (1 / p)
    result = k["norm"](x, order, dim)
    assert np.asarray(result).dtype == ("float64" if dtype == "float64" else "float32")
    np.testing.assert_allclose(result, expected, rtol=2e-5)


def test_a_norm_of_known_numbers(k):
    x = np.array([[3.0, 4.0], [0.0, -2.0]], "float32")
    assert np.asarray(k["norm"](x, 2, 1)).tolist() == [5.0, 2.0]
    assert float(k["norm"](x, math.inf)) == 4.0
    assert float(k["norm"](x, 0)) == 3.0


def test_logsumexp(k):
    x = np.array([[1000.0, 1000.0], [0.0, 0.0], [-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 1.0]], "float32")
    expected = [1000 + math.log(2), math.log(2), -math.inf, math.inf, math.nan]
    np.testing.assert_allclose(k["logsumexp"](x, 1), expected, rtol=1e-6)
    assert np.asarray(k["logsumexp"](x, 1, True)).shape == (5, 1)
    assert np.isneginf(k["logsumexp"](np.zeros((0, 2), "float32"), 0)).all()
    np.testing.assert_allclose(k["logsumexp"](X, (0, 2)), np.log(np.exp(X).sum((0, 2))))


def test_median(k, bf16):
    assert k["median"](np.array([3.0, 1.0, 2.0, 4.0], "float32")) == 2
    assert k["median"](np.array([3, 1, 2])) == 2
    assert np.isnan(k["median"](np.array([[1.0, np.nan], [2.0, 3.0]])))
    assert np.asarray(k["median"](np.array([3, 1, 2]).astype(bf16))).dtype == bf16
    assert bool(k["median"](np.array([True, False, True]))) is True


@pytest.mark.parametrize("dim", DIMS, ids=str)
def test_products_and_truth(k, dim):
    x = np.where(X > 0.5, 0, X).astype("float32")
    axis = axes(dim)
    np.testing.assert_allclose(k["prod"](X.astype("float32"), dim), X.prod(axis), rtol=1e-4)
    assert np.array_equal(k["count_nonzero"](x, dim), np.count_nonzero(x, axis))
    if dim == ():
        assert np.array_equal(k["any"](x, dim), x != 0)  # no dim is reduced
        assert np.array_equal(k["all"](x, dim), x != 0)
    else:
        assert np.array_equal(k["any"](x, dim), (x != 0).any(axis))
        assert np.array_equal(k["all"](x, dim), (x != 0).all(axis))


def test_products_of_long_rows_and_of_nothing(k):
    for size in (31, 32, 33, 100, 1001):
        x = 1 + RNG.standard_normal((2, size)) / 100
        np.testing.assert_allclose(k["prod"](x, -1), x.prod(1), rtol=1e-12)
        np.testing.assert_allclose(k["prod"](x), x.prod(), rtol=1e-12)
    assert np.asarray(k["prod"](np.zeros((0, 2)), 0)).tolist() == [1.0, 1.0]
    assert np.asarray(k["prod"](np.array([True, True]))).dtype == "int64"


def test_nan_is_not_zero(k):
    x = np.array([np.nan, 0.0])
    assert bool(k["any"](x))
    assert not bool(k["all"](x))
    assert k["count_nonzero"](x) == 1


@pytest.mark.parametrize("dim", [0, -1, (0, 2), ()], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool"])
def test_extremes(k, dtype, dim):
    x = (X * 10).astype("int64").astype(dtype)
    for name, function in (("amax", np.max), ("amin", np.min)):
        assert np.array_equal(k[name](x, dim), function(x, axes(dim)))
        assert np.array_equal(k[name](x, dim, True), function(x, axes(dim), keepdims=True))
    assert np.array_equal(k["min"](x), x.min())
    values, indices = k["min.dim"](x, 1)
    assert np.array_equal(values, x.min(1))
    assert np.array_equal(indices, x.argmin(1))
    assert np.array_equal(k["argmin"](x, 1), x.argmin(1))


def test_nan_is_the_smallest_too(k):
    x = np.array([[1.0, np.nan, -5.0], [2.0, 1.0, 3.0]], "float32")
    assert np.isnan(k["min"](x))
    assert np.asarray(k["argmin"](x, 1)).tolist() == [1, 1]
    assert np.isnan(np.asarray(k["amin"](x, 1))).tolist() == [True, False]
