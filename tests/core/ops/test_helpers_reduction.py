"""What the gradients of reductions and scans are made of, where a shorter formula is wrong: zeros, ties and -inf."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp


def gradient(function, data, weights=None):
    x = tp.tensor(data, dtype=tp.float64, requires_grad=True)
    y = function(x)
    y = y if weights is None else y * tp.tensor(weights, dtype=tp.float64)
    (g,) = tp.autograd.grad(y.sum(), x, create_graph=True)
    return x, g


@pytest.mark.parametrize(
    ("data", "expected"),
    [([2.0, 3.0, 4.0], [12, 8, 6]), ([0.0, 2.0, 3.0], [6, 0, 0]), ([0.0, 0.0, 3.0], [0, 0, 0]), ([5.0], [1])],
)
def test_a_product_gives_each_the_product_of_the_others(data, expected):
    assert gradient(tp.prod, data)[1].tolist() == expected


def test_the_second_gradient_of_a_product_at_zeros():
    x, g = gradient(tp.prod, [0.0, 0.0, 3.0])
    assert tp.autograd.grad(g[0], x)[0].tolist() == [0, 3, 0]


def test_a_product_too_small_to_divide_gives_each_the_product_of_the_others():
    assert gradient(tp.prod, [1e-200, 1e-200, 1e200])[1].tolist() == [1, 1, 0]
    assert gradient(tp.prod, [1e200, 1e200, 1e-200])[1].tolist() == [1, 1, math.inf]


def test_rows_of_products_with_and_without_a_zero():
    assert gradient(lambda x: x.prod(1), [[2.0, 3.0], [0.0, 4.0]])[1].tolist() == [[3, 2], [4, 0]]
    x, g = gradient(lambda x: x.prod(1), [[2.0, 4.0], [8.0, 4.0]])
    assert g.tolist() == [[4, 2], [4, 8]]
    assert tp.autograd.grad(g.sum(), x)[0].tolist() == [[1, 1], [1, 1]]


def test_a_product_without_data_has_a_gradient_without_data():
    x = tp.zeros(2, 3, device="meta", requires_grad=True)
    assert tp.autograd.grad(x.prod(), x)[0].shape == (2, 3)


def test_nan_has_no_part_in_the_gradient_of_nansum():
    assert gradient(lambda x: x.nansum() ** 2, [1.0, math.nan, 2.0])[1].tolist() == [6, 0, 6]
    assert gradient(lambda x: x.nansum(1), [[math.nan, math.nan]], [math.inf])[1].tolist() == [[0, 0]]


def test_a_running_maximum_in_the_middle_of_a_shape():
    data = [[[1.0, 5.0], [3.0, 2.0], [0.0, 9.0]]]
    assert gradient(lambda x: tp.cummax(x, 1)[0], data)[1].tolist() == [[[1, 2], [2, 0], [0, 1]]]


def test_products_over_several_dims():
    x = tp.tensor([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 5.0], [6.0, 7.0]]], requires_grad=True)
    x.prod(dim=(0, 2)).sum().backward()
    assert x.grad.tolist() == [[[0, 0], [168, 126]], [[10, 0], [84, 72]]]


def test_cumulative_products_with_a_zero():
    assert gradient(lambda x: x.cumprod(0), [2.0, 0.0, 0.0, 3.0])[1].tolist() == [1, 2, 0, 0]
    # 1 + b + bc + bcd; a + ac + acd; ab + abd; abc, of (1, 2, 3, 4)
    assert gradient(lambda x: x.cumprod(0), [1.0, 2.0, 3.0, 4.0])[1].tolist() == [33, 16, 10, 6]


def test_cumulative_sums_add_up_from_the_end():
    assert gradient(lambda x: x.cumsum(0), [5.0, 6.0, 7.0], [1.0, 10.0, 100.0])[1].tolist() == [111, 110, 100]


def test_logsumexp_is_a_softmax_and_nothing_in_a_row_of_nothing():
    x = tp.tensor([[0.0, math.log(3.0)], [-math.inf, -math.inf], [1000.0, -math.inf]], requires_grad=True)
    tp.logsumexp(x, 1).sum().backward()
    tp.testing.assert_close(x.grad, tp.tensor([[0.25, 0.75], [0.0, 0.0], [1.0, 0.0]]))


def test_logcumsumexp_in_powers_of_two():
    two = math.log(2.0)
    # results 0, log 3, log 7: each element has its part of each later sum
    _, g = gradient(lambda x: x.logcumsumexp(0), [0.0, two, 2 * two])
    tp.testing.assert_close(g.tolist(), [1 + 1 / 3 + 1 / 7, 2 / 3 + 2 / 7, 4 / 7])


def test_ties_share_the_gradient_of_amax_and_amin():
    for function in (tp.amax, tp.amin):
        assert gradient(lambda x, f=function: f(x, 1), [[1.0, 1.0, 1.0, 1.0]])[1].tolist() == [[0.25] * 4]


def test_a_running_maximum_adds_up_where_it_stands():
    assert gradient(lambda x: tp.cummax(x, 0)[0], [1.0, 3.0, 2.0], [1.0, 10.0, 100.0])[1].tolist() == [1, 110, 0]


def test_a_sort_sends_the_gradient_back():
    weights = [1.0, 10.0, 100.0]
    assert gradient(lambda x: tp.sort(x)[0], [3.0, 1.0, 2.0], weights)[1].tolist() == [100, 1, 10]
    assert gradient(lambda x: tp.topk(x, 2)[0], [3.0, 1.0, 2.0], [1.0, 10.0])[1].tolist() == [1, 0, 10]


def test_a_variance_and_a_deviation_of_nothing():
    assert gradient(lambda x: tp.var(x, correction=0), [1.0, 3.0])[1].tolist() == [-1, 1]
    assert gradient(tp.std, [2.0, 2.0])[1].tolist() == [0, 0]
    assert math.isnan(gradient(tp.var, [2.0])[1].item())


@pytest.mark.parametrize("order", [0, 0.5, 1, 1.5, 2, 3, math.inf])
def test_a_norm_at_zero_has_the_gradient_0(order):
    assert gradient(lambda x: tp.norm(x, order), [0.0, 0.0])[1].tolist() == [0, 0]


def test_norms_by_hand():
    tp.testing.assert_close(gradient(tp.norm, [3.0, -4.0])[1].tolist(), [0.6, -0.8])
    assert gradient(lambda x: tp.norm(x, 1), [3.0, -4.0, 0.0])[1].tolist() == [1, -1, 0]
    assert gradient(lambda x: tp.norm(x, math.inf), [3.0, -4.0, 4.0])[1].tolist() == [0, -0.5, 0.5]
    # (8 + 1) ** (1 / 3): 2 ** 2 / 9 ** (2 / 3), 1 / 9 ** (2 / 3)
    part = 9 ** (-2 / 3)
    tp.testing.assert_close(gradient(lambda x: tp.norm(x, 3), [2.0, -1.0])[1].tolist(), [4 * part, -part])
