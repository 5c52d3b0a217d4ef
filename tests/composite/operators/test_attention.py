"""Embeddings, one-hot classes, attention and dropout by hand, with their gradients, seeds and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError, DimError, DTypeError, ShapeError, ValueRangeError

F = tp.nn.functional


# ----------------------------------------------------------------------------------------------------------- embeddings


def test_the_gradient_of_an_embedding_counts_rows():
    weight = tp.tensor(np.arange(8.0).reshape(4, 2), requires_grad=True)
    indices = tp.tensor([[1, 3], [1, 1]])
    out = F.embedding(indices, weight)
    assert out.tolist() == [[[2.0, 3.0], [6.0, 7.0]], [[2.0, 3.0], [2.0, 3.0]]]
    out.sum().backward()
    assert weight.grad.tolist() == [[0.0, 0.0], [3.0, 3.0], [0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(("options", "grad"), [
    ({"padding_idx": 1}, [0.0, 0.0, 0.0, 1.0]),
    ({"padding_idx": -3}, [0.0, 0.0, 0.0, 1.0]),
    ({"scale_grad_by_freq": True}, [0.0, 1.0, 0.0, 1.0]),
    ({"padding_idx": 3, "scale_grad_by_freq": True}, [0.0, 1.0, 0.0, 0.0]),
])  # fmt: skip
def test_padding_and_counts(options, grad):
    weight = tp.ones(4, 1, requires_grad=True)
    F.embedding(tp.tensor([1, 3, 1, 1]), weight, **options).sum().backward()
    assert weight.grad.reshape(4).tolist() == grad


def test_many_rows_against_add_at():
    rng = np.random.default_rng(0)
    indices, grad = rng.integers(0, 50, (40, 30)), rng.normal(size=(40, 30, 8))
    weight = tp.zeros(50, 8, dtype=tp.float64, requires_grad=True)
    F.embedding(tp.tensor(indices), weight).backward(tp.tensor(grad))
    exact = np.zeros((50, 8))
    np.add.at(exact, indices, grad)
    np.testing.assert_allclose(weight.grad.numpy(), exact, atol=1e-12)


def test_max_norm_shortens_the_rows_that_are_read():
    weight = tp.tensor([[3.0, 4.0], [30.0, 40.0], [0.3, 0.4]])
    F.embedding(tp.tensor([0, 2]), weight, max_norm=1.0)
    np.testing.assert_allclose(weight.tolist(), [[0.6, 0.8], [30.0, 40.0], [0.3, 0.4]], rtol=1e-6)
    F.embedding(tp.tensor([1, 1]), weight, max_norm=7.0, norm_type=1.0)
    np.testing.assert_allclose(weight.tolist()[1], [3.0, 4.0], rtol=1e-6)


def test_one_hot():
    assert F.one_hot(tp.tensor([[2], [0]])).tolist() == [[[0, 0, 1]], [[1, 0, 0]]]
    assert F.one_hot(tp.tensor(1), 3).tolist() == [0, 1, 0]
    assert F.one_hot(tp.tensor([0], dtype=tp.uint8), 2).dtype is tp.int64


# ------------------------------------------------------------------------------------------------------------ attention


def test_attention_is_an_average_of_the_values():
    q, k = tp.zeros(2, 3), tp.zeros(4, 3)
    v = tp.tensor([[0.0], [2.0], [4.0], [6.0]])
    assert F.scaled_dot_product_attention(q, k, v).tolist() == [[3.0], [3.0]]
    assert F.scaled_dot_product_attention(q, k, v, is_causal=True).tolist() == [[0.0], [1.0]]
    mask = tp.tensor([[True, False, False, True], [False, False, True, False]])
    assert F.scaled_dot_product_attention(q, k, v, mask).tolist() == [[3.0], [4.0]]
    added = tp.tensor([[0.0, -math.inf, -math.inf, 0.0], [0.0, 0.0, 1000.0, 0.0]])
    assert F.scaled_dot_product_attention(q, k, v, added).tolist() == [[3.0], [4.0]]


def test_a_row_that_looks_nowhere_is_0_and_so_is_its_gradient():
    q = tp.ones(2, 3, requires_grad=True)
    k, v = tp.ones(4, 3, requires_grad=True), tp.ones(4, 2, requires_grad=True)
    for mask in (tp.tensor([[True] * 4, [False] * 4]), tp.tensor([[0.0] * 4, [-math.inf] * 4])):
        out = F.scaled_dot_product_attention(q, k, v, mask)
        assert out.tolist() == [[1.0, 1.0], [0.0, 0.0]]
        for g in tp.autograd.grad(out.sum(), (q, k, v)):
            assert not np.isnan(g.numpy()).any()
            assert g.tolist()[0] == g.tolist()[0]


def test_shared_heads_are_those_that_are_repeated():
    rng = np.random.default_rng(0)
    q, k, v = (tp.tensor(rng.normal(size=(2, heads, 5, 4))) for heads in (6, 2, 3))
    found = F.scaled_dot_product_attention(q, k, v, enable_gqa=True).numpy()
    repeated = (tp.tensor(np.repeat(one.numpy(), n, 1)) for one, n in ((k, 3), (v, 2)))
    np.testing.assert_allclose(found, F.scaled_dot_product_attention(q, *repeated).numpy())


def test_attention_drops_weights():
    tp.manual_seed(0)
    q, v = tp.zeros(1, 2), tp.ones(1000, 1)
    found = F.scaled_dot_product_attention(q, tp.zeros(1000, 2), v, dropout_p=0.5).item()
    assert found != 1.0
    assert abs(found - 1) < 0.2


# -------------------------------------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("dtype", [tp.float16, tp.bfloat16, tp.float32, tp.float64, tp.complex64])
@pytest.mark.parametrize("size", [1000, 200_000])
def test_dropout_drops_a_share_and_scales_the_rest(dtype, size):
    tp.manual_seed(3)
    y = F.dropout(tp.ones(size, dtype=dtype), 0.25).to(tp.complex64 if dtype.is_complex else tp.float32).numpy()
    assert len(set(y.tolist())) == 2
    kept = y[y != 0]
    np.testing.assert_allclose(kept, 1 / 0.75, rtol=1e-2)
    assert abs(kept.size / size - 0.75) < 6 * math.sqrt(0.25 * 0.75 / size)


def test_a_seed_drops_the_same_elements_on_every_device_and_in_every_dtype():
    found = []
    for device in ("cpu", "loopback"):
        for dtype in (tp.float32, tp.float64, tp.float16):
            tp.manual_seed(7)
            found.append((F.dropout(tp.ones(70_000, dtype=dtype, device=device)).cpu().numpy() != 0).tolist())
    assert all(one == found[0] for one in found)
    tp.manual_seed(7)
    mask = (tp.rand(70_000) >= 0.5).tolist()
    assert found[0] == mask
    assert F.dropout(tp.ones(70_000)).tolist() != F.dropout(tp.ones(70_000)).tolist()


def test_the_gradient_goes_where_the_numbers_went():
    x = tp.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.3)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    (first,) = tp.autograd.grad((F.dropout(x * x, 0.5)).sum(), x, create_graph=True)
    first.sum().backward()


def test_dropout_at_its_ends():
    x = tp.tensor([1.0, 2.0])
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 0.9, training=False) is x
    assert F.dropout(x, 1.0).tolist() == [0.0, 0.0]
    assert F.dropout(tp.zeros(0)).shape == (0,)
    assert tp.native_dropout(x, 0.5, False)[1].tolist() == [True, True]


def test_dropout_in_place():
    x = tp.ones(100)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    y = tp.ones(2, 50, 3)
    assert F.dropout1d(y, 0.5, inplace=True) is y
    assert set(y.reshape(-1).tolist()) == {0.0, 2.0}
    z = tp.ones(500)
    assert F.alpha_dropout(z, 0.5, True, True) is z
    assert len(set(z.tolist())) == 2


@pytest.mark.parametrize(("function", "shape", "leading"), [
    (F.dropout1d, (3, 40, 5), 2), (F.dropout1d, (40, 5), 1), (F.dropout2d, (3, 40, 2, 2), 2),
    (F.dropout2d, (3, 40, 5), 2),
    (F.dropout3d, (3, 40, 1, 2, 2), 2), (F.dropout3d, (40, 1, 2, 2), 1),
])  # fmt: skip
def test_whole_channels_are_dropped(function, shape, leading):
    y = function(tp.ones(*shape)).numpy()
    flat = y.reshape(*shape[:leading], -1)
    assert (flat == flat[..., :1]).all()
    assert set(flat.reshape(-1).tolist()) == {0.0, 2.0}


def test_alpha_dropout_keeps_mean_and_variance():
    tp.manual_seed(0)
    x = tp.randn(200_000)
    y = F.alpha_dropout(x, 0.3, training=True).numpy()
    assert abs(y.mean()) < 0.02
    assert abs(y.var() - 1) < 0.02


REFUSED = [
    (ArgumentError, "sparse gradients are not supported",
     lambda: F.embedding(tp.tensor([0]), tp.ones(2, 2), sparse=True)),
    (ValueRangeError, "Padding_idx must be within", lambda: F.embedding(tp.tensor([0]), tp.ones(2, 2), padding_idx=2)),
    (DimError, "-1 is no row of 2", lambda: F.embedding(tp.tensor([-1]), tp.ones(2, 2))),
    (DimError, "2 is no row of 2", lambda: F.embedding(tp.tensor([0, 2]), tp.ones(2, 2))),
    (DTypeError, "indices are integers", lambda: F.embedding(tp.ones(1), tp.ones(2, 2))),
    (ShapeError, "'weight' must be 2-D", lambda: F.embedding(tp.tensor([0]), tp.ones(2))),
    (DTypeError, "classes are integers", lambda: F.one_hot(tp.ones(1))),
    (ValueRangeError, "smaller than num_classes, 2, and one is 2", lambda: F.one_hot(tp.tensor([2]), 2)),
    (ValueRangeError, "non-negative, and one is -3", lambda: F.one_hot(tp.tensor([0, -3]))),
    (ValueRangeError, "no class to tell it from", lambda: F.one_hot(tp.zeros(0, dtype=tp.int64))),
    (ShapeError, "one last size", lambda: F.scaled_dot_product_attention(tp.ones(2, 3), tp.ones(2, 4), tp.ones(2, 4))),
    (ShapeError, "of one length", lambda: F.scaled_dot_product_attention(tp.ones(2, 3), tp.ones(2, 3), tp.ones(3, 3))),
    (ShapeError, "2 dims or more", lambda: F.scaled_dot_product_attention(tp.ones(3), tp.ones(2, 3), tp.ones(2, 3))),
    (DTypeError, "one floating dtype",
     lambda: F.scaled_dot_product_attention(tp.ones(2, 3), tp.ones(2, 3), tp.ones(2, 3, dtype=tp.float64))),
    (ValueRangeError, "when is_causal=True",
     lambda: F.scaled_dot_product_attention(*[tp.ones(2, 2)] * 3, tp.ones(2, 2), is_causal=True)),
    (ShapeError, "multiple of those of key",
     lambda: F.scaled_dot_product_attention(tp.ones(3, 2, 2), *[tp.ones(2, 2, 2)] * 2, enable_gqa=True)),
    (ValueRangeError, "between 0 and 1, but got 1.5", lambda: F.dropout(tp.ones(2), 1.5)),
    (ValueRangeError, "between 0 and 1, but got nan", lambda: tp.native_dropout(tp.ones(2), math.nan, True)),
    (DTypeError, "takes floating dtypes, not int64", lambda: F.dropout(tp.tensor([1]))),
    (ShapeError, "takes an input of 2 or 3 dims", lambda: F.dropout1d(tp.ones(2))),
]  # fmt: skip


@pytest.mark.parametrize(("error", "match", "call"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(error, match, call):
    with pytest.raises(error, match="(?s)" + match):
        call()
