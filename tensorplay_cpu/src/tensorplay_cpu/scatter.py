"""Adding slices where an index says, over NumPy, whose ``add.at`` is slow over several dims.

Four ways, each of which keeps infinities where they are. Where many slices come to each place, those of a place are
added up first. Else they are added in the order of the index: short ones element by element through ``add.at`` over one
dim, which has a fast loop; long ones slice by slice, or, where few of them meet, all at once in as many rounds as
slices come to one place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly

_SHORT = 128
"""Elements of a slice up to which single elements are added."""
_ROUNDS = 8
"""Slices for one place up to which all places are served at once."""

_FEW = 64
"""Places up to which the sums of many slices are one matrix product."""
_MANY = 16
"""Slices a place, on average, from which the slices of each place are added up at once."""
_BLOCK = 1 << 16
"""Elements whose places are written out at a time."""

Add = Callable[[Any, int, Any, Any], None]


@quietly
def adding() -> Kernels:
    """Returns ``add_slices``, in a dict as :func:`quietly` asks for it."""
    add, add_at, arange, where = np.add, np.add.at, np.arange, np.where
    pairs = {np.dtype("float32"): np.dtype("complex64"), np.dtype("float64"): np.dtype("complex128")}

    def add_slices(self: Any, dim: int, places: Any, values: Any) -> None:
        """Adds slices to an array.

        Args:
            self: an array in C order, which is written to.
            dim: the slices lie along this dim.
            places: where each goes, an array of integers of one dim.
            values: the slices, of a shape that broadcasts to that of ``self`` with ``len(places)`` at ``dim``.

        Raises:
            IndexError: a place is out of range; nothing is written.
            ValueError: the slices do not fit; nothing is written.
        """
        shape, size, count = self.shape, self.shape[dim], len(places)
        values = np.broadcast_to(values, (*shape[:dim], count, *shape[dim + 1 :]))
        if not count:
            return
        low = places.min()
        if low < -size or places.max() >= size:
            raise IndexError(f"an index is out of bounds for dim {dim} of size {size}")
        if not values.size:
            return
        places = places.astype("int64", copy=False)  # first, as the size of the dim need not fit 8 bits
        places = where(places < 0, places + size, places) if low < 0 else places
        outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
        target, values = self.reshape((outer, size, inner)), values.reshape((outer, count, inner))
        if inner > 1 and count >= _MANY * size:
            in_groups(target, places, values)
            return
        if inner <= _SHORT:
            one_by_one(target, places, values)
            return
        way = in_rounds if 1 < count <= 2 * size else slice_by_slice
        for part, added in zip(target, values, strict=True):
            way(part, places, added)

    def one_by_one(target: Any, places: Any, values: Any) -> None:
        twice = pairs.get(target.dtype)
        if twice is not None and target.shape[2] % 2 == 0 and target.dtype == values.dtype:
            target, values = (
                target.view(twice),
                np.ascontiguousarray(values).view(twice),
            )  # two as one complex
        outer, size, inner = target.shape
        if inner > 1:
            places = (places[:, None] * inner + arange(inner)).reshape(-1)
        several = max(1, _BLOCK // len(places))
        if several > 1 and outer > 1:
            places = (arange(min(several, outer))[:, None] * (size * inner) + places).reshape(-1)
        for start in range(0, outer, several):
            part, added = target[start : start + several].reshape(-1), values[start : start + several].reshape(-1)
            add_at(part, places[: len(added)], added)

    def in_groups(target: Any, places: Any, values: Any) -> None:
        size, count = target.shape[1], len(places)
        if size <= _FEW and values.dtype == target.dtype and values.dtype in pairs:
            chosen = np.zeros((size, count), values.dtype)
            chosen[places, arange(count)] = 1
            sums = chosen @ values
            if np.isfinite(sums).all():  # else an infinity, or NaN, has come to places that are not its own
                add(target, sums, target)
                return
        order = places.argsort(kind="stable")
        ends = np.searchsorted(places[order], arange(target.shape[1]), side="right").tolist()
        for part, added in zip(target, values, strict=True):
            added, start = added[order], 0
            for row, end in zip(part, ends, strict=True):
                if end > start:
                    add(row, add.reduce(added[start:end], 0), row)
                start = end

    def slice_by_slice(part: Any, places: Any, added: Any) -> None:
        for place, one in zip(places.tolist(), added, strict=True):
            row = part[place]
            add(row, one, row)

    def in_rounds(part: Any, places: Any, added: Any) -> None:
        order = places.argsort(kind="stable")
        places = places[order]
        starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        counts = np.diff(np.append(starts, len(places)))
        if counts.max() > _ROUNDS:
            slice_by_slice(part, places, added[order])
            return
        rows = places[starts]
        for k in range(int(counts.max())):
            if k:
                more = counts > k
                starts, rows, counts = starts[more], rows[more], counts[more]
            part[rows] = part[rows] + added[order[starts + k]]

    return {"add_slices": add_slices}


add_slices: Add = adding()["add_slices"]
