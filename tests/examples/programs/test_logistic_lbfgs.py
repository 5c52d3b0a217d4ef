from __future__ import annotations

import itertools
from math import log

import pytest

import tensorplay as tp

A = tp.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 20.0]], dtype=tp.float64)
B = tp.tensor([5.0, 3.0, 19.0], dtype=tp.float64)


def quadratic(x: tp.Tensor) -> tuple[float, tp.Tensor]:
    """``x A x / 2 - b x``, least at (1, 1, 1), where it is -27 / 2."""
    return (0.5 * (x @ A @ x) - B @ x).item(), A @ x - B


def test_the_minimum_of_a_quadratic(load) -> None:
    minimise = load("logistic_lbfgs").minimise
    point, gradient, values = minimise(quadratic, tp.zeros(3, dtype=tp.float64), 1e-10, range(50))
    assert point.tolist() == pytest.approx([1.0, 1.0, 1.0], abs=1e-10)
    assert values[-1] == pytest.approx(-13.5, rel=1e-14)
    assert gradient.abs().max().item() < 1e-10
    assert len(values) < 20
    assert all(later <= earlier for earlier, later in itertools.pairwise(values))


def test_a_direction_without_history_is_downhill(load) -> None:
    gradient = tp.tensor([1.0, -2.0], dtype=tp.float64)
    assert load("logistic_lbfgs").direction(gradient, []).tolist() == [-1.0, 2.0]


def test_a_direction_after_one_step_along_an_axis(load) -> None:
    """Along the step the curvature is 4, and every other way is given the same: minus a quarter of the gradient."""
    history = [(tp.tensor([1.0, 0.0], dtype=tp.float64), tp.tensor([4.0, 0.0], dtype=tp.float64))]
    gradient = tp.tensor([8.0, -2.0], dtype=tp.float64)
    assert load("logistic_lbfgs").direction(gradient, history).tolist() == [-2.0, 0.5]


def test_the_objective_at_zero(load) -> None:
    x, labels = tp.ones(4, 64, dtype=tp.float64), tp.tensor([0, 1, 2, 3])
    flat = tp.zeros(650, dtype=tp.float64)
    assert load("logistic_lbfgs").objective(flat, x, labels).item() == pytest.approx(log(10), rel=1e-15)


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install --group programs")
    finds_what_torch_found("logistic_lbfgs")
