"""References of the reductions: sums, means and largest elements.

Half precisions accumulate in float32 and round once, so a sum of halves is allowed float32's errors and one rounding: a
kernel that accumulates in half precision is found. NaN wins every comparison, and of equal elements the first is meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.testing.references.array import Array, Shape, places, strides_of
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, round_to
from tensorplay_core.testing.references.sums import slack_of, total
from tensorplay_core.testing.references.views import dim_of, dims_of
from tensorplay_core.types.dtype import by_name


def groups(self: Array, dims: list[int]) -> list[list[Any]]:
    """Returns the elements along some dims, one list for each place of the other dims in C order."""
    strides, data = strides_of(self.shape), self.data
    others = [d for d in range(self.ndim) if d not in dims]
    offsets = list(places([self.shape[d] for d in dims], [strides[d] for d in dims]))
    starts = places([self.shape[d] for d in others], [strides[d] for d in others])
    return [[data[start + offset] for offset in offsets] for start in starts]


def reduced(shape: Shape, dims: list[int], keepdim: bool) -> Shape:
    """Returns a shape without some dims, or with 1 in their places."""
    return tuple(1 if d in dims else size for d, size in enumerate(shape) if keepdim or d not in dims)


def sum(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Array:
    """The sum; of bool and integers in int64 unless ``dtype`` is given."""
    self = self if dtype is None else self.cast(dtype)
    dims = dims_of(dim, self.ndim)
    rows, shape = groups(self, dims), reduced(self.shape, dims, keepdim)
    if not by_name(self.dtype).is_inexact:
        wide = round_to([total([int(x) for x in row]) for row in rows], "int64")
        return Array(shape, wide, "int64").cast(dtype or "int64")
    form = accumulator_of(self.dtype)
    zero = 0j if by_name(self.dtype).is_complex else 0.0
    data = [total(row) if row else zero for row in rows]
    return Array(shape, data, self.dtype, [slack_of(row, form) for row in rows])


def mean(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Array:
    """The sum divided by the number of elements; NaN of none."""
    self = self if dtype is None else self.cast(dtype)
    if not by_name(self.dtype).is_inexact:
        raise TypeError(f"integers have no mean, and the dtype is {self.dtype}")
    sums = sum(self, dim, keepdim)
    count = math.prod(self.shape[d] for d in dims_of(dim, self.ndim))
    assert sums.slack is not None
    if not count:
        nothing = complex(math.nan, math.nan) if by_name(self.dtype).is_complex else math.nan
        return Array(sums.shape, [nothing] * len(sums.data), self.dtype)
    return Array(sums.shape, [x / count for x in sums.data], self.dtype, [s / count for s in sums.slack])


def first_largest(row: list[Any]) -> int:
    """Returns where the first NaN is, else where the largest element is first."""
    best = 0
    for place, value in enumerate(row):
        if value != value:
            return place
        if value > row[best]:
            best = place
    return best


def _checked(self: Array, row: list[Any]) -> list[Any]:
    if by_name(self.dtype).is_complex:
        raise TypeError("complex numbers have no order")
    if not row:
        raise ValueError("nothing is the largest of nothing")
    return row


def max(self: Array) -> Array:
    """The largest element, NaN if any is."""
    row = _checked(self, self.data)
    return Array((), [row[first_largest(row)]], self.dtype)


def max_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The largest element along a dim, and the place of its first occurrence."""
    dims = [dim_of(dim, self.ndim)] if self.ndim else []
    shape = reduced(self.shape, dims, keepdim)
    rows = [_checked(self, row) for row in groups(self, dims)]
    found = [first_largest(row) for row in rows]
    values = [row[place] for row, place in zip(rows, found, strict=True)]
    return Array(shape, values, self.dtype), Array(shape, found, "int64")


def argmax(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The place of the first largest element along a dim, or in C order."""
    if dim is None:
        shape = (1,) * self.ndim if keepdim else ()
        return Array(shape, [first_largest(_checked(self, self.data))], "int64")
    return max_dim(self, dim, keepdim)[1]


_FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, float]]] = {
    "sum": (sum, budget(1)),
    "mean": (mean, budget(2)),
    "max": (max, {}),
    "max.dim": (max_dim, {}),
    "argmax": (argmax, {}),
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, ulps) for name, (fn, ulps) in _FUNCTIONS.items()}
