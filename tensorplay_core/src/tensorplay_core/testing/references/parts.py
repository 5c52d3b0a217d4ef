"""References of views beyond reshaping, of joining along a new dim, and of copies in which a view is replaced.

A view is a list of places in C order; a copy with a view replaced has other elements at those places.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references import views
from tensorplay_core.testing.references.array import Array, Shape, places, strides_of
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.views import dim_of

Where = tuple[Shape, list[int]]
"""The shape of a view, and the places of its elements."""


def _view(shape: Sequence[int], strides: Sequence[int], start: int) -> Where:
    return tuple(shape), [] if 0 in shape else [*places(shape, strides, start)]


def _strided(shape: Shape, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Where:
    return _view(size, stride, storage_offset or 0)


def _diagonal(shape: Shape, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Where:
    strides = strides_of(shape)
    a, b = dim_of(dim1, len(shape)), dim_of(dim2, len(shape))
    rows = [(i, i + offset) for i in range(shape[a]) if 0 <= i + offset < shape[b]]
    rest = [d for d in range(len(shape)) if d not in (a, b)]
    start = rows[0][0] * strides[a] + rows[0][1] * strides[b] if rows else 0
    sizes = [*(shape[d] for d in rest), len(rows)]
    return _view(sizes, [*(strides[d] for d in rest), strides[a] + strides[b]], start)


def _selected(shape: Shape, dim: int, index: int) -> Where:
    return _view(*views.selected(shape, dim, index))


def _sliced(shape: Shape, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Where:
    return _view(*views.sliced(shape, dim, start, end, step))


def _taken(where: Callable[..., Where]) -> Callable[..., Array]:
    def view(self: Array, *args: Any) -> Array:
        shape, found = where(self.shape, *args)
        return Array(shape, [self.data[place] for place in found], self.dtype)

    return view


def _replaced(where: Callable[..., Where]) -> Callable[..., Array]:
    def scatter(self: Array, src: Array, *args: Any) -> Array:
        shape, found = where(self.shape, *args)
        if shape != src.shape:
            raise ValueError(f"src is {src.shape}, and the view {shape}")
        data = list(self.data)
        for place, value in zip(found, src.data, strict=True):
            data[place] = value
        return Array(self.shape, data, self.dtype)

    return scatter


def unbind(self: Array, dim: int = 0) -> tuple[Array, ...]:
    """Every index along a dim."""
    return tuple(views.select(self, dim, i) for i in range(self.shape[dim]))


def split_with_sizes(self: Array, split_sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    """Consecutive parts along a dim."""
    ends = [*itertools.accumulate(split_sizes)]
    if not ends or ends[-1] != self.shape[dim]:
        raise ValueError(f"{split_sizes} are not {self.shape[dim]}")
    return tuple(views.slice(self, dim, end - size, end) for size, end in zip(split_sizes, ends, strict=True))


def split(self: Array, split_size: int, dim: int = 0) -> tuple[Array, ...]:
    """Parts of one size, of which the last may be smaller."""
    size = self.shape[dim]
    count = -(-size // split_size) if size else 1
    return tuple(views.slice(self, dim, i * split_size, (i + 1) * split_size) for i in range(count))


def chunk(self: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    """At most so many parts."""
    size = -(-self.shape[dim] // chunks)
    return split(self, size, dim) if size else (self,) * chunks


def narrow(self: Array, dim: int, start: int, length: int) -> Array:
    """So many indices along a dim."""
    first = start + self.shape[dim] if start < 0 else start
    return views.slice(self, dim, first, first + length)


def movedim(self: Array, source: Any, destination: Any) -> Array:
    """Dims put elsewhere."""
    ends = [(one,) if isinstance(one, int) else tuple(one) for one in (source, destination)]
    origins, targets = ([dim_of(d, self.ndim) for d in one] for one in ends)
    if not self.ndim:
        return self
    order = [d for d in range(self.ndim) if d not in origins]
    for target, origin in sorted(zip(targets, origins, strict=True)):
        order.insert(target, origin)
    return views.permute(self, order)


def flatten(self: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """Dims joined."""
    a, b = dim_of(start_dim, self.ndim), dim_of(end_dim, self.ndim)
    joined = math.prod(self.shape[a : b + 1])
    return views.reshape(self, (*self.shape[:a], joined, *self.shape[b + 1 :]))


def unflatten(self: Array, dim: int, sizes: Sequence[int]) -> Array:
    """A dim divided."""
    d = dim_of(dim, self.ndim)
    known = math.prod(size for size in sizes if size != -1)
    full = [self.shape[d] // known if size == -1 else size for size in sizes]
    return views.reshape(self, (*self.shape[:d], *full, *self.shape[d + 1 :]))


def t(self: Array) -> Array:
    """A matrix transposed."""
    return views.transpose(self, 0, 1) if self.ndim == 2 else self


def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Arrays joined along a new dim."""
    return views.cat([views.unsqueeze(array, dim) for array in tensors], dim)


def flip(self: Array, dims: Any) -> Array:
    """The order along dims reversed."""
    reversed_ = {dim_of(d, self.ndim) for d in ((dims,) if isinstance(dims, int) else dims)} if self.ndim else set()
    strides, start = strides_of(self.shape), 0
    for d in reversed_:
        start += (self.shape[d] - 1) * strides[d]
        strides[d] = -strides[d]
    if 0 in self.shape:
        return self
    found = [start]
    for size, step in zip(self.shape, strides, strict=True):
        found = [place + i * step for place in found for i in range(size)]
    return Array(self.shape, [self.data[place] for place in found], self.dtype)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "as_strided": _taken(_strided),
    "as_strided_scatter": _replaced(_strided),
    "chunk": chunk,
    "diagonal": _taken(_diagonal),
    "diagonal_scatter": _replaced(_diagonal),
    "flatten": flatten,
    "flip": flip,
    "movedim": movedim,
    "narrow": narrow,
    "select_scatter": _replaced(_selected),
    "slice_scatter": _replaced(_sliced),
    "split": split,
    "split.sizes": split_with_sizes,
    "split_with_sizes": split_with_sizes,
    "stack": stack,
    "t": t,
    "unbind": unbind,
    "unflatten": unflatten,
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, {}, bits=True) for name, fn in _FUNCTIONS.items()}
