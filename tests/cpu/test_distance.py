"""Distances through products keep the digits of differences, and their gradients too."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


def rows(kind, n, k, m, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((n, m)), rng.standard_normal((k, m))
    if kind == "far from 0":
        a, b = a + 1000, b + 1000
    if kind == "clusters":
        middles = 100 * rng.standard_normal((5, m))
        a, b = (0.01 * x + middles[rng.integers(0, 5, len(x))] for x in (a, b))
    a, b = a.astype(dtype), b.astype(dtype)
    if kind == "equal":
        b[: k // 2] = a[: k // 2]
    return a, b


def expected(a, b, p, grad):
    """Distances and both gradients, from all differences in float64."""
    difference = a[:, None].astype("float64") - b
    r = np.linalg.norm(difference, p, -1)
    with np.errstate(all="ignore"):
        slope = np.sign(difference) * (np.abs(difference) / r[..., None]) ** (p - 1)
    if p == np.inf:
        largest = np.abs(difference) == r[..., None]
        slope = np.sign(difference) * largest / largest.sum(-1, keepdims=True)
    terms = grad[..., None] * np.where((difference == 0) | (r[..., None] == 0), 0, slope)
    return r, terms.sum(1), -terms.sum(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["around 0", "far from 0", "clusters", "equal"])
def test_euclidean_distances_of_many_rows(kind, dtype):
    a, b = rows(kind, 90, 70, 20, dtype)
    grad = np.random.default_rng(1).standard_normal((90, 70)).astype(dtype)
    x, y = (tp.tensor(v, requires_grad=True) for v in (a, b))
    result = tp.cdist(x, y)
    gradients = tp.autograd.grad(result, [x, y], tp.tensor(grad))
    eps = np.finfo(dtype).eps
    wanted = expected(a, b, 2, grad)
    np.testing.assert_allclose(result.detach().numpy(), wanted[0], rtol=8 * eps)
    for found, right in zip(gradients, wanted[1:], strict=True):
        np.testing.assert_allclose(found.numpy(), right, atol=300 * eps)


@pytest.mark.parametrize("p", [0.5, 1.0, 3.0, np.inf])
@pytest.mark.parametrize("shape", [(70, 90, 5), (3, 4, 5)])
def test_other_norms_go_over_the_components(p, shape):
    a, b = rows("equal", *shape, "float64")
    grad = np.random.default_rng(1).standard_normal(shape[:2])
    x, y = (tp.tensor(v, requires_grad=True) for v in (a, b))
    result = tp.cdist(x, y, p)
    wanted = expected(a, b, p, grad)
    np.testing.assert_allclose(result.detach().numpy(), wanted[0], rtol=1e-13)
    for found, right in zip(tp.autograd.grad(result, [x, y], tp.tensor(grad)), wanted[1:], strict=True):
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-10, atol=1e-11)


def test_infinity_and_nan_stay_in_their_rows():
    a, b = rows("around 0", 40, 30, 12, "float32")
    a[3, 4], b[7, 2] = np.inf, np.nan
    result = tp.cdist(tp.tensor(a), tp.tensor(b)).numpy()
    assert np.isnan(result[:, 7]).all() and np.isinf(np.delete(result[3], 7)).all()
    assert np.isfinite(np.delete(np.delete(result, 7, 1), 3, 0)).all()


def test_batches_broadcast():
    a, b = np.random.default_rng(0).random((2, 1, 30, 9)), np.random.default_rng(1).random((3, 28, 9))
    found = tp.cdist(tp.tensor(a), tp.tensor(b)).numpy()
    np.testing.assert_allclose(found, np.linalg.norm(a[..., None, :] - b[:, None], axis=-1), rtol=1e-13)
