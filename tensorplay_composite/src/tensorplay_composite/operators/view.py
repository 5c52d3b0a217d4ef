"""Views written in other views, joins of them, and copies with a part replaced.

The first run with autograd active, so a view of theirs is one of the operators that they call. The copies run below it
and have gradients of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorplay_core.errors import DimError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops import shapes_view
from tensorplay_core.ops.direct import copy_into
from tensorplay_core.ops.shape_checks import Shaped, as_int, as_ints, normalize_dim, normalize_dims
from tensorplay_core.ops.shapes_view import chunk_size, split_sizes, unflattened
from tensorplay_core.tensor.tensor import Tensor

Dims = int | Sequence[int]


def split(self: Tensor, split_size: int, dim: int = 0) -> Sequence[Tensor]:
    """Parts of one size."""
    return F.split_with_sizes(self, split_sizes("split", self.shape, split_size, dim), dim)


def split_with_sizes(self: Tensor, split_size: Sequence[int], dim: int = 0) -> Sequence[Tensor]:
    """Parts of given sizes."""
    return F.split_with_sizes(self, split_size, dim)


def chunk(self: Tensor, chunks: int, dim: int = 0) -> Sequence[Tensor]:
    """So many parts, equal but for the last."""
    size = chunk_size("chunk", self.shape, chunks, dim)
    if not size:
        return F.split_with_sizes(self, (0,) * chunks, dim)
    return F.split_with_sizes(self, split_sizes("chunk", self.shape, size, dim), dim)


def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """So many indices along a dim."""
    if not self.ndim:
        raise ShapeError("narrow: a 0-d tensor has no dim to cut" + fix("reshape it to (1,) first"))
    size = self.shape[normalize_dim("narrow", dim, self.ndim)]
    start, length = as_int("narrow", start, "start"), as_int("narrow", length, "length")
    if length < 0:
        raise ValueRangeError(f"narrow: length must not be negative, and is {length}")
    if not -size <= start <= size:
        raise DimError(f"narrow: start {start} is out of range for dim {dim} of size {size} (valid: {-size} to {size})")
    first = start + size if start < 0 else start
    if first + length > size:
        raise ShapeError(f"narrow: start ({first}) + length ({length}) exceeds the size of dim {dim}, {size}")
    return F.slice(self, dim, first, first + length)


def movedim(self: Tensor, source: Dims, destination: Dims) -> Tensor:
    """Dims put elsewhere, the others in order."""
    ndim = self.ndim
    given, wanted = as_ints("movedim", source, "source"), as_ints("movedim", destination, "destination")
    if len(given) != len(wanted):
        raise ShapeError(
            f"movedim: source {given} and destination {wanted} must name the same number of dims, one for each"
        )
    if not ndim:
        normalize_dims("movedim", given, 0, name="source")
        return self.expand(())
    origins = normalize_dims("movedim", given, ndim, name="source")
    targets = normalize_dims("movedim", wanted, ndim, name="destination")
    moved = dict(zip(targets, origins, strict=True))
    rest = iter(d for d in range(ndim) if d not in origins)
    return self.permute([moved[d] if d in moved else next(rest) for d in range(ndim)])


def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims joined into one."""
    first, last = (normalize_dim("flatten", d, self.ndim) for d in (start_dim, end_dim))
    if first > last:
        raise ShapeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}" + fix("exchange them"))
    joined = math.prod(self.shape[first : last + 1])
    return self.reshape((*self.shape[:first], joined, *self.shape[last + 1 :]))


def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """A dim divided into several."""
    return self.reshape(unflattened("unflatten", self.shape, dim, sizes))  # a view, whatever the strides


def t(self: Tensor) -> Tensor:
    """A matrix with its dims swapped."""
    if self.ndim > 2:
        raise ShapeError(f"t: takes a tensor of at most 2 dims, not {self.ndim}" + fix("use transpose, or mT"))
    return self.transpose(0, 1) if self.ndim == 2 else self.expand(self.shape)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along a new dim."""
    if not tensors:
        raise ValueRangeError("stack: expected a non-empty list of tensors")
    first = tensors[0].shape
    for position, one in enumerate(tensors):
        if one.shape != first:
            raise ShapeError(
                f"stack: tensors must have one shape: tensor 0 has shape {first}, tensor {position} {one.shape}"
            )
    d = normalize_dim("stack", dim, len(first) + 1, of="the result")
    return F.cat([one.unsqueeze(d) for one in tensors], d)


def flip(self: Tensor, dims: Dims) -> Tensor:
    """A copy with dims reversed, through a gather of each."""
    turned = normalize_dims("flip", dims, self.ndim, name="dims")
    result = self.clone()
    for dim in turned if self.ndim else ():  # of 0 dims: it may name 0 and -1, and there is nothing to turn
        size = self.shape[dim]
        backwards = F.arange(size - 1, -1, -1, device=self.device) if size else F.arange(0, device=self.device)
        result = F.index(result, [*(None,) * dim, backwards])
    return result


def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with one index along a dim replaced."""
    shapes_view.select_scatter("select_scatter", _shape(self), _shape(src), dim, index)
    copy = self.clone()
    copy_into(copy.select(dim, index), src)
    return copy


def slice_scatter(
    self: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with a slice replaced."""
    shapes_view.slice_scatter("slice_scatter", _shape(self), _shape(src), dim, start, end, step)
    copy = self.clone()
    copy_into(F.slice(copy, dim, start, end, step), src)
    return copy


def diagonal_scatter(self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with a diagonal replaced."""
    shapes_view.diagonal_scatter("diagonal_scatter", _shape(self), _shape(src), offset, dim1, dim2)
    copy = self.clone()
    copy_into(copy.diagonal(offset, dim1, dim2), src)
    return copy


def as_strided_scatter(
    self: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy with some of its memory replaced."""
    shapes_view.as_strided_scatter("as_strided_scatter", _shape(self), _shape(src), size, stride, storage_offset)
    copy = self.clone()
    copy_into(copy.as_strided(size, stride, storage_offset), src)
    return copy


def _shape(tensor: Tensor) -> Shaped:
    return Shaped(tensor.shape, tensor.dtype)
