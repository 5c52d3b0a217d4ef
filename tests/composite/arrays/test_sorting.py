from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.errors import DTypeError, ValueRangeError

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64"]
RNG = np.random.default_rng(2)


def ordered(row, descending):
    """Python's own stable sort; NaN is the largest."""
    return sorted(range(len(row)), key=lambda i: (row[i] != row[i], row[i]), reverse=descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [5, 700])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sort_is_stable(k, dtype, size, descending):
    low = -3 if np.dtype(dtype).kind in "if" else 0
    x = RNG.integers(low, 4, (3, size)).astype(dtype)
    for dim, array in ((1, x), (0, np.ascontiguousarray(x.T))):
        values, indices = k["sort"](array, dim, descending)
        rows = indices if dim == 1 else indices.T
        assert indices.dtype == "int64"
        assert rows.tolist() == [ordered(row, descending) for row in x.tolist()]
        assert np.array_equal(values, np.take_along_axis(array, indices, dim))


@pytest.mark.parametrize("size", [8, 800])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_values(k, dtype, size):
    x = np.resize(np.array([1.0, np.nan, -0.0, np.inf, 0.0, -np.inf, -np.nan, 5.0]), size).astype(dtype)
    for descending in (False, True):
        values, indices = k["sort"](x, 0, descending)
        keys = [(v != v, 0.0 if v != v else v) for v in x.tolist()]
        assert indices.tolist() == sorted(range(size), key=lambda i: keys[i], reverse=descending)
        assert np.array_equal(values, x[indices], equal_nan=True)
        assert np.signbit(values[np.asarray(values) == 0]).any()  # -0.0 stays what it is


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k_", [0, 1, 3, 40, 500])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_topk_is_the_beginning_of_a_sort(k, dtype, k_, largest):
    for x in (RNG.standard_normal((4, 500)) * 100, RNG.integers(0, 5, (4, 500))):
        x = x.astype(dtype)
        values, indices = k["topk"](x, k_, -1, largest)
        wanted, places = k["sort"](x, -1, largest)
        assert np.array_equal(indices, places[:, :k_])
        assert np.array_equal(values, wanted[:, :k_])
        across = k["topk"](np.ascontiguousarray(x.T), k_, 0, largest)[1]
        assert np.array_equal(across, indices.T)


def test_topk_with_nan(k):
    x = RNG.standard_normal((2, 400)).astype("float32")
    x[0, [7, 300]] = np.nan
    assert k["topk"](x, 3, -1, True)[1][0, :2].tolist() == [7, 300]
    assert not np.isnan(k["topk"](x, 3, -1, False)[0]).any()


def test_complex_numbers_have_no_order(k):
    with pytest.raises(DTypeError, match="no order"):
        k["sort"](np.array([1j, 2j]))


def test_0d_and_empty(k):
    values, indices = k["sort"](np.array(3.0))
    assert values == 3
    assert indices == 0
    assert k["sort"](np.zeros((0, 3)), 0)[1].shape == (0, 3)
    assert k["topk"](np.zeros((0, 3)), 2)[0].shape == (0, 2)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8", "bool"])
def test_searchsorted(k, dtype, right):
    sequence = np.sort(RNG.integers(0, 6, 9).astype(dtype))
    values = RNG.integers(0, 8, (3, 5)).astype(dtype)
    expected = np.searchsorted(sequence, values, side="right" if right else "left")
    assert np.array_equal(k["searchsorted.Tensor"](sequence, values, right=right), expected)
    rows = np.stack([sequence, sequence[::-1].copy(), sequence])
    rows.sort(-1)
    assert np.array_equal(k["searchsorted.Tensor"](rows, values, right=right), expected)


def test_nan_goes_behind_all(k):
    rows = np.array([[1.0, 2.0]])
    assert k["searchsorted.Tensor"](rows, np.array([[np.nan, np.inf]])).tolist() == [[2, 2]]
    assert k["searchsorted.Tensor"](rows[0], np.array([np.nan])).tolist() == [2]


def test_bincount(k):
    x = np.array([0, 2, 2, 5], "uint8")
    assert k["bincount"](x).tolist() == [1, 0, 2, 0, 0, 1]
    assert k["bincount"](x, None, 8).shape == (8,)
    weighted = k["bincount"](x, np.array([0.5, 1.0, 2.0, 4.0], "float32"))
    assert weighted.dtype == "float32"
    assert weighted.tolist() == [0.5, 0, 3, 0, 0, 4]
    assert k["bincount"](x, np.array([1, 2, 3, 4])).dtype == "float64"
    assert k["bincount"](np.zeros(0, "int64"), None, 2).tolist() == [0, 0]
    with pytest.raises(ValueRangeError, match="-3 is among them"):
        k["bincount"](np.array([1, -3]))
