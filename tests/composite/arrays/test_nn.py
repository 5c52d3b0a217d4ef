from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.errors import DTypeError


def softmax(x, dim):
    e = np.exp(x.astype("longdouble") - x.astype("longdouble").max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_values(k, dtype, dim):
    x = (np.random.default_rng(0).standard_normal((2, 3, 4)) * 5).astype(dtype)
    expected = softmax(x, dim)
    rtol = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    result, log = k["softmax"](x, dim), k["log_softmax"](x, dim)
    assert result.dtype == log.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=1e-7 if dtype == "float16" else 0)
    np.testing.assert_allclose(log, np.log(expected), rtol=rtol, atol=rtol)
    assert not np.shares_memory(result, x)


def test_bfloat16(k, bf16):
    x = np.array([[1, 2, 3]], bf16)
    for name in ("softmax", "log_softmax"):
        assert k[name](x, 1).dtype == bf16
    np.testing.assert_allclose(k["softmax"](x, 1).astype("float32").sum(), 1, rtol=1e-2)


@pytest.mark.parametrize("scale", [1e4, -1e4, 3e38])
def test_does_not_overflow(k, scale):
    x = np.array([scale, 0, -scale / 2], "float32")
    assert np.isfinite(k["softmax"](x, 0)).all()
    assert not np.isnan(k["log_softmax"](x, 0)).any()
    assert k["softmax"](x, 0).sum() == 1


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0,), (2, 0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_empty(k, name, shape, dtype):
    for dim in range(-len(shape), len(shape)):
        result = k[name](np.empty(shape, dtype), dim)
        assert result.shape == shape and result.dtype == dtype


def test_empty_results_have_memory_of_their_own(k):
    x = np.empty((3, 0), "float32")
    assert k["softmax"](x, 1) is not x


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_0d(k, dtype):
    for dim in (0, -1):
        assert k["softmax"](np.array(5, dtype), dim) == 1
        assert k["log_softmax"](np.array(5, dtype), dim) == 0


def test_masked_entries(k):
    x = np.array([0, -np.inf, 0], "float32")
    assert k["softmax"](x, 0).tolist() == [0.5, 0, 0.5]
    assert k["log_softmax"](x, 0)[1] == -np.inf
    assert np.isnan(k["softmax"](np.full(2, -np.inf, "float32"), 0)).all()
    assert np.isnan(k["softmax"](np.array([np.nan, 1.0]), 0)).all()


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_other_dtypes_are_refused(k, name):
    with pytest.raises(DTypeError, match=f"fix: {name}"):
        k[name](np.ones(3, "int64"), 0)
    with pytest.raises(DTypeError, match="no order"):
        k[name](np.ones(3, "complex64"), 0)
