"""Scattering over NumPy and over a module without a scatter: sums of repeated places, the last of several values."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplay_composite.arrays import kernels
from tensorplay_core.errors import DimError, ShapeError


@pytest.fixture(scope="module", params=["numpy", "array_api_strict"])
def xp(request):
    return pytest.importorskip(request.param)


@pytest.fixture(scope="module")
def k(xp):
    return kernels(xp)


def host(array):
    return np.asarray(array)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "uint8", "complex64", "bool"])
def test_sums_are_those_of_add_at(xp, k, seed, dtype):
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(1, 9)), int(rng.integers(0, 40))
    where = rng.integers(-size, size, count)
    values = rng.integers(0, 2 if dtype == "bool" else 5, (count, 3)).astype(dtype)
    expected = np.zeros((size, 3), dtype)
    np.add.at(expected, where, values)
    found = k["index_backward"](xp.asarray(values), (size, 3), [xp.asarray(where), None])
    assert found.dtype == xp.asarray(values).dtype
    assert host(found).tolist() == expected.tolist()


def test_no_value_reaches_another_place(xp, k):
    values = xp.asarray(np.array([np.inf, 1.0, np.nan, 2.0, 1e300, 3.0]))
    where = xp.asarray(np.array([0, 1, 2, 1, 3, 5]))
    assert str(host(k["index_backward"](values, (7,), [where])).tolist()) == "[inf, 3.0, nan, 1e+300, 0.0, 3.0, 0.0]"


def test_a_long_run_keeps_its_digits(xp, k):
    count = 2**12
    ones = xp.asarray(np.full(count, 0.1, dtype="float32"))
    found = host(k["index_backward"](ones, (2,), [xp.asarray(np.ones(count, dtype="int64"))]))
    assert found[0] == 0 and abs(found[1] - count * np.float32(0.1)) < 0.05


@pytest.mark.parametrize("seed", range(20))
def test_of_several_values_the_last_stays(xp, k, seed):
    rng = np.random.default_rng(seed)
    x, where = rng.normal(size=(5, 2)), rng.integers(-5, 5, 12)
    values = rng.normal(size=(12, 2))
    expected = x.copy()
    expected[where] = values
    found = k["index_put_"](xp.asarray(x.copy()), [xp.asarray(where)], xp.asarray(values))
    assert host(found).tolist() == expected.tolist()
    np.add.at(expected, where, values)
    found = k["index_put_"](found, [xp.asarray(where)], xp.asarray(values), True)
    np.testing.assert_allclose(host(found), expected, rtol=1e-12)


def test_half_precisions_round_once():
    k = kernels(np)
    x, values = np.array([1.0], "float16"), np.array([2**-11, 2**-11, 2**-11], "float16")
    assert k["index_put_"](x, [np.array([0, 0, 0])], values, True)[0] == np.float16(1 + 3 * 2**-11)


def test_what_does_not_fit_is_refused_before_anything_is_written(xp, k):
    x = np.zeros((2, 3))
    for indices, values, error in (
        ([np.array([0, 2])], np.ones(3), DimError),
        ([np.array([0, 1])], np.ones(4), ShapeError),
        ([np.array([True, True])], np.ones((3, 3)), ShapeError),
        ([np.array([True, True])], np.ones((1, 2, 3)), ShapeError),
        ([np.ones((2, 3), bool)], np.ones((1, 6)), ShapeError),
        ([None, np.array([True, False, True])], np.ones((1, 2, 2)), ShapeError),
    ):
        given = xp.asarray(x)
        for accumulate in (False, True):
            with pytest.raises(error):
                k["index_put_"](
                    given, [None if i is None else xp.asarray(i) for i in indices], xp.asarray(values), accumulate
                )
        assert not host(given).any()
    with pytest.raises(DimError, match=r"index -9 is out of bounds for dim 1 of size 3 \(valid: -3 to 2\)"):
        k["index"](xp.asarray(x), [None, xp.asarray(np.array([3, -9]))])


def test_places_of_what_is_not_zero(xp, k):
    x = np.array([[0.0, 2.0], [np.nan, -0.0]])
    assert host(k["nonzero"](xp.asarray(x))).tolist() == [[0, 1], [1, 0]]
    assert k["nonzero"](xp.asarray(3.0)).shape == (1, 0) and k["nonzero"](xp.asarray(False)).shape == (0, 0)
