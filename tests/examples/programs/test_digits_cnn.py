from __future__ import annotations

from math import log

import pytest

import tensorplay as tp
import tensorplay.nn.functional as F

KIND = {"dtype": tp.float64, "device": "cpu"}


def test_a_network_that_has_learnt_nothing_gives_every_digit_a_tenth(load) -> None:
    program = load("digits_cnn")
    p, running = program.start(KIND)
    p["weight"] = tp.zeros(10, 128, dtype=tp.float64)
    images = tp.ones(4, 1, 8, 8, dtype=tp.float64)
    logits = program.network(p, running, images, training=True, dropout=0.5)
    assert F.cross_entropy(logits, tp.tensor([0, 3, 7, 9])).item() == pytest.approx(log(10), rel=1e-15)


def test_dropout_takes_nothing_away_from_a_trained_network(load) -> None:
    program = load("digits_cnn")
    p, running = program.start(KIND)
    images = tp.arange(128, dtype=tp.float64).view(2, 1, 8, 8) / 128
    one, other = (program.network(p, running, images, training=False, dropout=d) for d in (0.0, 0.9))
    assert one.tolist() == other.tolist()


def test_training_moves_the_running_statistics_in_place(load) -> None:
    program = load("digits_cnn")
    p, running = program.start(KIND)
    images = tp.arange(128, dtype=tp.float64).view(2, 1, 8, 8) / 128
    program.network(p, running, images, training=True)
    assert running[1][0].abs().max().item() > 0
    assert running[1][1].tolist() != [1.0] * 16


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install --group programs")
    assert finds_what_torch_found("digits_cnn")["test accuracy, %"] > 80
