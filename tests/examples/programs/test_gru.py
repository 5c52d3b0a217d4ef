from __future__ import annotations

import pytest

import tensorplay as tp

KIND = {"dtype": tp.float64, "device": "cpu"}


def zeros(program, letters: int = 5) -> dict[str, tp.Tensor]:
    return {name: tp.zeros_like(value) for name, value in program.start(letters, KIND).items()}


def test_without_weights_the_state_halves(load) -> None:
    """Both gates are 1/2 and what is new is 0: h' = (1 - 1/2) * 0 + 1/2 * h."""
    program = load("gru")
    h = tp.ones(2, program.HIDDEN, dtype=tp.float64)
    logits, last = program.run(zeros(program), tp.zeros(2, 3, dtype=tp.int64), h)
    assert logits.tolist() == [[[0.0] * 5] * 3] * 2
    assert last.tolist() == [[0.125] * program.HIDDEN] * 2


def test_an_open_update_gate_keeps_the_state(load) -> None:
    program = load("gru")
    p = zeros(program)
    p["input_bias"][program.HIDDEN : 2 * program.HIDDEN] = 50.0
    h = tp.arange(program.HIDDEN, dtype=tp.float64)[None]
    _, last = program.run(p, tp.zeros(1, 4, dtype=tp.int64), h)
    assert last[0].tolist() == pytest.approx(h[0].tolist(), rel=1e-15)


def test_what_is_written_is_the_same_each_time(load) -> None:
    program = load("gru")
    p = program.start(9, KIND)
    written, likelihood = program.write(p, tp.tensor([[1, 2, 3]]), 20)
    assert (written, likelihood) == program.write(p, tp.tensor([[1, 2, 3]]), 20)
    assert len(set(written)) > 1


def test_values(finds_what_torch_found) -> None:
    finds_what_torch_found("gru", text=True)
