"""Composite kernels: the forms that array kernels leave out, and agreement with the specialised kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_composite.operators import KERNELS
from tensorplay_core.errors import DimError, DTypeError, ValueRangeError
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.creation import tensor
from tensorplay_core.types import dtype as dt

X = [[0.0, -1.5, 2.0], [30.0, -40.0, 0.25]]
DTYPES = [dt.float16, dt.bfloat16, dt.float32, dt.float64]


def close(a, b, dtype=dt.float32):
    tolerance = {dt.float64: 1e-12, dt.float32: 1e-6}.get(dtype, 1e-2)
    assert a.dtype is b.dtype and a.shape == b.shape
    np.testing.assert_allclose(np.array(a.tolist()), np.array(b.tolist()), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_composite_and_specialised_agree(dtype):
    x = tensor(X, dtype=dtype)
    for name in ("sigmoid", "relu", "sum", "mean"):
        close(KERNELS[name](x), getattr(F, name)(x), dtype)
    for dim in (0, 1, -1):
        for name in ("softmax", "log_softmax", "sum", "mean"):
            close(KERNELS[name](x, dim), getattr(F, name)(x, dim), dtype)
    for keepdim in (False, True):
        for dims in ((0, 1), [0], ()):
            close(KERNELS["mean"](x, dims, keepdim), F.mean(x, dims, keepdim), dtype)
    for name in ("add", "sub"):
        close(KERNELS[name](x, x), getattr(F, name)(x, x), dtype)


def test_edges_agree():
    x = tensor([math.nan, math.inf, -math.inf, -0.0, 1000.0, -1000.0])
    for name in ("sigmoid", "relu"):
        np.testing.assert_array_equal(KERNELS[name](x).tolist(), getattr(F, name)(x).tolist())
    z = tensor([1 + 2j, -3 + 1j, 0j])
    close(KERNELS["sigmoid"](z), F.sigmoid(z))
    for shape in ((3, 0), (0, 3), ()):
        empty = F.zeros(shape)
        for name in ("softmax", "log_softmax"):
            assert KERNELS[name](empty, 0).tolist() == getattr(F, name)(empty, 0).tolist()
    assert KERNELS["mean"](tensor(4.0)).item() == 4
    assert math.isnan(KERNELS["mean"](F.zeros((0,))).item())


@pytest.mark.parametrize("name", ["bool", "uint8", "uint64", "int8"])
def test_sigmoid_of_numbers_without_a_sign(name):
    values = [0, 1] if name == "bool" else [0, 1, 5, 100]
    expected = [1 / (1 + math.exp(-v)) for v in values]
    result = KERNELS["sigmoid"](tensor(values, dtype=dt.by_name(name)))
    assert result.dtype is dt.float32
    np.testing.assert_allclose(result.tolist(), expected, rtol=1e-6)


def test_alpha():
    x, y = tensor([1.0, 2.0]), tensor([10, 20])
    assert F.add(x, y, alpha=2).tolist() == [21, 42]
    assert F.sub(x, y, alpha=0.5).tolist() == [-4, -8]
    assert F.add(y, y, alpha=3).tolist() == [40, 80] and F.add(y, y, alpha=3).dtype is dt.int64
    half = tensor([1.0], dtype=dt.float16)
    assert F.add(half, tensor([3]), alpha=0.5).dtype is dt.float16
    assert F.add(x, 1, alpha=4).tolist() == [5, 6]
    assert F.add(tensor([1j]), tensor([1.0]), alpha=2j).tolist() == [3j]
    for wrong in (0.5, 2j):
        with pytest.raises(ValueRangeError, match="alpha"):
            F.add(y, y, alpha=wrong)


def test_alpha_has_a_gradient():
    x, y = tensor([1.0], requires_grad=True), tensor([1.0], requires_grad=True)
    F.sub(x, y, alpha=3).backward()
    assert x.grad.tolist() == [1] and y.grad.tolist() == [-3]


def test_dtype_of_reductions():
    x = tensor([[1.5, 2.5], [3.5, 4.5]])
    assert F.sum(x, dtype=dt.int32).tolist() == 10 and F.sum(x, dtype=dt.int32).dtype is dt.int32
    assert F.sum(x, 0, dtype=dt.float64).tolist() == [5, 7]
    assert F.sum(tensor([True, True]), dtype=dt.bool_).tolist() is True
    assert F.sum(tensor([60000.0, 60000.0], dtype=dt.float16), dtype=dt.float32).item() == 120000
    assert F.mean(tensor([1, 2]), dtype=dt.float64).item() == 1.5
    assert F.mean(tensor([1, 2]), dtype=dt.float16).dtype is dt.float16
    for call in (lambda: F.mean(tensor([1, 2])), lambda: F.mean(x, dtype=dt.int64)):
        with pytest.raises(DTypeError, match="mean"):
            call()


def test_dtype_of_softmax():
    x = tensor([1, 2, 3])
    for name in ("softmax", "log_softmax"):
        result = getattr(F, name)(x, 0, dtype=dt.float64)
        assert result.dtype is dt.float64
        close(result, getattr(F, name)(x.to(dt.float64), 0), dt.float64)
        with pytest.raises(DTypeError):
            getattr(F, name)(x, 0)
        with pytest.raises(DTypeError):
            KERNELS[name](x, 0)


def test_linear():
    x, w, b = tensor([[1.0, 2.0]]), tensor([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]), tensor([1.0, 1.0, 1.0])
    assert F.linear(x, w, b).tolist() == [[12, 18, 24]]
    assert F.linear(x, w).tolist() == [[11, 17, 23]]
    assert F.linear(x[0], w).tolist() == [11, 17, 23]
    assert F.linear(x, tensor([3.0, 4.0])).tolist() == [11]
    assert F.linear(F.ones((2, 5, 2)), w, b).shape == (2, 5, 3)
    w.requires_grad_()
    F.linear(x, w, b).sum().backward()
    assert w.grad.tolist() == [[1, 2]] * 3


@pytest.mark.parametrize("dims", [1, (1,), (-2,), (0, 1)])
def test_a_dim_that_a_tensor_of_0_dims_has_not_is_refused(dims):
    with pytest.raises(DimError, match="out of range"):
        KERNELS["flip"](tensor(1.5), dims)
    for right in (0, -1, (0,), (-1,), ()):
        assert KERNELS["flip"](tensor(1.5), right).item() == 1.5
