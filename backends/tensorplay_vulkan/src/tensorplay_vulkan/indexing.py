"""Gathering with index arrays, and its gradient.

A shader cannot raise, so a gather counts the indices that are out of range and the kernel reads that number before it
returns: the error comes in the call that caused it, at the price of one wait. The gradient adds in the order of the
elements, as the CPU does, so that it is the same in every run; WGSL has no atomic sum of floats anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tensorplay_core.errors import DimError, ShapeError, fix
from tensorplay_core.ops.shapes import broadcast_shapes
from tensorplay_core.tensor.meta_array import contiguous_strides
from tensorplay_vulkan import wgsl
from tensorplay_vulkan.array import BOOL, INT32, Shape, VulkanArray
from tensorplay_vulkan.elementwise import INDEX, aligned, bindings, contiguous, joined, packed, places_of
from tensorplay_vulkan.gpu import WORKGROUP, Gpu


def kernels(gpu: Gpu) -> dict[str, Any]:
    """Returns the kernels of indexing."""

    def index(self: Any, indices: Any) -> Any:
        return gather(gpu, self, indices)

    def index_backward(grad: Any, input_sizes: Any, indices: Any) -> Any:
        sizes = tuple(input_sizes)
        places = gather(gpu, numbered(gpu, sizes), indices)
        if places.shape != grad.shape:
            raise ShapeError(f"index_backward: the indices select shape {places.shape}, and grad has {grad.shape}")
        return scattered(gpu, grad, sizes, gpu.download(places).reshape(-1))

    def nonzero(self: Any) -> Any:
        """The places that are not 0; the host finds them, as it must know how many there are."""
        return gpu.upload(np.argwhere(gpu.download(contiguous(gpu, self))), INT32)

    return {"index": index, "index_backward": index_backward, "nonzero": nonzero}


def numbered(gpu: Gpu, shape: Shape) -> VulkanArray:
    """Returns an int32 array of a shape whose elements count from 0."""
    result = gpu.empty(shape, INT32)
    if result.size:
        source = f"{bindings(1, 0)}\n{INDEX}\n  o0[i] = i;\n}}\n"
        gpu.launch("numbered", lambda: source, [result], [result.size], -(-result.size // WORKGROUP))
    return result


def gather(gpu: Gpu, array: VulkanArray, indices: Sequence[VulkanArray | None]) -> VulkanArray:
    """Returns the elements that index arrays choose, one for each dim from the first; None stands for a whole dim.

    Raises:
        DimError: an index is out of range.
    """
    array, indices = without_masks(gpu, array, indices)
    if len(indices) > array.ndim:
        raise DimError(f"index: there are {len(indices)} indices for {array.ndim} dims" + fix("leave some out"))
    if all(one is None for one in indices):
        return packed(gpu, array)
    dims = [dim for dim, one in enumerate(indices) if one is not None]
    arrays = [one for one in indices if one is not None]
    if len(arrays) > gpu.buffers - 4:
        raise DimError(f"index: at most {gpu.buffers - 4} index tensors on this GPU" + fix("use device='cpu' for it"))
    chosen = broadcast_shapes("index", *[one.shape for one in arrays])
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    front = [dim for dim in range(array.ndim) if dim < dims[0]] if adjacent else []
    back = [dim for dim in range(array.ndim) if dim not in dims and dim not in front]
    shape = (*[array.shape[d] for d in front], *chosen, *[array.shape[d] for d in back])
    none = (0,) * len(chosen)
    whole = (*[array.strides[d] for d in front], *none, *[array.strides[d] for d in back])
    result = gpu.empty(shape, array.dtype)
    if not result.size:
        return result
    wrong = gpu.empty((1 + len(dims),), INT32)
    steps = [contiguous_strides(shape), whole]
    steps += [(0,) * len(front) + aligned(one, chosen) + (0,) * len(back) for one in arrays]
    sizes, strides = joined(shape, steps)
    parameters = [result.size, *sizes]
    for offset, own in zip((0, array.offset, *[one.offset for one in arrays]), strides, strict=True):
        parameters += [offset, *own]
    for dim in dims:
        parameters += [array.shape[dim], array.strides[dim]]
    gpu.launch(
        ("gather", len(sizes), len(dims)),
        lambda: _source(len(sizes), len(dims)),
        [result, wrong, array, *arrays],
        parameters,
        -(-result.size // WORKGROUP),
    )
    _check(gpu, wrong, array.shape, dims)
    return result


def _check(gpu: Gpu, wrong: VulkanArray, shape: Shape, dims: list[int]) -> None:
    found = gpu.download(wrong)
    if found[0]:
        which, dim = next((value, dim) for value, dim in zip(found[1:], dims, strict=True) if value)
        raise DimError(
            f"index: index {which} is out of range for dim {dim} of size {shape[dim]}"
            + fix(f"use indices from {-shape[dim]} to {shape[dim] - 1}" if shape[dim] else "check x.shape first")
        )


def _source(rank: int, count: int) -> str:
    """Returns the gather.

    ``o1`` says whether an index was wrong, and one such index for each dim; it is not 0, which every dim has.
    """
    places, statements = places_of(2 + count, rank)
    first = 1 + rank + (2 + count) * (rank + 1)
    lines = [*statements, f"var place = {places[1]};"]
    for n in range(count):
        size, step = f"p[{first + 2 * n}]", f"p[{first + 2 * n + 1}]"
        lines += [
            f"let raw{n} = bitcast<i32>(a{n + 1}[{places[2 + n]}]);",
            f"let at{n} = select(raw{n}, raw{n} + i32({size}), raw{n} < 0);",
            f"if (at{n} < 0 || at{n} >= i32({size})) {{",
            f"  atomicStore(&o1[0], 1); atomicStore(&o1[{n + 1}], raw{n});",
            "  return;",
            "}",
            f"place += u32(at{n}) * {step};",
        ]
    lines.append(f"o0[{places[0]}] = a0[place];")
    code = "\n".join("  " + line for line in lines)
    head = bindings(2, 1 + count).replace("o1: array<u32>", "o1: array<atomic<i32>>")
    return f"{head}\n{INDEX}\n{code}\n}}\n"


def without_masks(
    gpu: Gpu, array: VulkanArray, indices: Sequence[VulkanArray | None]
) -> tuple[VulkanArray, list[VulkanArray | None]]:
    """Returns an array and the indices with each bool mask as the places where it is true, one for each of its dims.

    A mask without dims stands for a dim of size 1 of its own, which the array is given.
    """
    found: list[VulkanArray | None] = []
    for one in indices:
        if one is None or one.dtype is not BOOL:
            found.append(one)
            continue
        shape, strides = array.shape, array.strides
        if not one.ndim:
            here = len(found)
            array = array.view((*shape[:here], 1, *shape[here:]), (*strides[:here], 0, *strides[here:]))
            found.append(gpu.upload(np.zeros(int(gpu.download(one))), INT32))
            continue
        if one.shape != shape[len(found) : len(found) + one.ndim]:
            raise DimError(
                f"index: a mask of shape {one.shape} does not fit the dims {shape[len(found) : len(found) + one.ndim]}"
            )
        mask = gpu.download(contiguous(gpu, one))
        found += [gpu.upload(places, INT32) for places in np.nonzero(mask)]
    return array, found


def scattered(gpu: Gpu, values: VulkanArray, sizes: Shape, places: Any) -> VulkanArray:
    """Returns zeros with values added in at places of the array in C order, repeated ones too.

    Args:
        gpu: where.
        values: what is added.
        sizes: the shape of the result.
        places: NumPy's int32, one for each value.
    """
    dtype = values.dtype if values.dtype is not BOOL else INT32
    total = gpu.empty(sizes, dtype)
    assert prod(sizes) == total.size
    if not total.size or not places.size:
        return total if dtype is values.dtype else packed(gpu, total, values.dtype)
    order = np.argsort(places, kind="stable")
    targets, begins = np.unique(places[order], return_index=True)
    starts = np.append(begins, places.size)
    arrays = [total, contiguous(gpu, values)]
    arrays += [gpu.upload(words, INT32) for words in (order, targets, starts)]
    kind, name = ("f32", "float32") if dtype is not INT32 else ("i32", "int32")
    load = wgsl.load(values.dtype.name, "a0[p[1] + a1[j]]")
    source = f"""{bindings(1, 4)}
{INDEX}
  var total = {kind}(0);
  for (var j = a3[i]; j < a3[i + 1u]; j++) {{ total += {kind}({load}); }}
  o0[a2[i]] = {wgsl.store(name, "total")};
}}
"""
    parameters = [targets.size, arrays[1].offset]
    gpu.launch(("scatter", values.dtype), lambda: source, arrays, parameters, -(-targets.size // WORKGROUP))
    return total if dtype is values.dtype else packed(gpu, total, values.dtype)
