"""Sorting along a dim, selecting by order, searching in what is sorted, and counting.

Equal elements stay in their order, in a descending sort too, and NaN is the largest of all. Modules differ in both, so
a descending sort is a stable ascending one of the reversed elements, read from its end.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays import indexing
from tensorplay_composite.arrays._support import Kernels, Support, check_0d, dtype_name, leading, quietly
from tensorplay_core.errors import DTypeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import normalize_dim


@quietly
def orders(xp: Any, support: Support) -> Kernels:
    """``sort`` and ``topk``."""
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    small = support.widest("uint8", "int32")

    def stable(self: Any, dim: int) -> Any:
        if support.numpy_rules:
            return xp.argsort(self, axis=dim, kind="stable")
        return xp.argsort(self, axis=dim, stable=True)

    def places(self: Any, dim: int, descending: bool) -> Any:
        if kind[self.dtype] in ("half", "bool"):
            self = cast(self, single if kind[self.dtype] == "half" else small)
        if not descending:
            return cast(stable(self, dim), int64)
        return self.shape[dim] - 1 - xp.flip(cast(stable(xp.flip(self, axis=dim), dim), int64), axis=dim)

    def sort(self: Any, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
        if kind[self.dtype] == "complex":
            raise DTypeError(f"sort: complex numbers have no order, and the tensor is {dtype_name(self.dtype)}")
        if self.ndim == 0:
            check_0d("sort", dim)
            return support.copy(self), xp.zeros((), dtype=int64)
        if not math.prod(self.shape):
            normalize_dim("sort", dim, self.ndim)
            return support.copy(self), xp.zeros(self.shape, dtype=int64)
        indices = places(self, dim, descending)
        return xp.take_along_axis(self, indices, axis=dim), indices

    def topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:
        if not 0 <= k <= (self.shape[dim] if self.ndim else 1):
            raise ValueError("k is out of range")  # a slice would take it
        values, indices = sort(self, dim, largest)
        if self.ndim == 0:
            return values, indices
        first = (*leading[self.ndim][dim], slice(0, k), ...)
        return support.copy(values[first]), support.copy(indices[first])

    return {"sort": sort, "topk": topk}


@quietly
def counts(xp: Any, support: Support) -> Kernels:
    """``searchsorted`` and ``bincount``."""
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    add_in = indexing.kernels(xp, support)["index_backward"]
    count_up = xp.bincount if support.numpy_rules else None

    def searchsorted(sorted_sequence: Any, self: Any, *, right: bool = False) -> Any:
        what = kind[self.dtype]
        if what in ("half", "bool"):
            dtype = single if what == "half" else support.widest("uint8", "int32")
            sorted_sequence, self = cast(sorted_sequence, dtype), cast(self, dtype)
        if sorted_sequence.ndim == 1:
            flat = xp.reshape(self, (-1,))
            found = xp.searchsorted(sorted_sequence, flat, side="right" if right else "left")
            return cast(xp.reshape(found, self.shape), int64)
        return halved(sorted_sequence, self, right)

    def halved(sequence: Any, values: Any, right: bool) -> Any:
        """Each row in its own sequence: how many elements stand before a value, found bit by bit from the highest."""
        size = sequence.shape[-1]
        count = xp.zeros(values.shape, dtype=int64)
        for bit in reversed(range(size.bit_length() if math.prod(values.shape) else 0)):
            more = count + (1 << bit)
            last = xp.take_along_axis(sequence, xp.clip(more, 0, size) - 1, axis=-1)
            stands_behind = last > values if right else last >= values
            count = xp.where(~stands_behind & (more <= size), more, count)
        return count

    def bincount(self: Any, weights: Any = None, minlength: int = 0) -> Any:
        size = self.shape[0]
        least = int(xp.min(self)) if size and kind[self.dtype] == "int" else 0
        if least < 0:
            raise ValueRangeError(f"bincount: counts numbers from 0 on, and {least} is among them" + fix("x - x.min()"))
        length = max(int(xp.max(self)) + 1 if size else 0, minlength)
        if weights is not None and kind[weights.dtype] != "float":
            weights = cast(weights, support.double)
        if count_up is not None and (weights is None or weights.dtype == support.double):
            return (
                count_up(cast(self, int64), weights, minlength)
                if size
                else xp.zeros((length,), dtype=int64 if weights is None else weights.dtype)
            )
        ones = xp.ones((size,), dtype=int64) if weights is None else weights
        return add_in(ones, (length,), [cast(self, int64)])

    return {"searchsorted.Tensor": searchsorted, "bincount": bincount}


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of sorting over ``xp``."""
    return {**orders(xp, support), **counts(xp, support)}
