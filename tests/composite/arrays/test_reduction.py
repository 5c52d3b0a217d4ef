from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.errors import DimError, DTypeError

DIMS = [None, 0, -1, 1, (0,), [0, 2], (-1, 0), (), []]
REALS = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]


def axes(dim):
    return None if dim is None or (not isinstance(dim, int) and len(dim) == 0) else tuple(np.atleast_1d(dim))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_dims(k, name, dim, keepdim):
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    result = k[name](x, dim, keepdim)
    expected = getattr(np, name)(x.astype("float64"), axis=axes(dim), keepdims=keepdim)
    assert np.shape(result) == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [*REALS, "complex64", "complex128"])
def test_sum_dtype(k, dtype):
    x = np.array([[1, 0], [1, 1]]).astype(dtype)
    result = k["sum"](x)
    kind = np.dtype(dtype).kind
    assert np.asarray(result).dtype == ("int64" if kind in "biu" else dtype)
    assert result == 3
    assert np.asarray(k["sum"](x, 0)).tolist() == [2, 1]


@pytest.mark.parametrize("which", ["float16", "bf16"])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_halves_accumulate_in_float32(k, bf16, which, name):
    dtype = bf16 if which == "bf16" else np.dtype(which)
    x = np.full(4096, 0.1, dtype)
    result = np.asarray(k[name](x))
    assert result.dtype == dtype
    total = x.astype("float64").sum()
    assert float(result) == float(np.asarray(total if name == "sum" else total / 4096).astype(dtype))
    rows = np.asarray(k[name](x.reshape(2, -1), 1, True))
    assert rows.dtype == dtype and rows.shape == (2, 1)


def test_float16_mean_does_not_overflow(k):
    assert float(k["mean"](np.full(10, 60000.0, "float16"))) == 60000


def test_sum_and_mean_of_nothing(k):
    x = np.empty((3, 0), "float32")
    assert k["sum"](x) == 0
    assert np.asarray(k["sum"](x, 1)).tolist() == [0, 0, 0]
    assert math.isnan(k["mean"](x))
    assert np.asarray(k["mean"](x, 0)).shape == (0,)
    assert np.isnan(k["mean"](x, 1)).all()


@pytest.mark.parametrize("dim", [None, 0, -1, (0,), (), [-1]], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_0d(k, dtype, dim):
    x = np.array(3, dtype)
    assert k["sum"](x, dim) == 3
    assert k["sum"](x, dim, True) == 3
    if dtype != "int32":
        assert k["mean"](x, dim) == 3
    if dim is None or isinstance(dim, int):
        assert k["argmax"](x, dim) == 0


@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize("name", ["sum", "mean", "argmax", "max.dim", "softmax", "log_softmax"])
def test_a_dim_out_of_range_raises(k, name, shape):
    for dim in (2, -3, 5):
        with pytest.raises((DimError, IndexError, ValueError)):
            k[name](np.ones(shape, "float32"), dim)


def test_a_repeated_dim_raises(k):
    with pytest.raises(ValueError):
        k["sum"](np.ones((2, 3), "float32"), (0, 0))


def test_mean_refuses_integers(k):
    for dtype in ("int64", "bool"):
        with pytest.raises(DTypeError, match="fix:"):
            k["mean"](np.ones(3, dtype))


@pytest.mark.parametrize("dtype", REALS)
def test_max(k, dtype):
    x = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    result = np.asarray(k["max"](x))
    assert result.dtype == dtype and result.shape == () and result == x.max()
    values, indices = k["max.dim"](x, 1)
    assert np.asarray(values).dtype == dtype and np.asarray(indices).dtype == "int64"
    assert np.asarray(values).tolist() == [1, 1] and np.asarray(indices).tolist() == [0, 1]
    values, indices = k["max.dim"](x, -2, True)
    assert values.shape == indices.shape == (1, 3) and indices.tolist() == [[0, 1, 0]]
    assert np.asarray(k["argmax"](x)).dtype == "int64"
    assert np.asarray(k["argmax"](x, 1)).tolist() == [0, 1]
    assert k["argmax"](x) == 0
    assert k["argmax"](x, None, True).shape == (1, 1)


@pytest.mark.parametrize("which", ["float16", "float32", "float64", "bf16"])
def test_nan_is_largest(k, bf16, which):
    x = np.array([[1, np.nan, np.inf, np.nan], [1, 5, 5, -np.inf]], bf16 if which == "bf16" else which)
    assert np.isnan(k["max"](x))
    values, indices = k["max.dim"](x, 1)
    np.testing.assert_array_equal(np.asarray(values).astype("float64"), [np.nan, 5])
    assert np.asarray(indices).tolist() == [1, 1]
    assert k["argmax"](x) == 1
    assert np.asarray(k["argmax"](x, 1)).tolist() == [1, 1]
    assert np.asarray(k["argmax"](x, 0)).tolist() == [0, 0, 0, 0]
    assert np.asarray(values).dtype == x.dtype


def test_infinities_alone(k):
    x = np.full(3, -np.inf, "float32")
    assert k["max"](x) == -np.inf
    assert k["argmax"](x) == 0
    assert k["argmax"](np.array([0, np.inf, np.nan])) == 2


@pytest.mark.parametrize("value", [3.5, np.nan])
def test_max_dim_of_0d(k, value):
    for dim in (0, -1):
        x = np.array(value)
        values, indices = k["max.dim"](x, dim)
        np.testing.assert_array_equal(values, x)
        assert indices == 0 and not np.shares_memory(values, x)


def test_max_refuses_complex(k):
    z = np.ones((2, 2), "complex64")
    for call in (lambda: k["max"](z), lambda: k["max.dim"](z, 0), lambda: k["argmax"](z), lambda: k["argmax"](z, 1)):
        with pytest.raises(DTypeError, match="no order"):
            call()


def test_max_of_nothing_raises(k):
    with pytest.raises(ValueError):
        k["max"](np.empty(0, "float32"))
    with pytest.raises(ValueError):
        k["argmax"](np.empty((2, 0), "float32"), 1)
    values, indices = k["max.dim"](np.empty((0, 3), "float32"), 1)
    assert values.shape == indices.shape == (0,)


def test_not_contiguous(k):
    x = np.random.default_rng(0).standard_normal((4, 5, 6)).astype("float32").transpose(2, 0, 1)[::2]
    np.testing.assert_allclose(k["sum"](x, (0, 2)), x.sum((0, 2)), rtol=1e-5)
    np.testing.assert_array_equal(k["max.dim"](x, 1)[1], x.argmax(1))
