"""Kernels that change the shape and move no data, and ``cat``, which joins.

The results share memory with the input wherever the module's own functions do; the contract declares that.
"""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, check_0d, leading, quietly
from tensorplay_core.errors import ArgumentError, DimError, ShapeError, ValueRangeError


@quietly
def sizes(xp: Any, support: Support) -> Kernels:
    """Kernels that arrange all elements in another shape."""
    move, broadcast_to = support.permute, xp.broadcast_to

    def reshape(self: Any, shape: Any) -> Any:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if shape and min(shape) < -1:  # NumPy takes any negative size for -1
            raise ShapeError(f"reshape: sizes are 0 or more, or one -1; got {shape}")
        return xp.reshape(self, shape)

    def permute(self: Any, dims: Any) -> Any:
        ndim = self.ndim
        return move(self, tuple(dim + ndim if dim < 0 else dim for dim in dims))

    def transpose(self: Any, dim0: int, dim1: int) -> Any:
        order = list(range(self.ndim))
        if not order:
            check_0d("transpose", (dim0, dim1))
        else:
            order[dim0], order[dim1] = order[dim1], order[dim0]
        return move(self, tuple(order))

    def expand(self: Any, size: Any) -> Any:
        size = (size,) if isinstance(size, int) else tuple(size)
        if -1 in size:
            new = len(size) - self.ndim
            size = tuple(self.shape[i - new] if n == -1 and i >= new else n for i, n in enumerate(size))
        new = len(size) - self.ndim
        if size[new:] == self.shape and all(n == 1 for n in size[:new]):
            return self[(*(None,) * new, ...)]  # nothing is repeated, so the view can be written to
        if size and min(size) < 0:
            raise ShapeError(f"expand: sizes are 0 or more, or -1 for an existing dim; got {size}")
        return broadcast_to(self, size)

    def squeeze(self: Any, dim: Any = None) -> Any:
        shape = self.shape
        if not shape:
            check_0d("squeeze", dim)
            return self[...]
        dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
        if len({d % len(shape) for d in dims}) < len(dims):
            raise DimError(f"squeeze: a dim appears twice in {dims}")
        ones = [d % len(shape) for d in dims if shape[d] == 1]
        return xp.squeeze(self, axis=tuple(ones))

    def unsqueeze(self: Any, dim: int) -> Any:
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

    return {"select": select, "slice": slice_, "cat": cat}


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of shape over ``xp``."""
    return {**sizes(xp, support), **parts(xp, support)}
