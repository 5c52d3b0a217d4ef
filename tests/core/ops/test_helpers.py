"""The functions that derivative formulas call, on their own: every shape of dims, 0-d and empty tensors, ties, NaN."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.ops import helpers as H

NAN = float("nan")


def t(data):
    return tp.tensor(data, dtype=tp.float64)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, (), 0, -1, 1, (0, 2), (-1, 0), (0, 1, 2), [1]])
def test_sum_and_mean_backward(dim, keepdim):
    x = np.arange(24.0).reshape(2, 3, 4)
    axis = None if dim is None or dim == () else tuple(dim) if isinstance(dim, (tuple, list)) else dim
    grad = np.asarray(x.sum(axis=axis, keepdims=keepdim))
    wide = np.broadcast_to(np.asarray(x.sum(axis=axis, keepdims=True)), x.shape)
    assert H.sum_backward(t(grad), (2, 3, 4), dim, keepdim).tolist() == wide.tolist()
    count = x.size / np.asarray(x.sum(axis=axis)).size
    tp.testing.assert_close(H.mean_backward(t(grad), (2, 3, 4), dim, keepdim), (wide / count).tolist())


@pytest.mark.parametrize("dim", [None, (), 0, -1])
def test_sum_and_mean_backward_of_a_0d_tensor(dim):
    for keepdim in (False, True):
        assert H.sum_backward(t(3.0), (), dim, keepdim).tolist() == 3.0
        assert H.mean_backward(t(3.0), (), dim, keepdim).tolist() == 3.0


def test_sum_backward_of_an_empty_tensor():
    assert H.sum_backward(t(3.0), (0, 2), None, False).shape == (0, 2)
    assert H.sum_backward(t([1.0, 2.0]), (0, 2), 0, False).shape == (0, 2)


def test_max_backward_shares_among_ties_and_nans():
    x = t([1.0, 3.0, 3.0])
    assert H.max_backward(t(6.0), x, x.max()).tolist() == [0.0, 3.0, 3.0]
    x = t([NAN, 3.0, NAN, 1.0])
    assert H.max_backward(t(6.0), x, x.max()).tolist() == [3.0, 0.0, 3.0, 0.0]
    inf = float("inf")
    x = t([-inf, -inf])
    assert H.max_backward(t(6.0), x, x.max()).tolist() == [3.0, 3.0]


def test_max_dim_backward():
    x = t([[1.0, 5.0, 5.0], [7.0, 2.0, NAN]])
    for dim in (1, -1):
        _, indices = x.max(dim)
        found = H.max_dim_backward(t([10.0, 20.0]), indices, x.shape, dim, False)
        assert found.tolist() == [[0.0, 10.0, 0.0], [0.0, 0.0, 20.0]]
        _, indices = x.max(dim, True)
        found = H.max_dim_backward(t([[10.0], [20.0]]), indices, x.shape, dim, True)
        assert found.tolist() == [[0.0, 10.0, 0.0], [0.0, 0.0, 20.0]]
    assert H.max_dim_backward(t(4.0), tp.tensor(0), (), 0, False).tolist() == 4.0
    _, indices = tp.zeros(0, 3).max(1)
    assert H.max_dim_backward(tp.zeros(0), indices, (0, 3), 1, False).shape == (0, 3)


def test_permute_backward_undoes():
    x = t(np.arange(24.0).reshape(2, 3, 4).tolist())
    for dims in ((0, 1, 2), (2, 0, 1), (1, 2, 0), (-1, 0, 1), (2, 1, -3)):
        assert H.permute_backward(x.permute(dims), dims).tolist() == x.tolist()


def test_cat_backward():
    grad = t(np.arange(10.0).reshape(2, 5).tolist())
    a, b, c = H.cat_backward(grad, [(2, 2), (0,), (2, 3)], -1)
    assert (a.tolist(), b.shape, c.tolist()) == (grad[:, :2].tolist(), (0,), grad[:, 2:].tolist())


def test_sgn_backward():
    assert H.sgn_backward(t([1.0, 2.0]), t([0.0, -3.0])).tolist() == [0.0, 0.0]
    z = tp.tensor([0j, 3 + 4j], dtype=tp.complex128)
    g = tp.tensor([1 + 1j, 4 - 3j], dtype=tp.complex128)
    found = H.sgn_backward(g, z).tolist()
    assert found[0] == 0
    tp.testing.assert_close(found[1], (4 - 3j) / 5)  # wholly tangential
    tp.testing.assert_close(H.sgn_backward(z, z).tolist()[1], 0j)  # wholly radial


def test_zeros_like():
    x = tp.ones(2, 3, dtype=tp.bfloat16)
    y = H.zeros_like(x)
    assert (y.shape, y.dtype, y.sum().item()) == ((2, 3), tp.bfloat16, 0.0)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)),
        ((3,), (5, 3, 2)),
        ((5, 2, 3), (3,)),
        ((2, 0), (0, 3)),
    ],
)
def test_matmul_gradients_have_the_shape_of_what_broadcast(a, b):
    x = tp.ones(*a, dtype=tp.float64, requires_grad=True)
    y = tp.ones(*b, dtype=tp.float64, requires_grad=True)
    z = x @ y
    gx, gy = tp.autograd.grad(z, [x, y], tp.ones(z.shape, dtype=tp.float64))
    assert (gx.shape, gy.shape) == (a, b)
    if x.numel():
        assert gx.sum().item() == gy.sum().item() == z.sum().item()
