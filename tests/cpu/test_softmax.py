"""Softmax in blocks: rows from which nothing is taken away, rows from which the largest is, and both in one block."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


def exact(x):
    x = x.astype("float64")
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0, 30, 59, 61, 88, 1e4, -5, -50, -1e4])
@pytest.mark.parametrize("shape", [(200, 64), (40, 65), (3, 2000)])
def test_rows_anywhere(shape, offset, dtype):
    x = (np.random.default_rng(0).normal(size=shape) * 4 + offset).astype(dtype)
    logs, unit = exact(x), np.finfo(dtype).eps
    np.testing.assert_allclose(tp.softmax(tp.tensor(x), -1).numpy(), np.exp(logs), rtol=40 * unit)
    np.testing.assert_allclose(tp.log_softmax(tp.tensor(x), -1).numpy(), logs, rtol=4 * unit, atol=4 * unit)


def test_a_class_that_is_nearly_certain_keeps_its_digits():
    x = np.zeros((200, 64), "float32")
    x[:, 3] = 20.0
    found = tp.log_softmax(tp.tensor(x), 1).numpy()[:, 3]
    np.testing.assert_allclose(found, -np.log1p(63 * np.exp(-20.0)), rtol=1e-1, atol=1e-7)


def test_one_row_of_a_block_does_not_disturb_the_others():
    x = np.random.default_rng(0).normal(size=(200, 64)).astype("float32")
    x[1], x[2], x[3, 5], x[4, 5], x[5, :-1] = -np.inf, -1e4, np.nan, np.inf, -np.inf
    found, logs = tp.softmax(tp.tensor(x), 1).numpy(), tp.log_softmax(tp.tensor(x), 1).numpy()
    for row in (1, 3, 4):
        assert np.isnan(found[row]).any() and np.isnan(logs[row]).any()
    np.testing.assert_allclose(found[2], 1 / 64)
    assert found[5].tolist() == [0.0] * 63 + [1.0]
    assert logs[5].tolist() == [-np.inf] * 63 + [0.0]
    np.testing.assert_allclose(found[6:], np.exp(exact(x[6:])), rtol=1e-5)
