"""Sums and largest elements.

The reduced dims come last, in C order, so that a reduction is one number for each row of a matrix. A short row is one
thread's; a long one is cut into pieces, each of which a workgroup adds up as a tree, and the pieces are reduced again.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from tensorplay_core.errors import DimError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import normalize_dims
from tensorplay_core.tensor.meta_array import contiguous_strides
from tensorplay_vulkan import wgsl
from tensorplay_vulkan.array import BOOL, FLOAT32, INT32, Shape, VulkanArray
from tensorplay_vulkan.elementwise import INDEX, bindings, contiguous, fill, packed
from tensorplay_vulkan.gpu import WORKGROUP, Gpu

SHORT = 128
"""Elements of a row that one thread adds up."""
PIECE = 8192
"""Elements of a row that one workgroup reduces."""
THREADS = 64

PIECES = f"""@compute @workgroup_size({THREADS})
fn main(
  @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32
) {{
  let i = group.y * groups.x + group.x;
  let row = i / p[2];
  let begin = (i % p[2]) * {PIECE}u;
  let end = min(begin + {PIECE}u, p[1]);
  let first = p[3] + row * p[1];"""


def kernels(gpu: Gpu) -> dict[str, Any]:
    """Returns the kernels; ``mean`` and the forms with ``dtype=`` are Composite."""

    def sum(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        rows, shape = as_rows(gpu, self, _dims("sum", self, dim), keepdim)
        if rows.dtype is BOOL:
            rows = packed(gpu, rows, INT32)
        return total(gpu, rows).view(shape, contiguous_strides(shape))

    def max(self: Any) -> Any:
        rows, _ = as_rows(gpu, self, tuple(range(self.ndim)), False)
        if not rows.shape[1]:
            raise ValueRangeError("max: a tensor without elements has no largest one" + fix("check x.numel() first"))
        return largest(gpu, rows)[0].view((), ())

    def max_dim(self: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        values, places = _along("max.dim", self, dim, keepdim)
        return values, places

    def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return _along("argmax", self, dim, keepdim)[1]

    def _along(name: str, self: Any, dim: int | None, keepdim: bool) -> tuple[Any, Any]:
        rows, shape = as_rows(gpu, self, _dims(name, self, dim), keepdim)
        if not rows.shape[1] and rows.shape[0]:
            raise DimError(f"{name}: dim {dim} has no elements, so none is the largest" + fix("check x.shape first"))
        values, places = largest(gpu, rows)
        return values.view(shape, contiguous_strides(shape)), places.view(shape, contiguous_strides(shape))

    return {"sum": sum, "max": max, "max.dim": max_dim, "argmax": argmax}


def _dims(name: str, array: VulkanArray, dim: Any) -> tuple[int, ...]:
    """Returns the reduced dims, all of them for None and an empty list."""
    dims = tuple(normalize_dims(name, dim, array.ndim)) if dim is not None else ()
    if not array.ndim:
        return ()
    return dims if dims else tuple(range(array.ndim))


def as_rows(gpu: Gpu, array: VulkanArray, dims: tuple[int, ...], keepdim: bool) -> tuple[VulkanArray, Shape]:
    """Returns an array as a matrix in C order with a row for each element of a reduction, and the reduction's shape."""
    kept = [d for d in range(array.ndim) if d not in dims]
    order = [*kept, *dims]
    moved = array.view(tuple(array.shape[d] for d in order), tuple(array.strides[d] for d in order))
    rows, columns = prod(array.shape[d] for d in kept), prod(array.shape[d] for d in dims)
    packed_rows = contiguous(gpu, moved).view((rows, columns), (max(columns, 1), 1))
    shape = tuple(1 if d in dims else size for d, size in enumerate(array.shape) if keepdim or d not in dims)
    return packed_rows, shape


def total(gpu: Gpu, rows: VulkanArray) -> VulkanArray:
    """Returns the sum of each row of a matrix of int32 or float32."""
    dtype = rows.dtype
    while True:
        count, columns = rows.shape
        pieces = -(-columns // PIECE)
        result = gpu.empty((count, max(pieces, 1)), dtype)
        if not count or not columns:
            fill(gpu, result, 0)
        elif columns <= SHORT:
            parameters = [count, columns, 0, rows.offset]
            gpu.launch(("sum short", dtype), lambda: _sum_short(dtype.name), [result, rows], parameters, _groups(count))
        else:
            parameters = [count, columns, pieces, rows.offset]
            gpu.launch(("sum", dtype), lambda: _sum_long(dtype.name), [result, rows], parameters, count * pieces)
        if pieces <= 1:
            return result
        rows = result


def largest(gpu: Gpu, rows: VulkanArray) -> tuple[VulkanArray, VulkanArray]:
    """Returns the largest element of each row and its first place; NaN is larger than everything."""
    dtype, places = rows.dtype, None
    while True:
        count, columns = rows.shape
        pieces = max(-(-columns // PIECE), 1)
        values, found = gpu.empty((count, pieces), dtype), gpu.empty((count, pieces), INT32)
        arrays = [values, found, rows] if places is None else [values, found, rows, places]
        if count:
            key = ("largest", dtype, len(arrays))
            parameters = [count, columns, pieces, rows.offset]
            inputs = len(arrays) - 2
            gpu.launch(key, partial(_largest, dtype.name, inputs), arrays, parameters, count * pieces)
        if pieces == 1:
            return values, found
        rows, places = values, found


def _groups(count: int) -> int:
    return -(-count // WORKGROUP)


def _sum_short(dtype: str) -> str:
    zero = {"float32": "0.0", "int32": "0"}[dtype]
    return f"""{bindings(1, 1)}
{INDEX}
  var total = {zero};
  let first = p[3] + i * p[1];
  for (var j = 0u; j < p[1]; j++) {{ total += {wgsl.load(dtype, "a0[first + j]")}; }}
  o0[i] = {wgsl.store(dtype, "total")};
}}
"""


def _sum_long(dtype: str) -> str:
    zero, kind = {"float32": ("0.0", "f32"), "int32": ("0", "i32")}[dtype]
    return f"""{bindings(1, 1)}
var<workgroup> totals: array<{kind}, {THREADS}>;
{PIECES}
  var total = {zero};
  for (var j = begin + thread; j < end; j += {THREADS}u) {{ total += {wgsl.load(dtype, "a0[first + j]")}; }}
  totals[thread] = total;
  for (var half = {THREADS // 2}u; half > 0u; half = half >> 1u) {{
    workgroupBarrier();
    if (thread < half) {{ totals[thread] += totals[thread + half]; }}
  }}
  if (thread == 0u && i < p[0] * p[2]) {{ o0[i] = {wgsl.store(dtype, "totals[0]")}; }}
}}
"""


def _largest(dtype: str, inputs: int) -> str:
    """Compares integers that are in the order of the elements: NaN on top, and -0 equal to 0."""
    if dtype == FLOAT32.name:
        order = """
  let magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return 0x7fffffff; }
  return select(i32(magnitude), -i32(magnitude), (word >> 31u) == 1u);"""
    else:
        order = "\n  return bitcast<i32>(word);"
    place = "a1[first + j]" if inputs == 2 else "j"
    return f"""{bindings(2, inputs)}
struct Best {{ order: i32, place: u32, word: u32 }}
var<workgroup> bests: array<Best, {THREADS}>;
fn order_of(word: u32) -> i32 {{{order}
}}
fn better(a: Best, b: Best) -> bool {{ return a.order > b.order || (a.order == b.order && a.place < b.place); }}
{PIECES}
  var best = Best(-2147483647 - 1, 0xffffffffu, 0u);
  for (var j = begin + thread; j < end; j += {THREADS}u) {{
    let word = a0[first + j];
    let next = Best(order_of(word), {place}, word);
    if (better(next, best)) {{ best = next; }}
  }}
  bests[thread] = best;
  for (var half = {THREADS // 2}u; half > 0u; half = half >> 1u) {{
    workgroupBarrier();
    if (thread < half && better(bests[thread + half], bests[thread])) {{ bests[thread] = bests[thread + half]; }}
  }}
  if (thread == 0u && i < p[0] * p[2]) {{ o0[i] = bests[0].word; o1[i] = bests[0].place; }}
}}
"""
