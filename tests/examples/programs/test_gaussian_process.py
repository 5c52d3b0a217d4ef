from __future__ import annotations

from math import exp, log, pi

import pytest

import tensorplay as tp


def number(value: float) -> tp.Tensor:
    return tp.tensor(value, dtype=tp.float64)


LOG = {"length": tp.tensor([log(2.0)], dtype=tp.float64), "scale": number(log(3.0)), "noise": number(0.0)}


def test_the_surprise_of_one_observation(load) -> None:
    """It is normal with a variance of 9 + 1."""
    found = load("gaussian_process").surprise(tp.zeros(1, 1, dtype=tp.float64), tp.ones(1, dtype=tp.float64), LOG)
    assert found.item() == pytest.approx(0.5 / 10 + 0.5 * log(10) + 0.5 * log(2 * pi), rel=1e-14)


def test_a_prediction_from_one_observation(load) -> None:
    """Two apart, the covariance is 9 exp(-1/2): mean k y / 10, variance 10 - k² / 10."""
    program = load("gaussian_process")
    x, new = tp.zeros(1, 1, dtype=tp.float64), tp.tensor([[2.0], [200.0]], dtype=tp.float64)
    mean, deviation = program.predict(x, tp.ones(1, dtype=tp.float64), LOG, new)
    k = 9 * exp(-0.5)
    assert mean.tolist() == pytest.approx([k / 10, 0.0], rel=1e-14)
    assert deviation.tolist() == pytest.approx([(10 - k * k / 10) ** 0.5, 10**0.5], rel=1e-14)


def test_the_gradient_of_the_noise(load) -> None:
    """Of one observation, with v = 9 + s²: d/d(log s) = s² (1 - y² / v) / v."""
    noise = number(log(0.5)).requires_grad_()
    x, y = tp.zeros(1, 1, dtype=tp.float64), tp.tensor([2.0], dtype=tp.float64)
    load("gaussian_process").surprise(x, y, LOG | {"noise": noise}).backward()
    assert noise.grad.item() == pytest.approx(0.25 * (1 - 4 / 9.25) / 9.25, rel=1e-13)


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install --group programs")
    assert finds_what_torch_found("gaussian_process")["explained variance, new patients"] > 0.4


@pytest.mark.peers
def test_the_surprise_is_scikit_learns(load) -> None:
    gp = pytest.importorskip(
        "sklearn.gaussian_process", reason="scikit-learn is not installed: pip install --group programs"
    )
    tp.manual_seed(0)
    x, y = tp.randn(30, 2, dtype=tp.float64), tp.randn(30, dtype=tp.float64)
    log_ = {"length": tp.tensor([0.2, -0.3], dtype=tp.float64), "scale": number(0.1), "noise": number(-0.5)}
    kernel = gp.kernels.ConstantKernel(exp(0.2)) * gp.kernels.RBF([exp(0.2), exp(-0.3)])
    model = gp.GaussianProcessRegressor(kernel, alpha=exp(-1.0), optimizer=None).fit(x.numpy(), y.numpy())
    found = load("gaussian_process").surprise(x, y, log_).item()
    assert found == pytest.approx(-model.log_marginal_likelihood_value_, rel=1e-12)
