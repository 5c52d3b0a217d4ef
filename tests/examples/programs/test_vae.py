from __future__ import annotations

from math import log

import pytest

import tensorplay as tp

KIND = {"dtype": tp.float64, "device": "cpu"}


def test_the_bound_of_a_network_without_weights(load) -> None:
    """The code's distribution is the prior, so they do not diverge; each of 64 pixels is a coin."""
    program = load("vae")
    p = {name: tp.zeros_like(value) for name, value in program.start(KIND).items()}
    pictures = tp.arange(128, dtype=tp.float64).view(2, 64) / 128
    noise = tp.ones(2, program.LATENT, dtype=tp.float64)
    reconstruction, divergence = program.bound(p, pictures, noise)
    assert reconstruction.item() == pytest.approx(64 * log(2), rel=1e-14)
    assert divergence.item() == 0.0


def test_the_divergence_of_a_normal(load) -> None:
    """Of a mean of 3 and a variance of e in each of eight dimensions: 8 * (9 + e - 1 - 1) / 2."""
    program = load("vae")
    p = {name: tp.zeros_like(value) for name, value in program.start(KIND).items()}
    p["enc2_bias"] = tp.tensor([3.0] * 8 + [1.0] * 8, dtype=tp.float64)
    _, divergence = program.bound(p, tp.zeros(1, 64, dtype=tp.float64), tp.zeros(1, 8, dtype=tp.float64))
    assert divergence.item() == pytest.approx(4 * (7 + 2.718281828459045), rel=1e-14)


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install --group programs")
    finds_what_torch_found("vae")
