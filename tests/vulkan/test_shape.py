"""Views share their buffer, joins and scatters do not, and an index out of range is told in the call that has it."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import DimError, TensorPlayError

pytestmark = pytest.mark.usefixtures("adapter")
ARRAY = np.arange(24, dtype="float32").reshape(2, 3, 4)
VIEWS = {
    "reshape": (lambda x: x.reshape(6, 4), lambda a: a.reshape(6, 4)),
    "permute": (lambda x: x.permute((2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    "expand": (lambda x: x[:, :, :1].expand(2, 3, 5), lambda a: np.broadcast_to(a[:, :, :1], (2, 3, 5))),
    "squeeze": (lambda x: x[:, :1].squeeze(1), lambda a: a[:, 0]),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    "select": (lambda x: x[1, -1], lambda a: a[1, -1]),
    "slice": (lambda x: x[:, 1:, ::2], lambda a: a[:, 1:, ::2]),
    "to 0-d": (lambda x: x[1, 2, 3], lambda a: a[1, 2, 3]),
    "to nothing": (lambda x: x[:, 3:], lambda a: a[:, 3:]),
}


def there(array):
    return tp.tensor(array, device="vulkan")


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    ours, numpys = VIEWS[name]
    x = there(ARRAY)
    view = ours(x)
    assert view.tolist() == numpys(ARRAY).tolist() and view.shape == numpys(ARRAY).shape
    assert view._array.buffer is x._array.buffer
    assert (view + 1).tolist() == (numpys(ARRAY) + 1).tolist()
    if view.numel():
        x.zero_()
        assert not view.cpu().numpy().any(), "a write to the tensor is seen through the view"


def test_a_write_through_a_view_reaches_the_tensor():
    x = there(ARRAY)
    x[:, 1:, ::2] = -1.0
    x[0].t()[3].fill_(7)
    expected = ARRAY.copy()
    expected[:, 1:, ::2] = -1.0
    expected[0].T[3] = 7
    assert x.tolist() == expected.tolist()
    with pytest.raises(TensorPlayError):
        x[:, :, :1].expand(2, 3, 5).fill_(1)


def test_overlapping_parts_of_one_tensor_are_copied_as_they_were():
    x = there([1.0, 2.0, 3.0, 4.0])
    x[1:].copy_(x[:-1])
    assert x.tolist() == [1.0, 1.0, 2.0, 3.0]


def test_reshape_copies_where_it_must():
    x = there(ARRAY)
    y = x.permute((1, 0, 2)).reshape(6, 4)
    assert y.tolist() == ARRAY.transpose(1, 0, 2).reshape(6, 4).tolist()
    y.zero_()
    assert x.tolist() == ARRAY.tolist()
    assert x.permute((2, 0, 1)).contiguous().is_contiguous() and not x.permute((2, 0, 1)).is_contiguous()


def test_cat():
    x = there(ARRAY)
    joined = tp.cat(
        [x, x[:, :1] * 2, x.transpose(1, 2)[:, :3].transpose(1, 2).expand(2, 3, 3)[:, :0, :1].expand(2, 0, 4)], 1
    )
    assert joined.tolist() == np.concatenate([ARRAY, ARRAY[:, :1] * 2], 1).tolist()
    assert tp.cat([there([1, 2]), there([3])]).tolist() == [1, 2, 3]
    assert tp.cat([there([True]), there([False])]).dtype is tp.bool


INDICES = {
    "one": ([[1, 0, 1, -1]], lambda a: a[[1, 0, 1, -1]]),
    "two": ([[0, 1], [2, -3]], lambda a: a[[0, 1], [2, -3]]),
    "three": ([[0, 1], [2, 0], [3, 3]], lambda a: a[[0, 1], [2, 0], [3, 3]]),
    "inner": ([None, [2, 0, 0]], lambda a: a[:, [2, 0, 0]]),
    "last": ([None, None, [3]], lambda a: a[:, :, [3]]),
    "apart": ([[0, 1], None, [3, 1]], lambda a: a[[0, 1], :, [3, 1]]),
    "broadcast": ([[[0], [1]], [[2, 0]]], lambda a: a[[[0], [1]], [[2, 0]]]),
    "mask": ([[True, False]], lambda a: a[[True, False]]),
    "mask of two dims": ([(ARRAY[:, :, 0] > 5).tolist()], lambda a: a[a[:, :, 0] > 5]),
    "none": ([[]], lambda a: a[np.array([], dtype=int)]),
}


@pytest.mark.parametrize("name", INDICES)
def test_gathers_and_their_gradients(name):
    indices, numpys = INDICES[name]
    given = [None if i is None else there(np.array(i, dtype="int32" if i == [] else None).tolist()) for i in indices]
    given = [i if i is None or i.numel() else i.to(tp.int32) for i in given]
    x = there(ARRAY).requires_grad_()
    for tensor, array in ((x, ARRAY), (x.transpose(0, 0), ARRAY)):
        assert tp.index(tensor, given).tolist() == numpys(array).tolist()
    y = tp.index(x, given)
    weights = np.arange(1, y.numel() + 1, dtype="float32").reshape(y.shape)
    (y * there(weights) if y.numel() else y).sum().backward()
    places = numpys(np.arange(ARRAY.size).reshape(ARRAY.shape))
    expected = np.zeros(ARRAY.size, "float32")
    np.add.at(expected, places.ravel(), weights.ravel())
    assert x.grad.tolist() == expected.reshape(ARRAY.shape).tolist()


def test_a_gather_with_an_index_for_each_of_six_dims():
    array = np.arange(2**6, dtype="float32").reshape((2,) * 6)
    index = [[0, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0], [-1, 0, 1]]
    assert tp.index(there(array), [there(one) for one in index]).tolist() == array[tuple(index)].tolist()


def test_a_gather_reads_any_layout():
    x = there(ARRAY)
    assert x.permute((2, 1, 0))[[3, 0], :, [1, 0]].tolist() == ARRAY.transpose(2, 1, 0)[[3, 0], :, [1, 0]].tolist()
    assert x[:, 1:, ::2][[1, 1]].tolist() == ARRAY[:, 1:, ::2][[1, 1]].tolist()
    assert x[0, 0, 0].expand(5)[there([4, 0])].tolist() == [0.0, 0.0]
    every_second = there([0, 9, 1, 9, 0])[::2]
    assert x[every_second].tolist() == ARRAY[[0, 1, 0]].tolist()


@pytest.mark.parametrize(
    ("index", "shown"), [([0, 2], "index 2"), ([-3], "index -3"), ([0, 2**31 - 1], "index 2147483647")]
)
def test_an_index_out_of_range_is_told_in_the_call(index, shown):
    x = there(ARRAY)
    with pytest.raises(DimError, match=rf"{shown} is out of range for dim 0 of size 2"):
        x[there(index)]
    with pytest.raises(DimError, match=r"(?s)out of range for dim 2 of size 4.*fix: "):
        tp.index(x, [None, None, there(4)])
    assert x[there([1])].tolist() == ARRAY[[1]].tolist(), "and the next call works"


def test_indices_of_the_cpu_keep_their_meaning():
    """Python's lists and tensors of the cpu are int64, which the device does not have."""
    x = there(ARRAY)
    assert x[[1, 0]].tolist() == ARRAY[[1, 0]].tolist()
    assert x[tp.tensor([-1])].tolist() == ARRAY[[-1]].tolist()
    assert x[tp.tensor([1], dtype=tp.uint8)].tolist() == ARRAY[[1]].tolist()
    for far in (2**32, 2**40 + 1, -(2**33)):  # as int32 they would be 0, 1 and 0
        with pytest.raises(DimError):
            x[[far]]


def test_parts_and_their_gradients():
    x = there(ARRAY).requires_grad_()
    (x[1].sum() + (x[:, 1:, ::2] * 3).sum() + x[0, 0, 0] * 5).backward()
    y = tp.tensor(ARRAY).requires_grad_()
    (y[1].sum() + (y[:, 1:, ::2] * 3).sum() + y[0, 0, 0] * 5).backward()
    assert x.grad.tolist() == y.grad.tolist()
