"""Scattering: values put, or added in, at index arrays; and the gradients of gathering, selecting and slicing."""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays._support import Kernel, Kernels, Support, leading, quietly
from tensorplay_core.errors import DimError, ShapeError, ValueRangeError
from tensorplay_core.ops.shapes_indexing import check_picked

_ALL = slice(None)


@quietly
def sums(xp: Any, support: Support, places: Kernel) -> Kernels:
    """Kernels that add up what comes to one place, and ``index_put_``.

    Args:
        xp: the array module.
        support: its spellings.
        places: gives, for sizes and indices, the places in C order that they name.
    """
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    zeros = xp.zeros
    scatter_add = xp.add.at if support.numpy_rules and hasattr(xp.add, "at") else None

    def add_at(size: int, places: Any, values: Any) -> Any:
        """Zeros of length ``size`` with ``values`` added in at ``places``, repeated ones too."""
        total = zeros((size,), dtype=values.dtype)
        if scatter_add is not None:
            scatter_add(total, places, values)
            return total
        if hasattr(total, "at"):
            return total.at[places].add(values)
        return sums_at(size, places, values)

    def sums_at(size: int, places: Any, values: Any) -> Any:
        """The same without a scatter, which the array standard has not: sorted, each run of equal places is added up.

        A sum takes ``log2`` of the longest run of steps, and step ``k`` adds to each element of a run the one ``2**k``
        further on, so that the first of a run has it all. No value is added to one of another place, and nothing is
        taken away again, as a cumulative sum would: neither digits nor infinities get from one place to another.
        """
        count = places.shape[0]
        if not count or not size:
            return zeros((size,), dtype=values.dtype)
        order = xp.argsort(places, stable=True)
        places, values = xp.take(places, order, axis=0), xp.take(values, order, axis=0)
        elements = xp.arange(size, dtype=int64)
        begin = xp.searchsorted(places, elements, side="left")
        longest = int(xp.max(xp.searchsorted(places, elements, side="right") - begin))
        step = 1
        while step < longest:
            same = places[:-step] == places[step:]
            more = xp.where(same, values[step:], xp.zeros_like(values[step:]))
            values = xp.concat([values[:-step] + more, values[-step:]], axis=0)
            step *= 2
        begin = xp.clip(begin, 0, count - 1)
        hit = xp.take(places, begin, axis=0) == elements
        return xp.where(hit, xp.take(values, begin, axis=0), xp.zeros_like(elements, dtype=values.dtype))

    def last_at(size: int, places: Any) -> tuple[Any, Any]:
        """For each of ``size`` elements whether it is among ``places``, and where it is for the last time."""
        order = xp.argsort(places, stable=True)
        places, elements = xp.take(places, order, axis=0), xp.arange(size, dtype=int64)
        last = xp.clip(xp.searchsorted(places, elements, side="right") - 1, 0, places.shape[0] - 1)
        return xp.take(places, last, axis=0) == elements, xp.take(order, last, axis=0)

    def added(size: int, places: Any, values: Any) -> Any:
        if kind[values.dtype] != "bool" or scatter_add is not None:
            return add_at(size, places, values)
        return cast(add_at(size, places, cast(values, int64)), values.dtype)

    def index_backward(grad: Any, input_sizes: Any, indices: Any) -> Any:
        sizes, dtype = tuple(input_sizes), grad.dtype
        wide = cast(grad, single) if kind[dtype] == "half" else grad
        where = places(sizes, indices)
        if where.shape != grad.shape:
            raise ShapeError(f"index_backward: the indices select shape {where.shape}, and grad has {grad.shape}")
        total = summed(wide, sizes, where)
        return total if wide is grad else cast(total, dtype)

    def summed(wide: Any, sizes: tuple[int, ...], where: Any) -> Any:
        """Zeros of some sizes with values added in at places of C order."""
        return xp.reshape(added(math.prod(sizes), xp.reshape(where, (-1,)), xp.reshape(wide, (-1,))), sizes)

    def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
        if not support.mutable:
            return replaced_at(self, indices, values, accumulate)
        if accumulate:
            self[...] = replaced_at(self, indices, values, accumulate)
            return self
        key = (*(_ALL if index is None else index for index in indices), ...)
        try:
            if values.ndim > 1 and values.ndim > picked_dims(self.ndim, indices):
                raise ValueError("too many dims")  # NumPy would leave out leading ones of size 1
            self[key] = values
        except IndexError:
            places(tuple(self.shape), indices)  # it says which index is out of range
            raise
        except ValueError:
            check_picked("index_put_", tuple(values.shape), tuple(self[key].shape))
            raise
        return self

    def picked_dims(ndim: int, indices: Any) -> int:
        """How many dims have the elements that index arrays and masks select."""
        given = 0
        for index in indices:
            if index is not None:
                mask = kind[index.dtype] == "bool"
                ndim -= index.ndim if mask else 1
                given = max(given, 1 if mask else index.ndim)
        return ndim + given

    def replaced_at(self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
        """A copy of an array with values at the indices; the last one of several stays."""
        sizes, dtype = tuple(self.shape), self.dtype
        where = places(sizes, indices)
        check_picked("index_put_", tuple(values.shape), tuple(where.shape))
        if accumulate:
            half = kind[dtype] == "half"
            values = xp.broadcast_to(cast(values, single) if half else values, where.shape)
            total = summed(values, sizes, where)
            if half:
                return cast(cast(self, single) + total, dtype)
            return (self | total) if kind[dtype] == "bool" else self + total
        if 0 in where.shape:
            return support.copy(self)
        values = xp.reshape(xp.broadcast_to(values, where.shape), (-1,))
        flat = xp.reshape(self, (-1,))
        hit, source = last_at(math.prod(sizes), xp.reshape(where, (-1,)))
        return xp.reshape(xp.where(hit, xp.take(values, source, axis=0), flat), sizes)

    return {"index_backward": index_backward, "index_put_": index_put_}


@quietly
def parts(xp: Any, support: Support) -> Kernels:
    """Kernels that put a part into zeros."""
    zeros, native = xp.zeros, support.numpy_rules

    def put(name: str, sizes: Any, dim: int, item: Any, grad: Any) -> Any:
        result = zeros(tuple(sizes), dtype=grad.dtype)
        size = result.shape[dim]
        if item.__class__ is slice:
            item = item if native else slice(*item.indices(size))
        elif not -size <= item < size:
            raise DimError(f"{name}: index {item} is out of bounds for dim {dim} of size {size}")
        key = (*leading[result.ndim][dim], item, ...)
        if result[key].shape != grad.shape:  # it would broadcast
            raise ShapeError(f"{name}: the selected part has shape {result[key].shape}, and grad has {grad.shape}")
        if support.mutable:
            result[key] = grad
            return result
        if item.__class__ is not slice:
            item, grad = slice(item, item + 1 or None), xp.expand_dims(grad, axis=dim)
        return support.replaced(result, dim % result.ndim, item, grad)

    def select_backward(grad: Any, input_sizes: Any, dim: int, index: int) -> Any:
        return put("select_backward", input_sizes, dim, index, grad)

    def slice_backward(grad: Any, input_sizes: Any, dim: int, start: int | None, end: int | None, step: int) -> Any:
        if step < 1:
            raise ValueRangeError(f"slice_backward: step must be 1 or more, got {step}")
        return put("slice_backward", input_sizes, dim, slice(start, end, step), grad)

    return {"select_backward": select_backward, "slice_backward": slice_backward}


def kernels(xp: Any, support: Support, places: Kernel) -> Kernels:
    """Returns the kernels of scattering over ``xp``; ``places`` is as in :func:`sums`."""
    return {**sums(xp, support, places), **parts(xp, support)}
