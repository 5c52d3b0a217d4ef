"""Shaders that do one thing to every element, whatever the layout of what they read and write.

The operands of such a launch have one shape. Dims that lie in memory alike in all of them are joined, so that most
launches have one dim; the sizes, strides and offsets that are left are parameters, so a shader is compiled once for
each number of dims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.tensor.meta_array import is_contiguous
from tensorplay_vulkan import wgsl
from tensorplay_vulkan.array import Shape, VulkanArray, VulkanDType
from tensorplay_vulkan.gpu import WORKGROUP, Gpu

Body = Callable[[list[str], int], tuple[list[str], list[str]]]
"""Takes the words that the inputs have at an element, and where in the parameters the constants begin; returns
statements, and the word for each result."""

INDEX = f"""@compute @workgroup_size({WORKGROUP})
fn main(
  @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32
) {{
  let i = (group.y * groups.x + group.x) * {WORKGROUP}u + thread;
  if (i >= p[0]) {{ return; }}"""


def run(
    gpu: Gpu,
    key: Any,
    body: Body,
    results: Sequence[VulkanArray],
    inputs: Sequence[VulkanArray],
    constants: Sequence[int] = (),
) -> None:
    """Starts a shader that sets every element of the results.

    Args:
        gpu: where.
        key: what stands for the body; the same key means the same code.
        body: what is computed at an element.
        results: the arrays that are written to, of one shape. None of them shares a buffer with an input.
        inputs: the arrays that are read, which broadcast to that shape.
        constants: words that the body reads from the parameters.
    """
    shape = results[0].shape
    count = results[0].size
    if not count:
        return
    arrays = [*results, *inputs]
    sizes, strides = joined(shape, [aligned(array, shape) for array in arrays])
    parameters = [count, *sizes]
    for array, steps in zip(arrays, strides, strict=True):
        parameters += [array.offset, *steps]
    rank = len(sizes)

    def source() -> str:
        return elementwise_source(body, len(results), len(inputs), rank)

    gpu.launch(
        (key, rank, len(results), len(inputs)), source, arrays, [*parameters, *constants], -(-count // WORKGROUP)
    )


def elementwise_source(body: Body, results: int, inputs: int, rank: int) -> str:
    """Returns the WGSL of :func:`run`."""
    names = [f"o{i}" for i in range(results)] + [f"a{i}" for i in range(inputs)]
    places, statements = places_of(len(names), rank)
    loads = [f"a{i}[{places[results + i]}]" for i in range(inputs)]
    lines, words = body(loads, 1 + rank + len(names) * (rank + 1))
    writes = [f"o{i}[{places[i]}] = {word};" for i, word in enumerate(words)]
    code = "\n".join("  " + line for line in [*statements, *lines, *writes])
    return f"{bindings(results, inputs)}{wgsl.LIBRARY}\n{INDEX}\n{code}\n}}\n"


def bindings(results: int, inputs: int) -> str:
    """Returns the declarations of a shader's buffers: the parameters ``p``, results from ``o0``, inputs from ``a0``."""
    lines = ["@group(0) @binding(0) var<storage, read> p: array<u32>;"]
    for i in range(results):
        lines.append(f"@group(0) @binding({1 + i}) var<storage, read_write> o{i}: array<u32>;")
    for i in range(inputs):
        lines.append(f"@group(0) @binding({1 + results + i}) var<storage, read> a{i}: array<u32>;")
    return "\n".join(lines)


def places_of(count: int, rank: int) -> tuple[list[str], list[str]]:
    """Returns the names of the places of element ``i`` in each operand, and the statements that set them."""
    statements = []
    if rank == 1:
        statements.append("let c0 = i;")
    elif rank:
        statements.append("var left = i;")
        for dim in reversed(range(1, rank)):
            statements += [f"let c{dim} = left % p[{1 + dim}];", f"left = left / p[{1 + dim}];"]
        statements.append("let c0 = left;")
    for k in range(count):
        first = 1 + rank + k * (rank + 1)
        terms = [f"c{dim} * p[{first + 1 + dim}]" for dim in range(rank)]
        statements.append(f"let k{k} = {' + '.join([f'p[{first}]', *terms])};")
    return [f"k{k}" for k in range(count)], statements


def aligned(array: VulkanArray, shape: Shape) -> Shape:
    """Returns an array's strides in the dims of a shape that it broadcasts to; 0 where it is repeated."""
    own = [0 if size == 1 else step for size, step in zip(array.shape, array.strides, strict=True)]
    return (0,) * (len(shape) - len(own)) + tuple(own)


def joined(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Returns sizes and strides with the dims joined that lie one after another in every operand.

    Example:
        >>> joined((2, 3, 4), [(12, 4, 1), (0, 0, 0)])
        ((24,), [(1,), (0,)])
        >>> joined((2, 3), [(3, 1), (1, 0)])
        ((2, 3), [(3, 1), (1, 0)])
    """
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for dim, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(own[-1] == size * other[dim] for own, other in zip(steps, strides, strict=True)):
            sizes[-1] *= size
            for own, other in zip(steps, strides, strict=True):
                own[-1] = other[dim]
        else:
            sizes.append(size)
            for own, other in zip(steps, strides, strict=True):
                own.append(other[dim])
    return tuple(sizes), [tuple(own) for own in steps]


# --------------------------------------------------------------------------------------------------------------- copies


def assign(gpu: Gpu, target: VulkanArray, source: VulkanArray) -> None:
    """Copies elements to where they belong, of any layout, broadcast and cast; the strided copy."""
    if source.buffer is target.buffer and source.size:
        source = packed(gpu, source)  # a shader may not read and write one buffer
    from_name, to_name = source.dtype.name, target.dtype.name

    def body(words: list[str], constants: int) -> tuple[list[str], list[str]]:
        if from_name == to_name:  # the bits as they are, those of a NaN too
            return [], words
        value = wgsl.cast(wgsl.load(from_name, words[0]), from_name, to_name)
        return [], [wgsl.store(to_name, value)]

    run(gpu, ("assign", from_name, to_name), body, [target], [source])


def fill(gpu: Gpu, target: VulkanArray, word: int) -> None:
    """Sets every element to a word."""
    run(gpu, "fill", lambda words, constants: ([], [f"p[{constants}]"]), [target], [], [word])


def packed(gpu: Gpu, array: VulkanArray, dtype: VulkanDType | None = None) -> VulkanArray:
    """Returns a copy in C order with a buffer of its own, in another dtype if one is given."""
    copy = gpu.empty(array.shape, dtype or array.dtype)
    assign(gpu, copy, array)
    return copy


def contiguous(gpu: Gpu, array: VulkanArray) -> VulkanArray:
    """Returns the array itself where its elements lie in C order without gaps, else a copy that does."""
    return array if is_contiguous(array) else packed(gpu, array)
