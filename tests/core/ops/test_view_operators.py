"""Views by strides, of diagonals and of several parts: memory that is shared, gradients, devices, messages."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplay as tp


@pytest.fixture(params=["cpu", "meta", "strict"], scope="module")
def device(request):
    if request.param == "strict":
        module = pytest.importorskip("array_api_strict")
        tp.backends.from_namespace(module, name="views_strict")
        return "views_strict"
    return request.param


def matrix(device: str = "cpu") -> tp.Tensor:
    return tp.arange(12, dtype=tp.float32, device=device).reshape(3, 4)


VIEWS = {
    "as_strided": lambda x: x.as_strided((2, 2), (4, 2), 1),
    "diagonal": lambda x: x.diagonal(1),
    "unbind": lambda x: x.unbind(1)[2],
    "split_with_sizes": lambda x: x.split_with_sizes([1, 3], 1)[1],
    "split": lambda x: x.split(2)[1],
    "split.sizes": lambda x: tp.split(x, [1, 2])[0],
    "chunk": lambda x: x.chunk(2, -1)[1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "movedim": lambda x: x.movedim(0, 1),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (2, -1)),
    "t": lambda x: x.t(),
    "mT": lambda x: x.mT,
}
NUMPY = {
    "as_strided": lambda x: np.lib.stride_tricks.as_strided(x.reshape(-1)[1:], (2, 2), (16, 8)),
    "diagonal": lambda x: np.diagonal(x, 1),
    "unbind": lambda x: x[:, 2],
    "split_with_sizes": lambda x: x[:, 1:],
    "split": lambda x: x[2:],
    "split.sizes": lambda x: x[:1],
    "chunk": lambda x: x[:, 2:],
    "narrow": lambda x: x[:, 1:3],
    "movedim": lambda x: np.moveaxis(x, 0, 1),
    "flatten": lambda x: x.reshape(-1),
    "unflatten": lambda x: x.reshape(3, 2, 2),
    "t": lambda x: x.T,
    "mT": lambda x: x.T,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_to_a_view_reaches_its_base_and_a_write_to_the_base_the_view(name, device):
    x = matrix(device)
    view = VIEWS[name](x)
    expected = NUMPY[name](np.arange(12, dtype="float32").reshape(3, 4))
    assert view.shape == expected.shape
    assert view._version is x._version
    if device == "meta":
        assert view.stride() == VIEWS[name](matrix()).stride()
        return
    assert view.tolist() == expected.tolist()
    view.fill_(-1)
    host = np.arange(12, dtype="float32").reshape(3, 4)
    places = NUMPY[name](np.arange(12, dtype="float32").reshape(3, 4)).astype(int)
    host.reshape(-1)[places] = -1
    assert x.tolist() == host.tolist()
    x.fill_(5)
    assert set(view.reshape(-1).tolist()) == {5.0}


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_of_views_go_where_their_elements_lie(name):
    x = matrix().requires_grad_()
    view = VIEWS[name](x)
    weights = tp.arange(1, view.numel() + 1, dtype=tp.float32).reshape(view.shape)
    (view * weights).sum().backward()
    expected = np.zeros(12)
    places = NUMPY[name](np.arange(12, dtype="float32").reshape(3, 4)).astype(int)
    expected[places.reshape(-1)] = np.arange(1, places.size + 1)
    assert x.grad.reshape(-1).tolist() == expected.tolist()


def test_several_views_are_a_tuple_and_each_gradient_finds_its_place():
    x = matrix().requires_grad_()
    first, _, third = x.unbind()
    assert isinstance(x.unbind(), tuple) and isinstance(tp.split(x, 1), tuple)
    (first * 2 + third * 3).sum().backward()
    assert x.grad.tolist() == [[2.0] * 4, [0.0] * 4, [3.0] * 4]
    assert tp.zeros(0, 3).unbind() == ()
    assert [y.shape for y in tp.zeros(0, 3).chunk(2)] == [(0, 3), (0, 3)]
    assert [y.shape for y in tp.zeros(5).chunk(4)] == [(2,), (2,), (1,)]  # as few as have the size of the first


def test_as_strided_reads_the_memory_of_the_base():
    base = tp.arange(10, dtype=tp.float32)
    part = base[2:8:2]
    assert part.storage_offset() == 2 and base.storage_offset() == 0
    assert part.as_strided((3,), (1,)).tolist() == [2.0, 3.0, 4.0]
    assert part.as_strided((2, 2), (4, 1), 0).tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert part.as_strided((10,), (1,), 0).tolist() == base.tolist()
    window = base.as_strided((8, 3), (1, 1))
    assert window[3].tolist() == [3.0, 4.0, 5.0]
    assert window[2:].as_strided((2,), (1,), 9 - 1).tolist() == [8.0, 9.0]
    with pytest.raises(tp.ShapeError, match=r"needs 11 elements of memory, and the tensor's has 10\nfix: "):
        part.as_strided((9,), (1,))
    with pytest.raises(tp.ShapeError, match=r"overlaps|read-only|repeat"):
        base.as_strided((2, 3), (1, 0)).fill_(1)
    bf = tp.arange(4, dtype=tp.bfloat16)
    assert bf[1:].as_strided((2, 2), (1, 1), 0).tolist() == [[0.0, 1.0], [1.0, 2.0]]


def test_gradients_of_as_strided_where_elements_overlap():
    """Each element of memory gets the sum over the windows that hold it; of an expanded input each copy gets a part."""
    x = tp.ones(5, requires_grad=True)
    x.as_strided((3, 3), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 2.0, 1.0]
    y = tp.ones(2, 1, requires_grad=True)
    y.expand(2, 3).as_strided((2,), (1,)).sum().backward()
    assert y.grad.tolist() == [[1.0], [1.0]]
    z = tp.ones(6, requires_grad=True)
    (z * 1.0)[::2].as_strided((2, 2), (2, 2), 0).sum().backward()  # memory 0, 2, 2, 4
    assert z.grad.tolist() == [1.0, 0.0, 2.0, 0.0, 1.0, 0.0]
    w = tp.ones(2, 3, requires_grad=True)
    (w * 1.0).t().as_strided((3,), (1,)).sum().backward()
    assert w.grad.tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]


def test_what_is_replaced_in_a_copy_has_no_gradient_any_more():
    x, v = matrix().requires_grad_(), tp.ones(3, requires_grad=True)
    y = x.diagonal_scatter(v)
    assert x.diagonal().tolist() == [0.0, 5.0, 10.0] and y.diagonal().tolist() == [1.0] * 3
    (y * 2).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 2.0, 2.0], [2.0, 0.0, 2.0, 2.0], [2.0, 2.0, 0.0, 2.0]]
    assert v.grad.tolist() == [2.0] * 3


def test_cat_takes_empty_tensors_of_one_dim_as_pytorch_does():
    x = tp.ones(2, 3, requires_grad=True)
    empty = tp.zeros(0, requires_grad=True)
    y = tp.cat([empty, x, empty, x], 1)
    assert y.shape == (2, 6)
    y.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2 and empty.grad.shape == (0,)
    assert tp.cat([tp.zeros(0), tp.zeros(0)]).shape == (0,)
    assert tp.cat([tp.zeros(0, dtype=tp.float64), tp.ones(1, 2)]).dtype is tp.float64
    assert tp.cat([tp.zeros(0, device="meta"), tp.ones(2, 3, device="meta")], 1).shape == (2, 3)
    with pytest.raises(tp.ShapeError, match=r"tensor 0 has shape \(2,\), tensor 1 has shape \(2, 3\)"):
        tp.cat([tp.zeros(2), tp.zeros(2, 3)])


def test_an_expanded_tensor_without_elements_can_be_written_to():
    for where in ("cpu", "loopback"):
        tp.arange(6.0, device=where)[:0].expand(3, 0).add_(1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.diagonal(0, 1, -1), tp.ShapeError, "dim1 and dim2 cannot be identical"),
        (lambda x: tp.zeros(3).diagonal(), tp.DimError, "dim2"),
        (lambda x: x.unbind(2), tp.DimError, "unbind: Dimension out of range"),
        (lambda x: tp.tensor(1.0).unbind(), tp.DimError, r"0-d tensor.*\nfix: reshape it to \(1,\)"),
        (lambda x: x.split(0), ValueError, "split_size must be positive"),
        (lambda x: x.split([1, 1]), tp.ShapeError, "add up to 2, and dim 0 .* is 3"),
        (lambda x: x.split([4, -1]), ValueError, "sizes start at 0"),
        (lambda x: x.chunk(0), ValueError, "chunks must be greater than 0"),
        (lambda x: x.narrow(0, 2, 2), tp.ShapeError, "exceeds the size of dim 0, 3"),
        (lambda x: x.narrow(0, 4, 0), tp.DimError, "start 4 is out of range"),
        (lambda x: x.narrow(0, 0, -1), ValueError, "length must not be negative"),
        (lambda x: x.movedim((0, 1), (0,)), tp.ShapeError, "the same number of dims"),
        (lambda x: x.movedim((0, 0), (0, 1)), tp.ShapeError, "appears multiple times"),
        (lambda x: x.flatten(1, 0), tp.ShapeError, "comes after"),
        (lambda x: x.unflatten(1, (3, 2)), tp.ShapeError, r"do not multiply up to 4"),
        (lambda x: x.unflatten(1, (3, -1)), tp.ShapeError, r"do not multiply up to 4"),
        (lambda x: tp.zeros(1, 2, 3).t(), tp.ShapeError, "at most 2 dims"),
        (lambda x: tp.zeros(1, 2, 3).H, tp.ShapeError, "use mH"),
        (lambda x: tp.stack([]), tp.ValueRangeError, "non-empty"),
        (lambda x: tp.stack([x, x[0]]), tp.ShapeError, r"tensor 1 \(4,\)"),
        (lambda x: x.flip((0, -2)), tp.ShapeError, "appears multiple times"),
        (lambda x: x.as_strided((2,), (1, 1)), tp.ShapeError, "must have the same length"),
        (lambda x: x.as_strided((2,), (-1,)), ValueError, "strides start at 0"),
        (lambda x: x.as_strided((2,), (1,), -1), ValueError, "storage_offset starts at 0"),
        (lambda x: x.select_scatter(tp.ones(3), 0, 0), tp.ShapeError, r"src has shape \(3,\).*\(4,\)"),
        (lambda x: x.view(-1, 5), tp.ShapeError, "-1"),
        (lambda x: x.t().view(12), tp.ShapeError, "use reshape"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(call, error, text):
    with pytest.raises(error, match=rf"(?s){text}") as caught:
        call(matrix())
    assert isinstance(caught.value, tp.TensorPlayError)


def test_values_of_joining_and_reversing():
    x = matrix()
    host = np.arange(12, dtype="float32").reshape(3, 4)
    for dims in (0, (1,), (0, 1), ()):
        assert x.flip(dims).tolist() == np.flip(host, dims).tolist()
    for dim in (0, 1, -1):
        assert tp.stack([x, x + 1], dim).tolist() == np.stack([host, host + 1], dim).tolist()
    z = tp.tensor([[1 + 2j, 3j]])
    assert z.mH.tolist() == z.H.tolist() == [[1 - 2j], [-3j]]
    assert math.prod(tp.zeros(2, 3, 4).flatten(1).shape) == 24
    assert tp.tensor(1.0).flatten().shape == (1,) and tp.tensor(1.0).t().shape == ()


@pytest.mark.parametrize("dtype", [tp.float32, tp.int64])
def test_a_part_of_an_expanded_tensor_that_repeats_nothing_can_be_written_to(dtype):
    x = tp.zeros(4, dtype=dtype)
    x.expand(3, 4)[1].add_(1)
    x.expand(4, 4).diagonal().add_(1)
    x.expand(3, 4).narrow(0, 0, 1).mul_(2)
    x.expand(3, 4)[0][1:3] = 7
    x.as_strided((3, 4), (0, 1))[2][3:].zero_()
    assert x.tolist() == [4, 7, 7, 0]
    with pytest.raises(tp.ShapeError, match=r"overlaps itself.*\nfix: clone"):
        x.expand(3, 4).add_(1)
