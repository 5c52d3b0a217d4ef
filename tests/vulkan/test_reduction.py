"""Sums and largest elements, of every shape that has its own road: short rows, long ones, several passes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import TensorPlayError

pytestmark = pytest.mark.usefixtures("adapter")
SHAPES = [
    (),
    (1,),
    (5,),
    (129,),
    (8193,),
    (3, 4),
    (300, 7),
    (2, 3, 200),
    (4, 1, 5, 6),
    (0,),
    (3, 0),
    (0, 3),
    (2**17 + 5,),
]
EPS = float(np.finfo("float32").eps)


def there(array):
    return tp.tensor(array, device="vulkan") if np.shape(array) else tp.tensor(array.item(), device="vulkan")


def dims_of(shape):
    yield None
    for dim in range(len(shape)):
        yield dim
        yield dim - len(shape)
    if len(shape) > 2:
        yield (0, 2)
        yield (-1, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_sums(shape, rng):
    """Every order of adding n float32 numbers stays within n eps sum|x|; a tree is far better than that."""
    array = np.asarray(rng.normal(size=shape).astype("float32"))
    wide = array.astype("float64")
    for dim in dims_of(shape):
        for keepdim in (False, True):
            got = there(array).sum(dim, keepdim).cpu().numpy()
            bound = 160 * EPS * np.abs(wide).sum(axis=dim, keepdims=keepdim)
            assert got.shape == bound.shape and got.dtype == np.float32
            assert (np.abs(got - wide.sum(axis=dim, keepdims=keepdim)) <= bound + 1e-30).all()


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape])
def test_largest_elements(shape, rng):
    for array in (rng.integers(-5, 5, shape).astype("float32"), rng.integers(-9, 9, shape).astype("int32")):
        array = np.asarray(array)
        x = there(array) if array.dtype == np.float32 else there(array).to(tp.int32)
        assert x.max().tolist() == array.max() and x.argmax().tolist() == array.argmax()
        for dim in range(len(shape)):
            values, places = x.max(dim)
            assert places.dtype is tp.int32 and values.dtype is x.dtype
            assert values.tolist() == array.max(axis=dim).tolist()
            assert places.tolist() == array.argmax(axis=dim).tolist(), "the first of equal ones"
            assert x.argmax(dim, True).shape == array.argmax(axis=dim, keepdims=True).shape


def test_nan_is_the_largest_and_zeros_are_equal():
    x = tp.tensor([[1.0, tp.nan, tp.inf, tp.nan], [-0.0, 0.0, -1.0, -tp.inf]], device="vulkan")
    assert x.argmax(1).tolist() == [1, 0] and np.isnan(x.max().item())
    assert x.max(1)[0].cpu().numpy()[1].tobytes() == np.float32(-0.0).tobytes()
    assert tp.tensor([[-tp.inf], [-tp.inf]], device="vulkan").max(0)[1].tolist() == [0]
    assert tp.tensor([-(2**31), -(2**31)], device="vulkan").argmax().item() == 0


def test_layouts_and_dtypes(rng):
    array = rng.normal(size=(6, 8)).astype("float32")
    x = there(array)
    for tensor, a in (
        (x.t(), array.T),
        (x[1:, ::3], array[1:, ::3]),
        (x[:, :1].expand(6, 5), array[:, :1].repeat(5, 1)),
    ):
        assert np.allclose(tensor.sum(0).cpu().numpy(), a.sum(axis=0), atol=1e-5)
        assert tensor.max(1)[1].tolist() == a.argmax(axis=1).tolist()
    flags = tp.tensor([[True, False, True], [False, False, False]], device="vulkan")
    assert flags.sum(1).tolist() == [2, 0] and flags.sum().dtype is tp.int32
    assert flags.max(1)[0].tolist() == [True, False] and flags.max().dtype is tp.bool
    high = tp.tensor([2**31 - 1, 1], device="vulkan")
    assert high.sum().item() == -(2**31), "int32 is the widest integer there is, and it wraps"
    assert high.sum(dtype=tp.float32).item() == 2.0**31


def test_composite_reductions(rng):
    array = rng.normal(size=(5, 9)).astype("float32")
    wide = array.astype("float64")
    shifted = np.exp(wide - wide.max(axis=1, keepdims=True))
    x = there(array)
    assert np.abs(x.mean(0).cpu().numpy() - wide.mean(axis=0)).max() < 1e-6
    assert np.abs(x.softmax(1).cpu().numpy() - shifted / shifted.sum(axis=1, keepdims=True)).max() < 1e-6
    exact = np.log(shifted / shifted.sum(axis=1, keepdims=True))
    assert np.abs(x.log_softmax(1).cpu().numpy() - exact).max() < 2e-6


def test_nothing_has_no_largest_element():
    for call in (lambda x: x.max(), lambda x: x.argmax(), lambda x: x.max(1)):
        with pytest.raises(TensorPlayError):
            call(tp.zeros(3, 0, device="vulkan"))
    assert tp.zeros(0, 3, device="vulkan").max(1)[1].shape == (0,)
