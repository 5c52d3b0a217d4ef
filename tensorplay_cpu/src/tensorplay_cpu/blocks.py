"""Runs a function of blocks over arrays of any layout, so that what it computes on the way never leaves the cache.

Arrays that lie in memory alike, in any order of their dims, are one long row that is cut into pieces. All others,
broadcast ones too, are cut along their slowest dims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tensorplay_core.ops.shapes import broadcast_shapes
from tensorplay_core.tensor.meta_array import innermost_first
from tensorplay_cpu.pointwise import BLOCK

Shape = tuple[int, ...]


def in_blocks(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    constants: Sequence[Any],
    registers: Sequence[Any],
    returned: Sequence[Any],
    limit: int | None = None,
) -> tuple[Any, ...]:
    """Returns the results of a function of blocks.

    Args:
        function: takes blocks of the arrays, the constants, registers and blocks of the results, and fills the last.
        arrays: broadcast to one shape.
        constants: 0-d arrays, passed on as they are.
        registers: the dtypes of the memory that the function wants.
        returned: the dtypes of the results.
        limit: how many elements a block has at most; BLOCK where it is None.
    """
    shape = arrays[0].shape
    limit = BLOCK if limit is None else limit
    if 0 < arrays[0].size <= limit and shape and all(a.shape == shape and a.flags.c_contiguous for a in arrays):
        whole = tuple([np.empty(shape, dtype) for dtype in returned])
        function(*arrays, *constants, *[np.empty(shape, dtype) for dtype in registers], *whole)
        return whole
    if any(a.shape != shape for a in arrays):
        shape = broadcast_shapes("", *[a.shape for a in arrays])
    inputs = [a.reshape(()) if a.size == 1 else np.broadcast_to(a, shape) if a.shape != shape else a for a in arrays]
    back: Sequence[int] | None = None
    if not all(a.ndim == 0 or a.flags.c_contiguous for a in inputs):
        order = _slowest_first(inputs, len(shape))
        if order != sorted(order):
            inputs = [a.transpose(order) if a.ndim else a for a in inputs]
            shape, back = tuple([shape[dim] for dim in order]), np.argsort(order).tolist()
    results = [np.empty(shape, dtype) for dtype in returned]
    outs = results
    if all(a.ndim == 0 or a.flags.c_contiguous for a in inputs):
        inputs = [a.reshape(-1) if a.ndim else a for a in inputs]
        outs = [r.reshape(-1) for r in results]
    _fill(function, inputs, constants, registers, outs, limit)
    return tuple(results if back is None else [r.transpose(back) for r in results])


def _fill(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    constants: Sequence[Any],
    registers: Sequence[Any],
    outs: Sequence[Any],
    limit: int,
) -> None:
    if not outs[0].size:
        return
    memory: list[Any] | None = None
    for piece in pieces(outs[0].shape, limit):
        targets = [out[piece] for out in outs]
        shape = targets[0].shape
        if memory is None:
            memory = [np.empty(shape, dtype) for dtype in registers]
        elif memory and memory[0].shape != shape:  # the last piece of a dim is shorter
            function(
                *[a[piece] if a.ndim else a for a in inputs], *constants, *[m[: shape[0]] for m in memory], *targets
            )
            continue
        function(*[a[piece] if a.ndim else a for a in inputs], *constants, *memory, *targets)


def _slowest_first(arrays: Sequence[Any], ndim: int) -> list[int]:
    """Returns the dims in the order in which they lie in memory: that of NumPy, which small arrays have too."""
    steps = [
        [0 if size == 1 else step for size, step in zip(a.shape, a.strides, strict=True)] for a in arrays if a.ndim
    ]
    return innermost_first(steps, ndim)[::-1]


def pieces(shape: Shape, limit: int) -> Iterator[tuple[Any, ...]]:
    """Yields indices of the pieces of an array, of at most so many elements each; every one is a view.

    Example:
        >>> list(pieces((5,), 2))
        [(slice(0, 2, None), Ellipsis), (slice(2, 4, None), Ellipsis), (slice(4, 6, None), Ellipsis)]
        >>> list(pieces((2, 3), 6)), list(pieces((2, 4), 4))
        ([(Ellipsis,)], [(slice(0, 1, None), Ellipsis), (slice(1, 2, None), Ellipsis)])
    """
    dim, inner = len(shape), 1
    while dim and inner * shape[dim - 1] <= limit:
        dim -= 1
        inner *= shape[dim]
    if not dim:
        yield (...,)
        return
    step = max(1, limit // inner)
    for outer in np.ndindex(shape[: dim - 1]):
        for start in range(0, shape[dim - 1], step):
            yield (*outer, slice(start, start + step), ...)
