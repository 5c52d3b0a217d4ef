"""The slopes of distances by hand: every norm, ties, and a distance of 0."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.ops.helpers_distance import powered, slopes


@pytest.mark.parametrize(
    ("p", "wanted"),
    [
        (0.0, [0.0, 0.0, 0.0]),
        (1.0, [1.0, -1.0, 0.0]),
        (2.0, [0.6, -0.8, 0.0]),
        (3.0, [0.36, -0.64, 0.0]),
    ],
)
def test_each_norm(p, wanted):
    found = slopes(tp.tensor([[[3.0, -4.0, 0.0]]]), tp.tensor([[5.0]]), p)
    assert found.reshape(3).tolist() == pytest.approx(wanted)


def test_the_largest_components_share():
    found = slopes(tp.tensor([[[4.0, -4.0, 1.0, 0.0]]]), tp.tensor([[4.0]]), float("inf"))
    assert found.reshape(4).tolist() == [0.5, -0.5, 0.0, 0.0]


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, float("inf")])
def test_a_distance_of_0_has_no_slope(p):
    assert slopes(tp.zeros(1, 1, 2), tp.zeros(1, 1), p).reshape(2).tolist() == [0.0, 0.0]


def test_a_power_is_0_at_0_and_so_is_its_gradient():
    x = tp.tensor([0.0, 4.0], requires_grad=True)
    y = powered(x, 0.5)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([0.0, 2.0], [0.0, 0.25])


def test_second_gradients_of_many_pairs():
    x = tp.tensor([[0.0, 1.0], [2.0, 5.0]], dtype=tp.float64, requires_grad=True)
    y = tp.tensor([[3.0, -1.0], [0.5, 0.5], [7.0, 2.0]], dtype=tp.float64, requires_grad=True)
    for p in (1.5, 2.0, 3.0):
        assert tp.autograd.gradgradcheck(lambda a, b, p=p: tp.cdist(a, b, p), [x, y])


@pytest.mark.parametrize("dtype", [tp.float16, tp.bfloat16, tp.float32])
def test_the_largest_component_is_found_where_its_distance_is_rounded(dtype):
    x = tp.tensor([[2048.0, 3.0]], dtype=dtype, requires_grad=True)
    share = tp.ones(1, 1, dtype=dtype, requires_grad=True)
    (slope,) = tp.autograd.grad(
        tp.cdist(x, tp.tensor([[-1.0, 2.0]], dtype=dtype), float("inf")), x, share, create_graph=True
    )
    assert slope.tolist() == [[1.0, 0.0]]
    assert tp.autograd.grad(slope.sum(), share)[0].tolist() == [[1.0]]
