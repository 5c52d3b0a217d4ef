"""Convolutions over NumPy and CuPy: few large matrix products, and as little copying as the windows allow.

With a stride of 1 all samples of a block lie in one long row for each channel, padding between them. A place of the
window is then a shift of that row: copying it is one long copy. Places that are not copied have products of their own,
all in one matrix product, which are added with that shift; which is cheaper depends on the channels. Products of
windows that reach from one row into the next are computed and dropped, which costs less than the short copies that
would avoid them. Any other stride copies the windows into columns. Modules that lack NumPy's writes
to slices are served by the Composite kernels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from tensorplay_composite.arrays._rows import Pads, Row, cheapest, row_of
from tensorplay_composite.arrays._scratch import Scratch, copier
from tensorplay_composite.arrays._support import Kernels, Support, quietly
from tensorplay_core.ops.shapes_convolution import Geometry, geometry

Sizes = tuple[int, ...]

BLOCK = 1 << 17
"""Elements of the columns of one block of samples: what stays in the second cache of a core."""
STEP = 1 << 19
"""Elements of the products that wait to be added: what stays in the third cache."""
SMALL = 16
"""Rows of a matrix that is small: its products with another small one need no copies."""
ENOUGH = 48
"""Rows of a matrix that make its product fast; with fewer, more places of the window are copied."""


def slices(place: Sizes, count: Sizes, stride: Sizes, dilation: Sizes) -> tuple[slice, ...]:
    """Returns the slices that take, of each window, the element at a place."""
    pairs = zip(place, count, stride, dilation, strict=True)
    return tuple([slice(k * g, k * g + (n - 1) * s + 1, s) for k, n, s, g in pairs])


def blocks(samples: int, each: int) -> Iterator[tuple[int, int]]:
    """Yields the start and the number of samples whose columns, of so many elements each, make a block."""
    size = max(1, BLOCK // max(each, 1))
    for start in range(0, samples, size):
        yield start, min(size, samples - start)


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of convolutions over ``xp``; none where it is not like NumPy, and Composite serves."""
    if not support.numpy_rules:
        return {}
    made = {**shifted(xp), **gathered(xp)}
    return general(xp, support, {**made, **chosen(xp, made)})


@quietly
def shifted(xp: Any) -> Kernels:
    """Products over rows of whole padded images, for a stride of 1."""
    empty, zeros, matmul, add, scratch = xp.empty, xp.zeros, xp.matmul, xp.add, Scratch(xp).take
    copy = copier(xp)

    def rows_of(x: Any, row: Row, groups: int) -> Any:
        """The rows of a block of samples, for each copied shift one."""
        samples, channels = x.shape[:2]
        area = samples * math.prod(row.sizes)
        flat = scratch("padded", (channels, area + row.reach), x.dtype)
        flat[...] = 0
        images = flat[:, row.lead : row.lead + area].reshape(channels, samples, *row.sizes)
        copy(images[(slice(None), slice(None), *[slice(n) for n in x.shape[2:]])], x.swapaxes(0, 1))
        if row.copied == (0,):
            return flat.reshape(groups, channels // groups, -1)
        length = area + row.reach - row.copied[-1]
        copied = scratch("copied", (channels, len(row.copied), length), x.dtype)
        for i, shift in enumerate(row.copied):
            copied[:, i] = flat[:, shift : shift + length]
        return copied.reshape(groups, -1, length)

    def parts(x: Any, row: Row, outer: int) -> Iterator[tuple[slice, int]]:
        each = max(x.shape[1] * len(row.copied), outer) * math.prod(row.sizes)
        for start, count in blocks(x.shape[0], each):
            yield slice(start, start + count), count

    def summed(matrix: Any, rows: Any, row: Row, run: int) -> Any:
        """The products of all shifts, (groups, outer / groups, run)."""
        groups, outer = matrix.shape[0], matrix.shape[1] // len(row.read)
        total = scratch("products", (groups, outer, run), rows.dtype)
        if len(row.read) == 1:
            return matmul(matrix, rows[:, :, :run], out=total)
        reach = row.read[-1]
        step = max(8 * reach, STEP // (groups * matrix.shape[1]))
        for start in range(0, run, step):
            length = min(step, run - start)
            more = scratch("more", (*matrix.shape[:2], length + reach), rows.dtype)
            more = matmul(matrix, rows[:, :, start : start + length + reach], out=more)
            first, *rest = [
                more[:, i * outer : (i + 1) * outer, shift : shift + length] for i, shift in enumerate(row.read)
            ]
            target = total[:, :, start : start + length]
            for one in rest:
                add(first, one, out=target)
                first = target
        return total

    def correlate(x: Any, w: Any, bias: Any, pads: Pads, dilation: Sizes, groups: int, out: Sizes) -> Any:
        outer, own, *kernel = w.shape
        uncopied = cheapest(tuple(kernel), own, outer // groups)
        row = row_of(x.shape[2:], tuple(kernel), pads, dilation, uncopied)
        # The rows of one matrix for each shift that is not copied: (groups, shifts * O / groups, channels * copied).
        matrix = w.reshape(groups, outer // groups, own, len(row.read), len(row.copied))
        matrix = matrix.transpose(0, 3, 1, 2, 4).reshape(groups, len(row.read) * outer // groups, -1)
        inside = (slice(None), slice(None), *[slice(n) for n in out])
        result = empty((x.shape[0], outer, *out), x.dtype)
        for part, count in parts(x, row, outer * len(row.read)):
            total = summed(matrix, rows_of(x[part], row, groups), row, count * math.prod(row.sizes))
            if bias is not None:
                add(total, bias.reshape(groups, -1, 1), out=total)
            copy(result[part], total.reshape(outer, count, *row.sizes)[inside].swapaxes(0, 1))
        return result

    def weigh(x: Any, g: Any, shape: Sizes, pads: Pads, dilation: Sizes, groups: int) -> Any:
        outer, own, *kernel = shape
        # Products as long as these are fast for two small matrices, or for large ones.
        small = outer // groups <= SMALL <= own
        uncopied = len(kernel) if small or own >= ENOUGH else len(kernel) - 1 if own * kernel[-1] >= ENOUGH else 0
        row = row_of(x.shape[2:], tuple(kernel), pads, dilation, uncopied)
        inside = (slice(None), slice(None), *[slice(n) for n in g.shape[2:]])
        total = zeros((groups, outer // groups, own, len(row.read), len(row.copied)), x.dtype)
        for part, count in parts(x, row, outer):
            rows = rows_of(x[part], row, groups)
            run = count * math.prod(row.sizes)
            spaced = scratch("spaced", (outer, count, *row.sizes), x.dtype)
            spaced[...] = 0
            copy(spaced[inside], g[part].swapaxes(0, 1))
            left = spaced.reshape(groups, outer // groups, run)
            for i, shift in enumerate(row.read):
                right = rows[:, :, shift : shift + run]
                if right.shape[1] > left.shape[1]:  # the larger one first is up to twice as fast
                    found = matmul(right, left.swapaxes(1, 2)).swapaxes(1, 2)
                else:
                    found = matmul(left, right.swapaxes(1, 2))
                total[:, :, :, i] += found.reshape(groups, outer // groups, own, -1)
        return total.reshape(shape)

    return {"correlate by shifts": correlate, "weigh by shifts": weigh}


@quietly
def gathered(xp: Any) -> Kernels:
    """Products with columns that hold every window, for any stride."""
    empty, zeros, matmul, scratch, copy = xp.empty, xp.zeros, xp.matmul, Scratch(xp).take, copier(xp)

    def padded(x: Any, pads: Pads) -> Any:
        if not any(map(any, pads)):
            return x
        sizes = [n + lo + hi for n, (lo, hi) in zip(x.shape[2:], pads, strict=True)]
        result = zeros((*x.shape[:2], *sizes), x.dtype)
        inside = [slice(lo, lo + n) for n, (lo, _) in zip(x.shape[2:], pads, strict=True)]
        result[(slice(None), slice(None), *inside)] = x
        return result

    def columns(x: Any, kernel: Sizes, count: Sizes, stride: Sizes, dilation: Sizes, groups: int) -> Any:
        """The windows of a block: (groups, channels / groups * places, samples * windows)."""
        samples, channels = x.shape[:2]
        cut = scratch("columns", (channels, math.prod(kernel), samples, *count), x.dtype)
        for i, place in enumerate(itertools.product(*map(range, kernel))):
            cut[:, i] = x[(slice(None), slice(None), *slices(place, count, stride, dilation))].swapaxes(0, 1)
        return cut.reshape(groups, channels // groups * math.prod(kernel), -1)

    def correlate(
        x: Any, w: Any, bias: Any, pads: Pads, stride: Sizes, dilation: Sizes, groups: int, out: Sizes
    ) -> Any:
        outer, kernel = w.shape[0], tuple(w.shape[2:])
        x, matrix = padded(x, pads), w.reshape(groups, outer // groups, -1)
        result = empty((x.shape[0], outer, *out), x.dtype)
        for start, count in blocks(x.shape[0], x.shape[1] * math.prod(kernel) * math.prod(out)):
            part = slice(start, start + count)
            found = matmul(matrix, columns(x[part], kernel, out, stride, dilation, groups))
            if bias is not None:
                found += bias.reshape(groups, -1, 1)
            copy(result[part], found.reshape(outer, count, *out).swapaxes(0, 1))
        return result

    def weigh(x: Any, g: Any, shape: Sizes, pads: Pads, stride: Sizes, dilation: Sizes, groups: int) -> Any:
        outer, own, kernel = *shape[:2], shape[2:]
        out, x = g.shape[2:], padded(x, pads)
        total = zeros((groups, outer // groups, own * math.prod(kernel)), x.dtype)
        for start, count in blocks(x.shape[0], x.shape[1] * math.prod(kernel) * math.prod(out)):
            part = slice(start, start + count)
            left = g[part].swapaxes(0, 1).reshape(groups, outer // groups, -1)
            total += matmul(left, columns(x[part], kernel, out, stride, dilation, groups).swapaxes(1, 2))
        return total.reshape(shape)

    def spread(g: Any, w: Any, pads: Pads, stride: Sizes, dilation: Sizes, groups: int, sizes: Sizes) -> Any:
        outer, own, *kernel = w.shape
        count, places = g.shape[2:], math.prod(kernel)
        matrix = w.reshape(groups, outer // groups, -1).swapaxes(1, 2)
        room = [n + lo + hi for n, (lo, hi) in zip(sizes, pads, strict=True)]
        inside = tuple([slice(lo, lo + n) for n, (lo, _) in zip(sizes, pads, strict=True)])
        result = empty((g.shape[0], own * groups, *sizes), g.dtype)
        for start, samples in blocks(g.shape[0], own * groups * places * math.prod(count)):
            part = slice(start, start + samples)
            right = g[part].swapaxes(0, 1).reshape(groups, outer // groups, -1)
            parts = scratch("columns", (groups, own * places, right.shape[2]), g.dtype)
            parts = matmul(matrix, right, out=parts).reshape(own * groups, places, samples, *count)
            whole = scratch("windows", (own * groups, samples, *room), g.dtype)
            whole[...] = 0
            for i, place in enumerate(itertools.product(*map(range, kernel))):
                whole[(slice(None), slice(None), *slices(place, count, stride, dilation))] += parts[:, i]
            copy(result[part], whole[(slice(None), slice(None), *inside)].swapaxes(0, 1))
        return result

    return {"correlate by columns": correlate, "weigh by columns": weigh, "spread by columns": spread}


@quietly
def chosen(xp: Any, made: Kernels) -> Kernels:
    """The three products that a convolution and its gradients are, each by the way that suits the sizes."""
    matmul, isfinite = xp.matmul, xp.isfinite
    correlate_shifts, weigh_shifts = made["correlate by shifts"], made["weigh by shifts"]
    correlate_columns, weigh_columns = made["correlate by columns"], made["weigh by columns"]
    spread_columns = made["spread by columns"]

    def is_pointwise(found: Geometry) -> bool:
        return max(found.kernel) == 1 == max(found.stride) and not any(found.padding) and not any(found.output_padding)

    def grouped(x: Any, groups: int) -> Any:
        return x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)

    def correlate(x: Any, w: Any, bias: Any, found: Geometry, out: Sizes) -> Any:
        groups, outer = found.groups, w.shape[0]
        if is_pointwise(found):
            y = matmul(w.reshape(groups, outer // groups, -1), grouped(x, groups)).reshape(x.shape[0], outer, *out)
            return y if bias is None else y.__iadd__(bias)
        pads = tuple([(p, p) for p in found.padding])
        if max(found.stride) == 1:
            return correlate_shifts(x, w, bias, pads, found.dilation, groups, out)
        return correlate_columns(x, w, bias, pads, found.stride, found.dilation, groups, out)

    def weigh(x: Any, g: Any, shape: Sizes, found: Geometry) -> Any:
        groups = found.groups
        if is_pointwise(found):
            return matmul(grouped(g, groups), grouped(x, groups).swapaxes(2, 3)).sum(0).reshape(shape)
        pads = tuple([(p, p) for p in found.padding])
        if max(found.stride) == 1:
            total = weigh_shifts(x, g, shape, pads, found.dilation, groups)
            # Between the rows 0 is multiplied with what is not of the window; were that infinite, it would be NaN.
            if g.dtype.kind not in "fc" or bool(isfinite(total).all()):
                return total
        return weigh_columns(x, g, shape, pads, found.stride, found.dilation, groups)

    def spread(g: Any, w: Any, bias: Any, found: Geometry, sizes: Sizes) -> Any:
        outer, own, *kernel = w.shape
        groups, count = found.groups, g.shape[2:]
        if is_pointwise(found):
            matrix = w.reshape(groups, outer // groups, own).swapaxes(1, 2)
            y = matmul(matrix, grouped(g, groups)).reshape(g.shape[0], own * groups, *sizes)
            return y if bias is None else y.__iadd__(bias)
        reach = [d * (k - 1) for d, k in zip(found.dilation, kernel, strict=True)]
        before = [r - p for r, p in zip(reach, found.padding, strict=True)]
        after = [n + r - m - b for n, r, m, b in zip(sizes, reach, count, before, strict=True)]
        if max(found.stride) == 1 and min(*before, *after) >= 0:
            # The transpose of a correlation is one with the kernel turned around.
            turned = w.reshape(groups, outer // groups, own, *kernel).swapaxes(1, 2)
            turned = turned.reshape(own * groups, outer // groups, *kernel)
            turned = turned[(slice(None), slice(None), *[slice(None, None, -1) for _ in kernel])]
            around = tuple(zip(before, after, strict=True))
            return correlate_shifts(g, turned, bias, around, found.dilation, groups, tuple(sizes))
        # With a stride the last elements may be in no window: those get 0, as padding does.
        pads = tuple([(p, p) for p in found.padding])
        y = spread_columns(g, w, pads, found.stride, found.dilation, groups, sizes)
        return y if bias is None else y.__iadd__(bias)

    return {"correlate": correlate, "weigh": weigh, "spread": spread}


def general(xp: Any, support: Support, made: Kernels) -> Kernels:
    """Returns the operators, which settle dtypes and what has no elements."""
    kind, cast, single, zeros = support.kind, support.cast, support.single, xp.zeros
    correlate, weigh, spread = made["correlate"], made["weigh"], made["spread"]

    def nothing(*shapes: Sizes) -> bool:
        return any(0 in shape for shape in shapes)

    def convolution(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
    ) -> Any:
        sizes = (stride, padding, dilation, transposed, output_padding, groups)
        found = geometry("convolution", input.shape, weight.shape, None if bias is None else bias.shape, *sizes)
        dtype = input.dtype
        if kind[dtype] == "half":
            input, weight = cast(input, single), cast(weight, single)
            bias = None if bias is None else cast(bias, single)
        if bias is not None:
            bias = bias.reshape(-1, *(1,) * len(found.kernel))
        if nothing(input.shape, weight.shape):
            result = zeros(found.shape, input.dtype)
            result = result if bias is None else result + bias
        elif transposed:
            result = spread(input, weight, bias, found, found.shape[2:])
        else:
            result = correlate(input, weight, bias, found, found.shape[2:])
        return result if result.dtype == dtype else cast(result, dtype)

    def convolution_backward(
        grad_output: Any,
        input: Any,
        weight: Any,
        bias_sizes: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        output_mask: Any,
    ) -> tuple[Any, Any, Any]:
        sizes = (stride, padding, dilation, transposed, output_padding, groups)
        found = geometry("convolution_backward", input.shape, weight.shape, bias_sizes, *sizes)
        if tuple(grad_output.shape) != found.shape:
            raise ValueError("the gradient is of another result")  # the shape rule says it better
        dtype = input.dtype
        if kind[dtype] == "half":
            grad_output, input, weight = (cast(a, single) for a in (grad_output, input, weight))
        g, x, w = grad_output, input, weight
        empty = nothing(g.shape, x.shape, w.shape)
        first = second = third = zeros((0,), g.dtype)
        if output_mask[0]:
            if empty:
                first = zeros(x.shape, g.dtype)
            elif transposed:
                first = correlate(g, w, None, found, x.shape[2:])
            else:
                first = spread(g, w, None, found, x.shape[2:])
        if output_mask[1]:
            if empty:
                second = zeros(w.shape, g.dtype)
            else:
                second = weigh(g, x, w.shape, found) if transposed else weigh(x, g, w.shape, found)
        if output_mask[2]:
            third = support.sum(g, (0, *range(2, g.ndim)), False, g.dtype)
        return tuple([a if a.dtype == dtype else cast(a, dtype) for a in (first, second, third)])

    return {"convolution": convolution, "convolution_backward": convolution_backward}
