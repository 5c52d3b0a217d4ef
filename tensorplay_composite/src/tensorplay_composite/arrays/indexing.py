"""Gathering with index arrays, and the scatters that are the gradients of gathering, selecting and slicing.

The indices mean what they mean in NumPy and PyTorch alike: one per dim from the first, integers or bools, None for a
whole dim.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, leading, quietly
from tensorplay_core.errors import ShapeError, ValueRangeError

_ALL = slice(None)
BLOCK = 2**20
"""How many pairs of an element and a value are compared at once, where a module has no scatter."""


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of indexing over ``xp``."""
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    zeros = xp.zeros
    native = support.numpy_rules
    scatter_add = xp.add.at if native and hasattr(xp.add, "at") else None

    def key_of(indices: Any) -> tuple[Any, ...]:
        return (*(_ALL if index is None else index for index in indices), ...)

    def index(self: Any, indices: Any) -> Any:
        if all(index is None for index in indices):
            return support.copy(self)
        if native:
            return self[key_of(indices)]
        places = places_of(tuple(self.shape), indices)
        if 0 in places.shape:
            return zeros(places.shape, dtype=self.dtype)
        return xp.reshape(xp.take(xp.reshape(self, (-1,)), xp.reshape(places, (-1,)), axis=0), places.shape)

    def places_of(sizes: tuple[int, ...], indices: Any) -> Any:
        """The places, in C order, of what NumPy's indexing would take, by arithmetic alone."""
        steps = [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
        if all(index is None for index in indices):
            return xp.reshape(xp.arange(math.prod(sizes), dtype=int64), sizes)
        taken: list[Any] = []
        ranges: list[Any] = []
        apart: list[int] = []  # how many ranges lie before each index array
        dim = 0
        for item in [*indices, *(None,) * len(sizes)]:  # a mask uses several dims, so there may be fewer items
            if item is not None and kind[item.dtype] == "bool":
                for found in marked(item, sizes[dim : dim + item.ndim]):
                    taken.append(found * (steps[dim] if item.ndim else 0))
                    apart.append(len(ranges))
                    dim += item.ndim > 0
            elif dim == len(sizes):
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
            raise IndexError(f"an index is out of bounds for dim {dim} of size {size}")
        return xp.where(item < 0, item + size, item)

    def marked(mask: Any, sizes: tuple[int, ...]) -> Any:
        if tuple(mask.shape) != sizes:
            raise IndexError(f"a mask of shape {tuple(mask.shape)} does not fit dims of sizes {sizes}")
        if not sizes:  # it uses no dim, and gives one of size 1 or 0
            return (zeros((int(bool(mask)),), dtype=int64),)
        return [cast(found, int64) for found in xp.nonzero(mask)]

    def add_at(size: int, places: Any, values: Any) -> Any:
        """Zeros of length ``size`` with ``values`` added in at ``places``, repeated ones too."""
        total = zeros((size,), dtype=values.dtype)
        if scatter_add is not None:
            scatter_add(total, places, values)
            return total
        if hasattr(total, "at"):
            return total.at[places].add(values)
        # The array standard has no scatter: every element looks for its values, some elements at a time.
        step, parts = max(1, BLOCK // max(1, places.shape[0])), [total[:0]]
        for start in range(0, size, step):
            elements = xp.arange(start, min(start + step, size), dtype=int64)
            hit = xp.expand_dims(places, axis=0) == xp.expand_dims(elements, axis=1)
            found = xp.where(hit, xp.expand_dims(values, axis=0), xp.zeros_like(xp.expand_dims(values, axis=0)))
            parts.append(xp.sum(found, axis=1, dtype=values.dtype))
        return xp.concat(parts, axis=0)

    def added(size: int, places: Any, values: Any) -> Any:
        if kind[values.dtype] != "bool" or scatter_add is not None:
            return add_at(size, places, values)
        return cast(add_at(size, places, cast(values, int64)), values.dtype)

    def index_backward(grad: Any, input_sizes: Any, indices: Any) -> Any:
        sizes, dtype = tuple(input_sizes), grad.dtype
        wide = cast(grad, single) if kind[dtype] == "half" else grad
        count = math.prod(sizes)
        # Gathering the places with the same indices says where each element of grad came from.
        if native:
            places = xp.reshape(xp.arange(count, dtype=int64), sizes)[key_of(indices)]
        else:
            places = places_of(sizes, indices)
        if places.shape != wide.shape:
            raise ShapeError(f"index_backward: the indices select shape {places.shape}, and grad has {wide.shape}")
        total = added(count, xp.reshape(places, (-1,)), xp.reshape(wide, (-1,)))
        return cast(xp.reshape(total, sizes), dtype)

    def put(name: str, sizes: Any, dim: int, item: Any, grad: Any) -> Any:
        result = zeros(tuple(sizes), dtype=grad.dtype)
        if not native and item.__class__ is slice:
            item = slice(*item.indices(result.shape[dim]))
        elif not native and not -result.shape[dim] <= item < result.shape[dim]:
            raise IndexError(f"index {item} is out of bounds for dim {dim} of size {result.shape[dim]}")
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

    return {
        "index": index,
        "index_backward": index_backward,
        "select_backward": select_backward,
        "slice_backward": slice_backward,
    }
