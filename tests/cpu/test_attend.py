"""Attention in blocks: whole matrices in one, rows of one in several, keys that causal blocks do not see."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp

F = tp.nn.functional
SIZES = [((2, 3), 5, 7), ((40,), 30, 40), ((2,), 250, 300), ((), 300, 250)]


def softmax_attention(q, k, v, mask, causal):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + (0 if mask is None else mask)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("batch", "length", "others"), SIZES)
def test_blocks_of_every_kind(batch, length, others, masked, causal):
    if masked and causal:
        pytest.skip("refused")
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(*batch, *size)) for size in ((length, 4), (others, 4), (others, 3)))
    mask = rng.normal(size=(*batch, 1, others)) * 100 if masked else None
    added = None if mask is None else tp.tensor(mask)
    found = F.scaled_dot_product_attention(*map(tp.tensor, (q, k, v)), added, 0.0, causal)
    np.testing.assert_allclose(found.numpy(), softmax_attention(q, k, v, mask, causal), atol=1e-12)


def test_gradients_over_several_blocks_are_slopes():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size) for size in ((2, 250, 4), (2, 250, 4), (2, 250, 3))]
    tensors = [tp.tensor(a, requires_grad=True) for a in arrays]
    weight = rng.normal(size=(2, 250, 3))
    (F.scaled_dot_product_attention(*tensors, is_causal=True) * tp.tensor(weight)).sum().backward()
    for n, tensor in enumerate(tensors):
        step = rng.normal(size=tensor.shape)
        ends = []
        for sign in (1, -1):
            moved = [a + sign * 1e-6 * step if i == n else a for i, a in enumerate(arrays)]
            ends.append((softmax_attention(*moved, None, True) * weight).sum())
        np.testing.assert_allclose((tensor.grad.numpy() * step).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


def test_scores_that_would_overflow():
    q = k = tp.tensor(np.eye(40, dtype="float32") * 1000).unsqueeze(0)
    v = tp.tensor(np.arange(40, dtype="float32").reshape(1, 40, 1))
    np.testing.assert_array_equal(F.scaled_dot_product_attention(q, k, v, scale=1.0).numpy(), v.numpy())
