"""NumPy's definitions of what repeats, turns, joins, divides and writes along an index."""

from __future__ import annotations

from typing import Any

import numpy as np


def repeat_interleave(x: Any, repeats: Any, dim: Any = None, output_size: Any = None) -> Any:
    return np.repeat(np.atleast_1d(x), repeats, axis=dim)


def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    if x.ndim == 0:
        return x
    return np.roll(x, shifts if isinstance(shifts, int) or dims else shifts[0], None if dims == () else dims)


def unfold(x: Any, dim: int, size: int, step: int) -> Any:
    x = np.atleast_1d(x)
    starts = range(0, x.shape[dim] - size + 1, step)
    windows = [np.moveaxis(np.take(x, range(a, a + size), axis=dim), dim, -1) for a in starts]
    found = np.stack(windows, axis=dim % x.ndim)
    return found


def unfolded(x: Any, dim: int, size: int, step: int) -> Any:
    return unfold(x, dim, size, step)[0] if x.ndim == 0 else unfold(x, dim, size, step)


def atleast_2d(x: Any) -> Any:
    return np.atleast_2d(x)


def divided(axis: Any) -> Any:
    def split(x: Any, where: Any) -> Any:
        along = axis if axis is not None else 0 if x.ndim == 1 else 1
        return tuple(np.split(x, where if isinstance(where, int) else list(where), axis=along))

    return split


def tensor_split(x: Any, where: Any, dim: int = 0) -> Any:
    if isinstance(where, int):
        return tuple(np.array_split(x, where, axis=dim))
    ends = [*where, x.shape[dim]]
    key: list[Any] = [slice(None)] * x.ndim
    parts, start = [], 0
    for end in ends:
        key[dim] = slice(start, end)
        parts.append(x[tuple(key)])
        start = end
    return tuple(parts)


def _key(x: Any, dim: int, index: Any) -> Any:
    return (*(slice(None),) * (dim % max(x.ndim, 1)), np.atleast_1d(index))


def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    y = np.array(np.atleast_1d(x))
    np.add.at(y, _key(y, dim, index), np.atleast_1d(source) * np.asarray(alpha, y.dtype))
    return y.reshape(x.shape)


def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    y = np.array(np.atleast_1d(x))
    y[_key(y, dim, index)] = np.atleast_1d(source)
    return y.reshape(x.shape)


def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    y = np.array(np.atleast_1d(x))
    y[_key(y, dim, index)] = np.asarray(value).astype(y.dtype)
    return y.reshape(x.shape)


def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    y = np.array(x).reshape(-1)
    if accumulate:
        np.add.at(y, index.reshape(-1), source.reshape(-1))
    else:
        y[index.reshape(-1)] = source.reshape(-1)
    return y.reshape(x.shape)


def take_along_dim(x: Any, indices: Any, dim: Any = None) -> Any:
    if dim is None:
        return np.take(x.reshape(-1), indices.reshape(-1))
    if not x.ndim:  # a tensor without dims counts as one of one element
        return np.take(x.reshape(-1), indices)
    return np.take_along_axis(x, indices, dim)


def scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    y, index, src = np.array(np.atleast_1d(x)), np.atleast_1d(index), np.atleast_1d(src)
    found: dict[Any, list[Any]] = {}
    for where in np.ndindex(index.shape):
        place = [*where]
        place[dim] = int(index[where])
        found.setdefault(tuple(place), []).append(src[where])
    for place, values in found.items():
        every = np.array([y[place], *values] if include_self else values, dtype=y.dtype)
        if reduce == "mean":
            total = every.sum(dtype=y.dtype)
            y[place] = total // len(every) if y.dtype.kind in "iu" else total / len(every)
        else:
            function = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
            y[place] = function.reduce(every, dtype=y.dtype)
    return y.reshape(x.shape)


REFERENCES: dict[str, Any] = {
    "repeat": np.tile,
    "tile": np.tile,
    "repeat_interleave.Tensor": lambda repeats, output_size=None: np.repeat(
        np.arange(repeats.size), np.atleast_1d(repeats).astype("int64")
    ),
    "repeat_interleave.self_Tensor": repeat_interleave,
    "repeat_interleave.self_int": repeat_interleave,
    "roll": roll,
    "rot90": lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "broadcast_to": np.broadcast_to,
    "ravel": np.ravel,
    "unfold": unfolded,
    "atleast_1d": np.atleast_1d,
    "atleast_2d": np.atleast_2d,
    "atleast_3d": np.atleast_3d,
    "hstack": np.hstack,
    "vstack": np.vstack,
    "dstack": np.dstack,
    "column_stack": np.column_stack,
    "tensor_split.sections": tensor_split,
    "tensor_split.indices": tensor_split,
    **dict.fromkeys(("hsplit.int", "hsplit.array"), divided(None)),
    **dict.fromkeys(("vsplit.int", "vsplit.array"), divided(0)),
    **dict.fromkeys(("dsplit.int", "dsplit.array"), divided(2)),
    "argwhere": np.argwhere,
    "take_along_dim": take_along_dim,
    **dict.fromkeys(("index_add", "index_add_"), index_add),
    **dict.fromkeys(("index_copy", "index_copy_"), index_copy),
    **dict.fromkeys(
        ("index_fill.int_Scalar", "index_fill.int_Tensor", "index_fill_.int_Scalar", "index_fill_.int_Tensor"),
        index_fill,
    ),
    "put": put,
    "scatter_reduce.two": scatter_reduce,
}
