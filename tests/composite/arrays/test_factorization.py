"""Solving over a module that gives infinities or NaN where LAPACK raises, as JAX does."""

from __future__ import annotations

import warnings
from types import ModuleType

import numpy as np
import pytest

from tensorplay_composite.arrays import kernels
from tensorplay_core.errors import LinAlgError

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
REGULAR = [[2.0, 0.0], [0.0, 4.0]]


@pytest.fixture(scope="module")
def k():
    def unraising(function):
        def called(a, *rest):
            if a.ndim > 2:
                return np.stack([called(*item) for item in zip(a, *rest, strict=True)])
            try:
                return function(a, *rest)
            except np.linalg.LinAlgError:
                return np.full_like(rest[0] if rest else a, np.nan)

        return called

    module, linalg = ModuleType("unraising"), ModuleType("unraising.linalg")
    vars(linalg).update(vars(np.linalg), inv=unraising(np.linalg.inv), solve=unraising(np.linalg.solve))
    vars(module).update(vars(np), __name__="unraising", linalg=linalg)
    return kernels(module)


def test_a_singular_matrix_is_refused_and_named(k):
    with pytest.raises(LinAlgError, match=r"linalg_inv: \(batch element 1\) the matrix is singular"):
        k["linalg_inv"](np.array([REGULAR, SINGULAR, SINGULAR]))
    with pytest.raises(LinAlgError, match="linalg_solve: the matrix is singular"):
        k["linalg_solve"](np.array(SINGULAR), np.ones(2))


def test_a_right_side_that_is_not_finite_makes_no_matrix_singular(k):
    found = k["linalg_solve"](np.array(REGULAR), np.array([[np.nan, 1.0], [2.0, 2.0]]))
    assert np.isnan(found[:, 0]).all()
    assert found[:, 1].tolist() == [0.5, 0.5]


def test_a_result_out_of_range_makes_no_matrix_singular(k):
    assert k["linalg_solve"](np.array([[1e-200]]), np.array([[1e200]])).tolist() == [[np.inf]]


def test_a_matrix_of_nan_hides_no_singular_one(k):
    with pytest.raises(LinAlgError, match="batch element 1"):
        k["linalg_inv"](np.array([[[np.nan] * 2] * 2, SINGULAR]))
    assert np.isnan(k["linalg_inv"](np.full((1, 2, 2), np.nan))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_determinant_out_of_range_does_not_warn(dtype):
    large = np.full((1, 1), np.finfo(dtype).max, dtype) * np.eye(2, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.isfinite(kernels(np)["linalg_det"](large))
