"""Scans: sums, products, logarithms of sums and extremes of all elements up to each, along one dim.

The array API standard has sums and products of this kind alone. The others double, in as many steps as the size has
binary digits, how far back each element has looked: Hillis and Steele, "Data parallel algorithms", 1986,
https://doi.org/10.1145/7902.7903.
"""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays._support import Kernel, Kernels, Support, check_0d, leading, quietly
from tensorplay_core.errors import ArgumentError


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the scans over ``xp``."""
    kind, cast, single, int64 = support.kind, support.cast, support.single, support.int64
    native = support.numpy_rules  # whose methods have no Python function between, which would warn; JAX's are abstract
    sums: Kernel = xp.ndarray.cumsum if native else xp.cumulative_sum
    products: Kernel = xp.ndarray.cumprod if native else xp.cumulative_prod

    def check(name: str, self: Any, dim: int) -> None:
        if dim.__class__ is not int:  # None means all elements to the module
            raise ArgumentError(f"{name}: dim must be an int, not {dim!r}")
        if self.ndim == 0:
            check_0d(name, dim)

    def scanned(name: str, scan: Kernel, self: Any, dim: int) -> Any:
        check(name, self, dim)
        what, dtype = kind[self.dtype], self.dtype
        if what in ("bool", "int", "uint"):
            dtype = int64
        if self.ndim == 0:
            return cast(self, dtype)
        if what == "half":
            return cast(scan(cast(self, single), axis=dim, dtype=single), dtype)
        return scan(cast(self, int64) if what == "bool" else self, axis=dim, dtype=dtype)

    def cumsum(self: Any, dim: int) -> Any:
        return scanned("cumsum", sums, self, dim)

    def cumprod(self: Any, dim: int) -> Any:
        return scanned("cumprod", products, self, dim)

    def doubled(combine: Kernel, array: Any, dim: int) -> Any:
        before = leading[array.ndim][dim]
        step, size = 1, array.shape[dim]
        while step < size:
            more = combine(array[(*before, slice(step, size), ...)], array[(*before, slice(0, size - step), ...)])
            array = xp.concat([array[(*before, slice(0, step), ...)], more], axis=dim % array.ndim)
            step *= 2
        return array

    def logcumsumexp(self: Any, dim: int) -> Any:
        check("logcumsumexp", self, dim)
        if self.ndim == 0:
            return support.copy(self)
        half = kind[self.dtype] == "half"
        result = doubled(xp.logaddexp, cast(self, single) if half else self, dim)
        return cast(result, self.dtype) if half else support.copy(result) if self.shape[dim] < 2 else result

    def extremes(name: str, self: Any, dim: int, largest: bool) -> tuple[Any, Any]:
        check(name, self, dim)
        if self.ndim == 0:
            return support.copy(self), xp.zeros((), dtype=int64)
        what, dtype = kind[self.dtype], self.dtype
        wide = cast(self, single if what == "half" else int64) if what in ("half", "bool") else self
        values = doubled(xp.maximum if largest else xp.minimum, wide, dim)
        shape = [-1 if d == dim % self.ndim else 1 for d in range(self.ndim)]
        places = xp.reshape(xp.arange(self.shape[dim], dtype=int64), tuple(shape))
        here = wide == values if what not in ("half", "float") else (wide == values) | xp.isnan(wide)
        indices = doubled(xp.maximum, xp.where(here, places, xp.zeros_like(places)), dim)
        return cast(values, dtype) if wide is not self else support.copy(values), indices

    def cummax(self: Any, dim: int) -> tuple[Any, Any]:
        return extremes("cummax", self, dim, True)

    def cummin(self: Any, dim: int) -> tuple[Any, Any]:
        return extremes("cummin", self, dim, False)

    made = {"cumsum": cumsum, "cumprod": cumprod, "logcumsumexp": logcumsumexp}
    return {**made, "cummax": cummax, "cummin": cummin}
