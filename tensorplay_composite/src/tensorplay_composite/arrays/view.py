"""Kernels that change the shape and move no data, and ``cat``, which joins.

The results share memory with the input wherever the module's own functions do; the contract declares that.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, check_0d, leading, quietly
from tensorplay_core.errors import ArgumentError, DimError, ShapeError, ValueRangeError
from tensorplay_core.ops.shape_checks import as_ints
from tensorplay_core.ops.shapes_view import check_in_storage


@quietly
def sizes(xp: Any, support: Support) -> Kernels:
    """Kernels that arrange all elements in another shape."""
    move, broadcast_to = support.permute, xp.broadcast_to

    def reshape(self: Any, shape: Any) -> Any:
        if shape and min(shape) < -1:  # NumPy takes any negative size for -1
            raise ShapeError(f"reshape: sizes are 0 or more, or one -1; got {shape}")
        return xp.reshape(self, shape)

    def permute(self: Any, dims: Any) -> Any:
        ndim = self.ndim
        return move(self, tuple(dim + ndim if dim < 0 else dim for dim in dims))

    def transpose(self: Any, dim0: int, dim1: int) -> Any:
        order = list(range(self.ndim))
        if not order:
            for dim in (dim0, dim1):
                check_0d("transpose", dim)
        else:
            order[dim0], order[dim1] = order[dim1], order[dim0]
        return move(self, tuple(order))

    def expand(self: Any, size: Any) -> Any:
        if -1 in size:
            new = len(size) - self.ndim
            size = tuple(self.shape[i - new] if n == -1 and i >= new else n for i, n in enumerate(size))
        new = len(size) - self.ndim
        if size[new:] == self.shape and all(n == 1 for n in size[:new]):
            return self[(*(None,) * new, ...)]  # nothing is repeated
        if size and min(size) < 0:
            raise ShapeError(f"expand: sizes are 0 or more, or -1 for an existing dim; got {size}")
        if 0 in size:  # nothing is repeated here either
            broadcast_to(self, size)
            return xp.reshape(xp.reshape(self, (-1,))[:0], size)
        result = broadcast_to(self, size)
        if support.numpy_rules and self.flags.writeable:  # a part of it may repeat nothing, and can be written to
            result.flags.writeable = True
        return result

    def squeeze(self: Any, dim: Any = None) -> Any:
        shape = self.shape
        if not shape:
            check_0d("squeeze", dim)
            return self[...]
        dims = range(len(shape)) if dim is None else as_ints("squeeze", dim, "dim")
        if len({d % len(shape) for d in dims}) < len(dims):
            raise DimError(f"squeeze: a dim appears twice in {dims}")
        ones = [d % len(shape) for d in dims if shape[d] == 1]
        return xp.squeeze(self, axis=tuple(ones))

    def unsqueeze(self: Any, dim: int) -> Any:
        if dim.__class__ is not int:  # a tuple means several dims to the module
            raise ArgumentError(f"unsqueeze: dim must be an int, not {dim!r}")
        return xp.expand_dims(self, axis=dim)

    return {
        "reshape": reshape,
        "permute": permute,
        "transpose": transpose,
        "expand": expand,
        "squeeze": squeeze,
        "unsqueeze": unsqueeze,
    }


@quietly
def parts(xp: Any, support: Support) -> Kernels:
    """Kernels that take a part out, and the one that puts parts together."""
    join = getattr(xp, "concat", None) or xp.concatenate
    within = support.numpy_rules

    def select(self: Any, dim: int, index: int) -> Any:
        if index.__class__ is not int:  # the module would index by a list, a mask or None as well
            raise ArgumentError(f"select: index must be an int, not {index!r}")
        if not within and not -self.shape[dim] <= index < self.shape[dim]:  # JAX clips it
            raise IndexError(f"index {index} is out of bounds for dim {dim} of size {self.shape[dim]}")
        # The ellipsis makes one element of a 1-d array a 0-d view, not a scalar.
        return self[(*leading[self.ndim][dim], index, ...)]

    def slice_(self: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
        if step < 1:
            raise ValueRangeError(f"slice: step must be 1 or more, got {step}")
        part = slice(start, end, step)
        if not within:  # the standard leaves open what a slice means that is out of range
            part = slice(*part.indices(self.shape[dim]))
        return self[(*leading[self.ndim][dim], part, ...)]

    def cat(tensors: Any, dim: int = 0) -> Any:
        ndim = max(array.ndim for array in tensors)
        if ndim > 1:  # PyTorch lets an empty 1-d tensor join anything
            tensors = [array for array in tensors if array.ndim != 1 or array.shape[0] != 0]
        return join(list(tensors), axis=dim)

    def unbind(self: Any, dim: int = 0) -> Any:
        return [select(self, dim, index) for index in range(self.shape[dim])]

    def split_with_sizes(self: Any, split_sizes: Any, dim: int = 0) -> Any:
        ends = itertools.accumulate(split_sizes)
        return [slice_(self, dim, end - size, end) for size, end in zip(split_sizes, ends, strict=True)]

    return {"select": select, "slice": slice_, "unbind": unbind, "split_with_sizes": split_with_sizes, "cat": cat}


@quietly
def strides(xp: Any, support: Support) -> Kernels:
    """Kernels whose elements lie along other strides than a slice's, and ``flip``."""
    move, int64 = support.permute, support.int64
    in_memory = support.numpy_rules
    strided = xp.lib.stride_tricks.as_strided if in_memory else None

    def as_strided(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        first, count = storage_of(self)
        offset = first if storage_offset is None else storage_offset
        check_in_storage("as_strided", size, stride, offset, count)
        if strided is None:
            return taken(xp.reshape(self, (-1,)), size, stride, offset)
        step, root = self.itemsize, root_of(self)
        flat = strided(root, (count,), (step,))
        result = strided(flat[offset if 0 not in size else 0 :], tuple(size), tuple(n * step for n in stride))
        if not self.flags.writeable:
            result.flags.writeable = False
        return result

    def taken(flat: Any, size: Any, stride: Any, offset: int) -> Any:
        """A copy of the elements, where an array has no strides."""
        size = tuple(size)
        if 0 in size:
            return xp.zeros(size, dtype=flat.dtype)
        places = xp.full((1,) * len(size), offset, dtype=int64)
        for dim, (n, step) in enumerate(zip(size, stride, strict=True)):
            along = xp.arange(n, dtype=int64) * step
            places = places + xp.reshape(along, tuple(n if d == dim else 1 for d in range(len(size))))
        return xp.reshape(xp.take(flat, xp.reshape(places, (-1,)), axis=0), size)

    def diagonal(self: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
        ndim = self.ndim
        first, second = range(ndim)[dim1], range(ndim)[dim2]  # a dim that is out of range is an IndexError
        if first == second:
            raise ShapeError(f"diagonal: dim1 and dim2 cannot be identical, and are {dim1} and {dim2}")
        if in_memory:
            result = self.diagonal(offset, first, second)
            if self.flags.writeable:  # NumPy's is read-only, lest somebody takes it for a copy
                result.flags.writeable = True
            return result
        rows, columns = self.shape[first], self.shape[second]
        kept = tuple(dim for dim in range(ndim) if dim not in (first, second))
        length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
        shape = (*(self.shape[dim] for dim in kept), length)
        if 0 in shape:
            return xp.zeros(shape, dtype=self.dtype)
        flat = xp.reshape(move(self, (*kept, first, second)), (*shape[:-1], rows * columns))
        start = max(offset, 0) - min(offset, 0) * columns
        return xp.take(flat, start + xp.arange(length, dtype=int64) * (columns + 1), axis=-1)

    def flip(self: Any, dims: Any) -> Any:
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        if not self.shape:
            check_0d("flip", dims)
            dims = ()
        return support.copy(xp.flip(self, axis=dims) if dims else self)

    return {"as_strided": as_strided, "diagonal": diagonal, "flip": flip}


def root_of(array: Any) -> Any:
    """Returns the array that owns the memory of a view, as far as NumPy knows, from its lowest address on."""
    base = array.base
    while base is not None:
        if isinstance(base, type(array)):
            array = base
        base = getattr(base, "base", None)  # as_strided puts an object of its own between
    if min(array.strides, default=0) < 0:  # what another library lends may run backwards
        array = array[tuple([slice(None, None, -1 if step < 0 else 1) for step in array.strides])]
    return array


def storage_of(array: Any) -> tuple[int, int]:
    """Returns the place of an array's first element in its memory, and how many elements that has.

    Example:
        >>> import numpy
        >>> storage_of(numpy.zeros(5, dtype="float32")[2:]), storage_of(numpy.zeros(5)[::-1])
        ((2, 5), (4, 5))
    """
    if not hasattr(array, "base"):
        return 0, math.prod(array.shape)
    root = root_of(array)
    if root.size == 0:
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(root.shape, root.strides, strict=True))
    offset = (address(array) - address(root)) // array.itemsize if array.size else 0
    return offset, (last + root.itemsize) // array.itemsize


def address(array: Any) -> int:
    """Returns where the first element of an array lies."""
    return int(array.__array_interface__["data"][0] if hasattr(array, "__array_interface__") else array.data.ptr)


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of shape over ``xp``."""
    return {**sizes(xp, support), **parts(xp, support), **strides(xp, support)}
