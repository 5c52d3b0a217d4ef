from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp


def test_points_on_a_line_have_one_component(load) -> None:
    x = tp.tensor([[0.0, 1.0], [3.0, 5.0], [6.0, 9.0]], dtype=tp.float64)
    directions, share, mean = load("kmeans_pca").components(x, 1)
    assert directions[0].tolist() == pytest.approx([0.6, 0.8], rel=1e-14)
    assert share.tolist() == pytest.approx([1.0], rel=1e-14)
    assert mean.tolist() == [3.0, 5.0]


def test_two_heaps(load) -> None:
    x = tp.tensor([[0.0], [2.0], [10.0], [14.0]], dtype=tp.float64)
    centres, groups, spread = load("kmeans_pca").k_means(x, x[:2].clone())
    assert centres[:, 0].tolist() == [1.0, 12.0]
    assert groups.tolist() == [0, 0, 1, 1]
    assert spread == pytest.approx((1 + 1 + 4 + 4) / 4, rel=1e-14)


def test_starts_are_points_apart_from_each_other(load) -> None:
    """With as many heaps as groups, no heap is drawn twice: the distance to it is 0."""
    heaps = 100.0 * tp.arange(10, dtype=tp.float64)
    x = heaps.repeat_interleave(3)[:, None]
    found = load("kmeans_pca").plus_plus(x, np.random.default_rng(0))
    assert sorted(found[:, 0].tolist()) == heaps.tolist()


@pytest.mark.peers
def test_values(finds_what_torch_found) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install --group programs")
    finds_what_torch_found("kmeans_pca")
