"""References of sorting, selecting by order, searching and counting: Python's own stable sort, and counting.

NaN is the largest of all. Of equal elements each stays where it was among them, in a descending sort too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.testing.references.array import Array, places, strides_of
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import UNSPECIFIED, accumulator_of, round_to
from tensorplay_core.testing.references.sums import slack_of, total
from tensorplay_core.testing.references.views import dim_of
from tensorplay_core.types.dtype import by_name


def lines(self: Array, dim: int) -> list[list[int]]:
    """Returns the places in C order along a dim, one list for each place of the others; one element of a 0-d array."""
    if not self.ndim:
        dim_of(dim, 0)
        return [[0]]
    d, strides = dim_of(dim, self.ndim), strides_of(self.shape)
    others = [k for k in range(self.ndim) if k != d]
    starts = places([self.shape[k] for k in others], [strides[k] for k in others])
    return [[start + i * strides[d] for i in range(self.shape[d])] for start in starts]


def resized(self: Array, dim: int, size: int) -> tuple[int, ...]:
    """Returns a shape with another size of one dim."""
    if not self.ndim:
        return ()
    d = dim_of(dim, self.ndim)
    return (*self.shape[:d], size, *self.shape[d + 1 :])


def along(self: Array, dim: int, size: int, pick: Callable[[list[Any]], list[tuple[Any, int]]]) -> tuple[Array, Array]:
    """Returns values and indices along a dim, which ``pick`` gives for each line."""
    if by_name(self.dtype).is_complex:
        raise TypeError("complex numbers have no order")
    shape = resized(self, dim, size)
    values, indices = [None] * math.prod(shape), [0] * math.prod(shape)
    blank = Array(shape, values, self.dtype)
    for line, target in zip(lines(self, dim), lines(blank, dim), strict=True):
        for place, (value, index) in zip(target, pick([self.data[p] for p in line]), strict=True):
            values[place], indices[place] = value, index
    return Array(shape, values, self.dtype), Array(shape, indices, "int64")


def in_order(row: list[Any], descending: bool) -> list[tuple[Any, int]]:
    """Returns the elements of a row in order, each with its place."""
    numbers = [(value, i) for i, value in enumerate(row) if value == value]
    nans = [(value, i) for i, value in enumerate(row) if value != value]
    numbers.sort(key=lambda pair: pair[0], reverse=descending)
    return nans + numbers if descending else numbers + nans


def sort(self: Array, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> tuple[Array, Array]:
    """Values and where they were."""
    size = self.shape[dim] if self.ndim else 1
    return along(self, dim, size, lambda row: in_order(row, descending))


def topk(self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The first of what is sorted."""
    return along(self, dim, k if self.ndim else 1, lambda row: in_order(row, largest)[: k if self.ndim else 1])


def _one(self: Array, dim: int, keepdim: bool, place: Callable[[list[Any]], int]) -> tuple[Array, Array]:
    found = along(self, dim, 1, lambda row: [in_order(row, False)[place(row)]])
    if keepdim or not self.ndim:
        return found
    d = dim_of(dim, self.ndim)
    shape = self.shape[:d] + self.shape[d + 1 :]
    return Array(shape, found[0].data, self.dtype), Array(shape, found[1].data, "int64")


def kthvalue(self: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """One place of what is sorted, counted from 1."""
    return _one(self, dim, keepdim, lambda row: k - 1)


def median_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The lower middle of what is sorted, or the first NaN."""

    def middle(row: list[Any]) -> int:
        numbers = len([x for x in row if x == x])
        return (len(row) - 1) // 2 if numbers == len(row) else numbers

    return _one(self, dim, keepdim, middle)


def _quantile(row: list[float], q: float, way: str, dtype: str) -> tuple[float, float]:
    """Returns one quantile of a row, and how far a kernel may be from it."""
    if any(x != x for x in row):
        return math.nan, 0.0
    ordered, accumulator = sorted(row), "float64" if dtype == "float64" else "float32"
    (rank,) = round_to([q * (len(row) - 1)], accumulator)
    low, high = math.floor(rank), math.ceil(rank)
    below, above, part = ordered[low], ordered[high], rank - low
    if way in ("lower", "higher", "nearest"):
        place = {"lower": low, "higher": high, "nearest": round(rank)}[way]
        return ordered[place], 0.0
    weight = part if way == "linear" else 0.5 * (part != 0)
    off = accumulator_of(dtype).eps * (4 * (abs(below) + abs(above)) + rank * abs(above - below))
    return below + weight * (above - below), off


def quantile(
    self: Array, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Array:
    """The quantiles along a dim, or of all elements."""
    if by_name(self.dtype).kind != "f":
        raise TypeError(f"takes floating dtypes, not {self.dtype}")
    many = q.data if isinstance(q, Array) else round_to([q], self.dtype)
    flat = self if dim is not None else Array((len(self.data),), self.data, self.dtype)
    rows = [[flat.data[p] for p in line] for line in lines(flat, -1 if dim is None else dim)]
    found = [_quantile(row, each, interpolation, self.dtype) for each in many for row in rows]
    kept = tuple(1 if dim is None or d == dim_of(dim, self.ndim) else n for d, n in enumerate(self.shape))
    rest = kept if keepdim else tuple(n for d, n in enumerate(self.shape) if dim is not None and d != dim % self.ndim)
    front = (len(many),) if isinstance(q, Array) and q.ndim else ()
    return Array((*front, *rest), [v for v, _ in found], self.dtype, [s for _, s in found])


def searchsorted(
    sorted_sequence: Array,
    self: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """How many elements stand before a value."""
    values = self if isinstance(self, Array) else Array((), [self], sorted_sequence.dtype)
    behind = right or side == "right"
    sequences = [[sorted_sequence.data[p] for p in line] for line in lines(sorted_sequence, -1)]
    if sorter is not None:
        orders = [[sorter.data[p] for p in line] for line in lines(sorter, -1)]
        sequences = [[row[i] for i in order] for row, order in zip(sequences, orders, strict=True)]
    width = values.shape[-1] if sorted_sequence.ndim > 1 else max(len(values.data), 1)
    data: list[Any] = []
    for place, value in enumerate(values.data):
        row = sequences[place // width]
        if row != sorted(row):  # where a value goes in what is in no order is open
            data.append(UNSPECIFIED)
            continue
        data.append(len([x for x in row if value != value or (x <= value if behind else x < value)]))
    return Array(values.shape, data, "int32" if out_int32 else "int64")


def bucketize(self: Any, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    """The search with its arguments exchanged."""
    return searchsorted(boundaries, self, out_int32=out_int32, right=right)


def bincount(self: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """The elements that are each number, or the sum of their weights."""
    size = max([minlength, *(x + 1 for x in self.data)])
    if weights is None:
        return Array((size,), [self.data.count(k) for k in range(size)], "int64")
    dtype = weights.dtype if weights.dtype == "float32" else "float64"
    bins: list[list[float]] = [[] for _ in range(size)]
    for place, weight in zip(self.data, weights.data, strict=True):
        bins[place].append(float(weight))
    form = accumulator_of(dtype)
    return Array((size,), [float(total(b)) for b in bins], dtype, [slack_of(b, form) for b in bins])


def _grouped(parts: list[Any], order: list[int], inverse: bool, counts: bool) -> tuple[list[int], Array, Array]:
    """Returns which part is the first of each run of equal ones in an order, the run that each is in, and how long."""
    first: list[int] = []
    runs, lengths = [0] * len(parts), []
    for i in order:
        if not first or parts[i] != parts[first[-1]] or any(x != x for x in parts[i]):
            first.append(i)
            lengths.append(0)
        runs[i] = len(first) - 1
        lengths[-1] += 1
    none = Array((0,), [], "int64")
    return (
        first,
        Array((len(runs),), runs, "int64") if inverse else none,
        Array((len(lengths),), lengths, "int64") if counts else none,
    )


def _slices(self: Array, dim: int | None) -> list[Any]:
    """Returns the slices along a dim, each the list of its elements, or one of each element."""
    if dim is None:
        return [[x] for x in self.data]
    if not self.ndim:
        raise IndexError("no dim")
    columns = lines(self, dim)
    return [[self.data[line[i]] for line in columns] for i in range(self.shape[dim_of(dim, self.ndim)])]


def _unique(self: Array, dim: int | None, inverse: bool, counts: bool, *, consecutive: bool) -> tuple[Array, ...]:
    if by_name(self.dtype).is_complex and not consecutive:
        raise TypeError("complex numbers have no order")
    parts = _slices(self, dim)
    order = [*range(len(parts))]
    if not consecutive:
        order.sort(key=lambda i: [(x != x, x if x == x else 0) for x in parts[i]])
    first, runs, lengths = _grouped(parts, order, inverse, counts)
    if dim is None:
        values = Array((len(first),), [self.data[i] for i in first], self.dtype)
        return values, Array(self.shape, runs.data, "int64") if inverse else runs, lengths
    shape = resized(self, dim, len(first))
    data: list[Any] = [None] * math.prod(shape)
    for source, target in zip(lines(self, dim), lines(Array(shape, data, self.dtype), dim), strict=True):
        for place, i in zip(target, first, strict=True):
            data[place] = self.data[source[i]]
    return Array(shape, data, self.dtype), runs, lengths


def unique2(
    self: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, ...]:
    """The elements that differ, in order."""
    return _unique(self, None, return_inverse, return_counts, consecutive=False)


def unique_dim(
    self: Array, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, ...]:
    """The slices that differ, in order."""
    return _unique(self, dim, return_inverse, return_counts, consecutive=False)


def unique_dim_consecutive(
    self: Array, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, ...]:
    """The first of each run."""
    return _unique(self, dim, return_inverse, return_counts, consecutive=True)


_EXACT: dict[str, Callable[..., Any]] = {
    "sort": sort,
    "sort.stable": sort,
    "argsort": lambda self, dim=-1, descending=False: sort(self, dim, descending)[1],
    "argsort.stable": lambda self, *, stable, dim=-1, descending=False: sort(self, dim, descending)[1],
    "msort": lambda self: sort(self, 0)[0],
    "topk": topk,
    "kthvalue": kthvalue,
    "median.dim": median_dim,
    "searchsorted.Tensor": searchsorted,
    "searchsorted.Scalar": searchsorted,
    "bucketize.Tensor": bucketize,
    "bucketize.Scalar": bucketize,
    "_unique2": unique2,
    "unique_dim": unique_dim,
    "unique_dim_consecutive": unique_dim_consecutive,
}
REFERENCES: dict[str, Reference] = {
    **{name: Reference(fn, {}) for name, fn in _EXACT.items()},
    **{name: Reference(quantile, budget(2)) for name in ("quantile", "quantile.scalar")},
    "bincount": Reference(bincount, budget(1)),
}
