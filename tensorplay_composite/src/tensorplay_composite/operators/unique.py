"""What differs among elements or slices: in order, or run by run.

Everything comes from two things: an order in which equal elements are neighbours, and a mask of those that differ from
the one before. The values are picked out of the input, so their gradient goes back to the first of equal elements.
"""

from __future__ import annotations

import math

from tensorplay_core.errors import DimError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import normalize_dim
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import bool_

Found = tuple[Tensor, Tensor, Tensor]


def unique2(self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Found:
    """The first of each run of what is sorted."""
    values, order = F.sort(self.reshape(-1))
    first = _differs(values)
    places = _places(first)
    inverse, counts = _described(first, places, order, return_inverse, return_counts)
    return F.index_select(values, 0, places), inverse.reshape(self.shape) if return_inverse else inverse, counts


def unique_dim(
    self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Found:
    """The first of each run of sorted slices."""
    d, rows = _rows("unique", self, dim)
    order, first = _in_order(rows)
    places = _places(first)
    return (
        F.index_select(self, d, F.index_select(order, 0, places)),
        *_described(first, places, order, return_inverse, return_counts),
    )


def unique_dim_consecutive(self: Tensor, dim: int, return_inverse: bool = False, return_counts: bool = False) -> Found:
    """The first of each run of slices as they are."""
    d, rows = _rows("unique_consecutive", self, dim)
    first = _differs(rows)
    places = _places(first)
    return F.index_select(self, d, places), *_described(first, places, None, return_inverse, return_counts)


def _places(first: Tensor) -> Tensor:
    found = F.nonzero(first)
    assert isinstance(found, Tensor)
    return found.reshape(-1)


def _rows(op: str, self: Tensor, dim: int) -> tuple[int, Tensor]:
    """Returns a dim counted from the front, and the slices along it, one in each row."""
    if not self.ndim:
        raise DimError(f"{op}: a 0-d tensor has no dim {dim}" + fix("leave dim out"))
    d = normalize_dim(op, dim, self.ndim)
    size = self.shape[d]
    rest = math.prod(n for i, n in enumerate(self.shape) if i != d)
    return d, self.detach().movedim(d, 0).reshape((size, rest))


def _differs(x: Tensor, nan: bool = True) -> Tensor:
    """Returns a mask of the elements, or rows, that do not equal the one before; the first does not, and NaN may."""
    size = x.shape[0]
    start = F.ones((min(size, 1),), dtype=bool_, device=x.device)
    if size < 2:
        return start
    one, last = F.slice(x, 0, 1, size), F.slice(x, 0, 0, size - 1)
    changes = F.ne(one, last)
    if not nan and x.dtype.is_floating_point:
        changes = F.where(F.ne(one, one), F.eq(last, last), changes)
    return F.cat([start, changes if x.ndim == 1 else F.any(changes, 1)])


def _in_order(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the order of rows, and a mask of those that differ from the one before in it.

    Column after column, each sorts within the groups of rows that were equal so far, until no two are. NaN takes part
    in the order as the largest number, and at last makes a row differ from every other.
    """
    size, columns = rows.shape
    order = F.arange(size, device=rows.device)
    first = F.cat([F.ones((1,), dtype=bool_, device=rows.device), order.ne(order)])[:size]
    for column in range(columns if size > 1 else 0):
        values, by_value = F.sort(F.index_select(F.select(rows, 1, column), 0, order))
        if column:
            groups, by_group = F.sort(F.index_select(F.cumsum(first, 0), 0, by_value))
            values, by_value = F.index_select(values, 0, by_group), F.index_select(by_value, 0, by_group)
            first = F.where(_differs(groups), True, _differs(values, nan=False))
        else:
            first = _differs(values, nan=False)
        order = F.index_select(order, 0, by_value)
        if bool(F.all(first).item()):
            break
    if rows.dtype.is_floating_point and columns:
        first = F.where(F.index_select(F.any(F.ne(rows, rows), 1), 0, order), True, first)
    return order, first


def _described(
    first: Tensor, places: Tensor, order: Tensor | None, return_inverse: bool, return_counts: bool
) -> tuple[Tensor, Tensor]:
    """Returns for each element the number of its run, and the lengths of the runs; nothing where not asked for."""
    inverse = counts = F.zeros((0,), dtype=places.dtype, device=first.device)
    if return_inverse:
        inverse = F.cumsum(first, 0) - 1
        if order is not None:
            inverse = F.scatter(F.zeros(inverse.shape, dtype=inverse.dtype, device=first.device), 0, order, inverse)
    if return_counts:
        end = F.full((1,), first.shape[0], dtype=places.dtype, device=first.device)
        counts = F.diff(places, append=end)
    return inverse, counts.clone() if counts is inverse else counts
