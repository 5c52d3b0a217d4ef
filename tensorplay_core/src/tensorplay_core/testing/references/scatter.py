"""References of what gathers by dim, scatters and masks: where each element goes, in C order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tensorplay_core.testing.references.array import Array, Shape, broadcast_shape, strides_of
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.indexing import gathered
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, round_to
from tensorplay_core.testing.references.sums import slack_of, total
from tensorplay_core.testing.references.views import dim_of
from tensorplay_core.types.dtype import by_name

Indices = Sequence[Array | None]


def _put(self: Array, where: Sequence[int], values: Sequence[Any], accumulate: bool) -> Array:
    """A copy with values at places: the last one of several, or the sum of all and of what was there."""
    if not accumulate:
        data = list(self.data)
        for place, value in zip(where, values, strict=True):
            data[place] = value
        return Array(self.shape, data, self.dtype)
    terms: list[list[Any]] = [[value] for value in self.data]
    for place, value in zip(where, values, strict=True):
        terms[place].append(value)
    if not by_name(self.dtype).is_inexact:
        return Array(self.shape, round_to([total(row) for row in terms], self.dtype), self.dtype)
    form = accumulator_of(self.dtype)
    slack = [slack_of(row, form) if len(row) > 1 else 0.0 for row in terms]
    return Array(self.shape, [row[0] if len(row) == 1 else total(row) for row in terms], self.dtype, slack)


def index_put(self: Array, indices: Indices, values: Array, accumulate: bool = False) -> Array:
    """Values at indices, one a dim from the first."""
    shape, where = gathered(self.shape, indices)
    return _put(self, where, values.broadcast(shape), accumulate)


def index_select(self: Array, dim: int, index: Array) -> Array:
    """Slices along a dim."""
    if not self.ndim:
        return self
    d = dim_of(dim, self.ndim)
    flat = Array((len(index.data),), index.data, index.dtype)
    shape, where = gathered(self.shape, [*(None,) * d, flat])
    return Array(shape, [self.data[place] for place in where], self.dtype)


def take(self: Array, index: Array) -> Array:
    """Elements in C order."""
    return Array(index.shape, [self.data[i] for i in index.data], self.dtype)


def _by_dim(shape: Shape, dim: int, index: Array) -> list[int]:
    """Returns the places that an index along one dim names."""
    if not shape:
        return [0 for _ in index.data]
    d, strides = dim_of(dim, len(shape)), strides_of(shape)
    found = []
    for own, value in zip(itertools.product(*map(range, index.shape)), index.data, strict=True):
        where = [*own]
        where[d] = value % shape[d]
        found.append(sum(i * step for i, step in zip(where, strides, strict=True)))
    return found


def gather(self: Array, dim: int, index: Array) -> Array:
    """Elements at an index along a dim."""
    return Array(index.shape, [self.data[place] for place in _by_dim(self.shape, dim, index)], self.dtype)


def _sources(index: Array, src: Any, dtype: str) -> list[Any]:
    if not isinstance(src, Array):
        return round_to([src], dtype) * len(index.data)
    if not src.shape:  # as one element of one dim
        return src.data * len(index.data)
    strides = strides_of(src.shape)
    found = itertools.product(*map(range, index.shape))
    return [src.data[sum(i * step for i, step in zip(own, strides, strict=True))] for own in found]


def scatter(self: Array, dim: int, index: Array, src: Any) -> Array:
    """Elements of a source, or a number, at an index along a dim."""
    return _put(self, _by_dim(self.shape, dim, index), _sources(index, src, self.dtype), False)


def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    """The same, added."""
    return _put(self, _by_dim(self.shape, dim, index), _sources(index, src, self.dtype), True)


def _spread(self: Array, mask: Array) -> tuple[Shape, list[Any], list[Any]]:
    shape = broadcast_shape(self.shape, mask.shape)
    return shape, self.broadcast(shape), mask.broadcast(shape)


def masked_fill(self: Array, mask: Array, value: Any) -> Array:
    """One value where a mask is true."""
    shape, data, flags = _spread(self, mask)
    new = value.cast(self.dtype).data[0] if isinstance(value, Array) else round_to([value], self.dtype)[0]
    return Array(shape, [new if flag else x for x, flag in zip(data, flags, strict=True)], self.dtype)


def masked_select(self: Array, mask: Array) -> Array:
    """The elements where a mask is true."""
    _, data, flags = _spread(self, mask)
    found = [x for x, flag in zip(data, flags, strict=True) if flag]
    return Array((len(found),), found, self.dtype)


def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    """A source's elements, one after the other, where a mask is true."""
    shape, data, flags = _spread(self, mask)
    rest = iter(source.data)
    return Array(shape, [next(rest) if flag else x for x, flag in zip(data, flags, strict=True)], self.dtype)


def nonzero(self: Array) -> Array:
    """The places of what is not zero."""
    every = [*itertools.product(*map(range, self.shape))]
    rows = [row for row, value in zip(every, self.data, strict=True) if value != 0]
    return Array((len(rows), self.ndim), [*itertools.chain.from_iterable(rows)], "int64")


REFERENCES: dict[str, Reference] = {
    **dict.fromkeys(("index_put", "index_put_"), Reference(index_put, budget(1))),
    "gather": Reference(gather, {}, bits=True),
    "index_select": Reference(index_select, {}, bits=True),
    **dict.fromkeys(("masked_fill.Scalar", "masked_fill.Tensor"), Reference(masked_fill, {}, bits=True)),
    "masked_scatter": Reference(masked_scatter, {}, bits=True),
    "masked_select": Reference(masked_select, {}, bits=True),
    "nonzero": Reference(nonzero, {}),
    **dict.fromkeys(("scatter.src", "scatter.value"), Reference(scatter, {}, bits=True)),
    "scatter_add": Reference(scatter_add, budget(1)),
    "take": Reference(take, {}, bits=True),
}
