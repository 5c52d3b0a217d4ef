from __future__ import annotations

import pytest

import tensorplay as tp

KIND = {"dtype": tp.float64, "device": "cpu"}


def test_gram(load) -> None:
    maps = tp.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=tp.float64)
    assert load("style").gram(maps).tolist() == [[2.5, 5.5], [5.5, 12.5]]


def test_filters_do_not_see_an_even_surface(load) -> None:
    program = load("style")
    bank = program.filters(KIND)
    assert [f.shape for f in bank] == [(24, 3, size, size) for size in program.SIZES]
    maps = program.features(tp.full((1, 3, 64, 64), 0.5, **KIND), bank)
    assert [m.shape for m in maps] == [(75, 4096), (75, 1024), (75, 256)]
    assert maps[0][:72].abs().max().item() < 1e-12
    assert maps[0][72:].tolist() == [[0.5] * 4096] * 3


def test_a_picture_is_like_itself(load) -> None:
    program = load("style")
    bank = program.filters(KIND)
    image = tp.rand(1, 3, 64, 64, dtype=tp.float64)
    maps = program.features(image, bank)
    place, style = program.losses(image, bank, maps[1], [program.gram(m) for m in maps])
    assert (place.item(), style.item()) == (0.0, 0.0)


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    pytest.importorskip("skimage", reason="scikit-image is not installed: pip install --group programs")
    finds_what_torch_found("style")
