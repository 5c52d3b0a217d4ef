from __future__ import annotations

import itertools
from math import cos, pi

import pytest

import tensorplay as tp

KIND = {"dtype": tp.float64, "device": "cpu"}


def test_the_signal_goes_from_all_to_nothing(load) -> None:
    left = load("diffusion").schedule(KIND).tolist()
    assert len(left) == 100
    assert all(later < earlier for earlier, later in itertools.pairwise(left))
    assert 0.999 < left[0] < 1
    assert 0 < left[-1] < 1e-5
    # In the middle no variance is clamped, and the product telescopes.
    assert left[49] == pytest.approx(cos(0.508 / 1.008 * pi / 2) ** 2 / cos(0.008 / 1.008 * pi / 2) ** 2, rel=1e-12)


def test_energy_distance(load) -> None:
    distance = load("diffusion").energy_distance
    a, b = tp.zeros(3, 2, dtype=tp.float64), tp.tensor([[3.0, 4.0]], dtype=tp.float64)
    assert distance(a, b).item() == pytest.approx(10.0)
    assert distance(a, a).item() == 0.0


def test_a_network_without_weights_sees_no_noise(load) -> None:
    program = load("diffusion")
    p = {name: tp.zeros_like(value) for name, value in program.start(KIND).items()}
    found = program.noise_in(p, tp.ones(3, 2, dtype=tp.float64), tp.tensor([0, 50, 99]))
    assert found.tolist() == [[0.0, 0.0]] * 3


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    pytest.importorskip("skimage", reason="scikit-image is not installed: pip install --group programs")
    finds_what_torch_found("diffusion")
