from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations, product

import pytest

import tensorplay as tp

SIZE, LENGTH = 5, 3


@pytest.fixture
def table() -> tp.Tensor:
    tp.manual_seed(0)
    return tp.log_softmax(3 * tp.randn(SIZE, SIZE, dtype=tp.float64), dim=1)


def score(table: tp.Tensor, sentence: Sequence[int]) -> float:
    rows = table.tolist()
    return sum(rows[a][b] for a, b in pairwise(sentence))


def test_a_wide_beam_finds_the_best_of_all(load, table: tp.Tensor) -> None:
    """Kept whole, the beam is an exhaustive search; Viterbi's dynamic programming is another way to the same number."""
    program = load("beam_search")
    every = sorted(((score(table, (2, *s)), (2, *s)) for s in product(range(SIZE), repeat=LENGTH)), reverse=True)
    sentences, scores = program.beam_search(table, tp.tensor([2, 0]), SIZE**2, LENGTH, repeat=True)
    assert sentences.shape == (2, SIZE**2, LENGTH + 1)
    assert tuple(sentences[0, 0].tolist()) == every[0][1]
    assert scores[0].tolist() == pytest.approx([s for s, _ in every[: SIZE**2]], rel=1e-12)
    assert [score(table, s) for s in sentences[0].tolist()] == pytest.approx(scores[0].tolist(), rel=1e-12)
    assert program.viterbi(table, tp.tensor([2]), LENGTH).item() == pytest.approx(every[0][0], rel=1e-12)


def test_no_word_twice(load, table: tp.Tensor) -> None:
    others = [n for n in range(SIZE) if n != 2]
    best = max(score(table, (2, *s)) for s in permutations(others, LENGTH))
    sentences, scores = load("beam_search").beam_search(table, tp.tensor([2]), SIZE**2, LENGTH, repeat=False)
    assert scores[0, 0].item() == pytest.approx(best, rel=1e-12)
    allowed = sentences[0][scores[0].isfinite()].tolist()
    assert len(allowed) == len(list(permutations(others, LENGTH)))
    assert all(len(set(sentence)) == LENGTH + 1 for sentence in allowed)


def test_probabilities(load) -> None:
    """Of the text 1 2 1 2 2: after 1 there is 2 twice; after 2, 1 and 2 once each; 2 is three words of five."""
    table = load("beam_search").log_probabilities(
        tp.tensor([1, 2, 1, 2, 2]), 3, {"dtype": tp.float64, "device": "cpu"}, share=0.5
    )
    found = table.exp().tolist()
    assert found[1] == pytest.approx([0.0, 0.5 * 0.0 + 0.5 * 0.4, 0.5 * 1.0 + 0.5 * 0.6], abs=1e-15)
    assert found[2] == pytest.approx([0.0, 0.5 * 0.5 + 0.5 * 0.4, 0.5 * 0.5 + 0.5 * 0.6], abs=1e-15)


def test_values(finds_what_torch_found) -> None:
    found = finds_what_torch_found("beam_search", text=True)
    assert found["what the widest beam misses"] < found["what a beam of 1 misses"]
