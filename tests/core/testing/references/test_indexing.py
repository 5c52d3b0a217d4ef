"""The references of indexing and of its gradients give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.testing.references import Array, reference


def key(indices):
    return (*(slice(None) if index is None else index for index in indices), ...)


def scattered(grad, sizes, indices):
    dtype = grad.dtype if grad.dtype.kind != "b" else "int64"
    result = np.zeros(sizes, dtype)
    np.add.at(result, key(indices), grad)
    return result.astype(grad.dtype)


def select_backward(grad, sizes, dim, index):
    result = np.zeros(sizes, grad.dtype)
    result[(slice(None),) * (dim % len(sizes)) + (index,)] = grad
    return result


def slice_backward(grad, sizes, dim, start, end, step):
    result = np.zeros(sizes, grad.dtype)
    result[(slice(None),) * (dim % len(sizes)) + (slice(start, end, step),)] = grad
    return result


def test_gathering(against):
    against("index", lambda x, indices: x[key(indices)], "same", rtol=0)


def test_their_gradients(against):
    against("index_backward", scattered, "same")
    against("select_backward", select_backward, "same", rtol=0)
    against("slice_backward", slice_backward, "same", rtol=0)


@pytest.mark.parametrize(
    "indices",
    [
        [None, None, [1, 0]],
        [[[0, 1], [1, 0]], None, [0, 3]],
        [None, [[0], [2]], [1, 2, 3]],
        [[0], None, None],
        [[True, False], None, [1, 1]],
        [None, [True, False, True], [0, 3]],
        [[[True, False, True], [False, True, True]], [0, 1, 2, 3]],
        [[-1, 0], [2, -3], [-4, 3]],
        [1, None, [0, 2]],
        [],
        [None],
    ],
)
def test_combinations_of_index_arrays_masks_and_whole_dims(indices):
    values = np.arange(24).reshape(2, 3, 4)
    arrays = [None if index is None else np.array(index) for index in indices]
    expected = values[key(arrays)]
    given = [None if index is None else Array.read(index) for index in arrays]
    result = reference("index")(Array.read(values), given)[0]
    assert (result.shape, result.data) == (expected.shape, expected.ravel().tolist())
    grad = np.arange(expected.size, dtype=float).reshape(expected.shape)
    back = reference("index_backward")(Array.read(grad), values.shape, given)[0]
    right = scattered(grad, values.shape, arrays)
    assert (back.shape, back.data) == (right.shape, right.ravel().tolist())


def test_an_index_out_of_range_is_an_error():
    x = Array((3,), [1, 2, 3], "int8")
    for place in (3, -4):
        with pytest.raises(IndexError):
            reference("index")(x, [Array((1,), [place], "int64")])


def test_repeated_indices_accumulate_and_wrap():
    same = [Array((3,), [1, 1, 1], "int64")]
    back = reference("index_backward")(Array((3,), [100, 100, 100], "int8"), (2,), same)[0]
    assert back == Array((2,), [0, 44], "int8")
    halves = reference("index_backward")(Array((3,), [1.0, 2048.0, 1.0], "float16"), (2,), same)[0]
    assert halves.data == [0.0, 2050.0]  # accumulated in float16 it would be 2048
