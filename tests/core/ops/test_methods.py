"""The methods of a tensor that are written by hand over operators: views, shapes, new tensors, second names."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


def test_view():
    x = tp.arange(6)
    y = x.view(2, 3)
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.shares_memory(x.numpy(), y.numpy())
    assert x.view((3, -1)).shape == (3, 2)
    assert x.view([6, 1]).shape == (6, 1)
    assert x.view_as(y).shape == (2, 3)
    with pytest.raises(tp.ShapeError, match=r"(?s)strides.*reshape"):
        y.T.view(6)
    assert y.T.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]
    assert y.T.view(3, 2, 1).shape == (3, 2, 1)
    with pytest.raises(tp.ShapeError):
        x.view(4)
    assert tp.zeros(0, 3).T.view(0).shape == (0,)


def test_views_differentiate():
    x = tp.arange(6.0).requires_grad_()
    (x.view(2, 3).T.reshape(6) * tp.arange(6.0)).sum().backward()
    assert x.grad.tolist() == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]


def test_reshape_as_expand_as_and_contiguous():
    x = tp.arange(3)
    assert x.reshape_as(tp.zeros(3, 1)).shape == (3, 1)
    assert x.expand_as(tp.zeros(2, 3)).tolist() == [[0, 1, 2]] * 2
    assert x.contiguous() is x
    y = tp.arange(6).reshape(2, 3).T
    z = y.contiguous()
    assert z.is_contiguous()
    assert z.tolist() == y.tolist()
    assert not np.shares_memory(y.numpy(), z.numpy())


@pytest.mark.parametrize(
    ("args", "shape"),
    [((), (24,)), ((1,), (2, 12)), ((0, 1), (6, 4)), ((-2,), (2, 12)), ((1, 1), (2, 3, 4)), ((0, -1), (24,))],
)
def test_flatten(args, shape):
    assert tp.zeros(2, 3, 4).flatten(*args).shape == shape


def test_flatten_of_0d_and_wrong_dims():
    assert tp.tensor(1).flatten().shape == (1,)
    with pytest.raises(tp.ShapeError, match="comes after"):
        tp.zeros(2, 3).flatten(1, 0)
    with pytest.raises(tp.DimError):
        tp.zeros(2, 3).flatten(2)


def test_transposes():
    x = tp.zeros(2, 3, 4)
    assert (x.T.shape, x.mT.shape) == ((4, 3, 2), (2, 4, 3))
    assert tp.zeros(2, 3).t().shape == (3, 2)
    assert tp.zeros(2).t().shape == (2,)
    with pytest.raises(tp.ShapeError, match="at most 2 dims"):
        x.t()
    with pytest.raises(tp.DimError):
        _ = tp.zeros(2).mT
    assert x.swapaxes(0, 1).shape == (3, 2, 4)


def test_new_tensors():
    x = tp.zeros(2, dtype=tp.float64, device="loopback")
    for y in (x.new_zeros(3), x.new_ones((3,)), x.new_full((3,), 7)):
        assert (y.shape, y.dtype, y.device.type, y.requires_grad) == ((3,), tp.float64, "loopback", False)
    assert x.new_zeros(2, dtype=tp.int8, device="cpu").dtype is tp.int8
    assert x.new_zeros(()).shape == ()
    assert x.new_zeros([2, 2]).shape == (2, 2)


def test_second_names_of_arguments():
    x = tp.arange(6.0).reshape(2, 3)
    assert x.sum(axis=0).tolist() == x.sum(dim=0).tolist() == x.sum(0).tolist()
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert tp.sum(input=x, dim=1).tolist() == [3.0, 12.0]
    assert x.max(axis=1)[0].tolist() == [2.0, 5.0]
    with pytest.raises(tp.ArgumentError, match="the same argument"):
        x.sum(0, axis=1)


def test_python_operators_and_their_reflections():
    x = tp.tensor([1.0, 4.0])
    assert (2 + x).tolist() == [3.0, 6.0]
    assert (2 - x).tolist() == [1.0, -2.0]
    assert (2 * x).tolist() == [2.0, 8.0]
    assert (2 / x).tolist() == [2.0, 0.5]
    assert (2**x).tolist() == [2.0, 16.0]
    assert (x**0.5).tolist() == [1.0, 2.0]
    assert (-x).tolist() == [-1.0, -4.0]
    assert abs(-x).tolist() == [1.0, 4.0]
    assert (x @ x).item() == 17.0
    for left, right in ((x > 2, x > 2), (x <= 2, x <= 2), (x == 2, x == 2), (x != 2, x != 2)):
        assert left.tolist() == right.tolist()
    for stranger in ("a", None, object(), [1, 2]):
        with pytest.raises(TypeError):
            x + stranger
        with pytest.raises(TypeError):
            stranger - x
    y = x
    y += 1
    y -= 2
    y *= 3
    y /= 2
    assert y is x
    assert x.tolist() == [0.0, 4.5]
    y **= 2
    assert x.tolist() == [0.0, 20.25]


def test_a_stranger_that_knows_tensors_is_asked():
    class Friend:
        def __radd__(self, other):
            return "added"

        def __rmatmul__(self, other):
            return "multiplied"

    assert tp.ones(1) + Friend() == "added"
    assert tp.ones(1) @ Friend() == "multiplied"


def test_scalars_are_weak():
    for dtype in (tp.float16, tp.bfloat16, tp.float32, tp.float64, tp.complex64):
        x = tp.ones(2, dtype=dtype)
        assert (x + 1).dtype is dtype
        assert (x * 2.5).dtype is dtype
        assert (True + x).dtype is dtype
    assert (tp.ones(2, dtype=tp.int8) + 1).dtype is tp.int8
    assert (tp.ones(2, dtype=tp.int8) + 1.5).dtype is tp.float32
    assert (tp.ones(2, dtype=tp.bool) + 1).dtype is tp.int64
    assert (tp.ones(2, dtype=tp.float64) + 1j).dtype is tp.complex128
    assert (tp.ones(2) + np.float64(1)).dtype is tp.float32


def test_integer_overflow_wraps():
    x = tp.tensor([250], dtype=tp.uint8)
    assert (x + 10).tolist() == [4]
    assert (tp.tensor([127], dtype=tp.int8) + 1).tolist() == [-128]
    assert (-tp.tensor([-128], dtype=tp.int8)).tolist() == [-128]
    assert (tp.tensor([2**63 - 1]) + 1).tolist() == [-(2**63)]
