"""Distances between rows through matrix products, and component by component.

``|a - b|² = |a|² - 2ab + |b|²`` is one matrix product, but loses the digits of rows that are near each other beside
their lengths. So float32 multiplies in float64, the rows are moved to their middle first, and pairs that are nearer
than the digits allow are done again from their differences. Other norms go over the components with all pairs of a
block in the cache, so that no array has a number for each difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
NEAR = {4: 2.0**-24, 8: 1 / 16}
"""A pair is near if its squared distance is less than so much of ``|a|² + |b|²``; by the bytes of a number."""


@quietly
def kernels(general: Kernels) -> Kernels:
    """``cdist`` and its gradient, of floating dtypes."""
    few_forward, few_backward = general["cdist"], general["_cdist_backward"]
    single = np.dtype("float32")
    forward, backward = (silent(_euclidean), silent(_norms)), (silent(_euclidean_slopes), silent(_slopes))

    def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
        if x1.ndim < 2 or x2.ndim < 2 or x1.dtype.itemsize < 4:
            return few_forward(x1, x2, p, compute_mode)
        (n, m), k = x1.shape[-2:], x2.shape[-2]
        euclidean = p == 2 and (m > 8 or x1.dtype is single)
        if not m or max(n, k) <= ROWS or (not euclidean and n * k < FEW):
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
        few = max(n, k) <= ROWS or (p != 2 and n * k < FEW)
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
    first, second = (np.broadcast_to(x, batch + x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (x1, x2))
    return batch, first, second


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Parts of the rows that make about PAIRS pairs each."""
    step = max(1, PAIRS // max(columns, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


# ----------------------------------------------------------------------------------------------------------- Euclidean


def _moved(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """Both in float64, with the middle of b at 0, and the squares of their lengths."""
    middle = b.mean(0, dtype="float64") if len(b) else np.zeros(b.shape[1:])
    if not np.isfinite(middle).all():
        middle = 0.0
    a, b = np.subtract(a, middle, dtype="float64"), np.subtract(b, middle, dtype="float64")
    return a, b, np.vecdot(a, a), np.vecdot(b, b)


def _near(squares: Any, lengths: Any, others: Any, limit: float) -> tuple[Any, Any] | None:
    """Returns the rows and columns of pairs that lose too many digits, and of NaN; None where there are none."""
    if not others.size or not squares.size:
        return None
    far = squares > ((lengths + others.max()) * limit)[:, None]
    if far.all():
        return None
    i, j = np.nonzero(~far)
    near = ~(squares[i, j] > (lengths[i] + others[j]) * limit)
    return i[near], j[near]


def _euclidean(a: Any, b: Any, out: Any) -> None:
    """Fills ``out`` with the distances."""
    left, right, lengths, others = _moved(a, b)
    m, limit = a.shape[1], NEAR[a.dtype.itemsize]
    rows = np.empty((len(a), m + 2))
    rows[:, :m], rows[:, m], rows[:, m + 1] = left, lengths, 1
    columns = np.empty((m + 2, len(b)))
    columns[:m], columns[m], columns[m + 1] = -2 * right.T, 1, others
    for part in blocks(len(a), len(b)):
        squares = rows[part] @ columns
        near = _near(squares, lengths[part], others, limit)
        out[part] = np.sqrt(squares, squares)
        if near is not None:
            for few in _pieces(len(near[0]), m):
                i, j = near[0][few] + part.start, near[1][few]
                difference = a[i] - b[j]
                out[i, j] = np.sqrt(np.vecdot(difference, difference))


def _pieces(count: int, width: int) -> Iterator[slice]:
    step = max(1, 4 * PAIRS // width)
    return (slice(start, start + step) for start in range(0, count, step))


def _euclidean_slopes(grad: Any, a: Any, b: Any, distances: Any, out: Any) -> None:
    """Fills ``out`` with ``sum(grad * (a - b) / distance)``: ``a * sum(w) - w @ b`` of the quotients w."""
    left, right, lengths, others = _moved(a, b)
    m, limit = a.shape[1], NEAR[a.dtype.itemsize]
    columns = np.empty((len(b), m + 1))
    columns[:, :m], columns[:, m] = right, 1
    for part in blocks(len(a), len(b)):
        r = distances[part].astype("float64")
        weight = np.divide(grad[part], r)
        near = _near(np.square(r, r), lengths[part], others, limit)
        if near is not None:
            own = weight[near]
            weight[near] = 0
        both = weight @ columns
        out[part] = left[part] * both[:, m:] - both[:, :m]
        if near is not None:
            i, j = near[0] + part.start, near[1]
            apart = distances[i, j] != 0
            _add_near(a, b, i[apart], j[apart], own[apart], out)


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
                    np.minimum(np.ceil(room, room), 1, room)
                elif p not in (1, math.inf):
                    np.power(room, p, room)
            gather(total, room, total)
        if p == 2:
            np.sqrt(total, total)
        elif p not in (0, 1, math.inf):
            np.power(total, 1 / p, total)


def _slopes(grad: Any, a: Any, b: Any, p: float, distances: Any, out: Any) -> None:
    """Fills ``out`` with the gradient of ``a``, one component after the other."""
    down, across = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    for part in blocks(len(a), len(b)):
        r, weight = distances[part], grad[part]
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
                np.sign(room, room)
            elif p == math.inf:
                np.multiply(np.sign(room), np.equal(np.abs(room, size), r), room)
            else:
                np.divide(np.abs(room, size), r, size)
                zero = size == 0 if p < 1 else None
                np.power(size, p - 1, size)
                if zero is not None:
                    size[zero] = 0
                np.copysign(size, room, room)
            out[part, c] = np.vecdot(room, weight)
