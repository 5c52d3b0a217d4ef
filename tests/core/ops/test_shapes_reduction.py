"""What norms, sorts, searches and counts refuse, before a kernel runs, with the choices there are."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp

X = tp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tp.topk(X, 4), tp.ShapeError, "k is 4, and dim -1 .* has 3 elements\nfix: k from 0 to 3"),
        (lambda: tp.topk(X, 1, 2), tp.DimError, "expected to be in range of"),
        (lambda: tp.kthvalue(X, 0), tp.ShapeError, "k from 1 to 3"),
        (lambda: tp.sort(X, 2), tp.DimError, "expected to be in range of"),
        (lambda: tp.norm(tp.zeros(0, 3), math.inf, 0), tp.ShapeError, "no elements have no norm of order inf"),
        (lambda: tp.norm(X, 2, (0, 0)), tp.ShapeError, "appears multiple times"),
        (lambda: tp.norm(X, "nuc"), tp.ArgumentError, "a number or 'fro'"),
        (lambda: tp.searchsorted(tp.tensor(1.0), X), tp.ShapeError, "needs a dim"),
        (lambda: tp.searchsorted(tp.zeros(3, 2), X), tp.ShapeError, r"serves values of shape \(3, 'n'\)"),
        (lambda: tp.searchsorted(X[0], X, side="middle"), tp.ValueRangeError, "'left' or 'right'"),
        (lambda: tp.searchsorted(X[0], X, side="left", right=True), tp.ValueRangeError, "contradict"),
        (lambda: tp.searchsorted(X[0], X, sorter=tp.tensor([0, 1])), tp.ShapeError, "sorter has shape"),
        (lambda: tp.searchsorted(X[0], X, sorter=tp.tensor([0, 1, 7])), tp.ValueRangeError, "out of range"),
        (lambda: tp.bucketize(X, X), tp.ShapeError, "must have one dim"),
        (lambda: tp.bincount(X), tp.DimError, "one dim"),
        (lambda: tp.bincount(X[0]), tp.DTypeError, "counts integers"),
        (lambda: tp.bincount(tp.tensor([1]), None, -1), tp.ValueRangeError, "must not be negative"),
        (lambda: tp.quantile(X, 1.5), tp.ValueRangeError, "between 0 and 1"),
        (lambda: tp.quantile(X, 0.5, interpolation="cubic"), tp.ValueRangeError, "interpolation must be one of"),
        (lambda: tp.diff(tp.tensor(1.0)), tp.ShapeError, "one dim or more"),
        (lambda: tp.median(tp.zeros(0, 3), 0), tp.DimError, "non-zero size"),
        (lambda: tp.amin(tp.zeros(0, 3), 0), tp.DimError, "non-zero size"),
        (lambda: tp.var(tp.tensor([1, 2])), tp.DTypeError, "only floating and complex"),
        (lambda: tp.max(X, "rows"), tp.ArgumentError, "no overload takes"),
    ],
)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_any_and_all_reduce_no_dim_when_none_is_named():
    x = tp.tensor([[0, 2], [1, 1]])
    assert tp.any(x, dim=()).tolist() == [[False, True], [True, True]]
    assert tp.all(x, ()).tolist() == [[False, True], [True, True]]
    assert tp.sum(x, ()).item() == 4


def test_results_have_names_also_where_they_are_composed():
    values, indices = tp.kthvalue(X, 2)
    found = tp.kthvalue(X, 2)
    assert found.values.tolist() == values.tolist()
    assert found.indices.tolist() == indices.tolist()
    assert tp.aminmax(X).max.item() == 6
    assert tp.median(X, 1).indices.tolist() == [1, 1]


def test_max_and_min_of_two_tensors():
    a, b = tp.tensor([1.0, 5.0]), tp.tensor([3.0, math.nan])
    assert repr(tp.max(a, b).tolist()) == "[3.0, nan]"
    assert tp.min(a, tp.tensor(2.0)).tolist() == [1.0, 2.0]
