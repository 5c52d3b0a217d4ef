"""``softmax`` and ``log_softmax`` along the last dim, in blocks of rows that stay in the cache.

The largest element of a row is taken away only where it has to be. Where no exponential overflows, and each row's sum
is at least a half, ``exp(x) / sum(exp(x))`` is as exact as with the largest taken away: no argument was rounded, and an
exponential is denormal only where its quotient is. NumPy spends as much on the largest elements of short rows as on all
of their exponentials. What it spends on combining a row with a number is told in :mod:`tensorplay_cpu.normalization`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_cpu.normalization import SHORT, items

_LEAST = 1024
"""Fewer elements are done before a block is set up."""
HIGHEST = {np.dtype("float32"): 60.0, np.dtype("float64"): 600.0}
"""Whose exponential, and the sum of a row of which, is still far from infinity."""


@quietly
def kernels(made: Kernels) -> Kernels:
    """Both, of float32 and float64; ``made`` has the kernels that serve the rest."""
    largest, least, exp, log = np.maximum.reduce, np.minimum.reduce, np.exp, np.log
    subtract, multiply = np.subtract, np.multiply
    empty, matmul = np.empty, np.matmul

    def suits(array: Any, dim: Any) -> bool:
        return (
            array.size > _LEAST
            and dim.__class__ is int
            and dim in (-1, array.ndim - 1)
            and array.dtype in HIGHEST
            and array.flags.c_contiguous
        )

    def softmax(self: Any, dim: int) -> Any:
        if not suits(self, dim):
            return made["softmax"](self, dim)
        x, highest = self.reshape(-1, self.shape[-1]), HIGHEST[self.dtype]
        result, room, ones = empty(x.shape, x.dtype), None, np.ones(x.shape[1], x.dtype)
        for piece in items(x.shape):
            a, out = x[piece], result[piece]
            if room is None or room.shape != a.shape:
                room = empty(a.shape, x.dtype)
            sums = None
            if largest(a, None) <= highest:
                sums = matmul(exp(a, out), ones)
            if sums is None or not least(sums) >= 0.5:
                sums = matmul(exp(subtract(a, spread(tops(a), room), out), out), ones)
            multiply(out, spread(1 / sums, room), out)
        return result.reshape(self.shape)

    def log_softmax(self: Any, dim: int) -> Any:
        if not suits(self, dim):
            return made["log_softmax"](self, dim)
        x, highest = self.reshape(-1, self.shape[-1]), HIGHEST[self.dtype]
        result, room, ones = empty(x.shape, x.dtype), None, np.ones(x.shape[1], x.dtype)
        for piece in items(x.shape):
            a, out = x[piece], result[piece]
            if room is None or room.shape != a.shape:
                room = empty(a.shape, x.dtype)
            sums = None
            if x.dtype.itemsize == 4 and largest(a, None) <= highest:
                sums = matmul(exp(a, out), ones)
            if sums is None or not least(sums) >= 0.5:
                subtract(a, spread(tops(a), room), out)
                sums = matmul(exp(out, room), ones)
                subtract(out, spread(log(sums, sums), room), out)
                continue
            # In two parts, of which the first leaves what is exact where the result is small: nothing cancels.
            logs = log(sums, dtype="float64")
            high = logs.astype(x.dtype)
            subtract(a, spread(high, room), out)
            subtract(out, spread((logs - high).astype(x.dtype), room), out)
        return result.reshape(self.shape)

    return {"softmax": softmax, "log_softmax": log_softmax}


def tops(rows: Any) -> Any:
    """The largest of each row, NaN where one is: of short rows NumPy finds the place four times as fast."""
    count, size = rows.shape
    return rows.reshape(-1).take(rows.argmax(1) + np.arange(0, count * size, size))


def spread(numbers: Any, room: Any) -> Any:
    """A number for each row, so that it broadcasts: in a block of its own where rows are short."""
    column = numbers[:, None]
    if room.shape[1] >= SHORT:
        return column
    np.copyto(room, column)
    return room
