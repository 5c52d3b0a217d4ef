"""Rules that programs register: what they return is checked, and what they cannot be told is refused."""

from __future__ import annotations

import pytest

import tensorplay as tp
from tensorplay_core.errors import TransformError

X = tp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def doubled(rule):
    @tp.library.custom_op("t::doubled", mutates_args=())
    def doubled(x: tp.Tensor) -> tp.Tensor:
        return x * 2

    doubled.register_vmap(rule)
    return tp.vmap(doubled)(X)


@pytest.mark.parametrize("dim", [0, -2])
def test_a_dim_is_where_the_batch_is(dim):
    assert doubled(lambda info, in_dims, x: (x * 2, dim)).tolist() == (X * 2).tolist()


def test_a_batch_that_lies_elsewhere():
    assert doubled(lambda info, in_dims, x: (x.T * 2, 1)).tolist() == (X * 2).tolist()


@pytest.mark.parametrize(
    "rule",
    [
        lambda info, in_dims, x: (x * 2, 2),
        lambda info, in_dims, x: (x * 2, -3),
        lambda info, in_dims, x: (x * 2, 1),
        lambda info, in_dims, x: (x.T * 2, True),
        lambda info, in_dims, x: (x.sum(), 0),
        lambda info, in_dims, x: (x * 2, "0"),
    ],
)
def test_a_dim_where_no_batch_lies_is_refused(rule):
    with pytest.raises(TransformError, match=r"(?s)rule of .*doubled .*out_dim=.*no batch of 2 lies.*fix: "):
        doubled(rule)


def test_a_keyword_only_tensor_cannot_be_batched():
    @tp.library.custom_op("t::scaled", mutates_args=())
    def scaled(x: tp.Tensor, *, by: tp.Tensor) -> tp.Tensor:
        return x * by

    scaled.register_vmap(lambda info, in_dims, x, *, by: (x * by, in_dims[0]))
    weights = tp.tensor([1.0, 10.0, 100.0])
    assert tp.vmap(lambda x: scaled(x, by=weights))(X).tolist() == (X * weights).tolist()
    with pytest.raises(TransformError, match=r"(?s)scaled: a keyword-only tensor is batched.*fix: .*positional"):
        tp.vmap(lambda x, by: scaled(x, by=by))(X, X)
