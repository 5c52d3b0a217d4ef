from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.errors import DimError, ShapeError, ValueRangeError


@pytest.fixture
def x():
    return np.arange(24.0, dtype="float32").reshape(2, 3, 4)


def test_results_are_views(k, x):
    for result in (
        k["reshape"](x, (6, 4)),
        k["permute"](x, (2, 0, 1)),
        k["transpose"](x, 0, 1),
        k["expand"](x, (5, 2, 3, 4)),
        k["squeeze"](x[None]),
        k["squeeze"](x, 0),
        k["squeeze"](x, ()),
        k["unsqueeze"](x, 0),
        k["select"](x, 0, 1),
        k["slice"](x, 0, 1),
        k["reshape"](x, x.shape),
        k["transpose"](x, 1, 1),
        k["expand"](x, x.shape),
        k["squeeze"](x),
    ):
        assert np.shares_memory(result, x)


@pytest.mark.parametrize("shape", [(24,), (-1,), (2, -1), [4, 6], (1, 24, 1), (2, 3, 4), (-1, 4, 3)])
def test_reshape(k, x, shape):
    np.testing.assert_array_equal(k["reshape"](x, shape), x.reshape(shape))


def test_reshape_of_one_size_and_of_0d(k, x):
    assert k["reshape"](x, (24,)).shape == (24,)
    assert k["reshape"](np.array(1.0), (1, 1)).shape == (1, 1)
    assert k["reshape"](np.ones(1), ()).shape == ()
    assert k["reshape"](np.ones((0, 3)), (-1, 3)).shape == (0, 3)
    np.testing.assert_array_equal(k["reshape"](x.T, (6, 4)), x.T.reshape(6, 4))


@pytest.mark.parametrize("shape", [(5,), (-1, -1), (-2, 12), (7, -1), (-24,)])
def test_reshape_that_cannot_be(k, x, shape):
    with pytest.raises((ShapeError, ValueError)):
        k["reshape"](x, shape)


def test_permute_and_transpose(k, x):
    assert k["permute"](x, (2, 0, 1)).shape == (4, 2, 3)
    assert k["permute"](x, [-1, 0, -2]).shape == (4, 2, 3)
    assert k["permute"](np.array(1.0), ()).shape == ()
    assert k["transpose"](x, 0, -1).shape == (4, 3, 2)
    assert k["transpose"](np.array(1.0), 0, -1).shape == ()
    for dims in ((0, 1), (0, 0, 1), (0, 1, 3), (0, 1, 2, 3)):
        with pytest.raises((ValueError, IndexError)):
            k["permute"](x, dims)
    for dims in ((0, 3), (-4, 0)):
        with pytest.raises((ValueError, IndexError)):
            k["transpose"](x, *dims)
    with pytest.raises(DimError):
        k["transpose"](np.array(1.0), 0, 1)


def test_expand(k):
    x = np.array([[1.0], [2.0]])
    assert k["expand"](x, (2, 3)).tolist() == [[1, 1, 1], [2, 2, 2]]
    assert k["expand"](x, (4, -1, 3)).shape == (4, 2, 3)
    assert k["expand"](x, [-1, 3]).shape == (2, 3)
    assert k["expand"](np.array(7.0), (2, 2)).tolist() == [[7, 7], [7, 7]]
    assert k["expand"](np.array(7.0), ()).shape == ()
    assert k["expand"](np.array(7.0), (3,)).tolist() == [7, 7, 7]
    assert k["expand"](np.ones((1, 3)), (0, 3)).shape == (0, 3)
    assert k["expand"](x, (2, 3)).strides == (8, 0)
    assert k["expand"](x, (2, 1)).flags.writeable and k["expand"](x, (1, 1, 2, 1)).flags.writeable
    assert k["expand"](x, (1, 1, 2, 1)).shape == (1, 1, 2, 1)
    for dtype in ("float32", "float64", "int8"):
        y = np.arange(6, dtype=dtype).reshape(2, 3)
        for z in (y, y.T, y[:, ::-1], y[:, :1], y[::2, ::2], y[:0], np.asfortranarray(y), y[:1, None]):
            for size in ((5, *z.shape), z.shape, (*z.shape[:-1], z.shape[-1]), (2, 1, *z.shape)):
                result = k["expand"](z, size)
                np.testing.assert_array_equal(result, np.broadcast_to(z, size))
                assert result.flags.writeable or z.size == 0  # core refuses writes to what repeats elements
                assert z.size == 0 or np.shares_memory(result, z)
    fixed = np.ones(3)
    fixed.flags.writeable = False
    assert not k["expand"](fixed, (2, 3)).flags.writeable
    backwards = np.arange(6.0).reshape(2, 3)[:, ::-1]
    np.testing.assert_array_equal(k["expand"](backwards, (2, 2, 3)), np.broadcast_to(backwards, (2, 2, 3)))
    for size in ((3, 3), (2,), (1, 2), (-1, 2, 3), (2, -2), (-3, 2, 1)):
        with pytest.raises((ShapeError, ValueError)):
            k["expand"](x, size)


def test_squeeze(k):
    x = np.ones((1, 3, 1, 2))
    assert k["squeeze"](x).shape == (3, 2)
    assert k["squeeze"](x, 0).shape == (3, 1, 2)
    assert k["squeeze"](x, 1).shape == (1, 3, 1, 2)
    assert k["squeeze"](x, -2).shape == (1, 3, 2)
    assert k["squeeze"](x, (0, 1, 2)).shape == (3, 2)
    assert k["squeeze"](x, [0, -2]).shape == (3, 2)
    assert k["squeeze"](np.array(1.0)).shape == k["squeeze"](np.array(1.0), 0).shape == ()
    for dim in (4, -5, (0, 4), (0, 0), (0, -4)):
        with pytest.raises((DimError, IndexError, ValueError)):
            k["squeeze"](x, dim)
    with pytest.raises(DimError):
        k["squeeze"](np.array(1.0), 1)


def test_unsqueeze(k, x):
    for dim, shape in {0: (1, 2, 3, 4), 3: (2, 3, 4, 1), -1: (2, 3, 4, 1), -4: (1, 2, 3, 4), 1: (2, 1, 3, 4)}.items():
        assert k["unsqueeze"](x, dim).shape == shape
    assert k["unsqueeze"](np.array(1.0), 0).shape == (1,)
    for dim in (4, -5):
        with pytest.raises((IndexError, ValueError)):
            k["unsqueeze"](x, dim)


def test_select(k, x):
    np.testing.assert_array_equal(k["select"](x, 1, 2), x[:, 2])
    np.testing.assert_array_equal(k["select"](x, -1, -1), x[..., -1])
    one = k["select"](np.array([1.0, 2.0]), 0, 1)
    assert isinstance(one, np.ndarray) and one.shape == ()
    for dim, index in ((3, 0), (-4, 0), (0, 2), (0, -3)):
        with pytest.raises(IndexError):
            k["select"](x, dim, index)
    with pytest.raises(IndexError):
        k["select"](np.array(1.0), 0, 0)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(None, None, 1), (1, 3, 1), (0, 2**63 - 1, 2), (-2, None, 1), (3, 1, 1), (-100, 100, 3), (2, -1, 1), (10, 20, 1)],
)
def test_slice(k, x, start, end, step):
    for dim in (0, 1, -1):
        key = [slice(None)] * 3
        key[dim] = slice(start, end, step)
        np.testing.assert_array_equal(k["slice"](x, dim, start, end, step), x[tuple(key)])


def test_slice_that_cannot_be(k, x):
    np.testing.assert_array_equal(k["slice"](x), x)
    for step in (0, -1):
        with pytest.raises(ValueRangeError, match="step"):
            k["slice"](x, 0, None, None, step)
    with pytest.raises(IndexError):
        k["slice"](x, 3)


def test_cat(k):
    a, b = np.ones((2, 3)), np.zeros((2, 1))
    assert k["cat"]([a, b], 1).shape == (2, 4)
    assert k["cat"]([a, b], -1).shape == (2, 4)
    assert k["cat"]((a, a)).shape == (4, 3)
    single = k["cat"]([a])
    assert not np.shares_memory(single, a)
    np.testing.assert_array_equal(single, a)


def test_cat_takes_empty_1d_arrays(k):
    a, nothing = np.ones((2, 3)), np.empty(0)
    assert k["cat"]([nothing, a, nothing], 0).shape == (2, 3)
    assert k["cat"]([a, nothing], -1).shape == (2, 3)
    assert k["cat"]([nothing, nothing]).shape == (0,)
    assert k["cat"]([nothing, np.ones(2)]).shape == (2,)


def test_cat_that_cannot_be(k):
    for arrays, dim in (([np.ones((2, 3)), np.ones((3, 3))], 1), ([np.ones(2), np.ones((2, 2))], 0), ([np.ones(2)], 1)):
        with pytest.raises((ValueError, IndexError)):
            k["cat"](arrays, dim)


@pytest.mark.parametrize("lent", [False, True])
def test_memory_that_an_array_runs_through_backwards(k, lent):
    array = np.arange(6.0)[::-1]
    array = np.from_dlpack(array) if lent else array  # it knows no array whose memory it is
    assert k["as_strided"](array, (2,), (1,), 0).tolist() == [0, 1]
    assert k["as_strided"](array, (3,), (2,), 1).tolist() == [1, 3, 5]
    assert k["as_strided"](array, (1,), (1,)).tolist() == [5]
    assert k["as_strided"](array[4:], (2,), (1,)).tolist() == [1, 2]
    with pytest.raises(ShapeError):
        k["as_strided"](array, (2,), (1,))
    matrix = np.arange(6.0).reshape(2, 3)[:, ::-1]
    assert k["as_strided"](np.from_dlpack(matrix) if lent else matrix, (6,), (1,), 0).tolist() == [0, 1, 2, 3, 4, 5]
