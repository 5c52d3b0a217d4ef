"""The shape rules of views beyond reshaping: by strides, of a diagonal, of several parts; and of writing one back.

The names of arguments are the schema's, ``slice_`` and its like apart, which Python has taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorplay_core.errors import DimError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import shapes_indexing
from tensorplay_core.ops.shape_checks import (
    Shape,
    Shaped,
    SizeError,
    as_int,
    as_ints,
    as_sizes,
    check_shape,
    normalize_dim,
    normalize_dims,
)

REMEDY_OF_0D = "reshape it to (1,) first"


def as_strided(op: str, self: Shaped, size: Any, stride: Any, storage_offset: Any = None, **keywords: Any) -> Shape:
    """``size``; whether the memory has that many elements is known to the kernel alone."""
    sizes, strides = as_sizes(op, size), as_ints(op, stride, "stride")
    if len(sizes) != len(strides):
        raise ShapeError(
            f"{op}: size {sizes} and stride {strides} must have the same length, one stride for each dim"
            + fix("give each dim its stride; those of C order are x.contiguous().stride()")
        )
    if any(step < 0 for step in strides):
        raise ValueRangeError(f"{op}: strides start at 0, and stride is {strides}" + fix("reverse dims with flip"))
    if storage_offset is not None and as_int(op, storage_offset, "storage_offset") < 0:
        raise ValueRangeError(f"{op}: storage_offset starts at 0, and is {storage_offset}")
    return sizes


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many elements of memory a view spans.

    Example:
        >>> extent((2, 3), (3, 1)), extent((2, 0), (3, 1)), extent((), ())
        (6, 0, 1)
    """
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))


def may_overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of a view may be the same memory.

    Example:
        >>> may_overlap((2, 3), (3, 1)), may_overlap((2, 3), (1, 1)), may_overlap((2, 3), (0, 1))
        (False, True, True)
    """
    reached = 0
    for step, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if step <= reached:
                return True
            reached += step * (size - 1)
    return False


def check_in_storage(op: str, sizes: Sequence[int], strides: Sequence[int], offset: int, count: int) -> None:
    """Refuses a view of more memory than there is.

    Args:
        op: the operator, for the message.
        sizes: the view's.
        strides: the view's, in elements.
        offset: the place of its first element.
        count: how many elements the memory has.

    Raises:
        ShapeError: the view reaches beyond.
    """
    if len(sizes) != len(strides) or min((*sizes, *strides, offset)) < 0:  # a fast call has not asked the rule
        raise ShapeError(f"{op}: no view has size {tuple(sizes)}, stride {tuple(strides)} and storage_offset {offset}")
    needed = extent(sizes, strides)
    if needed and offset + needed > count:
        raise ShapeError(
            f"{op}: size {tuple(sizes)} with stride {tuple(strides)} and storage_offset {offset} needs "
            f"{offset + needed} elements of memory, and the tensor's has {count}"
            + fix("make the sizes, the strides or the offset smaller")
        )


def diagonal(op: str, self: Shaped, offset: Any = 0, dim1: Any = 0, dim2: Any = 1, **keywords: Any) -> Shape:
    """Without ``dim1`` and ``dim2``, and with the length of their diagonal at the end."""
    shape = self.shape
    first, second = _two_dims(op, shape, dim1, dim2)
    shift = as_int(op, offset, "offset")
    length = max(0, min(shape[first] + min(shift, 0), shape[second] - max(shift, 0)))
    return (*(size for d, size in enumerate(shape) if d not in (first, second)), length)


def _two_dims(op: str, shape: Shape, dim1: Any, dim2: Any) -> tuple[int, int]:
    first = normalize_dim(op, dim1, len(shape), name="dim1")
    second = normalize_dim(op, dim2, len(shape), name="dim2")
    if not shape:
        raise DimError(f"{op}: a 0-d tensor has no diagonal" + fix("it takes a tensor of at least 2 dims"))
    if first == second:
        raise ShapeError(f"{op}: dim1 and dim2 cannot be identical, and {dim1} and {dim2} are dim {first}")
    return first, second


def unbind(op: str, self: Shaped, dim: Any = 0, **keywords: Any) -> tuple[Shape, ...]:
    """One shape for each index along ``dim``."""
    shape = self.shape
    if not shape:
        raise DimError(f"{op}: a 0-d tensor has no dim to take apart" + fix(REMEDY_OF_0D))
    d = normalize_dim(op, dim, len(shape))
    return (shape[:d] + shape[d + 1 :],) * shape[d]


def split_with_sizes(op: str, self: Shaped, split_sizes: Any, dim: Any = 0, **keywords: Any) -> tuple[Shape, ...]:
    """One shape for each size; the sizes add up to that of ``dim``."""
    shape = self.shape
    if not shape:
        raise ShapeError(f"{op}: expects at least a 1-dimensional tensor" + fix(REMEDY_OF_0D))
    d = normalize_dim(op, dim, len(shape))
    sizes = as_ints(op, split_sizes, "split_sizes")
    if any(size < 0 for size in sizes):
        raise SizeError(f"{op}: sizes start at 0, and they are {sizes}")
    if sum(sizes) != shape[d]:
        raise ShapeError(
            f"{op}: the sizes {sizes} add up to {sum(sizes)}, and dim {d} of shape {shape} is {shape[d]}"
            + fix(f"make the sizes add up to {shape[d]}")
        )
    return tuple((*shape[:d], size, *shape[d + 1 :]) for size in sizes)


def flip(op: str, self: Shaped, dims: Any, **keywords: Any) -> Shape:
    """The shape of ``self``; no dim is named twice."""
    normalize_dims(op, dims, len(self.shape), name="dims")
    return self.shape


def _written_back(op: str, self: Shaped, src: Shaped, part: Shape) -> Shape:
    if src.shape != part:
        raise ShapeError(
            f"{op}: src has shape {src.shape}, and the part of self (shape {self.shape}) that it replaces {part}"
            + fix(f"expand it: src.expand{part if len(part) != 1 else (part[0],)}")
        )
    return self.shape


def select_scatter(op: str, self: Shaped, src: Shaped, dim: Any, index: Any, **keywords: Any) -> Shape:
    """The shape of ``self``; that of ``src`` is the selected part's."""
    return _written_back(op, self, src, shapes_indexing.select(op, self, dim, index))


def slice_scatter(
    op: str, self: Shaped, src: Shaped, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1, **keywords: Any
) -> Shape:
    """The shape of ``self``; that of ``src`` is the slice's."""
    return _written_back(op, self, src, shapes_indexing.slice(op, self, dim, start, end, step))


def diagonal_scatter(
    op: str, self: Shaped, src: Shaped, offset: Any = 0, dim1: Any = 0, dim2: Any = 1, **keywords: Any
) -> Shape:
    """The shape of ``self``; that of ``src`` is the diagonal's."""
    return _written_back(op, self, src, diagonal(op, self, offset, dim1, dim2))


def as_strided_scatter(
    op: str, self: Shaped, src: Shaped, size: Any, stride: Any, storage_offset: Any = None, **keywords: Any
) -> Shape:
    """The shape of ``self``; that of ``src`` is ``size``."""
    sizes = as_strided(op, self, size, stride, storage_offset)
    strides = as_ints(op, stride, "stride")
    if any(step == 0 and n > 1 for n, step in zip(sizes, strides, strict=True)):
        raise ShapeError(f"{op}: with stride {strides} several elements of src would be written to one place")
    check_in_storage(op, sizes, strides, storage_offset or 0, math.prod(self.shape))
    return _written_back(op, self, src, sizes)


def split_sizes(op: str, shape: Shape, split_size: Any, dim: Any) -> tuple[int, ...]:
    """Returns the sizes of parts of ``split_size`` along a dim, of which the last may be smaller.

    Raises:
        ShapeError: the tensor has no dims.
        SizeError: a part has no size, and the dim has.

    Example:
        >>> split_sizes("split", (5, 2), 2, 0), split_sizes("split", (0,), 2, 0)
        ((2, 2, 1), (0,))
    """
    if not shape:
        raise ShapeError(f"{op}: expects at least a 1-dimensional tensor" + fix(REMEDY_OF_0D))
    size = shape[normalize_dim(op, dim, len(shape))]
    step = as_int(op, split_size, "split_size")
    if step < 0 or (not step and size):
        raise SizeError(f"{op}: split_size must be positive, or 0 for a dim of size 0, and is {step} for size {size}")
    if not size:
        return (0,)
    return tuple(min(step, size - begin) for begin in range(0, size, step))


def chunk_size(op: str, shape: Shape, chunks: Any, dim: Any) -> int:
    """Returns the size of all parts but the last when a dim is divided into so many.

    Raises:
        ShapeError: the tensor has no dims.
        SizeError: ``chunks`` is not positive.
    """
    if not shape:
        raise ShapeError(f"{op}: expects at least a 1-dimensional tensor" + fix(REMEDY_OF_0D))
    count = as_int(op, chunks, "chunks")
    if count < 1:
        raise SizeError(f"{op}: chunks must be greater than 0, and is {count}")
    return -(-shape[normalize_dim(op, dim, len(shape))] // count)


def unflattened(op: str, shape: Shape, dim: Any, sizes: Any) -> Shape:
    """Returns a shape with one dim divided into several.

    Raises:
        ShapeError: the sizes are none, or their product is not the dim's size.
    """
    d = normalize_dim(op, dim, len(shape))
    given = as_ints(op, sizes, "sizes")
    if not given:
        raise ShapeError(f"{op}: sizes must not be empty")
    known = 1
    for size in given:
        known *= size if size != -1 else 1
    total = shape[d] if shape else 1
    if given.count(-1) == 1 and known and total % known == 0:
        given = tuple(total // known if size == -1 else size for size in given)
    elif -1 in given or known != total:
        raise ShapeError(f"{op}: sizes {given} do not multiply up to {total}, the size of dim {d} of shape {shape}")
    return check_shape(op, (*shape[:d], *given, *shape[d + 1 :]))
