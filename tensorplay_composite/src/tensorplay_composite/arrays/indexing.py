"""Gathering with index arrays, and the scatters that are the gradients of gathering, selecting and slicing.

The indices mean what they mean in NumPy and PyTorch alike: one per dim from the first, integers or bools, None for a
whole dim.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, leading, quietly
from tensorplay_core.errors import ShapeError, ValueRangeError

_ALL = slice(None)


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of indexing over ``xp``."""
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    zeros = xp.zeros
    scatter_add = getattr(getattr(xp, "add", None), "at", None)

    def key_of(indices: Any) -> tuple[Any, ...]:
        return (*(_ALL if index is None else index for index in indices), ...)

    def index(self: Any, indices: Any) -> Any:
        if all(index is None for index in indices):
            return support.copy(self)
        return self[key_of(indices)]

    def add_at(size: int, places: Any, values: Any) -> Any:
        """Zeros of length ``size`` with ``values`` added in at ``places``, repeated ones too."""
        if scatter_add is not None:
            total = zeros((size,), dtype=values.dtype)
            scatter_add(total, places, values)
            return total
        # The array standard has no scatter: every element looks for its values, in size × values memory.
        hit = xp.expand_dims(places, axis=0) == xp.expand_dims(xp.arange(size, dtype=int64), axis=1)
        return xp.sum(xp.where(hit, values, xp.zeros_like(values)), axis=1, dtype=values.dtype)

    def index_backward(grad: Any, input_sizes: Any, indices: Any) -> Any:
        sizes, dtype = tuple(input_sizes), grad.dtype
        wide = cast(grad, single) if kind[dtype] == "half" else grad
        count = math.prod(sizes)
        # Gathering the places with the same indices says where each element of grad came from.
        places = xp.reshape(xp.arange(count, dtype=int64), sizes)[key_of(indices)]
        if places.shape != wide.shape:
            raise ShapeError(f"index_backward: the indices select shape {places.shape}, and grad has {wide.shape}")
        total = add_at(count, xp.reshape(places, (-1,)), xp.reshape(wide, (-1,)))
        return cast(xp.reshape(total, sizes), dtype)

    def put(name: str, result: Any, key: tuple[Any, ...], grad: Any) -> Any:
        if result[key].shape != grad.shape:  # it would broadcast
            raise ShapeError(f"{name}: the selected part has shape {result[key].shape}, and grad has {grad.shape}")
        result[key] = grad
        return result

    def select_backward(grad: Any, input_sizes: Any, dim: int, index: int) -> Any:
        result = zeros(tuple(input_sizes), dtype=grad.dtype)
        return put("select_backward", result, (*leading[result.ndim][dim], index, ...), grad)

    def slice_backward(grad: Any, input_sizes: Any, dim: int, start: int | None, end: int | None, step: int) -> Any:
        result = zeros(tuple(input_sizes), dtype=grad.dtype)
        if step < 1:
            raise ValueRangeError(f"slice_backward: step must be 1 or more, got {step}")
        return put("slice_backward", result, (*leading[result.ndim][dim], slice(start, end, step), ...), grad)

    return {
        "index": index,
        "index_backward": index_backward,
        "select_backward": select_backward,
        "slice_backward": slice_backward,
    }
