"""Matrix products: tiles of 16 × 16 in the memory of a workgroup, whatever the strides of the operands."""

from __future__ import annotations

from math import prod
from typing import Any

from tensorplay_core.errors import ShapeError
from tensorplay_core.ops.shapes import broadcast_shapes
from tensorplay_core.tensor.meta_array import contiguous_strides
from tensorplay_vulkan import wgsl
from tensorplay_vulkan.array import BOOL, INT32, Shape, VulkanArray
from tensorplay_vulkan.elementwise import aligned, bindings, fill, joined, packed
from tensorplay_vulkan.gpu import Gpu

TILE = 16


def kernels(gpu: Gpu) -> dict[str, Any]:
    """Returns the kernel of ``matmul``."""

    def matmul(self: Any, other: Any) -> Any:
        a = self.view((1, *self.shape), (0, *self.strides)) if self.ndim == 1 else self
        b = other.view((*other.shape, 1), (*other.strides, 0)) if other.ndim == 1 else other
        if self.dtype is BOOL:
            return packed(gpu, matmul(packed(gpu, self, INT32), packed(gpu, other, INT32)), BOOL)
        product = multiply(gpu, a, b)
        shape = product.shape
        shape = shape[:-1] if other.ndim == 1 else shape
        if self.ndim == 1:
            shape = (*shape[: -2 if other.ndim > 1 else -1], *shape[len(shape) - (other.ndim > 1) :])
        return product.view(shape, contiguous_strides(shape))

    return {"matmul": matmul}


def multiply(gpu: Gpu, a: VulkanArray, b: VulkanArray) -> VulkanArray:
    """Returns the products of matrices (…, n, k) and (…, k, m), whose other dims broadcast."""
    batch = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    (n, k), (other, m) = a.shape[-2:], b.shape[-2:]
    if k != other:  # on the fast path nobody has looked at the shapes
        raise ShapeError(f"matmul: {k} columns and {other} rows do not go together")
    result = gpu.empty((*batch, n, m), a.dtype)
    if not result.size:
        return result
    if not k:
        fill(gpu, result, 0)
        return result
    (a, a_step), (b, b_step) = _one_batch(gpu, a, batch), _one_batch(gpu, b, batch)
    down, across, count = -(-n // TILE), -(-m // TILE), prod(batch)
    parameters = [n, k, m, down, across, down * across * count]
    for array, step in ((a, a_step), (b, b_step)):
        parameters += [array.offset, step, *array.strides[-2:]]
    dtype = a.dtype
    gpu.launch(("matmul", dtype), lambda: _source(dtype.name, dtype.wgsl), [result, a, b], parameters, parameters[5])
    return result


def _one_batch(gpu: Gpu, array: VulkanArray, batch: Shape) -> tuple[VulkanArray, int]:
    """Returns matrices and the one step from each to the next; copies them where their dims have no one step."""
    outer = VulkanArray(array.buffer, array.shape[:-2], array.dtype, array.strides[:-2])
    _, (steps,) = joined(batch, [aligned(outer, batch)])
    if len(steps) > 1:
        new = len(batch) + 2 - array.ndim
        strides = (*aligned(outer, batch), *array.strides[-2:])
        assert len(strides) == new + array.ndim
        array = packed(gpu, array.view((*batch, *array.shape[-2:]), strides))
        return array, array.strides[-3]
    return array, steps[0] if steps else 0


def _source(dtype: str, kind: str) -> str:
    return f"""{bindings(1, 2)}
var<workgroup> left: array<{kind}, {TILE * TILE}>;
var<workgroup> right: array<{kind}, {TILE * TILE}>;
@compute @workgroup_size({TILE}, {TILE})
fn main(
  @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) thread: vec3<u32>
) {{
  let i = group.y * groups.x + group.x;
  let inside = i < p[5];
  let batch = i / (p[3] * p[4]);
  let row = (i / p[4]) % p[3] * {TILE}u + thread.y;
  let column = i % p[4] * {TILE}u + thread.x;
  let a = p[6] + batch * p[7] + row * p[8];
  let b = p[10] + batch * p[11] + column * p[13];
  let place = thread.y * {TILE}u + thread.x;
  var total = {kind}(0);
  for (var first = 0u; first < p[1]; first += {TILE}u) {{
    left[place] = {kind}(0);
    right[place] = {kind}(0);
    if (inside && row < p[0] && first + thread.x < p[1]) {{
      left[place] = {wgsl.load(dtype, "a0[a + (first + thread.x) * p[9]]")};
    }}
    if (inside && column < p[2] && first + thread.y < p[1]) {{
      right[place] = {wgsl.load(dtype, "a1[b + (first + thread.y) * p[12]]")};
    }}
    workgroupBarrier();
    for (var j = 0u; j < {TILE}u; j++) {{ total += left[thread.y * {TILE}u + j] * right[j * {TILE}u + thread.x]; }}
    workgroupBarrier();
  }}
  if (inside && row < p[0] && column < p[2]) {{
    o0[(batch * p[0] + row) * p[2] + column] = {wgsl.store(dtype, "total")};
  }}
}}
"""
