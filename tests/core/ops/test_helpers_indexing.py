"""Helpers of the formulas of indexing."""

from __future__ import annotations

import pytest

import tensorplay as tp


@pytest.mark.parametrize("include_self", [True, False])
def test_the_gradient_of_a_product_at_a_batched_index_is_that_of_a_loop(include_self):
    """Factors of 0, places that come twice and places that no index names; a second order too."""
    x = tp.tensor([[2.0, 0.0, 3.0], [1.0, 5.0, 4.0]], dtype=tp.float64)
    index = tp.tensor([[0, 1, 0, 1], [2, 2, 2, 0]])
    source = tp.tensor([[2.0, 3.0, 0.0, 5.0], [1.5, 0.5, 4.0, 0.0]], dtype=tp.float64)

    def value(x, index, source):
        y = tp.scatter_reduce(x, 0, index, source, "prod", include_self=include_self)
        return (y * tp.tensor([1.0, 2.0, 3.0], dtype=tp.float64)).sum()

    for function in (tp.func.grad(value, (0, 2)), tp.func.grad(lambda *a: tp.func.grad(value)(*a).sum(), 2)):
        together = function_of_batch(function)(x, index, source)
        alone = [function(*one) for one in zip(x, index, source, strict=True)]
        for found, wanted in zip(together, map(list, zip(*map(as_tuple, alone), strict=True)), strict=True):
            assert found.tolist() == [w.tolist() for w in wanted]


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def function_of_batch(function):
    return lambda *args: as_tuple(tp.vmap(function)(*args))
