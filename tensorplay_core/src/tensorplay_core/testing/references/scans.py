"""References of the scans: one element after the other along a dim, in Python's own arithmetic.

How far a kernel may be from an element grows with how many came before it, as in :mod:`sums`.
"""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import Format, accumulator_of, round_to
from tensorplay_core.testing.references.sorting import along, lines
from tensorplay_core.testing.references.statistics import size_of
from tensorplay_core.testing.references.sums import adds_exactly
from tensorplay_core.testing.references.views import cat, dim_of
from tensorplay_core.testing.references.views import slice as sliced
from tensorplay_core.types.dtype import by_name

Row = Callable[[list[Any], Format], tuple[list[Any], list[float]]]


def _along(self: Array, dim: int, row: Row) -> Array:
    form = accumulator_of(self.dtype)
    data, slack = [*self.data], [0.0] * len(self.data)
    for line in lines(self, dim):
        values, errors = row([self.data[p] for p in line], form)
        for place, value, error in zip(line, values, errors, strict=True):
            data[place], slack[place] = value, error
    return Array(self.shape, data, self.dtype, slack)


def _whole(self: Array, dim: int, combine: Callable[[int, int], int]) -> Array:
    data = [int(x) for x in self.data]
    for line in lines(self, dim):
        for before, place in itertools.pairwise(line):
            data[place] = combine(data[before], data[place])
    return Array(self.shape, round_to(data, "int64"), "int64")


def _sums(row: list[Any], form: Format) -> tuple[list[Any], list[float]]:
    """Running sums with their rounding errors kept apart (Knuth's two-sum), so that they are exact to twice float64."""
    sums: list[Any] = []
    value, rest, size = type(row[0])(0) if row else 0.0, 0, 0.0
    for x in row:
        new = value + x
        part = new - value
        rest = rest + ((value - (new - part)) + (x - part)) if cmath.isfinite(new) else 0
        value, size = new, size + size_of(x)
        sums.append(value + rest)
    exact, repeated = adds_exactly(row, form), 4 * len(set(row)) <= len(row)
    errors, size = [], 0.0
    for k, x in enumerate(row, 1):
        size += size_of(x)
        steps = min(k, 8 + (k / 2 if repeated else 2 * math.sqrt(k)))
        errors.append(0.0 if exact or not size < math.inf else steps * form.eps / 2 * size)
    return sums, errors


def _products(row: list[Any], form: Format) -> tuple[list[Any], list[float]]:
    """Running products; an error is multiplied as its product is, and one of rounding joins it."""
    products: list[Any] = []
    errors, off = [], 0.0
    for x in row:
        products.append(products[-1] * x if products else x)
        size = size_of(products[-1])
        step = 2 * (form.eps * size + form.tiny * form.eps)
        off = off * size_of(x) + step if size < math.inf and off * size_of(x) < math.inf else 0.0
        errors.append(off)
    return products, errors


def _logs(row: list[Any], form: Format) -> tuple[list[Any], list[float]]:
    """Running logarithms of sums, the largest element so far taken out."""
    results, errors, largest, powers = [], [], -math.inf, 0.0
    for k, x in enumerate(row, 1):
        if largest != largest or x != x:
            largest = math.nan
        elif x > largest:
            powers = (powers * math.exp(largest - x) if powers else 0.0) + 1.0
            largest = x
        elif abs(x) < math.inf:
            powers += math.exp(x - largest) if largest < math.inf else 0.0
        finite = abs(largest) < math.inf
        results.append(largest + math.log(powers) if finite else largest)
        errors.append((k + 4) * form.eps * (1 + abs(largest)) if finite else 0.0)
    return results, errors


def cumsum(self: Array, dim: int, *, dtype: str | None = None) -> Array:
    """Sums up to each element; of bool and integers in int64 unless ``dtype`` is given."""
    self = self if dtype is None else self.cast(dtype)
    if by_name(self.dtype).is_inexact:
        return _along(self, dim, _sums)
    return _whole(self, dim, lambda a, b: a + b).cast(dtype or "int64")


def cumprod(self: Array, dim: int, *, dtype: str | None = None) -> Array:
    """Products up to each element; of bool and integers in int64 unless ``dtype`` is given."""
    self = self if dtype is None else self.cast(dtype)
    if by_name(self.dtype).is_inexact:
        return _along(self, dim, _products)
    return _whole(self, dim, lambda a, b: a * b).cast(dtype or "int64")


def logcumsumexp(self: Array, dim: int) -> Array:
    """Logarithms of the sums of exponentials up to each element."""
    return _along(self if by_name(self.dtype).is_inexact else self.cast("float32"), dim, _logs)


def _running(beats: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def pick(row: list[Any]) -> list[tuple[Any, int]]:
        found: list[tuple[Any, int]] = []
        for i, x in enumerate(row):
            last = found[-1] if found else (x, i)
            found.append((x, i) if x != x or (last[0] == last[0] and beats(x, last[0])) else last)
        return found

    def reference(self: Array, dim: int) -> tuple[Array, Array]:
        return along(self, dim, self.shape[dim] if self.ndim else 1, pick)

    return reference


def diff(self: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None) -> Array:
    """Differences of neighbours, each rounded before the next."""
    d = dim_of(dim, self.ndim)
    x = cat([part for part in (prepend, self, append) if part is not None], d)
    for _ in range(n):
        size = x.shape[d]
        after, before = sliced(x, d, 1, size), sliced(x, d, 0, max(size - 1, 0))
        pairs = zip(after.data, before.data, strict=True)
        data = [a != b for a, b in pairs] if x.dtype == "bool" else [a - b for a, b in pairs]
        x = Array(after.shape, data, x.dtype).rounded()
    return x


_FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, float]]] = {
    "cumsum": (cumsum, budget(1)),
    "cumprod": (cumprod, budget(2)),
    "logcumsumexp": (logcumsumexp, budget(2)),
    "cummax": (_running(lambda x, last: x >= last), {}),
    "cummin": (_running(lambda x, last: x <= last), {}),
    "diff": (diff, budget(1)),
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, ulps) for name, (fn, ulps) in _FUNCTIONS.items()}
