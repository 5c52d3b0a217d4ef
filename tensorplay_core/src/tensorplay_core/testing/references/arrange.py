"""References of what repeats, turns, joins and divides, and of what is written or combined along an index.

Repeating and turning are lists of places in C order; combining is a loop over what comes to each place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references import parts, scatter, views
from tensorplay_core.testing.references.array import Array, broadcast_shape, strides_of
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.indexing import gathered
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of, round_to, ulp_of
from tensorplay_core.testing.references.sums import slack_of, total
from tensorplay_core.testing.references.views import dim_of
from tensorplay_core.types.dtype import by_name


def _picked(self: Array, dim: int, chosen: Sequence[int]) -> Array:
    """The indices of one dim, in any order and as often as they come."""
    shape, strides = self.shape, strides_of(self.shape)
    size = (*shape[:dim], len(chosen), *shape[dim + 1 :])
    steps = [[i * strides[d] for i in (chosen if d == dim else range(n))] for d, n in enumerate(shape)]
    return Array(size, [self.data[sum(where)] for where in itertools.product(*steps)], self.dtype)


def repeat(self: Array, repeats: Sequence[int]) -> Array:
    """The whole as often along each dim."""
    result = Array((1,) * (len(repeats) - self.ndim) + self.shape, self.data, self.dtype)
    for dim, count in enumerate(repeats):
        result = _picked(result, dim, [*range(result.shape[dim])] * count)
    return result


def tile(self: Array, dims: Sequence[int]) -> Array:
    """The same, of the last dims."""
    return repeat(self, (1,) * (self.ndim - len(dims)) + tuple(dims))


def repeat_interleave(self: Array, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Array:
    """Each index as often as its number says."""
    if dim is None or not self.ndim:
        self, dim = Array((len(self.data),), self.data, self.dtype), 0
    d = dim_of(dim, self.ndim)
    counts = repeats.data if isinstance(repeats, Array) else [repeats]
    counts = counts * self.shape[d] if len(counts) == 1 else counts
    return _picked(self, d, [i for i, count in enumerate(counts) for _ in range(count)])


def counted(repeats: Array, *, output_size: int | None = None) -> Array:
    """The indices alone."""
    found = [i for i, count in enumerate(repeats.data) for _ in range(count)]
    return Array((len(found),), found, "int64")


def roll(self: Array, shifts: Any, dims: Any = ()) -> Array:
    """Indices counted from somewhere else."""
    by = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = (dims,) if isinstance(dims, int) else tuple(dims)
    if not along or not self.ndim:
        flat = _rolled(Array((len(self.data),), self.data, self.dtype), 0, by[0])
        return Array(self.shape, flat.data, self.dtype)
    result = self
    for dim, step in zip(along, by, strict=True):
        result = _rolled(result, dim_of(dim, self.ndim), step)
    return result


def _rolled(self: Array, dim: int, by: int) -> Array:
    size = self.shape[dim]
    return _picked(self, dim, [(i - by) % size for i in range(size)])


def rot90(self: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    """One quarter after the other: element (i, j) comes from (j, n - 1 - i)."""
    a, b = (dim_of(dim, self.ndim) for dim in dims)
    result = self
    for _ in range(k % 4):
        result = parts.flip(views.transpose(result, a, b), a)
    return result


def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    """Windows, each a slice, the dim that runs inside them last."""
    if not self.ndim:
        return Array((size,), self.data[:size], self.dtype)
    d = dim_of(dimension, self.ndim)
    windows = [views.slice(self, d, i, i + size) for i in range(0, self.shape[d] - size + 1, step)]
    return parts.movedim(parts.stack(windows, d), d + 1, -1)


def _at_least(ndim: int) -> Callable[[Array], Array]:
    def atleast(self: Array) -> Array:
        shape = self.shape
        if len(shape) < ndim:
            shapes = {0: (1,) * ndim, 1: (1, *shape, 1)[: 3 if ndim == 3 else 2], 2: (*shape, 1)}
            shape = shapes[len(shape)]
        return Array(shape, list(self.data), self.dtype)

    return atleast


def _joined(ndim: int, dim: int) -> Callable[[Sequence[Array]], Array]:
    def join(tensors: Sequence[Array]) -> Array:
        return views.cat([_at_least(ndim)(array) for array in tensors], dim)

    return join


def hstack(tensors: Sequence[Array]) -> Array:
    """Side by side: along dim 1, or the only one."""
    arrays = [_at_least(1)(array) for array in tensors]
    return views.cat(arrays, 0 if arrays[0].ndim == 1 else 1)


def column_stack(tensors: Sequence[Array]) -> Array:
    """Vectors as columns."""
    columns = [a if a.ndim > 1 else Array((len(a.data), 1), a.data, a.dtype) for a in tensors]
    return views.cat(columns, 1)


def tensor_split(self: Array, where: Any, dim: int = 0) -> tuple[Array, ...]:
    """So many parts, the first ones larger; or the parts between indices."""
    size = self.shape[dim]
    if isinstance(where, int):
        least, larger = divmod(size, where)
        sizes = [least + (i < larger) for i in range(where)]
        return parts.split_with_sizes(self, sizes, dim)
    starts = [0, *where]
    return tuple(views.slice(self, dim, a, b) for a, b in zip(starts, [*where, size], strict=True))


def _split(axis: int | None) -> Callable[[Array, Any], tuple[Array, ...]]:
    return lambda self, where: tensor_split(self, where, (0 if self.ndim == 1 else 1) if axis is None else axis)


# ------------------------------------------------------------------------------------------------------ along an index


def _slices(self: Array, dim: int, index: Array) -> list[int]:
    shape = self.shape or (1,)
    flat = Array((len(index.data),), index.data, index.dtype)
    return gathered(shape, [*(None,) * dim_of(dim, self.ndim), flat])[1]


def index_add(self: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1) -> Array:
    """Slices added, each times a number that is rounded to the dtype with them."""
    values = round_to([value * alpha for value in source.data], self.dtype) if alpha != 1 else source.data
    return scatter._put(self, _slices(self, dim, index), values, True)


def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    """Slices replaced."""
    return scatter._put(self, _slices(self, dim, index), source.data, False)


def index_fill(self: Array, dim: int, index: Array, value: Any) -> Array:
    """Slices of one value."""
    where = _slices(self, dim, index)
    new = value.cast(self.dtype).data[0] if isinstance(value, Array) else round_to([value], self.dtype)[0]
    return scatter._put(self, where, [new] * len(where), False)


def put(self: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """Elements at places in C order."""
    return scatter._put(self, [i % len(self.data) for i in index.data], source.data, accumulate)


def take_along_dim(self: Array, indices: Array, dim: int | None = None) -> Array:
    """A gather of what is broadcast in the other dims."""
    if dim is None:
        found = [self.data[i] for i in indices.data]
        return Array((len(found),), found, self.dtype)
    d = dim_of(dim, self.ndim)
    if not self.ndim:
        return scatter.gather(self, 0, indices)
    others = broadcast_shape(*[(*a.shape[:d], *a.shape[d + 1 :]) for a in (self, indices)])
    wide = [(*others[:d], a.shape[d], *others[d:]) for a in (self, indices)]
    own, picked = (Array(shape, a.broadcast(shape), a.dtype) for a, shape in zip((self, indices), wide, strict=True))
    return scatter.gather(own, d, picked)


def scatter_reduce(self: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True) -> Array:
    """All that comes to one place, with what was there or without, combined in the order in which it comes."""
    where, values = scatter._by_dim(self.shape, dim, index), scatter._sources(index, src, self.dtype)
    terms: dict[int, list[Any]] = {}
    for place, value in zip(where, values, strict=True):
        terms.setdefault(place, [self.data[place]] if include_self else []).append(value)
    data, slack = list(self.data), [0.0] * len(self.data)
    for place, row in terms.items():
        data[place], slack[place] = _combined(row, reduce, self.dtype)
    inexact = by_name(self.dtype).is_inexact
    return Array(self.shape, data if inexact else round_to(data, self.dtype), self.dtype, slack if inexact else None)


def _combined(row: list[Any], reduce: str, dtype: str) -> tuple[Any, float]:
    if reduce in ("amax", "amin"):
        nan = next((value for value in row if value != value), None)
        return nan if nan is not None else (max if reduce == "amax" else min)(row), 0.0
    if not by_name(dtype).is_inexact:
        whole = round_to([total(row)], dtype)[0]
        return (math.prod(row) if reduce == "prod" else whole // len(row) if reduce == "mean" else whole), 0.0
    form = accumulator_of(dtype)
    if reduce == "prod":
        product = math.prod(row)
        return product, len(row) * ulp_of(form, product)
    count = len(row) if reduce == "mean" else 1
    return total(row) / count, slack_of(row, form) / count


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "argwhere": scatter.nonzero,
    "atleast_1d": _at_least(1),
    "atleast_2d": _at_least(2),
    "atleast_3d": _at_least(3),
    "broadcast_to": views.expand,
    "column_stack": column_stack,
    "dsplit.array": _split(2),
    "dsplit.int": _split(2),
    "dstack": _joined(3, 2),
    "fliplr": lambda self: parts.flip(self, 1),
    "flipud": lambda self: parts.flip(self, 0),
    "hsplit.array": _split(None),
    "hsplit.int": _split(None),
    "hstack": hstack,
    "ravel": lambda self: Array((len(self.data),), list(self.data), self.dtype),
    "repeat": repeat,
    "repeat_interleave.Tensor": counted,
    "repeat_interleave.self_Tensor": repeat_interleave,
    "repeat_interleave.self_int": repeat_interleave,
    "roll": roll,
    "rot90": rot90,
    "take_along_dim": take_along_dim,
    "tensor_split.indices": tensor_split,
    "tensor_split.sections": tensor_split,
    "tile": tile,
    "unfold": unfold,
    "vsplit.array": _split(0),
    "vsplit.int": _split(0),
    "vstack": _joined(2, 0),
    **dict.fromkeys(("index_copy", "index_copy_"), index_copy),
    **dict.fromkeys(
        (f"index_fill{write}.int_{kind}" for write in ("", "_") for kind in ("Scalar", "Tensor")), index_fill
    ),
}
REFERENCES: dict[str, Reference] = {
    **{name: Reference(fn, {}, bits=True) for name, fn in _FUNCTIONS.items()},
    **dict.fromkeys(("index_add", "index_add_"), Reference(index_add, budget(1))),
    "put": Reference(put, budget(1)),
    "scatter_reduce.two": Reference(scatter_reduce, budget(1)),
}
