"""Normalisation in blocks: a block is read once, and what is computed of it on the way stays in the cache.

Where the statistics are of one row, as in layer and group normalisation, a block of rows is normalised in one go. Where
they are of all examples, as in batch normalisation, a first pass finds them. The variance is that of what is left after
the mean was taken away. NumPy spends 0.2 µs on each row that it combines with a number, so that a short row costs six
times what it should: numbers are written to a block of their own first, which is four times as fast, and sums along
rows are products with ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly

Shape = tuple[int, ...]
Mask = Sequence[bool]
BLOCK = 32 * 1024
"""So many elements, of which half a dozen arrays are read or written at a time, stay in a cache of 2 MB."""
SHORT = 1024
"""A row of fewer elements is combined with a block of numbers instead of with a number."""


@quietly
def kernels(general: Kernels) -> Kernels:
    """``_standardize`` and its gradient, of floating dtypes."""
    add, subtract, multiply, sqrt, fill, dot = np.add, np.subtract, np.multiply, np.sqrt, np.copyto, np.vecdot
    total, empty, matmul = np.add.reduce, np.empty, np.matmul

    def standardize(input: Any, weight: Any, bias: Any, dim: Sequence[int], eps: float) -> tuple[Any, ...]:
        dtype, shape = input.dtype, input.shape
        if weight is not None and bias is not None and weight.shape != bias.shape:
            raise ValueError("weight and bias are of different shapes")  # the shape rule says it better
        if dtype.itemsize == 2:
            x, w, b = (None if a is None else a.astype("float32") for a in (input, weight, bias))
            return tuple([a.astype(dtype) for a in standardize(x, w, b, dim, eps)])
        dims, kept = _dims(dim, shape)
        if not input.size:
            nothing = np.full(kept, np.nan, dtype)
            return empty(shape, dtype), nothing, nothing.copy()
        weight, bias = (
            None if a is None else a.reshape((1,) * (input.ndim - a.ndim) + a.shape) for a in (weight, bias)
        )
        order, back = _order(dims, input.ndim)
        if order is not None:
            x, w, b = (None if a is None else a.transpose(order) for a in (input, weight, bias))
            results = standardize(x, w, b, tuple(range(len(order) - len(dims), len(order))), eps)
            return tuple([np.ascontiguousarray(a.transpose(back)) for a in results])
        x, result = np.ascontiguousarray(input), empty(shape, dtype)
        run = of_rows if dims[0] else of_all
        mean, var = run(x, weight, bias, dims, eps, result)
        return result, mean.reshape(kept), var.reshape(kept)

    def of_rows(x: Any, weight: Any, bias: Any, dims: Shape, eps: float, result: Any) -> tuple[Any, Any]:
        inner = math.prod(x.shape[dims[0] :])
        outer = x.size // inner // x.shape[0]  # rows of one item of the first dim
        mean, var = empty((x.shape[0], outer), x.dtype), empty((x.shape[0], outer), x.dtype)
        ones, room = np.ones(inner, x.dtype), None
        for piece in items(x.shape):
            whole = result[piece]
            if room is None or room.shape[0] * inner != whole.size:
                room = empty((whole.size // inner, inner), x.dtype)
                scale, shift = tiled(weight, whole.shape), tiled(bias, whole.shape)
            a, out = x[piece].reshape(room.shape), whole.reshape(room.shape)
            m = matmul(a, ones)
            m /= inner
            subtract(a, spread(m, room), out)
            v = dot(out, out)
            v /= inner
            mean[piece], var[piece] = m.reshape(-1, outer), v.reshape(-1, outer)
            multiply(out, spread(1 / sqrt(v + eps), room), out)
            if scale is not None:
                multiply(whole, scale, whole)
            if shift is not None:
                add(whole, shift, whole)
        return mean, var

    def of_all(x: Any, weight: Any, bias: Any, dims: Shape, eps: float, result: Any) -> tuple[Any, Any]:
        kept = tuple([1 if d in dims else n for d, n in enumerate(x.shape)])
        count = x.size // math.prod(kept)
        mean = var = block = None
        for piece in items(x.shape):
            mean = added(mean, summed(x[piece], dims))
        mean /= count
        for piece in items(x.shape):
            out = result[piece]
            if block is None or block.shape != out.shape:
                block, room = tiled(mean, out.shape), empty(out.shape, x.dtype)
            subtract(x[piece], block, out)
            var = added(var, summed(multiply(out, out, room), dims))
        var /= count
        factor = 1 / sqrt(var + eps)
        if weight is not None:
            factor = factor * weight
        block = None
        for piece in items(x.shape):
            out = result[piece]
            if block is None or block.shape != out.shape:
                block, shift = tiled(factor, out.shape), tiled(bias, out.shape)
            multiply(out, block, out)
            if shift is not None:
                add(out, shift, out)
        return mean, var

    def standardize_backward(
        grad_out: Any,
        input: Any,
        mean: Any,
        var: Any,
        weight: Any,
        dim: Sequence[int],
        affine: Shape,
        eps: float,
        output_mask: Mask,
    ) -> tuple[Any, ...]:
        dtype, shape, mask = input.dtype, input.shape, output_mask
        if dtype.itemsize == 2:
            wide: list[Any] = [None if a is None else a.astype("float32") for a in (grad_out, input, mean, var, weight)]
            rest: tuple[Any, ...] = dim, affine, eps, mask
            return tuple([a.astype(dtype) for a in standardize_backward(*wide, *rest)])
        sizes = [size if wanted else (0,) for size, wanted in zip((shape, affine, affine), mask, strict=True)]
        if not input.size:
            return tuple([np.zeros(size, dtype) for size in sizes])
        dims, kept = _dims(dim, shape)
        if grad_out.shape != shape or mean.shape != kept or var.shape != kept:
            raise ValueError("the gradient or the statistics are of another result")
        like = (1,) * (input.ndim - len(affine)) + tuple(affine)
        weight = None if weight is None else weight.reshape(like)
        order, back = _order(dims, input.ndim)
        x, g = np.ascontiguousarray(input), np.ascontiguousarray(grad_out)
        over = tuple([d for d, n in enumerate(like) if n == 1])
        factor = 1 / sqrt(var + eps)
        parts: tuple[Any, Any] = (None, None)
        if order is not None or (not dims[0] and (mask[1] or mask[2]) and over != dims):  # no form of PyTorch's
            parts = total(g * ((x - mean) * factor), over), total(g, over)
            g, weight, mask = g if weight is None else g * weight, None, (mask[0], False, False)
        if order is not None:
            x, g, mean, factor = (np.ascontiguousarray(a.transpose(order)) for a in (x, g, mean, factor))
            dims = tuple(range(x.ndim - len(dims), x.ndim))
        run = backward_of_rows if dims[0] else backward_of_all
        result, *found = run(g, x, mean, factor, weight, dims, over, mask)
        if order is not None:
            result = np.ascontiguousarray(result.transpose(back))
        sums = [one if other is None else other for one, other in zip(found, parts, strict=True)]
        return tuple(
            [
                empty((0,), dtype) if size == (0,) or one is None else one.reshape(size)
                for one, size in zip((result, *sums), sizes, strict=True)
            ]
        )

    def backward_of_rows(
        g: Any, x: Any, mean: Any, factor: Any, weight: Any, dims: Shape, over: Shape, mask: Mask
    ) -> tuple[Any, Any, Any]:
        inner = math.prod(x.shape[dims[0] :])
        mean, factor = mean.reshape(x.shape[0], -1), factor.reshape(x.shape[0], -1)
        ones, result = np.ones(inner, x.dtype), empty(x.shape, x.dtype)
        weight_grad = bias_grad = room = None
        for piece in items(x.shape):
            whole, b = result[piece], g[piece]
            if room is None or room.shape[0] * inner != whole.size:
                room = empty((whole.size // inner, inner), x.dtype)
                h = empty(room.shape, x.dtype)
                scale = tiled(weight, whole.shape)
            f, out = factor[piece].reshape(-1), whole.reshape(room.shape)
            subtract(x[piece].reshape(room.shape), spread(mean[piece].reshape(-1), room), h)
            multiply(h, spread(f, room), h)
            if mask[1]:
                product = multiply(b, h.reshape(b.shape), room.reshape(b.shape))
                weight_grad = added(weight_grad, summed(product, over))
            if mask[2]:
                bias_grad = added(bias_grad, summed(b, over))
            if scale is not None:
                b = multiply(b, scale, whole)
            b = b.reshape(room.shape)
            multiply(h, spread(dot(h, b) / inner, room), h)
            average = matmul(b, ones) / inner
            subtract(b, h, out)
            subtract(out, spread(average, room), out)
            multiply(out, spread(f, room), out)
        return result, weight_grad, bias_grad

    def backward_of_all(
        g: Any, x: Any, mean: Any, factor: Any, weight: Any, dims: Shape, over: Shape, mask: Mask
    ) -> tuple[Any, Any, Any]:
        count = x.size // mean.size
        sums = products = block = None
        for piece in items(x.shape):
            b = g[piece]
            if block is None or block.shape != b.shape:
                block, room = tiled(mean, b.shape), empty(b.shape, x.dtype)
            multiply(subtract(x[piece], block, room), b, room)
            products, sums = added(products, summed(room, dims)), added(sums, summed(b, dims))
        products = products * factor
        if not mask[0]:
            return None, products, sums
        # One weight for each mean, so it may be left out of the sums until now.
        first = factor if weight is None else factor * weight
        second, third = first * factor * products / count, first * sums / count
        result, block = empty(x.shape, x.dtype), None
        for piece in items(x.shape):
            out = result[piece]
            if block is None or block.shape != out.shape:
                block, room = tiled(mean, out.shape), empty(out.shape, x.dtype)
                blocks = [tiled(one, out.shape) for one in (first, second, third)]
            multiply(g[piece], blocks[0], out)
            multiply(subtract(x[piece], block, room), blocks[1], room)
            subtract(subtract(out, room, out), blocks[2], out)
        return result, products, sums

    def spread(numbers: Any, room: Any) -> Any:
        """A number for each row, so that it broadcasts: in a block of its own where rows are short."""
        column = numbers[:, None]
        if room.shape[1] >= SHORT:
            return column
        fill(room, column)
        return room

    def tiled(one: Any, shape: Shape) -> Any:
        return None if one is None else np.ascontiguousarray(np.broadcast_to(one, shape))

    def summed(a: Any, dims: Shape) -> Any:
        """The sum over dims, which stay as ones; along the last dims and the first as products with ones."""
        if not a.flags.c_contiguous or not dims:
            return total(a, dims, None, keepdims=True)
        kept = tuple([1 if d in dims else n for d, n in enumerate(a.shape)])
        first, last = 0, a.ndim
        while last > 0 and (last - 1 in dims or a.shape[last - 1] == 1):
            last -= 1
        inner, rows = math.prod(a.shape[last:]), a
        if inner > 1:
            rows = matmul(a.reshape(-1, inner), np.ones(inner, a.dtype))
        while first < last and (first in dims or a.shape[first] == 1):
            first += 1
        middle = rows.reshape(a.shape[:last])
        outer = math.prod(a.shape[:first])
        if outer > 1:
            middle = matmul(np.ones(outer, a.dtype), middle.reshape(outer, -1))
        rest = tuple([d - first for d in dims if first <= d < last])
        middle = middle.reshape(a.shape[first:last])
        return (total(middle, rest, None) if rest else middle).reshape(kept)

    def added(sum: Any, part: Any) -> Any:
        return part if sum is None else add(sum, part, sum)

    return {"_standardize": standardize, "_standardize_backward": standardize_backward}


def _dims(dim: Sequence[int], shape: Shape) -> tuple[Shape, Shape]:
    """Returns the dims that are averaged over, in order, and the shape of the averages.

    Raises:
        ValueError: there is none, or one is out of range or there twice; the shape rule says it better.
    """
    given = (dim,) if isinstance(dim, int) else dim
    dims, ndim = tuple(sorted([d % len(shape) for d in given])), len(shape)
    if not dims or len({*dims}) < len(dims) or min(given) < -ndim or max(given) >= ndim:
        raise ValueError("no such dims")
    return dims, tuple([1 if d in dims else n for d, n in enumerate(shape)])


def _order(dims: Shape, ndim: int) -> tuple[list[int] | None, list[int]]:
    """Returns the order that puts dims last and what undoes it; None where they are, or the first is among them."""
    if not dims[0] or dims == tuple(range(dims[0], ndim)):
        return None, []
    order = [*[d for d in range(ndim) if d not in dims], *dims]
    return order, [order.index(d) for d in range(ndim)]


def items(shape: Shape) -> Iterator[slice]:
    """Yields slices of the first dim, each of about a block of elements."""
    step = max(1, BLOCK // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], step):
        yield slice(start, start + step)
