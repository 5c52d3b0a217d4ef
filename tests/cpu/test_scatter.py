"""Slices added where an index says, each way of it, against a loop over slices."""

import numpy as np
import pytest

from tensorplay_cpu.scatter import add_slices


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex64"])
@pytest.mark.parametrize("inner", [1, 3, 6, 200])  # single numbers, odd, in pairs, long
@pytest.mark.parametrize("count", [1, 5, 40, 200])  # long ones at once, slice by slice, and place by place
@pytest.mark.parametrize("outer", [1, 4])
def test_slices_are_added_as_a_loop_adds_them(dtype: str, inner: int, count: int, outer: int) -> None:
    random = np.random.default_rng(0)
    target = random.integers(-9, 9, (outer, 7, inner)).astype(dtype)
    values = random.integers(-9, 9, (outer, count, inner)).astype(dtype)
    places = random.integers(-7, 7, count)
    expected = target.copy()
    for k, place in enumerate(places):
        expected[:, place] += values[:, k]
    add_slices(target, 1, places, values)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("inner", [2, 200])
def test_infinities_and_nans_stay_where_they_are(inner: int) -> None:
    target = np.zeros((3, inner), "float32")
    values = np.ones((3, inner), "float32")
    values[0, 0], values[1, 1] = np.inf, np.nan
    add_slices(target, 0, np.array([0, 2, 2]), values)
    assert np.isinf(target[0, 0]) and np.isnan(target[2, 1])
    assert np.isfinite(target).sum() == target.size - 2
    assert (target[1] == 0).all()


def test_values_broadcast() -> None:
    target = np.zeros((2, 4))
    add_slices(target, 1, np.array([1, 1, 3]), np.array([[5.0]]))
    assert target.tolist() == [[0, 10, 0, 5]] * 2


@pytest.mark.parametrize("place", [3, -4])
def test_a_place_out_of_range_is_refused_before_anything_is_written(place: int) -> None:
    target = np.zeros((3, 2))
    with pytest.raises(IndexError):
        add_slices(target, 0, np.array([0, place]), np.ones((2, 2)))
    assert not target.any()


def test_an_infinity_among_many_slices_stays_in_its_place() -> None:
    target, values = np.zeros((3, 2)), np.ones((90, 2))
    values[7, 0], values[8, 1] = np.inf, np.nan
    add_slices(target, 0, np.arange(90) % 3, values)
    assert np.array_equal(target, [[30, 30], [np.inf, 30], [30, np.nan]], equal_nan=True)


@pytest.mark.parametrize(("dtype", "size"), [("int8", 130), ("int16", 40_000)])
def test_a_negative_place_of_few_bits_counts_from_the_end_of_a_dim_that_they_cannot_hold(dtype: str, size: int) -> None:
    target = np.zeros((size, 2))
    add_slices(target, 0, np.array([-1, 100, -1], dtype), np.ones((3, 2)))
    assert (target[size - 1].tolist(), target[100].tolist(), target.sum()) == ([2, 2], [1, 1], 6)
