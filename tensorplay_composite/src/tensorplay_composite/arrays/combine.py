"""Combining elements at the places of an index, rolling, and indices made of counts.

An array module without a scatter sorts the elements by where they go and combines each run; a backend that knows better
passes its own way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, out_of_range, quietly
from tensorplay_core.errors import ShapeError
from tensorplay_core.ops.shape_checks import Shaped
from tensorplay_core.ops.shapes_arrange import check_repeats, roll_steps, window_counts
from tensorplay_core.ops.shapes_scatter import check_scatter

Combined = Callable[[str, Any, Any, Any], Any]
Counted = Callable[[int, Any], Any]


def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels over ``xp``."""
    combined, counted = by_sorting(xp, support)
    return {**scattering(xp, support, combined, counted), **moving(xp, support)}


def by_sorting(xp: Any, support: Support) -> tuple[Combined, Counted]:
    """Returns what combines values into an array at places, and what counts them, by sorting alone."""
    int64, join = support.int64, getattr(xp, "concat", None) or xp.concatenate
    functions = {"sum": xp.add, "mean": xp.add, "prod": xp.multiply, "amax": xp.maximum, "amin": xp.minimum}

    def ends(size: int, places: Any) -> tuple[Any, Any]:
        elements = xp.arange(size, dtype=int64)
        return xp.searchsorted(places, elements, side="left"), xp.searchsorted(places, elements, side="right")

    def combined(reduce: str, flat: Any, places: Any, values: Any) -> Any:
        """Each run of one place in ``log2`` of its length steps, of which step ``k`` reaches ``2**k`` further on."""
        function, count = functions[reduce], places.shape[0]
        order = xp.argsort(places, stable=True)
        places, values = xp.take(places, order, axis=0), xp.take(values, order, axis=0)
        begin, end = ends(flat.shape[0], places)
        longest, step = int(xp.max(end - begin)), 1
        while step < longest:
            same = places[:-step] == places[step:]
            more = xp.where(same, function(values[:-step], values[step:]), values[:-step])
            values = join([more, values[-step:]], axis=0)
            step *= 2
        first = xp.take(values, xp.clip(begin, 0, count - 1), axis=0)
        return xp.where(end > begin, function(flat, first), flat)

    def counted(size: int, places: Any) -> Any:
        begin, end = ends(size, xp.sort(places))
        return end - begin

    return combined, counted


def scattering(xp: Any, support: Support, combined: Combined, counted: Counted) -> Kernels:
    """Returns ``scatter_reduce`` over an array module.

    Args:
        xp: the module.
        support: its spellings.
        combined: ``combined(reduce, flat, places, values)`` gives a flat array combined with values at places; it may
            write to the array.
        counted: ``counted(size, places)`` says how often each place comes.
    """
    return _scattering(xp, support, combined, counted)


@quietly
def _scattering(xp: Any, support: Support, combined: Combined, counted: Counted) -> Kernels:
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64

    def scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
        shape = tuple(self.shape)
        check_scatter("scatter_reduce", shaped(self), dim, shaped(index), shaped(src), reduce)
        if 0 in index.shape:
            return support.copy(self)
        half = kind[self.dtype] == "half"
        flat = xp.reshape(cast(self, single) if half else support.copy(self), (-1,))
        places = xp.reshape(places_of(shape, dim, index), (-1,))
        values = xp.reshape(corner(src, tuple(index.shape)), (-1,))
        counts: Any = counted(flat.shape[0], places) if reduce == "mean" or not include_self else None
        if not include_self:
            flat = xp.where(counts > 0, xp.asarray(neutral(reduce, flat.dtype), dtype=flat.dtype), flat)
        flat = combined(reduce, flat, places, cast(values, single) if half else values)
        if reduce == "mean":
            counts = xp.clip(counts + int(include_self), 1, None)
            whole = kind[flat.dtype] in ("int", "uint")
            counts = cast(counts, flat.dtype)
            flat = flat // counts if whole else flat / counts
        return xp.reshape(cast(flat, self.dtype) if half else flat, shape)

    def shaped(array: Any) -> Shaped:
        return Shaped(tuple(array.shape))

    def corner(src: Any, shape: tuple[int, ...]) -> Any:
        if not shape or not src.ndim:
            return src
        return src if tuple(src.shape) == shape else src[tuple([slice(0, size) for size in shape])]

    def places_of(shape: tuple[int, ...], dim: int, index: Any) -> Any:
        """Where in C order the elements are that an index along one dim names."""
        shape = shape or (1,)
        index = index if index.dtype == int64 else cast(index, int64)
        ndim = len(shape)
        dim = dim + ndim if dim < 0 else dim
        size = shape[dim]
        # Of unsigned numbers a negative one is the largest, so that one pass over the index says it all.
        fits = support.numpy_rules and int(index.view("uint64").max()) < size
        low, high = (0, 0) if fits else (int(xp.min(index)), int(xp.max(index)))
        if low < -size or high >= size:
            raise out_of_range("scatter_reduce", dim, size, low, high)
        index = xp.where(index < 0, index + size, index) if low < 0 else index
        inner = math.prod(shape[dim + 1 :])
        total = index if inner == 1 else index * inner
        for d in range(ndim):
            if d != dim and index.shape[d] > 1:
                along = xp.arange(index.shape[d], dtype=int64) * math.prod(shape[d + 1 :])
                total = total + xp.reshape(along, tuple(-1 if k == d else 1 for k in range(ndim)))
        return total

    def neutral(reduce: str, dtype: Any) -> Any:
        """What changes nothing that it is combined with."""
        if reduce in ("sum", "mean", "prod"):
            return int(reduce == "prod")
        if kind[dtype] == "float":
            return -math.inf if reduce == "amax" else math.inf
        info = xp.iinfo(dtype)
        return int(info.min if reduce == "amax" else info.max)

    return {"scatter_reduce.two": scatter_reduce}


@quietly
def moving(xp: Any, support: Support) -> Kernels:
    """Returns ``roll``, and the indices that repeat."""
    cast, int64 = support.cast, support.int64

    def roll(self: Any, shifts: Any, dims: Any = ()) -> Any:
        roll_steps("roll", Shaped(tuple(self.shape)), shifts, dims)  # an array library takes one shift for many dims
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        if not self.ndim or 0 in self.shape:
            return support.copy(self)
        by = (shifts,) if isinstance(shifts, int) else tuple(shifts)
        return xp.roll(self, by[0]) if not dims else xp.roll(self, by, axis=dims)

    def repeat_interleave(repeats: Any, *, output_size: int | None = None) -> Any:
        if repeats.ndim > 1:
            raise ShapeError(f"repeat_interleave: repeats must have one dim, and has shape {tuple(repeats.shape)}")
        repeats = cast(repeats, int64)
        if repeats.shape == (0,):
            check_repeats([0], output_size)
            return xp.zeros((0,), dtype=int64)
        check_repeats([int(xp.min(repeats))], None)
        check_repeats([int(xp.sum(repeats))], output_size)
        repeats = xp.reshape(repeats, (-1,))
        return xp.repeat(xp.arange(repeats.shape[0], dtype=int64), repeats)

    def unfold(self: Any, dimension: int, size: int, step: int) -> Any:
        d, windows = window_counts("unfold", tuple(self.shape), dimension, size, step)
        shape, in_memory = tuple(self.shape), support.numpy_rules
        if not shape:
            return xp.reshape(self, (1,))[:size]
        if in_memory:
            by = self.strides[d]
            sizes = (*shape[:d], windows, *shape[d + 1 :], size)
            strides = (*self.strides[:d], by * step, *self.strides[d + 1 :], by)
            result = xp.lib.stride_tricks.as_strided(self, sizes, strides)
            if not self.flags.writeable:
                result.flags.writeable = False
            return result
        places = xp.expand_dims(xp.arange(windows, dtype=int64) * step, axis=1) + xp.arange(size, dtype=int64)
        taken = xp.take(self, xp.reshape(places, (-1,)), axis=d)
        taken = xp.reshape(taken, (*shape[:d], windows, size, *shape[d + 1 :]))
        order = [*range(d + 1), *range(d + 2, taken.ndim), d + 1]
        return support.permute(taken, tuple(order))

    made: Kernels = {"unfold": unfold}
    if hasattr(xp, "repeat"):
        made["repeat_interleave.Tensor"] = repeat_interleave
    if hasattr(xp, "roll"):
        made["roll"] = roll
    return made
