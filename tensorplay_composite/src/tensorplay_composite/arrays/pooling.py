"""Pools over NumPy and CuPy: along one dim after the other, each place of the window one operation on slices.

Nothing is padded: a place that lies in the padding of some windows is left out for those. Indices are found after the
values, by comparison, and so is where a gradient belongs. Modules that lack NumPy's writes to slices are served by the
Composite kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, quietly
from tensorplay_core.ops.shapes_pooling import Pool, check_divisor, divisors, parts, places, pool


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of pools over ``xp``; none where it is not like NumPy, and Composite serves."""
    if not support.numpy_rules:
        return {}
    separable = along_dims(xp)
    return {**extremes(xp, support, separable), **means(xp, support, separable)}


def check_shape(grad: Any, found: Pool) -> None:
    """Refuses the gradient of another result; the shape rule says it better.

    Raises:
        ValueError: it is one.
    """
    if tuple(grad.shape) != found.shape:
        raise ValueError("the gradient is of another result")


@quietly
def along_dims(xp: Any) -> Kernels:
    """A reduction of windows along every dim, and its transpose."""
    empty, zeros = xp.empty, xp.zeros

    def reduce(x: Any, found: Pool, function: Any, start: Any) -> Any:
        """Reduces the windows with a ufunc; ``start`` stands in windows that have no element at their first place."""
        first = x.ndim - len(found.size)
        for d, sizes in enumerate(zip(*found[:6], strict=True)):
            before = (slice(None),) * (first + d)
            along, count = parts(*sizes), sizes[-1]
            shape = (*x.shape[: first + d], count, *x.shape[first + d + 1 :])
            whole = slice(0, count, 1)
            result = empty(shape, x.dtype)
            rest: Sequence[Any] = along
            if len(along) > 1 and along[0].windows == whole == along[1].windows:
                function(x[(*before, along[0].elements)], x[(*before, along[1].elements)], result)
                rest = along[2:]
            elif along[0].windows == whole:
                result[...] = x[(*before, along[0].elements)]
                rest = along[1:]
            else:
                result[...] = start
            for part in rest:
                target = result[(*before, part.windows)]
                function(target, x[(*before, part.elements)], target)
            x = result
        return x

    def spread(x: Any, found: Pool) -> Any:
        """Adds each element to all elements of its window."""
        first = x.ndim - len(found.size)
        for d, sizes in enumerate(zip(*found[:6], strict=True)):
            before = (slice(None),) * (first + d)
            result = zeros((*x.shape[: first + d], sizes[0], *x.shape[first + d + 1 :]), x.dtype)
            for part in parts(*sizes):
                result[(*before, part.elements)] += x[(*before, part.windows)]
            x = result
        return x

    return {"reduce": reduce, "spread": spread}


@quietly
def extremes(xp: Any, support: Support, separable: Kernels) -> Kernels:
    """Largest elements, their places, and their gradients."""
    kind, int64, maximum, zeros, copyto = support.kind, support.int64, xp.maximum, xp.zeros, xp.copyto
    cast, add, isnan, equal, arange, reduce = support.cast, xp.add, xp.isnan, xp.equal, xp.arange, separable["reduce"]

    def largest(x: Any, found: Pool) -> Any:
        what = kind[x.dtype]
        start: Any = -math.inf
        if what in ("int", "uint"):
            start = xp.iinfo(x.dtype).min
        return reduce(x, found, maximum, start)

    def grids(found: Pool) -> Any:
        return arange(math.prod(found.size), dtype=int64).reshape(found.size)

    def indices_of(x: Any, best: Any, found: Pool) -> Any:
        """The first place that equals the largest element; of NaNs the last, as in PyTorch."""
        result, grid, every = zeros(best.shape, int64), grids(found), places(found)
        for windows, elements, _ in reversed(every):
            where = equal(x[elements], best[windows])
            copyto(result[windows], grid[elements[1:]], where=where)
        if kind[x.dtype] in ("half", "float") and bool(isnan(best).any()):
            for windows, elements, _ in every:
                copyto(result[windows], grid[elements[1:]], where=isnan(x[elements]))
        return result

    def by_indices(grad: Any, x: Any, indices: Any, found: Pool) -> Any:
        size = math.prod(found.size)
        result = zeros(x.size, grad.dtype)
        rows = arange(x.size // size, dtype=int64).reshape(-1, 1) * size
        add.at(result, (indices.reshape(rows.shape[0], -1) + rows).reshape(-1), grad.reshape(-1))
        return result.reshape(x.shape)

    def backward(grad: Any, x: Any, found: Pool) -> Any:
        if kind[grad.dtype] == "half":  # several gradients may meet in one element: they round once
            return cast(backward(cast(grad, support.single), x, found), grad.dtype)
        best = largest(x, found)
        if kind[x.dtype] in ("half", "float") and bool(isnan(best).any()):
            return by_indices(grad, x, indices_of(x, best, found), found)
        pairs = zip(found.kernel, found.stride, found.dilation, strict=True)
        apart = all(s >= g * (k - 1) + 1 for k, s, g in pairs)
        result, left = zeros(x.shape, grad.dtype), xp.ones(best.shape, support.boolean)
        for windows, elements, _ in places(found):
            free = left[windows]
            where = equal(x[elements], best[windows])
            where &= free
            free ^= where  # the first of several equal elements has been found
            target = result[elements]
            if apart:
                copyto(target, grad[windows], where=where)
            else:
                add(target, grad[windows], target, where=where)
        return result

    def made(op: str, dims: int) -> Kernels:
        def found_of(name: str, x: Any, sizes: tuple[Any, ...]) -> Pool:
            return pool(name, x.shape, dims, *sizes)

        def max_pool(
            self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
        ) -> Any:
            return largest(self, found_of(op, self, (kernel_size, stride, padding, dilation, ceil_mode)))

        def with_indices(
            self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
        ) -> Any:
            found = found_of(f"{op}_with_indices", self, (kernel_size, stride, padding, dilation, ceil_mode))
            best = largest(self, found)
            return best, indices_of(self, best, found)

        def max_pool_backward(
            grad_output: Any,
            self: Any,
            kernel_size: Any,
            stride: Any = (),
            padding: Any = 0,
            dilation: Any = 1,
            ceil_mode: bool = False,
        ) -> Any:
            found = found_of(f"{op}_backward", self, (kernel_size, stride, padding, dilation, ceil_mode))
            check_shape(grad_output, found)
            return backward(grad_output, self, found)

        return {op: max_pool, f"{op}_with_indices": with_indices, f"{op}_backward": max_pool_backward}

    return {**made("max_pool2d", 2), **made("max_pool3d", 3)}


@quietly
def means(xp: Any, support: Support, separable: Kernels) -> Kernels:
    """Means and their gradients."""
    kind, cast, single, add, asarray = support.kind, support.cast, support.single, xp.add, xp.asarray
    reduce, spread = separable["reduce"], separable["spread"]
    known: dict[Any, Any] = {}

    def divisor_of(found: Pool, include_pad: bool, override: int | None, dtype: Any) -> Any:
        """What the sums are divided by: one number, or one for each window."""
        key = (found, include_pad, override, dtype)
        result = known.get(key)
        if result is None:
            if override is not None:
                result = asarray(override, dtype=dtype)
            else:
                counts = divisors(found, include_pad)
                result = asarray(1, dtype=dtype)
                for d, count in enumerate(counts):
                    one = count[:1] if len({*count}) == 1 else count
                    result = result * asarray(one, dtype=dtype).reshape(-1, *(1,) * (len(counts) - 1 - d))
            if len(known) < 256:
                known[key] = result
        return result

    def averaged(x: Any, found: Pool, include_pad: bool, override: int | None) -> Any:
        dtype = x.dtype
        if kind[dtype] == "half":
            x = cast(x, single)
        total = reduce(x, found, add, 0)
        total /= divisor_of(found, include_pad, override, total.dtype)
        return total if total.dtype == dtype else cast(total, dtype)

    def made(op: str, dims: int) -> Kernels:
        def avg_pool(
            self: Any,
            kernel_size: Any,
            stride: Any = (),
            padding: Any = 0,
            ceil_mode: bool = False,
            count_include_pad: bool = True,
            divisor_override: int | None = None,
        ) -> Any:
            check_divisor(op, divisor_override)
            found = pool(op, self.shape, dims, kernel_size, stride, padding, 1, ceil_mode)
            return averaged(self, found, bool(count_include_pad), divisor_override)

        def avg_pool_backward(
            grad_output: Any,
            self: Any,
            kernel_size: Any,
            stride: Any,
            padding: Any,
            ceil_mode: bool,
            count_include_pad: bool,
            divisor_override: int | None,
        ) -> Any:
            check_divisor(op, divisor_override)
            found = pool(op, self.shape, dims, kernel_size, stride, padding, 1, ceil_mode)
            check_shape(grad_output, found)
            x = cast(grad_output, single) if kind[grad_output.dtype] == "half" else grad_output
            x = spread(x / divisor_of(found, bool(count_include_pad), divisor_override, x.dtype), found)
            return x if x.dtype == grad_output.dtype else cast(x, grad_output.dtype)

        return {op: avg_pool, f"{op}_backward": avg_pool_backward}

    return {**made("avg_pool2d", 2), **made("avg_pool3d", 3)}
