"""Large products, which are made of vectors of products: of any size, along any dim, with nothing left out."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp


@pytest.mark.parametrize("size", [63, 64, 65, 4095, 4096, 4097, 5119, 5120, 9001])
@pytest.mark.parametrize("shape", ["(n,)", "(1, n)", "(n, 1)"])
def test_every_element_is_in_the_product_once(size, shape):
    for place in {0, size // 2, size - 2, size - 1}:
        numbers = [1.0] * size
        numbers[place], numbers[place - 1] = 3.0, 0.5
        x = tp.tensor(numbers).reshape({"(n,)": (size,), "(1, n)": (1, size), "(n, 1)": (size, 1)}[shape])
        assert x.prod().item() == 1.5
        assert x.prod(0).prod().item() == 1.5 and x.prod(-1).prod().item() == 1.5
        assert x.prod(dim=None, keepdim=True).shape == (1,) * x.ndim


def test_large_products_of_nothing_finite():
    x = tp.ones(5000)
    x[4321] = math.inf
    assert x.prod().item() == math.inf
    x[17] = 0.0
    assert math.isnan(x.prod().item())


def test_a_product_of_what_does_not_lie_in_one_piece():
    x = tp.ones(100, 100)
    x[3, 2], x[99, 98] = 2.0, 8.0
    assert x[:, ::2].prod().item() == 16.0 and x.t().prod().item() == 16.0
