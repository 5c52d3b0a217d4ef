"""The plain array: its elements, its casts, and broadcasting as NumPy has it."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.testing.references import Array
from tensorplay_core.testing.references.array import broadcast_shape, places, strides_of


def test_of_and_tolist_are_inverse():
    for nested in (3.0, [1.0, 2.0], [[1.0], [2.0]], [], [[], []]):
        assert Array.of(nested, "float32").tolist() == nested
    assert Array((0, 2), [], "int8").tolist() == []
    assert Array((2, 0, 3), [], "int8").tolist() == [[], []]
    assert Array.of([[1, 2]], "float64").data == [1.0, 2.0]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0), (0, 2), (2, 1, 2)])
def test_read_copies_a_tensor(shape):
    tensor = np.arange(np.prod(shape, dtype=int), dtype="int16").reshape(shape)
    assert Array.read(tensor) == Array(shape, list(range(tensor.size)), "int16")
    assert Array.read(tensor.T) == Array(shape[::-1], tensor.T.ravel().tolist(), "int16")


@pytest.mark.parametrize(
    "shapes",
    [((2, 3), (3,)), ((3, 1), (1, 4)), ((), (2,)), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((2, 1), (0,)), ((1, 1), ())],
)
def test_broadcasting_is_that_of_numpy(shapes):
    expected = np.broadcast_shapes(*shapes)
    assert broadcast_shape(*shapes) == expected
    for shape in shapes:
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        assert Array.read(array).broadcast(expected) == np.broadcast_to(array, expected).ravel().tolist()


def test_shapes_that_do_not_broadcast_are_an_error():
    with pytest.raises(ValueError, match="do not broadcast"):
        broadcast_shape((2,), (3,))
    with pytest.raises(ValueError, match="do not broadcast"):
        broadcast_shape((0,), (2,))


def test_places_are_those_of_a_strided_view():
    array = np.arange(24).reshape(2, 3, 4)
    for view in (array, array.transpose(2, 0, 1), array[:, 1:, ::2], array[1], array[:, :0]):
        strides = [stride // array.itemsize for stride in view.strides]
        start = (view.__array_interface__["data"][0] - array.__array_interface__["data"][0]) // array.itemsize
        assert list(places(view.shape, strides, start)) == view.ravel().tolist()
    assert strides_of(()) == []


def test_casts_round_and_leave_the_array_alone():
    array = Array((2,), [0.1, 300.0], "float64")
    assert array.cast("float16").data == [float(np.float16(0.1)), 300.0]
    assert array.cast("float64") is array
    assert Array((1,), [0.1], "float16", [1.0]).rounded() == Array((1,), [float(np.float16(0.1))], "float16", [1.0])
    assert array.data == [0.1, 300.0]
