"""What is different among elements and slices: what is asked for, whose gradient it is, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplay as tp

ROWS = [[2, 1], [0, 5], [2, 1], [2, 0]]


def test_only_what_is_asked_for_comes_back():
    x = tp.tensor([3, 1, 3])
    assert tp.unique(x).tolist() == [1, 3]
    assert [y.tolist() for y in tp.unique(x, return_counts=True)] == [[1, 3], [1, 2]]
    assert [y.tolist() for y in x.unique(return_inverse=True)] == [[1, 3], [1, 0, 1]]
    assert [y.tolist() for y in x.unique(True, True, True)] == [[1, 3], [1, 0, 1], [1, 2]]


def test_the_inverse_of_elements_has_the_shape_of_the_input():
    x = tp.tensor([[5, 3], [3, 5]])
    values, inverse = tp.unique(x, return_inverse=True)
    assert values[inverse].tolist() == x.tolist()
    values, inverse = tp.unique_consecutive(x, return_inverse=True)
    assert values.tolist() == [5, 3, 5] and inverse.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("dim", [0, -1])
def test_slices_along_a_dim_are_numpys(dim):
    found = tp.unique(tp.tensor(ROWS), dim=dim, return_inverse=True, return_counts=True)
    right = np.unique(ROWS, axis=dim, return_inverse=True, return_counts=True)
    assert [y.tolist() for y in found] == [y.tolist() for y in right]


def test_slices_that_differ_late_are_sorted_by_their_last_element():
    x = np.zeros((50, 12), "int64")
    x[:, -1] = np.arange(50) * 7 % 11
    found = tp.unique(tp.tensor(x), dim=0, return_inverse=True, return_counts=True)
    right = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    assert [y.tolist() for y in found] == [y.tolist() for y in right]


def test_many_elements_are_numpys():
    x = np.random.default_rng(0).integers(-40, 40, 1000).astype("float32")
    found = tp.unique(tp.tensor(x), return_inverse=True, return_counts=True)
    assert [y.tolist() for y in found] == [y.tolist() for y in np.unique(x, return_inverse=True, return_counts=True)]


def test_slices_without_elements_are_one():
    values, inverse, counts = tp.unique(tp.zeros(3, 0), dim=0, return_inverse=True, return_counts=True)
    assert values.shape == (1, 0) and inverse.tolist() == [0, 0, 0] and counts.tolist() == [3]


def test_nothing_has_nothing_different():
    for x, dim in ((tp.zeros(0), None), (tp.zeros(0, 2), 0)):
        values, inverse, counts = tp.unique(x, dim=dim, return_inverse=True, return_counts=True)
        assert values.shape == x.shape and inverse.shape == (0,) and counts.shape == (0,)


def test_nan_differs_from_nan():
    values, counts = tp.unique(tp.tensor([math.nan, 1.0, math.nan]), return_counts=True)
    assert str(values.tolist()) == "[1.0, nan, nan]" and counts.tolist() == [1, 1, 1]
    rows = tp.tensor([[math.nan, 1.0], [math.nan, 0.0], [math.nan, 1.0]])
    assert str(tp.unique(rows, dim=0).tolist()) == "[[nan, 0.0], [nan, 1.0], [nan, 1.0]]"


def test_runs():
    x = tp.tensor([1, 1, 2, 2, 2, 1])
    assert tp.unique_consecutive(x).tolist() == [1, 2, 1]
    assert [y.tolist() for y in x.unique_consecutive(return_counts=True)] == [[1, 2, 1], [2, 3, 1]]
    found = tp.unique_consecutive(tp.tensor(ROWS + ROWS[-1:]), True, True, dim=0)
    assert [y.tolist() for y in found] == [ROWS, [0, 1, 2, 3, 3], [1, 1, 1, 2]]
    assert tp.unique_consecutive(tp.tensor([1j, 1j, 0])).tolist() == [1j, 0]


def test_the_gradient_goes_to_the_first_of_equal_elements():
    x = tp.tensor([3.0, 1.0, 3.0], requires_grad=True)
    (x.unique() * tp.tensor([10.0, 20.0])).sum().backward()
    assert x.grad.tolist() == [20.0, 10.0, 0.0]
    rows = tp.tensor(ROWS, dtype=tp.float64, requires_grad=True)
    (rows.unique(dim=0) * tp.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert rows.grad.tolist() == [[3, 3], [1, 1], [0, 0], [2, 2]]


def test_what_is_refused():
    with pytest.raises(tp.errors.DTypeError, match="complex numbers have no order"):
        tp.unique(tp.tensor([1j]))
    with pytest.raises(tp.errors.DimError, match="unique: a 0-d tensor has no dim 0"):
        tp.unique(tp.tensor(1.0), dim=0)
    with pytest.raises(tp.errors.DimError, match="unique"):
        tp.unique(tp.zeros(2, 2), dim=2)
    with pytest.raises(TypeError, match="reshape"):
        tp.unique_consecutive([1, 1])
    with pytest.raises(tp.errors.DimError, match="unique_consecutive"):
        tp.unique_consecutive(tp.zeros(2), dim=1)
