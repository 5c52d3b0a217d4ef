"""Distances between rows through matrix products, and component by component.

``|a - b|² = |a|² - 2ab + |b|²`` is one matrix product, but loses the digits of rows that are near each other beside
their lengths. So the rows are moved to their middle first, and pairs that are nearer than the digits allow are done
again from their differences; where those are many, float32 multiplies in float64. Other norms go over the components
with all pairs of a block in the cache, so that no array has a number for each difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_composite.arrays._support import silent
from tensorplay_core.ops.shapes import broadcast_shapes

ROWS = 25
"""Up to so many rows of each argument differences are cheaper than products."""
PAIRS = 1 << 16
"""So many pairs of rows are a block."""
FEW = 4096
"""For fewer pairs the loop over components costs more than their differences."""
NEAR = {("float32", "float32"): 1 / 4, ("float32", "float64"): 2.0**-24, ("float64", "float64"): 1 / 16}
"""A pair is near if its squared distance is less than so much of ``|a|² + |b|²``; by dtypes of rows and products."""
SCALES = {4: 2.0**75, 8: 2.0**538}
"""The square of each takes the smallest positive number of so many bytes past 1."""
MANY = 16
"""Where more than one pair in so many is near, a block is done in a way that costs more and has more digits."""


@quietly
def kernels(general: Kernels) -> Kernels:
    """``cdist`` and its gradient, of floating dtypes."""
    few_forward, few_backward = general["cdist"], general["_cdist_backward"]
    single = np.dtype("float32")
    quiet = {**globals(), "__name__": None}
    for name in ("_euclidean", "_norms", "_euclidean_slopes", "_slopes", "_add_near", "_sign"):  # they call each other
        function = globals()[name]
        quiet[name] = FunctionType(function.__code__, quiet, name, function.__defaults__)
    forward, backward = (quiet["_euclidean"], quiet["_norms"]), (quiet["_euclidean_slopes"], quiet["_slopes"])

    def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
        if x1.ndim < 2 or x2.ndim < 2 or x1.dtype.itemsize < 4:
            return few_forward(x1, x2, p, compute_mode)
        (n, m), k = x1.shape[-2:], x2.shape[-2]
        euclidean = p == 2 and (m > 8 or x1.dtype is single)
        if not n or not k or not m or max(n, k) <= ROWS or (not euclidean and n * k < FEW):
            return few_forward(x1, x2, p, compute_mode)
        if x2.shape[-1] != m or not p >= 0 or compute_mode not in (None, 0, 1, 2) or x1.dtype.kind != "f":
            raise ValueError("the shape rule says what is wrong")
        batch, first, second = items(x1, x2)
        result = np.empty((len(first), n, k), x1.dtype)
        for a, b, out in zip(first, second, result, strict=True):
            if euclidean:
                forward[0](a, b, out)
            else:
                forward[1](a, b, p, out)
        return result.reshape(*batch, n, k)

    def _cdist_backward(grad_output: Any, x1: Any, x2: Any, p: float, cdist: Any) -> Any:
        (n, m), k = x1.shape[-2:], x2.shape[-2]
        few = not n or not k or max(n, k) <= ROWS or (p != 2 and n * k < FEW)
        if few or not m or not p or x1.dtype.itemsize < 4:
            return few_backward(grad_output, x1, x2, p, cdist)
        batch, first, second = items(x1, x2)
        if grad_output.shape != (*batch, n, k) or cdist.shape != grad_output.shape or m != x2.shape[-1]:
            raise ValueError("the shape rule says what is wrong")
        grads, distances = grad_output.reshape(-1, n, k), cdist.reshape(-1, n, k)
        result = np.empty((len(first), n, m), x1.dtype)
        for row in zip(grads, first, second, distances, result, strict=True):
            if p == 2:
                backward[0](*row)
            else:
                backward[1](*row[:3], p, *row[3:])
        return result.reshape(*batch, n, m)

    return {"cdist": cdist, "_cdist_backward": _cdist_backward}


def items(x1: Any, x2: Any) -> tuple[tuple[int, ...], Any, Any]:
    """Returns the batch that both broadcast to, and each as a list of matrices."""
    if x1.ndim == x2.ndim == 2:
        return (), x1[None], x2[None]
    batch = broadcast_shapes("cdist", x1.shape[:-2], x2.shape[:-2])
    a, b = (np.broadcast_to(x, batch + x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (x1, x2))
    return batch, a, b


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Parts of the rows that make about PAIRS pairs each."""
    step = max(1, PAIRS // max(columns, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


# ----------------------------------------------------------------------------------------------------------- Euclidean


class _Moved:
    """Two lists of rows, moved so that the middle of the second is at 0, and the squares of their lengths."""

    @silent
    def __init__(self, a: Any, b: Any, dtype: str) -> None:
        middle = b.mean(0, dtype="float64")
        middle = middle if np.isfinite(middle).all() else np.zeros(middle.shape)
        self.limit = NEAR[a.dtype.name, dtype]
        middle = middle.astype(dtype)
        self.a, self.b = np.subtract(a, middle, dtype=dtype), np.subtract(b, middle, dtype=dtype)
        self.lengths, self.others = np.vecdot(self.a, self.a), np.vecdot(self.b, self.b)
        self.turned = np.multiply(self.b.T, -2)
        self.bounds = (self.lengths + self.others.max()) * self.limit

    @silent
    def squares(self, part: slice, out: Any) -> None:
        """Writes the squares of all distances from a part of the rows."""
        np.matmul(self.a[part], self.turned, out)
        np.add(out, self.lengths[part, None], out)
        np.add(out, self.others, out)

    def near(self, squares: Any, part: slice) -> tuple[Any, Any] | None:
        """Rows and columns of the pairs of a block that lose too many digits, and of NaN; None where there are none."""
        far = squares > self.bounds[part, None]
        if far.all():
            return None
        i, j = np.nonzero(~far)
        near = ~(squares[i, j] > (self.lengths[part][i] + self.others[j]) * self.limit)
        return i[near] + part.start, j[near]


def _euclidean(a: Any, b: Any, out: Any, dtype: str | None = None) -> None:
    """Fills ``out`` with the distances."""
    moved = _Moved(a, b, dtype or a.dtype.name)
    room = np.empty((0, 0))
    for part in blocks(len(a), len(b)):
        target = out[part]
        if moved.a.dtype != out.dtype:
            room = target = room if room.shape == target.shape else np.empty(target.shape, moved.a.dtype)
        moved.squares(part, target)
        near = moved.near(target, part)
        if near is not None and len(near[0]) * MANY > target.size and dtype is None:
            if a.dtype == "float64":
                _norms(a[part], b, 2, out[part])
            else:
                _euclidean(a[part], b, out[part], "float64")
            continue
        np.sqrt(target, target)
        if target is room:
            out[part] = target
        if near is not None:
            for few in _pieces(len(near[0]), a.shape[1]):
                i, j = near[0][few], near[1][few]
                difference = a[i] - b[j]
                out[i, j] = np.sqrt(np.vecdot(difference, difference))


def _pieces(count: int, width: int) -> Iterator[slice]:
    step = max(1, 4 * PAIRS // width)
    return (slice(start, start + step) for start in range(0, count, step))


def _euclidean_slopes(grad: Any, a: Any, b: Any, distances: Any, out: Any, dtype: str | None = None) -> None:
    """Fills ``out`` with ``sum(grad * (a - b) / distance)``: ``a * sum(w) - w @ b`` of the quotients w."""
    moved = _Moved(a, b, dtype or a.dtype.name)
    m = a.shape[1]
    columns = np.empty((len(b), m + 1), moved.b.dtype)
    columns[:, :m], columns[:, m] = moved.b, 1
    for part in blocks(len(a), len(b)):
        r = distances[part].astype(columns.dtype, copy=False)
        weight = np.divide(grad[part], r, dtype=columns.dtype)
        near = moved.near(np.square(r), part)
        if near is not None:
            if len(near[0]) * MANY > r.size and columns.dtype != "float64":
                _euclidean_slopes(grad[part], a[part], b, distances[part], out[part], "float64")
                continue
            own = weight[near[0] - part.start, near[1]]
            weight[near[0] - part.start, near[1]] = 0
        both = weight @ columns
        out[part] = moved.a[part] * both[:, m:] - both[:, :m]
        if near is not None:
            apart = distances[near] != 0
            _add_near(a, b, near[0][apart], near[1][apart], own[apart], out)


def _add_near(a: Any, b: Any, i: Any, j: Any, weight: Any, out: Any) -> None:
    """Adds ``weight * (a[i] - b[j])`` to the rows ``i``, which ascend."""
    for few in _pieces(len(i), a.shape[1]):
        rows, starts = np.unique(i[few], return_index=True)
        terms = weight[few, None] * (a[i[few]] - b[j[few]])
        out[rows] += np.add.reduceat(terms, starts, axis=0).astype(out.dtype)


# ----------------------------------------------------------------------------------------------------- the other norms


def _norms(a: Any, b: Any, p: float, out: Any) -> None:
    """Fills ``out`` with the distances, one component after the other."""
    down, across = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    gather = np.maximum if p == math.inf else np.add
    for part in blocks(len(a), len(b)):
        total = out[part]
        total.fill(0)
        room = np.empty(total.shape, total.dtype)
        for x, y in zip(down[:, part], across, strict=True):
            np.subtract(x[:, None], y, room)
            if p == 2:
                np.multiply(room, room, room)
            else:
                np.abs(room, room)
                if p == 0:
                    np.minimum(np.ceil(room, room), 1, out=room)
                elif p not in (1, math.inf):
                    np.power(room, p, room)
            gather(total, room, out=total)
        if p == 2:
            np.sqrt(total, total)
        elif p not in (0, 1, math.inf):
            np.power(total, 1 / p, total)


def _slopes(grad: Any, a: Any, b: Any, p: float, distances: Any, out: Any) -> None:
    """Fills ``out`` with the gradient of ``a``, one component after the other."""
    down, across = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    for part in blocks(len(a), len(b)):
        r, weight = np.ascontiguousarray(distances[part]), np.ascontiguousarray(grad[part])
        room, size = np.empty(r.shape, r.dtype), np.empty(r.shape, r.dtype)
        if p == math.inf:
            pairs = zip(down[:, part], across, strict=True)
            shares = sum((np.abs(x[:, None] - y) == r).astype(r.dtype) for x, y in pairs)
            weight = weight / np.maximum(shares, 1)
        elif p != 1:
            r = np.where(r == 0, 1, r)
        for c, (x, y) in enumerate(zip(down[:, part], across, strict=True)):
            np.subtract(x[:, None], y, room)
            if p == 1:
                _sign(room)
            elif p == math.inf:
                largest = np.equal(np.abs(room, size), r)
                _sign(room)
                np.multiply(room, largest, room)
            else:
                np.divide(np.abs(room, size), r, size)
                zero = size == 0 if p < 1 else None
                np.power(size, p - 1, size)
                if zero is not None:
                    size[zero] = 0
                np.copysign(size, room, room)
            out[part, c] = np.vecdot(room, weight)


def _sign(x: Any) -> None:
    """Replaces numbers by their signs; ``np.sign`` branches, which costs five times as much where signs are random."""
    scale = x.dtype.type(SCALES[x.itemsize])
    np.multiply(x, scale, x)
    np.multiply(x, scale, x)  # now even the smallest number is at least 1
    np.maximum(np.minimum(x, 1, out=x), -1, out=x)
