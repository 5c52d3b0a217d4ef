"""What can be said of a tensor without running an operator: metadata, conversion to Python and NumPy, protocols."""

from __future__ import annotations

import operator
from contextlib import contextmanager

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.tensor.printing import printoptions
from tensorplay_core.tensor.tensor import Tensor


def test_metadata():
    x = tp.zeros(2, 3, dtype=tp.float64)
    assert (x.shape, x.ndim, x.dim(), x.numel(), x.dtype) == ((2, 3), 2, 2, 6, tp.float64)
    assert (x.itemsize, x.element_size(), x.nbytes) == (8, 8, 48)
    assert x.device == tp.device("cpu")
    assert (x.is_cuda, x.layout, x.is_floating_point(), x.is_complex(), x.is_inference()) == (
        False,
        "strided",
        True,
        False,
        False,
    )
    assert type(x.shape) is tuple
    assert tp.zeros(2, dtype=tp.complex64).is_complex()


def test_size_and_stride():
    x = tp.zeros(2, 3, 4)
    assert (x.size(), x.size(0), x.size(-1)) == ((2, 3, 4), 2, 4)
    assert (x.stride(), x.stride(0), x.stride(-1)) == ((12, 4, 1), 12, 1)
    assert x.T.stride() == (1, 4, 12)
    assert x[:, ::2].stride() == (12, 8, 1)
    assert x.is_contiguous()
    assert not x.T.is_contiguous()
    for wrong in (3, -4):
        with pytest.raises(tp.DimError, match=rf"dim {wrong} is out of range"):
            x.size(wrong)
        with pytest.raises(tp.DimError):
            x.stride(wrong)
    with pytest.raises(tp.DimError):
        tp.zeros(()).size(0)


def test_item():
    assert tp.tensor(1.5).item() == 1.5
    assert tp.tensor([[2]]).item() == 2
    assert tp.tensor(True).item() is True
    assert tp.tensor(1 + 2j).item() == 1 + 2j
    assert type(tp.tensor(1.0, dtype=tp.bfloat16).item()) is float
    assert type(tp.tensor(1, dtype=tp.uint8).item()) is int
    for wrong in (tp.zeros(2), tp.zeros(0)):
        with pytest.raises(tp.ShapeError, match="elements, not one"):
            wrong.item()
    assert tp.tensor(2.0, requires_grad=True).item() == 2.0


def test_tolist():
    assert tp.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert tp.tensor(5).tolist() == 5
    assert tp.zeros(0).tolist() == []
    assert tp.zeros(2, 0).tolist() == [[], []]
    assert tp.tensor([1.0, 2.0], dtype=tp.bfloat16).tolist() == [1.0, 2.0]
    assert tp.arange(6).reshape(2, 3).T.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_numpy_shares_memory_on_the_cpu():
    x = tp.zeros(3)
    a = x.numpy()
    assert isinstance(a, np.ndarray)
    a[1] = 5
    assert x.tolist() == [0.0, 5.0, 0.0]
    x.add_(1)
    assert a.tolist() == [1.0, 6.0, 1.0]
    assert np.shares_memory(a, x[1:].numpy())
    assert x.T.numpy().dtype == np.float32
    assert tp.tensor(3.0).numpy().shape == ()
    assert tp.ones(2, dtype=tp.bfloat16).numpy().dtype.name == "bfloat16"


def test_numpy_of_what_it_would_lose_is_refused():
    x = tp.ones(2, requires_grad=True)
    for read in (x.numpy, x.__array__, lambda: np.asarray(x * 2)):
        with pytest.raises(tp.AutogradError, match=r"(?s)requires grad.*detach\(\)\.numpy\(\)"):
            read()
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    y = tp.ones(2, device="loopback")
    with pytest.raises(tp.ArgumentError, match=r"(?s)loopback.*\.cpu\(\)\.numpy\(\)"):
        y.numpy()
    assert y.cpu().numpy().tolist() == [1.0, 1.0]
    copy = y.numpy(force=True)
    copy[0] = 9
    assert y.tolist() == [1.0, 1.0]


def test_array_protocol():
    x = tp.tensor([1.0, 2.0])
    assert np.asarray(x).tolist() == [1.0, 2.0]
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.asarray(x, dtype=np.int8).tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    assert np.array([x, x]).shape == (2, 2)


def test_numpy_leaves_mixed_operators_to_tensors():
    x = tp.tensor([1.0, 2.0])
    assert isinstance(np.float64(2) * x, Tensor)
    assert (np.float64(2) * x).dtype is tp.float32
    assert (x * np.float32(2)).tolist() == [2.0, 4.0]
    assert (x + np.int64(1)).dtype is tp.float32
    with pytest.raises(TypeError):
        np.ones(2) + x
    with pytest.raises(TypeError):
        x + np.ones(2)


def test_len_iteration_and_unpacking():
    x = tp.tensor([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    _, _, c = x
    assert c.tolist() == [5, 6]
    assert list(tp.zeros(0)) == []
    assert [y.shape for y in tp.zeros(2, 0)] == [(0,), (0,)]
    for wrong in (len, iter, list):
        with pytest.raises(TypeError, match="0-d tensor"):
            wrong(tp.tensor(1))
    w = tp.ones(2, 2, requires_grad=True)
    sum(row.sum() * i for i, row in enumerate(w)).backward()
    assert w.grad.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_bool_int_float_complex_and_index():
    assert bool(tp.tensor(2))
    assert not tp.tensor([[0.0]])
    assert not tp.tensor(False)
    assert bool(tp.tensor(float("nan")))
    for wrong in (tp.zeros(2), tp.zeros(0)):
        with pytest.raises(tp.ShapeError, match=r"(?s)ambiguous.*compare"):
            bool(wrong)
    assert (int(tp.tensor(2.7)), float(tp.tensor(2)), complex(tp.tensor(2.0))) == (2, 2.0, 2 + 0j)
    with pytest.raises(tp.ShapeError):
        float(tp.zeros(2))
    with pytest.raises(TypeError):
        float(tp.tensor(1j))
    assert operator.index(tp.tensor(2)) == 2
    assert operator.index(tp.tensor([[3]])) == 3
    assert [10, 20, 30][tp.tensor(1)] == 20
    assert list(range(tp.tensor(3))) == [0, 1, 2]
    for wrong in (tp.tensor(2.0), tp.tensor([1, 2]), tp.tensor(1j)):
        with pytest.raises(TypeError, match="only a tensor of one integer element"):
            operator.index(wrong)


def test_equality_is_elementwise_and_the_hash_by_identity():
    x, y = tp.tensor([1, 2]), tp.tensor([1, 3])
    assert (x == y).tolist() == [True, False]
    assert (x != y).tolist() == [False, True]
    assert (x == "x") is False
    assert (x == None) is False  # noqa: E711
    assert len({x, y, x}) == 2
    assert x in {x: 1}


def test_format():
    assert f"{tp.tensor(1.23456):.2f}" == "1.23"
    assert f"{tp.tensor(3):05d}" == "00003"
    assert f"{tp.tensor([1, 2])}" == "tensor([1, 2])"
    assert f"{tp.tensor(1.5)}" == "tensor(1.5000)"
    with pytest.raises(TypeError):
        f"{tp.tensor([1, 2]):.2f}"


def test_repr():
    assert repr(tp.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(tp.ones(2, requires_grad=True)) == "tensor([1., 1.], requires_grad=True)"
    assert repr(tp.ones(2, requires_grad=True) * 2) == "tensor([2., 2.], grad_fn=<MulBackward>)"
    assert "device='loopback" in repr(tp.ones(1, device="loopback"))
    assert repr(tp.zeros(0)) == "tensor([])"
    assert repr(tp.tensor([1], dtype=tp.int8)).startswith("tensor([1], dtype=")
    assert "..." in repr(tp.zeros(2000))
    assert len(repr(tp.zeros(1000, 1000))) < 1000


class Opaque:
    """An array of which its device alone knows more than the shape."""

    def __init__(self, data, place):
        self.data, self.place, self.shape = data, place, data.shape


class Sliced(Opaque):
    def __getitem__(self, key):
        assert self.place == Library.current
        return type(self)(self.data[key], self.place)


class Library(DeviceAPI):
    """Refuses arrays of another device than the current one."""

    dtypes = {"float32": np.dtype("float32")}  # noqa: RUF012
    current = 0

    def __init__(self, array_class):
        self.array_class = array_class

    def from_list(self, data, dtype):
        return self.array_class(np.array(data, dtype), self.current)

    def dtype_name(self, array):
        return array.data.dtype.name

    def to_host(self, array):
        assert array.place == self.current
        return array.data.copy()

    @contextmanager
    def device(self, index):
        before, Library.current = self.current, index
        yield
        Library.current = before


@pytest.mark.parametrize("array_class", [Opaque, Sliced])
def test_repr_asks_nothing_of_an_array_that_its_device_can_do(array_class):
    devices.install("reprdevice", Library(array_class), 2, "tests")
    try:
        x = tp.tensor([[1.0, 2.5]], device="reprdevice:1")
        assert repr(x) == "tensor([[1.0000, 2.5000]], device='reprdevice:1')"
        assert repr(tp.tensor(3.0, device="reprdevice:1")) == "tensor(3., device='reprdevice:1')"
        with printoptions(threshold=3):
            big = tp.tensor([float(i) for i in range(9)], device="reprdevice:1")
            assert repr(big) == "tensor([0., 1., 2.,  ..., 6., 7., 8.], device='reprdevice:1')"
    finally:
        devices.uninstall("reprdevice")


def test_the_class_is_not_for_making_tensors():
    assert "never initialised" in repr(Tensor())
    with pytest.raises(TypeError):
        Tensor([1, 2])
    with pytest.raises(AttributeError):
        tp.zeros(1).no_such_attribute = 1
    with pytest.raises(AttributeError):
        tp.zeros(1).shape = (2,)


@pytest.mark.parametrize("method", ["size", "stride"])
def test_a_dim_is_an_int(method):
    with pytest.raises(tp.ArgumentError, match=f"{method}: dim must be an int, not 'a'"):
        getattr(tp.ones(2), method)("a")
