"""Extremes of many short rows, which are found column by column, against NumPy's own."""

import numpy as np
import pytest

import tensorplay as tp


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("columns", [1, 2, 10, 32])
def test_extremes_of_short_rows_are_the_first_of_equal_ones(name: str, dtype: str, columns: int) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (300, columns)).astype(dtype)
    if dtype.startswith("float"):
        x[5, 0] = x[6, -1] = x[7] = np.nan
        x[8], x[9], x[10, 0] = np.inf, -np.inf, -0.0
    for array in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
        for dim in (1, -1):
            values, indices = getattr(tp.from_numpy(array), name)(dim, keepdim=dim == 1)
            assert values.shape == indices.shape == ((300, 1) if dim == 1 else (300,))
            assert np.array_equal(values.numpy().reshape(-1), getattr(x, name)(1), equal_nan=dtype.startswith("float"))
            assert np.array_equal(indices.numpy().reshape(-1), getattr(x, f"arg{name}")(1))
