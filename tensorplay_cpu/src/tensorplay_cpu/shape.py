"""Views, indexing, matrix products and writes through the methods of ``numpy.ndarray``.

The methods are three to ten times faster on small arrays than the functions of the same names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_composite.arrays._support import leading
from tensorplay_cpu.scatter import add_slices

_ALL = slice(None)
_SMALL = 1024
"""Elements up to which a scatter goes element by element, which is quicker than sorting."""


@quietly
def views(general: Kernels) -> Kernels:
    """Kernels that return a view, and ``cat``."""
    concatenate = np.concatenate
    ndarray, single, double = np.ndarray, np.dtype("float32"), np.dtype("float64")
    general_reshape, general_expand, general_squeeze = general["reshape"], general["expand"], general["squeeze"]
    general_cat, general_transpose, general_slice = general["cat"], general["transpose"], general["slice"]
    general_select = general["select"]

    def reshape(self: Any, shape: Any) -> Any:
        # NumPy takes any negative size for -1; the general kernel refuses.
        return (
            self.reshape(shape)
            if shape.__class__ is tuple and (not shape or min(shape) >= -1)
            else general_reshape(self, shape)
        )

    def permute(self: Any, dims: Any) -> Any:
        return self.transpose(dims)

    def transpose(self: Any, dim0: int, dim1: int) -> Any:
        return self.swapaxes(dim0, dim1) if self.ndim else general_transpose(self, dim0, dim1)

    def expand(self: Any, size: Any) -> Any:
        """An array over the same buffer with strides of 0, in a fifth of the time of ``numpy.broadcast_to``."""
        dtype, shape, strides = self.dtype, self.shape, self.strides
        if size.__class__ is not tuple or size == (-1,) or (dtype is not single and dtype is not double):
            return general_expand(self, size)  # NumPy makes one element of a size of -1
        new = len(size) - len(shape)
        if size[new:] != shape:
            if new < 0:
                return general_expand(self, size)
            strides = tuple(
                [
                    0 if has == 1 else step if has == n else -1
                    for n, has, step in zip(size[new:], shape, strides, strict=True)
                ]
            )
            if -1 in strides:
                return general_expand(self, size)
        try:
            return ndarray(size, dtype, self, 0, (0,) * new + strides)
        except (ValueError, TypeError):  # a size of -1, or elements that are not side by side
            return general_expand(self, size)

    def squeeze(self: Any, dim: Any = None) -> Any:
        if dim is None:
            return self.squeeze()
        if dim.__class__ is int and self.ndim:
            return self.squeeze(dim) if self.shape[dim] == 1 else self[...]
        return general_squeeze(self, dim)

    def unsqueeze(self: Any, dim: int) -> Any:
        return self[(*leading[self.ndim + 1][dim], None)]

    def select(self: Any, dim: int, index: int) -> Any:
        if index.__class__ is not int:  # NumPy would index by a list, a mask or None as well
            return general_select(self, dim, index)
        if dim == 0 and self.ndim > 1:  # of one dim the result would be a scalar
            return self[index]
        return self[(*leading[self.ndim][dim], index, ...)]

    def slice_(self: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
        if step < 1:
            return general_slice(self, dim, start, end, step)
        return self[(*leading[self.ndim][dim], slice(start, end, step))]

    def cat(tensors: Any, dim: int = 0) -> Any:
        try:
            return concatenate(tensors, dim)
        except ValueError:  # an empty 1-d tensor among others, perhaps
            return general_cat(tensors, dim)

    return {
        "reshape": reshape,
        "permute": permute,
        "transpose": transpose,
        "expand": expand,
        "squeeze": squeeze,
        "unsqueeze": unsqueeze,
        "select": select,
        "slice": slice_,
        "cat": cat,
    }


@quietly
def data(general: Kernels) -> Kernels:
    """Kernels that gather, scatter, multiply and write."""
    product, zeros, single, double = np.matmul, np.zeros, np.dtype("float32"), np.dtype("float64")
    add_at, copyto, overlap, ravel_multi_index = np.add.at, np.copyto, np.may_share_memory, np.ravel_multi_index
    general_matmul, general_index_backward = general["matmul"], general["index_backward"]
    turned, general_flip = np.flip, general["flip"]
    general_index, general_index_put = general["index"], general["index_put_"]

    def matmul(self: Any, other: Any) -> Any:
        dtype = self.dtype
        if not (dtype is single or dtype.itemsize > 2):
            return general_matmul(self, other)
        if self.ndim > 2 and other.ndim <= 2 and self.size:  # one product, not one a matrix: thrice as fast
            rows = product(self.reshape(-1, self.shape[-1]), other)
            return rows.reshape(*self.shape[:-1], *other.shape[1:])
        return product(self, other)

    def index(self: Any, indices: Any) -> Any:
        last = indices[-1] if indices else None
        one = last is not None and len(indices) > 1 and last.ndim == 1 and last.dtype.kind == "i"
        one = one and self.size > 0  # in an empty array take checks no index
        if one and all(index is None for index in indices[:-1]):  # a method that is thrice as fast as indexing
            try:
                return self.take(last, len(indices) - 1)
            except IndexError:  # it says which
                return general_index(self, indices)
        if not indices or indices[0] is None:
            return behind(self, indices)
        try:
            return self[tuple([_ALL if index is None else index for index in indices])]
        except IndexError:
            return general_index(self, indices)

    def behind(self: Any, indices: Any) -> Any:
        """Elements by indices of dims behind the first, as one take: NumPy gives them transposed, and more slowly."""
        lead = 0
        while lead < len(indices) and indices[lead] is None:
            lead += 1
        picked, shape = tuple(indices[lead:]), self.shape
        if lead and self.flags.c_contiguous and not [1 for one in picked if one is None or one.dtype.kind != "i"]:
            try:
                places = ravel_multi_index(picked, shape[lead : len(indices)])
                return self.reshape(*shape[:lead], -1, *shape[len(indices) :]).take(places, lead)
            except ValueError:  # a negative index, or one that is out of range
                pass
        return general_index(self, indices)

    def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
        if not accumulate or self.dtype.itemsize == 2 or not self.flags.writeable:  # add.at writes all the same
            return general_index_put(self, indices, values, accumulate)
        key: Any = tuple([_ALL if index is None else index for index in indices])
        try:
            index = indices[-1] if indices else None
            rows = self.ndim > 1 and index is not None and index.ndim == 1 and index.dtype.kind == "i" and index.size
            if (
                rows
                and max(self.size, values.size) > _SMALL
                and self.flags.c_contiguous
                and all(one is None for one in indices[:-1])
                and self.dtype.kind in "fc"
            ):
                add_slices(self, len(indices) - 1, index, values)
                return self
            add_at(self, key, values)
        except (IndexError, ValueError):  # before anything is written
            return general_index_put(self, indices, values, accumulate)
        return self

    def index_backward(grad: Any, input_sizes: Any, indices: Any) -> Any:
        dtype, sizes = grad.dtype, tuple(input_sizes)
        if not indices or (dtype is not single and dtype is not double):
            return general_index_backward(grad, sizes, indices)
        index, dim = indices[-1], len(indices) - 1
        alone = index is not None and index.dtype.kind == "i" and all(one is None for one in indices[:-1])
        if alone and grad.shape == (*sizes[:dim], *index.shape, *sizes[dim + 1 :]):  # else it would broadcast
            result, places = zeros(sizes, dtype), index.reshape(-1)
            try:
                add_slices(result, dim, places, grad.reshape((*sizes[:dim], len(places), *sizes[dim + 1 :])))
            except (IndexError, ValueError):
                return general_index_backward(grad, sizes, indices)
            return result
        for index in indices:
            if index is None or index.ndim != 1 or index.dtype.kind not in "iu":
                return general_index_backward(grad, sizes, indices)
        if grad.shape != (len(indices[0]), *sizes[len(indices) :]):  # it would broadcast
            return general_index_backward(grad, sizes, indices)
        result = zeros(sizes, dtype)
        add_at(result, tuple(indices), grad)
        return result

    def flip(self: Any, dims: Any) -> Any:
        return turned(self, dims).copy() if self.ndim and dims else general_flip(self, dims)

    def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
        if src.dtype.kind == "c" and self.dtype.kind not in "cb":
            src = src.real
        if self.ndim == 1 and src.ndim == 1 and overlap(self, src):
            src = src.copy()  # NumPy copies what has one dim element by element, also onto what is still to come
        copyto(self, src, "unsafe")
        return self

    def fill_(self: Any, value: Any) -> Any:
        self.fill(value)
        return self

    def zero_(self: Any) -> Any:
        self.fill(0)
        return self

    return {
        "matmul": matmul,
        "index": index,
        "index_put_": index_put_,
        "index_backward": index_backward,
        "flip": flip,
        "copy_": copy_,
        "fill_": fill_,
        "zero_": zero_,
    }


def kernels(general: Kernels) -> Kernels:
    """Returns the replacements; ``general`` serves what they leave out."""
    return {**views(general), **data(general)}
