"""Gathering with index arrays.

The indices mean what they mean in NumPy and PyTorch alike: one per dim from the first, integers or bools, None for a
whole dim.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

from tensorplay_composite.arrays import scatter
from tensorplay_composite.arrays._support import Kernels, Support, out_of_range, quietly
from tensorplay_core.errors import DimError

_ALL = slice(None)


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of indexing over ``xp``."""
    made = reading(xp, support)
    places = made.pop("places")
    return {**made, **scatter.kernels(xp, support, places)}


@quietly
def reading(xp: Any, support: Support) -> Kernels:
    """Kernels that gather; and ``places``, which says where in C order the elements come from."""
    kind, cast, int64, native = support.kind, support.cast, support.int64, support.numpy_rules
    zeros = xp.zeros

    def key_of(indices: Any) -> tuple[Any, ...]:
        return (*(_ALL if index is None else index for index in indices), ...)

    def index(self: Any, indices: Any) -> Any:
        if all(index is None for index in indices):
            check_count(indices, self.ndim)
            return support.copy(self)
        if native:
            try:
                result = self[key_of(indices)]
            except IndexError:
                check_range(tuple(self.shape), indices)
                raise
            return result if result.flags.c_contiguous else support.copy(result)
        places = places_of(tuple(self.shape), indices)
        if 0 in places.shape:
            return zeros(places.shape, dtype=self.dtype)
        return xp.reshape(xp.take(xp.reshape(self, (-1,)), xp.reshape(places, (-1,)), axis=0), places.shape)

    def check_count(indices: Any, most: int) -> None:
        if len(indices) > most:
            raise DimError(f"index: {len(indices)} indices are too many")

    def places_of(sizes: tuple[int, ...], indices: Any) -> Any:
        """The places, in C order, of what NumPy's indexing would take, by arithmetic alone."""
        steps = [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
        if all(index is None for index in indices):
            check_count(indices, len(sizes))
            return xp.reshape(xp.arange(math.prod(sizes), dtype=int64), sizes)
        taken: list[Any] = []
        ranges: list[Any] = []
        apart: list[int] = []  # how many ranges lie before each index array
        dim = 0
        for number, item in enumerate([*indices, *(None,) * len(sizes)]):  # a mask uses several dims
            if item is not None and kind[item.dtype] == "bool":
                for found in marked(item):
                    taken.append(found * (steps[dim] if item.ndim else 0))
                    apart.append(len(ranges))
                    dim += item.ndim > 0
            elif dim == len(sizes):
                check_count(indices, number)
                break
            elif item is None:
                ranges.append(xp.arange(sizes[dim], dtype=int64) * steps[dim])
                dim += 1
            else:
                taken.append(counted(item, dim, sizes[dim]) * steps[dim])
                apart.append(len(ranges))
                dim += 1
        chosen = functools.reduce(operator.add, taken)
        first = apart[0] if len({*apart}) == 1 else 0  # index arrays that lie apart give the first dims
        total = xp.reshape(chosen, (1,) * first + tuple(chosen.shape) + (1,) * (len(ranges) - first))
        for n, part in enumerate(ranges):
            where = n if n < first else n + chosen.ndim
            total = total + xp.reshape(part, tuple(-1 if d == where else 1 for d in range(total.ndim)))
        return total

    def counted(item: Any, dim: int, size: int) -> Any:
        """An index array with its negative numbers counted from the end; some modules clip what is out of range."""
        item = cast(item, int64)
        wrong = (item < -size) | (item >= size)
        if bool(xp.any(wrong)):
            raise out_of_range("index", dim, size, int(xp.min(item)), int(xp.max(item)))
        return xp.where(item < 0, item + size, item)

    def marked(mask: Any) -> Any:
        """The places of a mask's true elements, an array for each dim; core has seen that its shape fits."""
        if not mask.ndim:  # it uses no dim, and gives one of size 1 or 0
            return (zeros((int(bool(mask)),), dtype=int64),)
        return [cast(found, int64) for found in xp.nonzero(mask)]

    def check_range(sizes: tuple[int, ...], indices: Any) -> None:
        """Refuses the first index array that is out of range, by its worst index."""
        dim = 0
        for item in indices:
            if item is not None and kind[item.dtype] == "bool":
                dim += item.ndim
                continue
            if item is not None and item.size:
                low, high = int(item.min()), int(item.max())
                if low < -sizes[dim] or high >= sizes[dim]:
                    raise out_of_range("index", dim, sizes[dim], low, high)
            dim += 1

    def places(sizes: tuple[int, ...], indices: Any) -> Any:
        if native:
            return index(xp.reshape(xp.arange(math.prod(sizes), dtype=int64), sizes), indices)
        return places_of(sizes, indices)

    def nonzero(self: Any) -> Any:
        if not self.shape:
            return zeros((int(bool(self)), 0), dtype=int64)
        return cast(xp.stack(xp.nonzero(self if kind[self.dtype] == "bool" else self != 0), axis=1), int64)

    return {"index": index, "nonzero": nonzero, "places": places}
