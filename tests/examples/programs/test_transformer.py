from __future__ import annotations

from math import log

import pytest

import tensorplay as tp

KIND = {"dtype": tp.float64, "device": "cpu"}


def test_no_letter_sees_those_after_it(load) -> None:
    program = load("transformer")
    p = program.start(7, KIND)
    text = tp.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 6, 0]])
    logits = program.model(p, text)
    assert logits.shape == (2, 5, 7)
    assert logits[0, :3].tolist() == logits[1, :3].tolist()
    assert logits[0, 3].tolist() != logits[1, 3].tolist()


def test_letters_that_are_all_the_same_to_the_model_surprise_equally(load) -> None:
    program = load("transformer")
    p = program.start(7, KIND)
    with tp.no_grad():
        p["letters"].zero_()
    assert program.loss_of(p, tp.tensor([[0, 1, 2, 3]])).item() == pytest.approx(log(7), rel=1e-15)


def test_windows_start_where_they_should(load) -> None:
    found = load("transformer").windows(tp.arange(200), tp.tensor([0, 100]))
    assert found[:, 0].tolist() == [0, 100]
    assert found[1].tolist() == list(range(100, 165))


def test_what_is_written_goes_on_from_the_text(load) -> None:
    program = load("transformer")
    tp.manual_seed(0)
    p = program.start(30, KIND)
    text = tp.tensor([[1, 2, 3], [4, 5, 6]])
    written, surprises = program.write(p, text, 5)
    assert written.shape == (2, 8)
    assert written[:, :3].tolist() == text.tolist()
    # Each is as surprising as the model says, read again from the beginning.
    logits = tp.log_softmax(program.model(p, written[:, :-1]), dim=-1)[:, 2:]
    again = -logits.gather(2, written[:, 3:].unsqueeze(2)).squeeze(2)
    assert (surprises - again).abs().max().item() < 1e-12


def test_values(finds_what_torch_found) -> None:
    finds_what_torch_found("transformer", text=True)
