"""Sorts and selections of 32 bits and less through one sort of 64-bit integers: the element's order, then its place.

NumPy sorts unsigned integers with the processor's vector instructions, several times as fast as it sorts indices, and
a place in the lower half makes the sort stable: no two keys are equal, and of equal elements the first has the smaller
one. A descending sort turns the order around and leaves the place as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly

SMALL = 256
"""Elements below which the general kernels are faster."""
LONG, COLUMNS = 1 << 16, 8
"""Elements of a row in which a few are looked for by columns, and how many columns there are for each of the few."""
PLAIN = tuple(np.dtype(name) for name in ("float32", "float64", "int32", "int64"))
"""The dtypes of which NumPy finds the place of one element quickly."""


@quietly
def kernels(general: Kernels) -> Kernels:
    """Returns ``sort`` and ``topk``; ``general`` serves most of 64 bits, complex numbers and small arrays."""
    general_sort, general_topk = general["sort"], general["topk"]
    uint32, uint64, int64, single = np.dtype("uint32"), np.dtype("uint64"), np.dtype("int64"), np.dtype("float32")
    top, full, low = np.uint32(0x80000000), np.uint32(0xFFFFFFFF), np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    narrow = {np.dtype(name) for name in ("bool", "uint8", "uint16", "int8", "int16", "int32")}

    def order(x: Any) -> Any:
        """Unsigned integers in the order of the elements, equal where they are: 0.0 and -0.0, and all NaN."""
        if x.dtype in narrow:
            return x.astype(np.int32, copy=False).view(uint32) ^ top
        if x.dtype == uint32:
            return x.copy()
        x = x.astype(single, copy=False) + single.type(0)
        bits = x.view(uint32)
        keys = bits ^ ((bits.view(np.int32) >> 31).view(uint32) | top)
        keys[np.isnan(x)] = full
        return keys

    def packed(self: Any, dim: int, descending: bool) -> tuple[Any, Any]:
        """The elements with the dim last, and their keys."""
        rows = np.ascontiguousarray(np.moveaxis(self, dim, -1))
        keys = order(rows)
        if descending:
            np.invert(keys, keys)
        wide = keys.astype(uint64)
        np.left_shift(wide, shift, wide)
        return rows, np.bitwise_or(wide, np.arange(rows.shape[-1], dtype=uint64), wide)

    def unpacked(rows: Any, keys: Any, dim: int) -> tuple[Any, Any]:
        indices = np.bitwise_and(keys, low).view(int64)
        values = np.take_along_axis(rows, indices, -1)
        if dim in (-1, rows.ndim - 1):
            return values, indices
        return np.ascontiguousarray(np.moveaxis(values, -1, dim)), np.ascontiguousarray(np.moveaxis(indices, -1, dim))

    def serves(self: Any) -> bool:
        return bool(self.ndim and self.size >= SMALL and self.dtype.itemsize <= 4)

    def sort(self: Any, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
        if not serves(self):
            return sort_wide(self, dim, descending) if self.ndim == 1 else general_sort(self, dim, descending)
        rows, keys = packed(self, dim, descending)
        keys.sort(-1)
        return unpacked(rows, keys, dim)

    def sort_wide(self: Any, dim: int, descending: bool) -> tuple[Any, Any]:
        """A sort that is not stable will do where no two elements are equal."""
        if descending or self.size < SMALL or self.dtype.kind not in "fiu" or dim not in (0, -1):
            return general_sort(self, dim, descending)
        indices = self.argsort()
        values = self[indices]
        if (values[1:] == values[:-1]).any() or (self.dtype.kind == "f" and np.isnan(values[-1])):
            return general_sort(self, dim, descending)
        return values, indices

    def few(self: Any, k: int, dim: int, largest: bool) -> tuple[Any, Any] | None:
        """A few of many, by the value that the last of them has; None where it is not theirs alone, or is NaN."""
        rows = np.ascontiguousarray(np.moveaxis(self, dim, -1))
        size = rows.shape[-1]
        if size >= max(LONG, COLUMNS * COLUMNS * k):
            chosen = [few_of_long(row, k, largest) for row in rows.reshape(-1, size)]
            if any(one is None for one in chosen):
                return None
            indices = np.array(chosen)
        else:
            place = size - k if largest else k - 1
            last = np.partition(rows, place, -1)[..., place, None]
            found = np.flatnonzero(rows >= last if largest else rows <= last)
            count = rows.size // size
            if found.size != k * count or (largest and np.isnan(last).any()):
                return None
            indices = found.reshape(count, k) - np.arange(0, rows.size, size)[:, None]
            if indices.min() < 0 or indices.max() >= size:
                return None
        indices = indices.reshape(*rows.shape[:-1], k)
        values, order = general_sort(np.take_along_axis(rows, indices, -1), -1, largest)
        indices = np.take_along_axis(indices, order, -1)
        if dim in (-1, self.ndim - 1):
            return values, indices
        return np.ascontiguousarray(np.moveaxis(values, -1, dim)), np.ascontiguousarray(np.moveaxis(indices, -1, dim))

    def few_of_long(row: Any, k: int, largest: bool) -> Any:
        """The places of a few of very many, the first of equal ones; None where some are NaN.

        A row is cut into columns. The k columns that reach furthest have k elements at least as far out as the last of
        these columns' ends, so whatever is less far is none of the k; what is left is little.
        """
        columns = COLUMNS * k
        height = row.size // columns
        whole, rest = row[: height * columns], row[height * columns :]
        ends = (np.maximum if largest else np.minimum).reduce(whole.reshape(height, columns))
        if (ends != ends).any() or (rest != rest).any():
            return None
        beyond = np.greater if largest else np.less
        last = kth(ends, k, largest)
        places = np.flatnonzero(beyond(row, last))
        if places.size >= k:  # then none that is just as far as the last of the ends is among them
            values = row[places]
            last = kth(values, k, largest)
            places = places[beyond(values, last)]
        if places.size < k:  # the first of those that are as far as the last one
            equal = np.flatnonzero(row == last)[: k - places.size]
            places = np.sort(np.concatenate((places, equal)))
        return places

    def kth(values: Any, k: int, largest: bool) -> Any:
        place = values.size - k if largest else k - 1
        return np.partition(values, place)[place]

    def topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:
        if not self.ndim or self.size < SMALL or not 0 < k < self.shape[dim]:
            return general_topk(self, k, dim, largest, sorted)
        if 8 * k < self.shape[dim] and self.dtype in PLAIN and (found := few(self, k, dim, largest)) is not None:
            return found
        if not serves(self):
            return general_topk(self, k, dim, largest, sorted)
        rows, keys = packed(self, dim, largest)
        keys.partition(k - 1, -1)
        keys = np.ascontiguousarray(keys[..., :k])
        keys.sort(-1)
        return unpacked(rows, keys, dim)

    return {"sort": sort, "topk": topk}
