"""The first steps of Adam by hand, and what decay, warming up and clipping do to numbers that are easy to see."""

from __future__ import annotations

import pytest

import tensorplay as tp


def parameter(*values: float) -> tp.Tensor:
    return tp.tensor(values, dtype=tp.float64, requires_grad=True)


def test_the_first_step_has_the_size_of_the_rate(load) -> None:
    """Means and squares are corrected for their start at zero: g / sqrt(g²) is 1, whatever the gradient."""
    p = parameter(1.0, 2.0, 3.0)
    optimizer = load("adam").Adam([p], rate=0.1)
    p.grad = tp.tensor([1e-3, -5.0, 200.0], dtype=tp.float64)
    optimizer.step()
    assert p.tolist() == pytest.approx([0.9, 2.1, 2.9], abs=1e-5)
    assert p.grad is None


def test_two_steps_by_hand(load) -> None:
    p = parameter(0.0)
    optimizer = load("adam").Adam([p], rate=0.5, betas=(0.5, 0.75), eps=0.0)
    for gradient in (2.0, 1.0):
        p.grad = tp.tensor([gradient], dtype=tp.float64)
        optimizer.step()
    # Means 1 and 1, corrected by 1/2 and 3/4; squares 1 and 1, corrected by 1/4 and 7/16.
    assert p.tolist() == pytest.approx([-0.5 * 2 / 4**0.5 - 0.5 * (4 / 3) / (16 / 7) ** 0.5], rel=1e-14)


def test_decay_spares_vectors(load) -> None:
    matrix, vector = tp.ones(2, 2, dtype=tp.float64, requires_grad=True), parameter(1.0)
    optimizer = load("adam").Adam([matrix, vector], rate=0.1, decay=0.5)
    matrix.grad, vector.grad = tp.zeros_like(matrix), tp.zeros_like(vector)
    optimizer.step(factor=0.5)
    assert matrix.tolist() == [[0.975, 0.975], [0.975, 0.975]]
    assert vector.tolist() == [1.0]


def test_warmup_cosine(load) -> None:
    share = load("adam").warmup_cosine
    assert share(0, 100) == pytest.approx(0.1)
    assert share(9, 100) == pytest.approx(1.0)
    assert share(54, 100) == pytest.approx(0.5)
    assert share(99, 100) == pytest.approx(0.0)


@pytest.mark.parametrize(("limit", "factor"), [(2.5, 0.5), (10.0, 1.0)])
def test_clip(load, limit: float, factor: float) -> None:
    a, b = parameter(0.0), parameter(0.0)
    a.grad, b.grad = tp.tensor([3.0], dtype=tp.float64), tp.tensor([4.0], dtype=tp.float64)
    assert load("adam").clip([a, b], limit).item() == 5.0
    assert (a.grad.item(), b.grad.item()) == pytest.approx((3 * factor, 4 * factor), rel=1e-6)
