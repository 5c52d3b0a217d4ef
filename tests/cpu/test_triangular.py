"""Triangular systems in blocks: every side, and what must not be read."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 32, 33, 100])
@pytest.mark.parametrize("width", [1, 80])
def test_the_residual_is_of_rounding(n, width, dtype):
    rng = np.random.default_rng(0)
    full = (rng.standard_normal((n, n)) / n + 2 * np.eye(n)).astype(dtype)
    for upper, left, unit in np.ndindex(2, 2, 2):
        triangle = np.triu(full, unit) if upper else np.tril(full, -unit)
        triangle = triangle + unit * np.eye(n, dtype=dtype)
        given = triangle + np.where(triangle == 0, np.nan, 0).astype(dtype)  # the other side is not looked at
        right = rng.standard_normal((n, width) if left else (width, n)).astype(dtype)
        x = tp.linalg.solve_triangular(
            tp.tensor(given), tp.tensor(right), upper=bool(upper), left=bool(left), unitriangular=bool(unit)
        ).numpy()
        assert x.dtype == dtype
        np.testing.assert_allclose(triangle @ x if left else x @ triangle, right, atol=100 * np.finfo(dtype).eps)


def test_batches_broadcast_and_a_singular_one_is_named():
    a, b = tp.ones(3, 1, 40, 40), tp.ones(2, 40, 2)
    x = tp.linalg.solve_triangular(a, b, upper=False)
    assert x.shape == (3, 2, 40, 2)
    assert x[2, 1, :, 0].tolist() == [1.0] + [0.0] * 39
    with pytest.raises(tp.linalg.LinAlgError, match=r"\(batch element 1\)"):
        tp.linalg.solve_triangular(tp.stack([tp.eye(2), tp.zeros(2, 2)]), tp.ones(2, 1), upper=True)
