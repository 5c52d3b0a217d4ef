"""References of indexing with tensors, and of the gradients of indexing, selecting and slicing.

One function says where each element of a gathered result comes from; gathering reads there, and its gradient adds up
there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorplay_core.testing.references.array import Array, Shape, broadcast_shape, places, strides_of
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, round_to
from tensorplay_core.testing.references.sums import slack_of, total
from tensorplay_core.testing.references.views import selected, sliced
from tensorplay_core.types.dtype import by_name


def _by_dim(shape: Shape, indices: Sequence[Array | None]) -> tuple[list[Array | None], list[int], list[int]]:
    """Returns one index a dim, and the sizes and strides of the dims.

    A mask is replaced by the places where it is true, an index for each of its dims; one of no dims is about a dim of
    one element that is put before those which are left.
    """
    found: list[Array | None] = []
    sizes, strides = list(shape), list(strides_of(shape))
    for index in indices:
        if index is None or index.dtype != "bool":
            found.append(index)
            continue
        true = [place for place, value in enumerate(index.data) if value]
        if not index.shape:
            sizes.insert(len(found), 1)
            strides.insert(len(found), 0)
            found.append(Array((len(true),), [0] * len(true), "int64"))
        for size, stride in zip(index.shape, strides_of(index.shape), strict=True):
            found.append(Array((len(true),), [place // stride % size for place in true], "int64"))
    return found, sizes, strides


def gathered(shape: Shape, indices: Sequence[Array | None]) -> tuple[Shape, list[int]]:
    """Returns the shape of an indexed array and the place in C order that each of its elements comes from.

    The index arrays broadcast together. Their dims stand where the first of them stood if they are neighbours, else in
    front, as in NumPy and PyTorch.
    """
    arrays, sizes, strides = _by_dim(shape, indices)
    shape = tuple(sizes)
    dims = [d for d, index in enumerate(arrays) if index is not None]
    if not dims:
        return shape, list(range(math.prod(shape)))
    picked = broadcast_shape(*[index.shape for index in arrays if index is not None])
    steps = [0] * math.prod(picked)
    for d in dims:
        index = arrays[d]
        assert index is not None
        for k, value in enumerate(index.broadcast(picked)):
            if not -shape[d] <= value < shape[d]:
                raise IndexError(f"index {value} at dim {d} of shape {shape}")
            steps[k] += value % shape[d] * strides[d]
    front = dims[0] if dims[-1] - dims[0] + 1 == len(dims) else 0
    rest = [d for d in range(len(shape)) if d not in dims]
    before, after = rest[:front], rest[front:]
    heads, tails = ([*places([shape[d] for d in part], [strides[d] for d in part])] for part in (before, after))
    result = (*(shape[d] for d in before), *picked, *(shape[d] for d in after))
    return result, [head + step + tail for head in heads for step in steps for tail in tails]


def index(self: Array, indices: Sequence[Array | None]) -> Array:
    """Gathers with integer or bool index arrays, one a dim from the first; None keeps a dim whole."""
    shape, where = gathered(self.shape, indices)
    return Array(shape, [self.data[place] for place in where], self.dtype)


def _scattered(grad: Array, sizes: Shape, where: Sequence[int]) -> Array:
    """Adds elements into zeros; half precisions accumulate in float32."""
    terms: list[list[Any]] = [[] for _ in range(math.prod(sizes))]
    for place, value in zip(where, grad.data, strict=True):
        terms[place].append(value)
    dtype = by_name(grad.dtype)
    zero = round_to([0], grad.dtype)[0]
    if not dtype.is_inexact:
        return Array(sizes, round_to([total(row) for row in terms], grad.dtype), grad.dtype)
    form = accumulator_of(grad.dtype)
    data = [total(row) if row else zero for row in terms]
    return Array(sizes, data, grad.dtype, [slack_of(row, form) if len(row) > 1 else 0.0 for row in terms])


def index_backward(grad: Array, input_sizes: Sequence[int], indices: Sequence[Array | None]) -> Array:
    """Adds ``grad`` into zeros at ``indices``; repeated ones accumulate."""
    sizes = tuple(input_sizes)
    shape, where = gathered(sizes, indices)
    if shape != grad.shape:
        raise ValueError(f"the indices select {shape}, and grad is {grad.shape}")
    return _scattered(grad, sizes, where)


def select_backward(grad: Array, input_sizes: Sequence[int], dim: int, index: int) -> Array:
    """Zeros with ``grad`` at ``index`` along ``dim``."""
    shape, strides, start = selected(tuple(input_sizes), dim, index)
    return _scattered(grad, tuple(input_sizes), list(places(shape, strides, start)))


def slice_backward(
    grad: Array, input_sizes: Sequence[int], dim: int, start: int | None, end: int | None, step: int
) -> Array:
    """Zeros with ``grad`` at ``start:end:step`` along ``dim``."""
    shape, strides, first = sliced(tuple(input_sizes), dim, start, end, step)
    return _scattered(grad, tuple(input_sizes), list(places(shape, strides, first)))


REFERENCES: dict[str, Reference] = {
    "index": Reference(index, {}, bits=True),
    "index_backward": Reference(index_backward, budget(1)),
    "select_backward": Reference(select_backward, {}),
    "slice_backward": Reference(slice_backward, {}),
}
