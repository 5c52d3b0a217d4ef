"""Blocks: arrays of any layout go through a function piece by piece, and every element arrives where it belongs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_cpu import blocks


@pytest.mark.parametrize("limit", [1, 2, 5, 7, 24, 100])
@pytest.mark.parametrize("shape", [(), (1,), (24,), (2, 3, 4), (3, 1, 5), (7, 2)])
def test_pieces_cover_every_element_once_and_are_small_views(shape, limit):
    array = np.zeros(shape)
    for piece in blocks.pieces(shape, limit):
        view = array[piece]
        assert isinstance(view, np.ndarray) and view.size <= limit and np.shares_memory(view, array)
        view += 1
    assert (array == 1).all() and array.size == math.prod(shape)


def weighted_sum(a, b, factor, register, out):
    """factor * a + b, through a register."""
    assert register.shape == out.shape and out.size <= blocks.BLOCK
    np.multiply(a, factor, register)
    np.add(register, b, out)


def run(a, b):
    (found,) = blocks.in_blocks(weighted_sum, [a, b], [np.array(3.0)], [np.dtype(float)], [np.dtype(float)])
    return found


BASE = np.random.default_rng(0).standard_normal((6, 5, 4))
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "permuted": lambda x: np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
    "reversed": lambda x: x[::-1, :, ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=2)[:, :, ::2],
    "row": lambda x: x[:1, :1],
    "column": lambda x: x[:, :, :1],
    "expanded": lambda x: np.broadcast_to(x[:1], x.shape),
    "one": lambda x: x[:1, :1, :1],
    "0-d": lambda x: x[0, 0, 0],
    "lower": lambda x: x[0],
}


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("limit", [3, 4, 21, 1000])
def test_layouts_of_all_kinds_together(first, second, limit, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", limit)
    a, b = np.asarray(LAYOUTS[first](BASE)), np.asarray(LAYOUTS[second](BASE + 1))
    expected = 3.0 * a + b
    found = run(a, b)
    assert found.shape == expected.shape and not np.shares_memory(found, a)
    np.testing.assert_array_equal(found, expected)
    assert found.strides == np.add(a, b).strides  # so that a result lies in memory alike, whatever its size


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_nothing_is_computed_of_nothing(shape):
    assert run(np.zeros(shape), np.zeros(())).shape == shape


def test_arrays_that_lie_alike_stay_so(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 7)
    x = np.asfortranarray(BASE)
    assert run(x, x).strides == x.strides
