"""Kernels of shape: views, which start no shader at all, and what joins or scatters them.

Where a view's elements lie follows from sizes and strides alone; the meta device has worked that out already, for
arrays that are nothing but sizes and strides, and its functions serve these as well.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import ShapeError
from tensorplay_core.ops import meta_kernels, shapes, shapes_view
from tensorplay_core.ops.shape_checks import normalize_dim
from tensorplay_core.tensor.meta_array import contiguous_strides, reshaped_strides
from tensorplay_vulkan.array import ITEMSIZE, VulkanArray
from tensorplay_vulkan.elementwise import assign, packed
from tensorplay_vulkan.gpu import Gpu

VIEWS = (
    *("permute", "transpose", "expand", "squeeze", "unsqueeze", "select", "slice"),
    *("diagonal", "unbind", "split_with_sizes", "unfold"),
)


def kernels(gpu: Gpu) -> dict[str, Any]:
    """Returns the kernels that change shapes."""
    made: dict[str, Any] = {name: getattr(meta_kernels, name) for name in VIEWS}

    def reshape(self: Any, shape: Any) -> Any:
        sizes = tuple(shapes.reshape("reshape", self, shape))
        strides = reshaped_strides(self, sizes)
        if strides is None:
            return packed(gpu, self).view(sizes, contiguous_strides(sizes))
        return self.view(sizes, strides)

    def as_strided(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        offset = self.offset if storage_offset is None else storage_offset
        words = self.buffer.size // ITEMSIZE
        count = words if self.size or words > 1 else 0  # a buffer of no elements has a word too
        shapes_view.check_in_storage("as_strided", size, stride, offset, count)
        return self.view(tuple(size), tuple(stride), offset - self.offset)

    def cat(tensors: Any, dim: int = 0) -> Any:
        ndim = max(array.ndim for array in tensors)
        if ndim > 1:  # PyTorch lets an empty 1-d tensor join anything
            tensors = [array for array in tensors if array.ndim != 1 or array.shape[0] != 0]
        d = normalize_dim("cat", dim, ndim)
        first = tensors[0]
        length = sum(array.shape[d] for array in tensors)
        result = gpu.empty((*first.shape[:d], length, *first.shape[d + 1 :]), first.dtype)
        begin = 0
        for array in tensors:
            put("cat", result, made["slice"](result, d, begin, begin + array.shape[d]), array)
            begin += array.shape[d]
        return result

    def put(name: str, result: VulkanArray, part: VulkanArray, grad: VulkanArray) -> VulkanArray:
        if part.shape != grad.shape:  # it would broadcast
            raise ShapeError(f"{name}: shape {grad.shape} does not fit the part that it goes to, of shape {part.shape}")
        assign(gpu, part, grad)
        return result

    def select_backward(grad: Any, input_sizes: Any, dim: int, index: int) -> Any:
        result = gpu.empty(tuple(input_sizes), grad.dtype)
        return put("select_backward", result, made["select"](result, dim, index), grad)

    def slice_backward(grad: Any, input_sizes: Any, dim: int, start: int | None, end: int | None, step: int) -> Any:
        result = gpu.empty(tuple(input_sizes), grad.dtype)
        return put("slice_backward", result, made["slice"](result, dim, start, end, step), grad)

    return {
        **made,
        "reshape": reshape,
        "as_strided": as_strided,
        "cat": cat,
        "select_backward": select_backward,
        "slice_backward": slice_backward,
    }
