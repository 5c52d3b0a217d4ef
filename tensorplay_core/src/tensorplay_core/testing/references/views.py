"""References of the operators that move elements: views, joins, and copies into another dtype.

A view is a shape, a stride for each dim and a start; its elements are read from the C order of what it is a view of.
Nothing is computed, so nothing may differ, not even the sign of a zero.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references.array import Array, Shape, places, strides_of
from tensorplay_core.testing.references.elementwise import common_dtype
from tensorplay_core.testing.references.reference import Reference


def dim_of(dim: int, ndim: int) -> int:
    """Returns a dim counted from the first; a 0-d array is taken as one of one dim."""
    size = max(ndim, 1)
    if not -size <= dim < size:
        raise IndexError(f"dim {dim} of {ndim}")
    return dim % size


def dims_of(dim: Any, ndim: int) -> list[int]:
    """Returns dims in ascending order: all when none is given."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(ndim))
    return sorted({dim_of(d, ndim) for d in ((dim,) if isinstance(dim, int) else dim)} if ndim else set())


def _view(self: Array, shape: Sequence[int], strides: Sequence[int], start: int = 0) -> Array:
    data = self.data
    if 0 in shape:
        return Array(tuple(shape), [], self.dtype)
    return Array(tuple(shape), [data[place] for place in places(shape, strides, start)], self.dtype)


def reshape(self: Array, shape: Sequence[int]) -> Array:
    """The same elements in another shape; one size may be -1."""
    known = math.prod(size for size in shape if size != -1)
    full = tuple(len(self.data) // known if size == -1 else size for size in shape)
    if math.prod(full) != len(self.data):
        raise ValueError(f"shape {self.shape} is not {full}")
    return Array(full, list(self.data), self.dtype)


def permute(self: Array, dims: Sequence[int]) -> Array:
    """The dims in another order."""
    strides = strides_of(self.shape)
    order = [dim_of(dim, self.ndim) for dim in dims]
    return _view(self, [self.shape[d] for d in order], [strides[d] for d in order])


def transpose(self: Array, dim0: int, dim1: int) -> Array:
    """Two dims swapped."""
    order = list(range(self.ndim))
    if order:
        a, b = dim_of(dim0, self.ndim), dim_of(dim1, self.ndim)
        order[a], order[b] = order[b], order[a]
    return permute(self, order)


def expand(self: Array, size: Sequence[int]) -> Array:
    """Dims of size 1 repeated, new ones in front; -1 keeps a size."""
    new = len(size) - self.ndim
    shape = tuple(self.shape[i - new] if n == -1 else n for i, n in enumerate(size))
    return Array(shape, list(self.broadcast(shape)), self.dtype)


def squeeze(self: Array, dim: Any = None) -> Array:
    """Without the dims of size 1, or without those among ``dim``."""
    dims = range(self.ndim) if dim is None else [] if dim == () else dims_of(dim, self.ndim)
    shape = tuple(size for d, size in enumerate(self.shape) if size != 1 or d not in dims)
    return Array(shape, list(self.data), self.dtype)


def unsqueeze(self: Array, dim: int) -> Array:
    """With a dim of size 1 at ``dim``, counted in the result."""
    d = dim_of(dim, self.ndim + 1)
    return Array((*self.shape[:d], 1, *self.shape[d:]), list(self.data), self.dtype)


def selected(shape: Shape, dim: int, index: int) -> tuple[Shape, list[int], int]:
    """Returns the shape, strides and start of one index along a dim."""
    d = dim_of(dim, len(shape))
    strides = strides_of(shape)
    start = (index % shape[d]) * strides[d]
    return (*shape[:d], *shape[d + 1 :]), strides[:d] + strides[d + 1 :], start


def sliced(shape: Shape, dim: int, start: int | None, end: int | None, step: int) -> tuple[Shape, list[int], int]:
    """Returns the shape, strides and start of a slice along a dim."""
    d = dim_of(dim, len(shape))
    strides = strides_of(shape)
    chosen = range(shape[d])[builtins.slice(start, end, step)]
    first = chosen.start * strides[d]
    strides[d] *= step
    return (*shape[:d], len(chosen), *shape[d + 1 :]), strides, first


def select(self: Array, dim: int, index: int) -> Array:
    """One index along ``dim``, which disappears."""
    return _view(self, *selected(self.shape, dim, index))


def slice(self: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    """``start:end:step`` along ``dim``."""
    return _view(self, *sliced(self.shape, dim, start, end, step))


def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Joins along an existing dim, in the dtype that all have in common."""
    dtype = common_dtype(tensors).name
    arrays = [array.cast(dtype) for array in tensors if array.shape != (0,)] or [tensors[0].cast(dtype)]
    first = arrays[0].shape
    d = dim_of(dim, len(first))
    widths = [math.prod(array.shape[d:]) for array in arrays]
    rows = range(math.prod(first[:d]))
    parts = [array.data[i * w : (i + 1) * w] for i in rows for array, w in zip(arrays, widths, strict=True)]
    shape = (*first[:d], sum(array.shape[d] for array in arrays), *first[d + 1 :])
    return Array(shape, list(itertools.chain.from_iterable(parts)), dtype)


def to_copy(self: Array, *, dtype: str | None = None, device: Any = None) -> Array:
    """A copy in another dtype."""
    copied = self.cast(dtype or self.dtype)
    return Array(copied.shape, list(copied.data), copied.dtype)


def copy_(self: Array, src: Array, non_blocking: bool = False) -> Array:
    """``src`` broadcast and cast."""
    return Array(self.shape, list(src.cast(self.dtype).broadcast(self.shape)), self.dtype)


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "_to_copy": to_copy,
    "cat": cat,
    "copy_": copy_,
    "expand": expand,
    "permute": permute,
    "reshape": reshape,
    "select": select,
    "slice": slice,
    "squeeze": squeeze,
    "transpose": transpose,
    "unsqueeze": unsqueeze,
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, {}, bits=True) for name, fn in _FUNCTIONS.items()}
