from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.errors import ShapeError, ValueRangeError


@pytest.fixture
def x():
    return np.arange(60.0, dtype="float32").reshape(3, 4, 5)


i64 = lambda *values: np.array(values, "int64")  # noqa: E731

INDICES = {
    "rows": [i64(2, 0, 0, -1)],
    "second dim": [None, i64(1, 1)],
    "pair": [i64(0, 1), i64(3, -2)],
    "broadcast": [np.array([[0], [2]]), i64(1, 2, 3)],
    "apart": [i64(0, 1), None, i64(4, 0)],
    "2-d": [np.array([[0, 1], [2, 2]])],
    "mask of one dim": [np.array([True, False, True])],
    "mask of two dims": [np.arange(12).reshape(3, 4) % 2 == 0],
    "mask of all": [np.arange(60).reshape(3, 4, 5) > 30],
    "mask and index": [np.array([True, False, True]), i64(1, 2)],
    "trailing none": [i64(1), None, None],
    "empty": [np.empty(0, "int64")],
    "0-d": [np.array(1)],
    "0-d all": [np.array(1), np.array(2), np.array(-1)],
    "uint8": [np.array([0, 1, 1], "uint8")],
    "int32": [None, None, np.array([0, -1, 4], "int32")],
    "nothing selected": [np.zeros(3, bool)],
}


@pytest.mark.parametrize("indices", INDICES.values(), ids=INDICES)
def test_index(k, x, indices):
    expected = x[tuple(slice(None) if i is None else i for i in indices)]
    result = k["index"](x, indices)
    np.testing.assert_array_equal(result, expected)
    assert not np.shares_memory(result, x)


def test_index_with_none_alone_copies(k, x):
    result = k["index"](x, [None])
    np.testing.assert_array_equal(result, x)
    assert not np.shares_memory(result, x)


def test_index_out_of_range(k, x):
    for indices in ([i64(3)], [i64(-4)], [None, i64(0, 4)], [i64(0), i64(0), i64(0), i64(0)], [np.ones(4, bool)]):
        with pytest.raises(IndexError):
            k["index"](x, indices)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", "int64"])
@pytest.mark.parametrize("indices", INDICES.values(), ids=INDICES)
def test_index_backward_adds_repeats(k, x, indices, dtype):
    key = tuple(slice(None) if i is None else i for i in indices)
    grad = np.random.default_rng(0).integers(1, 9, np.shape(x[key])).astype(dtype)
    expected = np.zeros(x.shape, dtype)
    np.add.at(expected, key, grad)
    result = k["index_backward"](grad, x.shape, indices)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("which", ["float16", "bf16"])
@pytest.mark.parametrize("two", [False, True])
def test_index_backward_of_halves_accumulates_in_float32(k, bf16, which, two):
    dtype = bf16 if which == "bf16" else np.dtype(which)
    grad = np.full((5000, 1), 0.1, dtype)
    indices = [np.zeros(5000, "int64"), np.zeros(5000, "int64")] if two else [np.zeros(5000, "int64")]
    grad = grad[:, 0] if two else grad
    result = k["index_backward"](grad, [2, 1], indices)
    assert result.dtype == dtype and result.shape == (2, 1)
    assert abs(float(result[0, 0]) - 5000 * float(grad.flat[0])) < 2


def test_index_backward_refuses_what_it_cannot_place(k):
    with pytest.raises(IndexError):
        k["index_backward"](np.ones((1, 2)), (3, 2), [i64(3)])
    with pytest.raises(IndexError):
        k["index_backward"](np.ones((1, 2)), (3, 2), [i64(-4)])
    with pytest.raises(ShapeError):
        k["index_backward"](np.ones((2, 2)), (3, 2), [i64(1)])
    with pytest.raises(ShapeError):
        k["index_backward"](np.ones((1, 1)), (3, 2), [i64(1)])


def test_index_backward_of_no_sizes(k):
    assert k["index_backward"](np.empty((0, 3)), (2, 3), [np.empty(0, "int64")]).tolist() == [[0, 0, 0]] * 2
    assert k["index_backward"](np.empty((2, 0)), (4, 0), [i64(1, 2)]).shape == (4, 0)


def test_select_backward(k, x):
    for dim, index in ((0, 1), (-1, -1), (1, 3)):
        grad = np.take(x, index, axis=dim) + 1
        result = k["select_backward"](grad, x.shape, dim, index)
        assert result.shape == x.shape and result.dtype == x.dtype
        np.testing.assert_array_equal(np.take(result, index, axis=dim), grad)
        assert np.count_nonzero(result) == grad.size
    with pytest.raises(IndexError):
        k["select_backward"](x[0], x.shape, 0, 3)
    with pytest.raises(IndexError):
        k["select_backward"](x[0], x.shape, 3, 0)
    with pytest.raises(ShapeError):
        k["select_backward"](x[0, :1], x.shape, 0, 1)
    assert k["select_backward"](np.array(2.0), [3], 0, -1).tolist() == [0, 0, 2]


def test_slice_backward(k, x):
    for dim, start, end, step in ((0, 1, None, 1), (-1, None, -1, 2), (1, 3, 1, 1), (2, -2, 2**63 - 1, 1)):
        key = [slice(None)] * 3
        key[dim] = slice(start, end, step)
        grad = x[tuple(key)] + 1
        result = k["slice_backward"](grad, x.shape, dim, start, end, step)
        np.testing.assert_array_equal(result[tuple(key)], grad)
        assert np.count_nonzero(result) == grad.size
    with pytest.raises(ShapeError):
        k["slice_backward"](x[:1], x.shape, 0, None, None, 1)
    with pytest.raises(ValueRangeError):
        k["slice_backward"](x, x.shape, 0, None, None, -1)
