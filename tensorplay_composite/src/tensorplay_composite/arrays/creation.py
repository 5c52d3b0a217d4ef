"""Kernels that make arrays from sizes, and those that write into one.

Core gives every size as a tuple, every dtype as the module's own and every device as its index, whatever the user left
out. A device other than the current one is the business of the backend that has several. Random numbers come from the
host, see :mod:`tensorplay_composite.arrays.random`.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays import draws, ranges
from tensorplay_composite.arrays._support import Kernels, Support, quietly
from tensorplay_composite.arrays.random import HostRandom
from tensorplay_core.errors import ValueRangeError


@quietly
def filled(xp: Any, support: Support) -> Kernels:
    """Kernels of constants and ranges."""
    cast, double, int64, asarray = support.cast, support.double, support.int64, xp.asarray
    overlap = getattr(xp, "may_share_memory", None)

    def empty(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.empty(size, dtype=dtype)

    def zeros(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.zeros(size, dtype=dtype)

    def ones(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.ones(size, dtype=dtype)

    def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.full(size, fill_value, dtype=dtype)

    def arange(start: Any, end: Any, step: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
            # In Python's integers first: a float32 range would drift, and bool and halves have none.
            span = range(start, end, step)
            if support.kind[dtype] in ("int", "uint"):
                return xp.arange(start, start + len(span) * step, step, dtype=dtype)
            return cast(start + xp.arange(len(span), dtype=int64) * step, dtype)
        count = max(0, math.ceil((end - start) / step))
        return cast(start + xp.arange(count, dtype=double) * step, dtype)

    def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None) -> Any:
        m = n if m is None else m
        if n < 0 or m < 0:
            raise ValueRangeError(f"eye: sizes are 0 or more, got {n} and {m}")
        rows = xp.expand_dims(xp.arange(n, dtype=int64), axis=1)
        columns = xp.expand_dims(xp.arange(m, dtype=int64), axis=0)
        return cast(rows == columns, dtype)

    def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
        if src.dtype != self.dtype:
            src = cast(src, self.dtype)
        elif self.ndim == 1 and src.ndim == 1 and overlap is not None and overlap(self, src):
            src = support.copy(src)  # NumPy copies what has one dim element by element, also onto what is still to come
        self[...] = src
        return self

    def fill_(self: Any, value: Any) -> Any:
        self[...] = asarray(value, dtype=self.dtype)
        return self

    def zero_(self: Any) -> Any:
        self[...] = asarray(0, dtype=self.dtype)
        return self

    def copied(self: Any, src: Any, non_blocking: bool = False) -> Any:
        src = cast(src, self.dtype) if src.dtype != self.dtype else support.copy(src)
        return src if src.shape == self.shape else support.copy(xp.broadcast_to(src, self.shape))

    def refilled(self: Any, value: Any) -> Any:
        return support.copy(xp.broadcast_to(asarray(value, dtype=self.dtype), self.shape))

    def zeroed(self: Any) -> Any:
        return xp.zeros(self.shape, dtype=self.dtype)

    if not support.mutable:  # what cannot be written to is replaced: the tensor takes what the kernel returns
        copy_, fill_, zero_ = copied, refilled, zeroed
    return {
        "empty": empty,
        "zeros": zeros,
        "ones": ones,
        "full": full,
        "arange": arange,
        "eye": eye,
        "copy_": copy_,
        "fill_": fill_,
        "zero_": zero_,
    }


def kernels(xp: Any, support: Support, source: HostRandom) -> Kernels:
    """Returns the kernels of creation over ``xp``."""
    place = draws.place_of(xp, support)
    return {**filled(xp, support), **ranges.kernels(place.upload, place.name), **draws.kernels(place, source)}
