"""The references of statistics, scans and sorting give what can be said by hand."""

from __future__ import annotations

import math

import pytest

from tensorplay_core.testing.references import UNSPECIFIED, Array, reference


def result(name, *args, **kwargs):
    found = reference(name)(*args, **kwargs)
    return found[0].tolist() if len(found) == 1 else [one.tolist() for one in found]


X = Array.of([[3.0, 1.0, 2.0], [4.0, 6.0, 4.0]], "float32")


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("prod", (X, 1), [6.0, 96.0]),
        ("any", (X, ()), [[True] * 3] * 2),
        ("count_nonzero", (Array.of([0, 2, 0], "int64"),), 1),
        ("nanmean", (Array.of([1.0, math.nan, 3.0], "float32"),), 2.0),
        ("min.dim", (X, 1), [[1.0, 4.0], [1, 0]]),
        ("amax", (X, (0, 1)), 6.0),
        ("median", (X,), 3.0),
        ("norm", (X, math.inf, 1), [3.0, 6.0]),
        ("norm", (Array.of([3.0, -4.0], "float64"),), 5.0),
        ("logsumexp", (Array.of([-math.inf, -math.inf], "float32"), 0), -math.inf),
        ("cumsum", (X, 1), [[3.0, 4.0, 6.0], [4.0, 10.0, 14.0]]),
        ("cumprod", (X, 0), [[3.0, 1.0, 2.0], [12.0, 6.0, 8.0]]),
        ("cummax", (X, 1), [[[3.0, 3.0, 3.0], [4.0, 6.0, 6.0]], [[0, 0, 0], [0, 1, 1]]]),
        ("cummin", (X, 1), [[[3.0, 1.0, 1.0], [4.0, 4.0, 4.0]], [[0, 1, 1], [0, 0, 2]]]),
        ("diff", (X, 2), [[3.0], [-4.0]]),
        ("sort", (X, 1), [[[1.0, 2.0, 3.0], [4.0, 4.0, 6.0]], [[1, 2, 0], [0, 2, 1]]]),
        ("topk", (X, 2, 1), [[[3.0, 2.0], [6.0, 4.0]], [[0, 2], [1, 0]]]),
        ("kthvalue", (X, 3), [[3.0, 6.0], [0, 1]]),
        ("median.dim", (X, 1), [[2.0, 4.0], [2, 2]]),
        ("searchsorted.Tensor", (Array.of([1, 3, 3], "int64"), Array.of([3, 4], "int64")), [1, 3]),
        ("searchsorted.Tensor", (Array.of([3, 1], "int64"), Array.of([2], "int64")), [UNSPECIFIED]),
        ("bincount", (Array.of([0, 2, 2], "int64"),), [1, 0, 2]),
        ("quantile.scalar", (Array.of([0.0, 1.0, 2.0, 4.0], "float64"), 0.25), 0.75),
    ],
)
def test_values(name, args, expected):
    assert result(name, *args) == expected


def test_variances():
    assert result("var.correction", X, 1) == pytest.approx([1.0, 4 / 3], rel=1e-15)
    assert result("std.correction", X, 1, correction=1) == pytest.approx([1.0, math.sqrt(4 / 3)], rel=1e-15)
    assert math.isnan(result("var", Array.of([1.0], "float32")))


def test_nan_is_the_largest_and_stays_the_extreme():
    x = Array.of([1.0, math.nan, 0.0], "float32")
    assert result("sort", x, 0, True)[1] == [1, 0, 2]
    assert result("argmin", x) == 1
    assert result("cummin", x, 0)[1] == [0, 1, 1]


def test_running_sums_do_not_lose_what_cancels():
    assert result("cumsum", Array.of([1e16, 1.0, -1e16], "float64"), 0)[-1] == 1.0
