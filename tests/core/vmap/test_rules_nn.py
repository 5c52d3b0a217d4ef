"""Batching rules of networks: what a call without vmap refuses is refused with the same words."""

from __future__ import annotations

import pytest

import tensorplay as tp

TABLES = tp.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("places", [[[3], [0]], [[0], [-1]], [[0], [6]], [[-3], [0]]])
def test_rows_of_other_tables_are_out_of_range(places):
    look_up = lambda w, i: tp.nn.functional.embedding(i, w)  # noqa: E731
    with pytest.raises(tp.errors.DimError, match="embedding") as alone:
        for w, i in zip(TABLES, tp.tensor(places), strict=True):
            look_up(w, i)
    with pytest.raises(tp.errors.DimError) as together:
        tp.vmap(look_up)(TABLES, tp.tensor(places))
    assert str(together.value) == str(alone.value)


def test_every_row_of_every_table():
    found = tp.vmap(lambda w, i: tp.nn.functional.embedding(i, w))(TABLES, tp.tensor([[0, 2], [2, 1]]))
    assert found.tolist() == [[TABLES[b, i].tolist() for i in row] for b, row in enumerate([[0, 2], [2, 1]])]
