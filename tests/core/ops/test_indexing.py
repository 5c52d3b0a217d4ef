"""``x[key]`` and ``x[key] = value``: each kind of key, values, dtypes, devices, and what is refused.

Thousands of random cases against NumPy are in ``test_indexing_numpy.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


def test_one_key_without_a_tuple():
    x = tp.arange(6).reshape(2, 3)
    assert x[1].tolist() == [3, 4, 5]
    assert x[-1][-1].item() == 5
    assert x[1:].tolist() == [[3, 4, 5]]
    assert x[...].tolist() == x.tolist()
    assert x[None].shape == (1, 2, 3)
    assert x[[0, 1]].tolist() == x.tolist()
    assert x[()].tolist() == x.tolist()
    assert x[tp.tensor(1)].tolist() == [3, 4, 5]
    assert x[np.int64(1)].tolist() == [3, 4, 5]
    assert x[np.array([1, 0])].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x[x > 2].tolist() == [3, 4, 5]
    assert x[True].shape == (1, 2, 3)
    assert x[False].shape == (0, 2, 3)
    assert tp.tensor(5)[()].item() == 5
    assert tp.tensor(5)[None].tolist() == [5]
    assert tp.tensor(5)[...].item() == 5


def test_a_view_is_another_tensor_over_the_same_memory():
    x = tp.zeros(3)
    for key in (..., (), slice(None)):
        y = x[key]
        assert y is not x
        y.add_(1)
    assert x.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (3, "3"),
        (-4, "-4"),
        ((0, 4), "4"),
        ((0, 0, 0), "3 indices for a tensor of 2 dims"),
        ((..., ...), r"at most one \.\.\."),
        (slice(None, None, -1), "step is positive, not -1"),
        (slice(None, None, 0), "step is positive, not 0"),
        ([0, 5], "5"),
        ([[0], [-9]], "-9"),
        ([0.5], "integer dtype or bool, not float32"),
        ([True, False], r"\(2,\)|mask|shape"),
        (([0, 1], [0, 1, 2]), "shape|broadcast"),
    ],
)
def test_wrong_keys_are_index_errors_that_say_why(key, text):
    x = tp.zeros(3, 4)
    with pytest.raises(IndexError, match=text):
        x[key]
    with pytest.raises(tp.TensorPlayError):
        x[key]
    assert x.tolist() == tp.zeros(3, 4).tolist()


def test_keys_of_a_wrong_type():
    x = tp.zeros(3)
    for key in (1.0, "a", object(), {}):
        with pytest.raises(tp.ArgumentError, match="an index is an int, a slice"):
            x[key]
    with pytest.raises(tp.DimError, match=r"item\(\)"):
        tp.tensor(1.0)[0]


def test_writes():
    x = tp.zeros(2, 3)
    x[0] = 1
    x[1, 1:] = tp.tensor([5, 6])
    x[:, 0] = 9.0
    assert x.tolist() == [[9.0, 1.0, 1.0], [9.0, 5.0, 6.0]]
    x[...] = 2
    assert x.tolist() == [[2.0] * 3] * 2
    x[0] = tp.tensor([[[1.0, 2.0, 3.0]]])  # leading dims of size 1 are dropped, as in PyTorch
    assert x[0].tolist() == [1.0, 2.0, 3.0]
    x[1] += 1
    assert x[1].tolist() == [3.0, 3.0, 3.0]
    x[1] *= tp.tensor([1.0, 2.0, 3.0])
    assert x[1].tolist() == [3.0, 6.0, 9.0]
    y = tp.tensor(1.0)
    y[()] = 4
    y[...] += 1
    assert y.item() == 5.0
    i = tp.zeros(2, dtype=tp.int64)
    i[0] = 7
    assert i.tolist() == [7, 0]


def test_writes_that_do_not_fit_change_nothing():
    x = tp.zeros(2, 3)
    for key, value, error in (
        (0, tp.ones(2), tp.ShapeError),
        (slice(None), tp.ones(3, 3), tp.ShapeError),
        (5, 1.0, IndexError),
        (0, "a", TypeError),
        (0, None, TypeError),
        (0, [[1.0], [2.0, 3.0]], tp.ShapeError),
    ):
        with pytest.raises(error):
            x[key] = value
        with pytest.raises(tp.TensorPlayError):
            x[key] = value
    assert x.tolist() == [[0.0] * 3] * 2


def test_writes_through_index_tensors():
    x = tp.zeros(3, 4)
    x[[0, 2], 1] = 5
    assert x.tolist() == [[0, 5, 0, 0], [0, 0, 0, 0], [0, 5, 0, 0]]
    x[x > 0] = tp.tensor([1.0, 2.0])
    assert x[[0, 2], 1].tolist() == [1.0, 2.0]
    x[x > 0] += 1
    x[tp.tensor([1, 1]), 0] += 1  # read, added to, written: not twice
    assert x[:, :2].tolist() == [[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]]
    x[:, [3, 0]] *= 2
    x[range(2), [0, 1]] = [8.0, 9.0]
    assert x.tolist() == [[8.0, 2.0, 0.0, 0.0], [2.0, 9.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.0]]
    x[tp.tensor([True, False, True])] = np.array([1.0, 2.0, 3.0, 4.0])
    assert x[2].tolist() == [1.0, 2.0, 3.0, 4.0]
    x[[]] = 7.0
    x[tp.zeros(3, 4, dtype=tp.bool)] = 7.0
    assert 7.0 not in x.reshape(-1).tolist()


def test_a_mask_and_an_index_without_dims():
    x = tp.tensor(3.0)
    x[x > 2] = 1.0
    assert x.item() == 1.0
    x[x > 2] = 5.0
    assert x.item() == 1.0
    assert x[tp.tensor(True)].tolist() == [1.0]
    assert x[tp.tensor(False)].shape == (0,)
    y = tp.arange(6).reshape(2, 3)
    row = y[tp.tensor(1)]  # a view, as in PyTorch
    row.fill_(0)
    assert y.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert y[:, tp.tensor(-1)].tolist() == [2, 0]
    z = tp.arange(24).reshape(2, 3, 4)
    assert z[tp.tensor(0), :, [1, 2]].shape == (3, 2)  # in NumPy (2, 3): there it is an index array, and apart


def test_uint8_is_an_index_and_no_mask():
    """As in NumPy; PyTorch took it for a mask, and says that this is deprecated."""
    x = tp.tensor([10, 20, 30])
    assert x[tp.tensor([1, 0, 1], dtype=tp.uint8)].tolist() == [20, 10, 20]


def test_values_written_through_index_tensors_have_the_dtype_or_no_dims():
    x = tp.zeros(3)
    for other in (tp.float64, tp.int64, tp.complex64):
        with pytest.raises(tp.DTypeError, match=r"values is .*float32\nfix: convert it: values.to\(tp.float32\)"):
            x[[0, 1]] = tp.ones(2, dtype=other)
    assert x.tolist() == [0.0, 0.0, 0.0]
    x[[0, 1]] = tp.tensor(2, dtype=tp.int64)
    x[0] = tp.tensor(1.5, dtype=tp.float64)
    assert x.tolist() == [1.5, 2.0, 0.0]
    i = tp.zeros(3, dtype=tp.int64)
    i[[0]] = 2.9
    i[1] = 2.9
    assert i.tolist() == [2, 2, 0]
    for key in (0, [0]):
        with pytest.raises(ValueError, match="300"):
            tp.zeros(2, dtype=tp.uint8)[key] = 300
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            x[key] = 1j


def test_an_index_that_is_out_of_range_is_named_and_nothing_is_written():
    for device in ("cpu", "loopback"):
        x = tp.zeros(2, 3, device=device)
        for key, text in (
            (([0, 1], [1, 7]), "index 7 is out of bounds for dim 1 of size 3"),
            ((slice(None), [0, -5, 4]), "index -5 is out of bounds for dim 1 of size 3"),
            (([0, 9],), "index 9 is out of bounds for dim 0 of size 2"),
        ):
            with pytest.raises(tp.DimError, match=text):
                x[key]
            with pytest.raises(tp.DimError, match=text):
                x[key] = 1.0
        with pytest.raises(
            tp.ShapeError, match=r"value of shape \(3,\) cannot be broadcast to the indexing result, \(2,"
        ):
            x[x == 0][:2]
            x[tp.tensor([True, True]), [0, 1]] = tp.ones(3, device=device)
        assert x.tolist() == [[0.0] * 3] * 2


def test_gradients_of_writes_through_index_tensors():
    for accumulate in (False, True):
        x, v = tp.ones(4, requires_grad=True), tp.tensor([2.0, 3.0], requires_grad=True)
        y = (x * 1.0).index_put_([tp.tensor([1, 3])], v, accumulate)
        (y * tp.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
        assert x.grad.tolist() == ([1.0, 2.0, 3.0, 4.0] if accumulate else [1.0, 0.0, 3.0, 0.0])
        assert v.grad.tolist() == [2.0, 4.0]
    v = tp.tensor([2.0, 3.0], requires_grad=True)
    y = tp.zeros(3)
    y[[1, 1]] = v  # the last one stays; both get the place's gradient, as in PyTorch
    assert y.tolist() == [0.0, 3.0, 0.0]
    (y * y).sum().backward()
    assert v.grad.tolist() == [6.0, 6.0]


def test_indexing_keeps_the_dtype():
    for dtype in (tp.bool, tp.int8, tp.uint64, tp.float16, tp.bfloat16, tp.complex64):
        x = tp.ones(3, dtype=dtype)
        for key in (0, slice(1), None, [0, 2], tp.tensor([True, False, True])):
            assert x[key].dtype is dtype


def test_an_index_on_another_device_is_moved():
    x = tp.arange(3, device="loopback")
    assert x[tp.tensor([2, 0])].tolist() == [2, 0]
    assert x[[1]].device == x.device


def test_an_index_of_any_integer_dtype():
    x = tp.arange(5)
    for dtype in (tp.int8, tp.int16, tp.int32, tp.int64, tp.uint8, tp.uint16, tp.uint32):
        assert x[tp.tensor([3, 1], dtype=dtype)].tolist() == [3, 1]


@pytest.mark.parametrize("key", [slice(None), ..., ()], ids=str)
def test_writing_the_whole_of_a_tensor_records(key):
    x, v = tp.zeros(2), tp.ones(2, requires_grad=True)
    x[key] = v * 3
    assert x.requires_grad and tp.autograd.grad(x.sum(), v)[0].tolist() == [3.0, 3.0]
    y = v * 2
    y[key] = 7.0
    assert y.tolist() == [7.0, 7.0] and tp.autograd.grad(y.sum(), v)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("key", [slice(0, 2.5), slice("a", None), slice(None, None, 1.0)])
def test_a_bound_of_a_slice_is_an_int(key):
    with pytest.raises(tp.ArgumentError, match="index: a bound of a slice must be an int, not"):
        tp.ones(3)[key]
    assert tp.ones(3)[np.int64(1) :].shape == tp.ones(3)[tp.tensor(1) :].shape == (2,)


def test_a_gather_is_recorded_at_every_call_also_where_it_skips_the_dispatcher():
    x, index = tp.tensor([1.0, 2.0, 4.0], requires_grad=True), tp.tensor([2, 0, 2])
    for _ in range(3):
        y = x[index]
        assert y.grad_fn.name == "IndexBackward"
        assert tp.autograd.grad((y * y).sum(), x)[0].tolist() == [2.0, 0.0, 16.0]
        with tp.no_grad():
            assert not x[index].requires_grad
    with tp.inference_mode():
        frozen = tp.tensor([0])
        assert x[index].is_inference()
    with pytest.raises(tp.AutogradError, match="inference mode cannot be saved"):
        x[frozen]
    y = x[index].sum()
    index.fill_(0)
    with pytest.raises(tp.AutogradError, match="modified in place"):
        y.backward()
