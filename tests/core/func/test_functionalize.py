"""``functionalize``: the same values, and writes that reach the caller's tensors at the end only."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay.func import functionalize, grad, vmap


def test_views_and_writes():
    seen = []

    def function(x):
        row = x[0]
        row.add_(1)
        seen.append(outer.tolist())
        return x * 2

    outer = tp.zeros(2, 2)
    assert functionalize(function)(outer).tolist() == [[2.0, 2.0], [0.0, 0.0]]
    assert seen == [[[0.0, 0.0], [0.0, 0.0]]] and outer.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_what_is_returned_as_it_came_is_the_callers_tensor():
    x = tp.zeros(2)
    assert functionalize(lambda x: x.add_(1))(x) is x and x.tolist() == [1.0, 1.0]
    y = functionalize(lambda x: x[:1], remove="mutations_and_views")(x)
    y.add_(5)
    assert x.tolist() == [1.0, 1.0]


def test_what_is_not_written_to_is_not_touched():
    x = tp.zeros(2)
    functionalize(lambda x: x * 2)(x)
    assert x._version_number == 0


def test_composes_with_other_transforms():
    def function(x):
        y = x * 1
        y[0].mul_(3)
        return (y * y).sum()

    x = tp.tensor([1.0, 2.0])
    assert grad(functionalize(function))(x).tolist() == [18.0, 4.0]
    assert vmap(grad(functionalize(function)))(tp.stack([x, x])).tolist() == [[18.0, 4.0]] * 2


def test_remove_is_checked():
    with pytest.raises(ValueError, match="not 'views'"):
        functionalize(tp.sin, remove="views")
