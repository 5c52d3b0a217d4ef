"""Results of operators under vmap are of the classes that they have without it."""

from __future__ import annotations

import pytest

import tensorplay as tp

X = tp.tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.max(0),
        lambda x: x.topk(2),
        lambda x: x.sort(),
        lambda x: tp.linalg.slogdet(x.reshape(1, 3).T @ x.reshape(1, 3) + tp.eye(3)),
    ],
)
def test_several_results_have_their_names(call):
    alone = call(X[0])

    def first(x):
        found = call(x)
        assert found._fields == alone._fields and type(found) is type(alone)
        return getattr(found, alone._fields[0])

    assert tp.allclose(tp.vmap(first)(X), tp.stack([call(x)[0] for x in X]))
    assert tp.allclose(tp.vmap(lambda x: first(tp.tensor([3.0, 1.0, 2.0])) + 0 * x.sum())(X)[1], alone[0])
