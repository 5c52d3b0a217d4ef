from __future__ import annotations

import pytest

import tensorplay as tp

KIND = {"dtype": tp.float64, "device": "cpu"}


def test_the_body(load) -> None:
    program = load("springs")
    places, (a, b), rest = program.body(KIND)
    assert places.mean(dim=0).tolist() == pytest.approx([0.0, 0.0], abs=1e-15)
    # Across, up, and two diagonals in each of 15 squares.
    assert len(a) == len(b) == 5 * 4 + 6 * 3 + 2 * 15
    assert sorted({round(length, 12) for length in rest.flatten().tolist()}) == [0.15, round(0.15 * 2**0.5, 12)]


def test_springs_do_not_move_the_centre(load) -> None:
    """Without air, the centre of mass falls as a stone does: n steps of h make it v n h - g h² n (n + 1) / 2."""
    program = load("springs")
    places, ends, rest = program.body(KIND)
    tp.manual_seed(0)
    v = tp.randn(24, 2, dtype=tp.float64)
    path, _ = program.simulate(places, v, ends, rest, 30, drag=0.0)
    n, h, centre = 30, program.STEP, v.mean(dim=0).tolist()
    expected = [centre[0] * n * h, centre[1] * n * h - 9.81 * h * h * n * (n + 1) / 2]
    assert path[-1].mean(dim=0).tolist() == pytest.approx(expected, rel=1e-12)


def test_the_gradient_through_time(load) -> None:
    program = load("springs")
    places, ends, rest = program.body(KIND)
    v = tp.zeros(24, 2, dtype=tp.float64, requires_grad=True)

    def end(v: tp.Tensor) -> tp.Tensor:
        return program.simulate(places, v, ends, rest, 20)[0][-1, 0, 1]

    (gradient,) = tp.autograd.grad(end(v), v)
    for mass in (0, 7):
        with tp.no_grad():
            step = tp.zeros_like(v)
            step[mass, 1] = 1e-5
            slope = (end(v + step) - end(v - step)).item() / 2e-5
        assert gradient[mass, 1].item() == pytest.approx(slope, rel=1e-6, abs=1e-10)


def test_values(finds_what_torch_found) -> None:
    finds_what_torch_found("springs")
