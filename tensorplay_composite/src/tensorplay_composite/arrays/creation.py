"""Kernels that make arrays from sizes, and those that write into one.

``dtype`` arrives as the module's own dtype; a device other than the current one is the business of the backend that has
several. Random numbers come from the host, see :mod:`tensorplay_composite.arrays.random`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, dtype_name, quietly
from tensorplay_composite.arrays.random import HostRandom
from tensorplay_core.errors import ArgumentError, DTypeError, ValueRangeError


def _sizes(size: Any) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


@quietly
def filled(xp: Any, support: Support) -> Kernels:
    """Kernels of constants and ranges."""
    cast, single, double, int64 = support.cast, support.single, support.double, support.int64
    asarray = xp.asarray

    def default(*values: Any) -> Any:
        """The dtype of a constant whose dtype nobody gave."""
        if any(isinstance(value, complex) for value in values):
            return support.native("complex64")
        if any(isinstance(value, float) for value in values):
            return single
        return support.boolean if all(isinstance(value, bool) for value in values) else int64

    def empty(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.empty(_sizes(size), dtype=single if dtype is None else dtype)

    def zeros(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.zeros(_sizes(size), dtype=single if dtype is None else dtype)

    def ones(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.ones(_sizes(size), dtype=single if dtype is None else dtype)

    def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return xp.full(_sizes(size), fill_value, dtype=default(fill_value) if dtype is None else dtype)

    def arange(start: Any, end: Any, step: Any, *, dtype: Any = None, device: Any = None) -> Any:
        dtype = default(0, start, end, step) if dtype is None else dtype
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
        return cast(rows == columns, single if dtype is None else dtype)

    def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
        self[...] = cast(src, self.dtype) if src.dtype != self.dtype else src
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


@quietly
def random(xp: Any, support: Support, source: HostRandom) -> Kernels:
    """Kernels of random numbers, drawn from ``source``."""
    cast, kind = support.cast, support.kind

    def draw(name: str, numbers: Callable[..., Any], size: Any, generator: Any, dtype: Any, device: Any) -> Any:
        refuse(name, generator)
        dtype = support.single if dtype is None else dtype
        if kind[dtype] not in ("half", "float", "complex"):
            raise DTypeError(f"{name}: draws floating or complex numbers, and dtype is {dtype_name(dtype)}")
        host = numbers(_sizes(size), dtype_name(dtype), device or 0)
        return cast(xp.asarray(host), dtype)

    def refuse(name: str, generator: Any) -> None:
        if generator is not None:
            raise ArgumentError(f"{name}: generator= is not supported yet; tp.manual_seed() seeds every device")

    def rand(size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
        return draw("rand", source.uniform, size, generator, dtype, device)

    def randn(size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
        return draw("randn", source.normal, size, generator, dtype, device)

    def randperm(n: int, *, generator: Any = None, dtype: Any = None, device: Any = None) -> Any:
        refuse("randperm", generator)
        if n < 0:
            raise ValueRangeError(f"randperm: n is 0 or more, got {n}")
        host = source.permutation(n, device or 0)
        return cast(xp.asarray(host), support.int64 if dtype is None else dtype)

    return {"rand": rand, "randn": randn, "randperm": randperm}


def kernels(xp: Any, support: Support, source: HostRandom) -> Kernels:
    """Returns the kernels of creation over ``xp``."""
    return {**filled(xp, support), **random(xp, support, source)}
