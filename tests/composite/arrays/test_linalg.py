from __future__ import annotations

import numpy as np
import pytest

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (7, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 4)),
    ((0,), (0,)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_shapes(k, a, b):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    np.testing.assert_allclose(k["matmul"](x, y), np.matmul(x, y), rtol=1e-12)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "complex64", "complex128", "int8", "int32", "int64", "uint8", "bool"]
)
def test_dtypes(k, dtype):
    x = np.array([[1, 0], [1, 1]]).astype(dtype)
    result = k["matmul"](x, x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, (np.array([[1, 0], [2, 1]])).astype(dtype))


@pytest.mark.parametrize("which", ["float16", "bf16"])
def test_halves_accumulate_in_float32(k, bf16, which):
    dtype = bf16 if which == "bf16" else np.dtype(which)
    x = np.full((1, 4096), 0.1, dtype)
    y = np.ones((4096, 1), dtype)
    result = k["matmul"](x, y)
    assert result.dtype == dtype
    assert float(result[0, 0]) == float(np.asarray(x.astype("float64").sum()).astype(dtype))


def test_bools_do_not_wrap(k):
    x = np.ones((1, 256), bool)
    assert k["matmul"](x, x.T).tolist() == [[True]]


def test_not_contiguous(k):
    x = np.arange(24.0).reshape(4, 6)
    np.testing.assert_array_equal(k["matmul"](x.T[::2], x[:, ::-1]), x.T[::2].copy() @ x[:, ::-1].copy())


def test_shapes_that_do_not_fit_raise(k):
    for a, b in (((2, 3), (2, 3)), ((), (3,)), ((3,), (4,))):
        with pytest.raises(ValueError):
            k["matmul"](np.ones(a), np.ones(b))
