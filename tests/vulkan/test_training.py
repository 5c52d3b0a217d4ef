"""Gradients on the GPU are those of the CPU, and the demo learns there."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tensorplay as tp
import tensorplay.nn.functional as F

pytestmark = pytest.mark.usefixtures("adapter")

FUNCTIONS = {
    "matmul": lambda x, w: (x @ w.t()).exp().sum(),
    "views": lambda x, w: (x.t()[1:].reshape(-1)[::2] * 3 + w[0, 0]).relu().sum(),
    "reductions": lambda x, w: (x.mean(0) * w.sum(0)).sum() + x.max(1)[0].sum() + x.max(),
    "broadcasting": lambda x, w: (x.unsqueeze(0) * w.unsqueeze(1)).tanh().mean(),
    "formulas": lambda x, w: F.silu(x).sum() + F.softplus(w).sum() + F.elu(x).sum(),
    "powers": lambda x, w: ((x * x + 1) ** 1.5 / (1 + w.abs())[:1]).sum(),
    "trigonometry": lambda x, w: (x.sin() * x.cos()).sum() + (w.abs() + 1).sqrt().log1p().sum() + w.expm1().sum(),
    "normalised": lambda x, w: (x.softmax(1) * w[:1] + x.log_softmax(0)).sum(),
    "gather": lambda x, w: (x[[0, 2, 0]] * w[1, 2]).sum() + tp.cat([x[:1], w]).square().sum(),
    "where": lambda x, w: tp.where(x > 0, x * 2, x.sigmoid()).sum() + tp.maximum(w, w * 2).sum(),
    "cross_entropy": lambda x, w: F.cross_entropy(F.linear(x, w), tp.tensor([0, 1, 1, 0], device=x.device)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, rng):
    arrays = rng.normal(size=(4, 5)).astype("float32"), rng.normal(size=(2, 5)).astype("float32")
    found = {}
    for device, dtype in (("cpu", tp.float64), ("vulkan", tp.float32)):
        x, w = (tp.tensor(array, dtype=dtype, device=device, requires_grad=True) for array in arrays)
        value = FUNCTIONS[name](x, w)
        value.backward()
        zero = np.zeros(1)
        found[device] = [
            value.detach().cpu().numpy(),
            *(zero if t.grad is None else t.grad.cpu().numpy() for t in (x, w)),
        ]
    for ours, exact in zip(found["vulkan"], found["cpu"], strict=True):
        assert np.abs(ours - exact).max() <= 4e-6 * max(1.0, np.abs(exact).max())


def test_a_gradient_of_a_gradient():
    x = tp.tensor([0.5, -1.0], device="vulkan", requires_grad=True)
    (first,) = tp.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
    (second,) = tp.autograd.grad(first.sum(), x)
    exact = np.exp([0.5, -1.0]) * (np.array([0.5, -1.0]) + 2)
    assert np.abs(second.cpu().numpy() - exact).max() < 1e-5


def test_the_demo_learns():
    from rich.console import Console

    from tensorplay.demo.show import run

    result = run("vulkan", epochs=4, console=Console(file=io.StringIO()))
    assert result["accuracy"] >= 0.96
    ran = {(row["key"], row.get("distribution")) for row in result["road"]}
    assert ("Vulkan", "tensorplay-vulkan") in ran
