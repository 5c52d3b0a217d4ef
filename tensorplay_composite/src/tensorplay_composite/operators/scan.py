"""Scans written in other operators, and differences of neighbours.

Along a dim every element looks twice as far back in each step: Hillis and Steele, "Data parallel algorithms", 1986,
https://doi.org/10.1145/7902.7903. Half precisions compute in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.errors import ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import as_int, normalize_dim
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import DType, float32, get_default_dtype


def _doubled(combine: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    step, size = 1, x.shape[dim]
    while step < size:
        more = combine(F.slice(x, dim, step, size), F.slice(x, dim, 0, size - step))
        x = F.cat([F.slice(x, dim, 0, step), more], dim)
        step *= 2
    return x


def _wide(x: Tensor) -> Tensor:
    return x.to(float32) if x.dtype.is_floating_point and x.dtype.itemsize == 2 else x


def _scanned(name: str, combine: Any, self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    if dtype is not None:
        return getattr(F, name)(self.to(dtype), dim).to(dtype)
    result = self.dtype if self.dtype.is_inexact else F.arange(0, device=self.device).dtype
    x = _wide(self if self.dtype.is_inexact else self.to(result))
    dim = normalize_dim(name, dim, self.ndim)
    return (_doubled(combine, x, dim) if self.ndim and self.shape[dim] > 1 else x.clone()).to(result)


def cumsum(self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The sums up to each element."""
    return _scanned("cumsum", F.add, self, dim, dtype)


def cumprod(self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The products up to each element."""
    return _scanned("cumprod", F.mul, self, dim, dtype)


def _logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """``log(exp(a) + exp(b))`` by way of the larger, which an infinite one is itself."""
    larger, smaller = F.maximum(a, b), F.minimum(a, b)
    return F.where(larger == smaller, larger + math.log(2), larger + F.log1p(F.exp(smaller - larger)))


def logcumsumexp(self: Tensor, dim: int) -> Tensor:
    """The logarithms of the sums of exponentials up to each element."""
    dim = normalize_dim("logcumsumexp", dim, self.ndim)
    self = self if self.dtype.is_inexact else self.to(get_default_dtype())
    if not self.ndim or self.shape[dim] < 2:
        return self.clone()
    return _doubled(_logaddexp, _wide(self), dim).to(self.dtype)


def _running(self: Tensor, dim: int, combine: Any) -> tuple[Tensor, Tensor]:
    dim = normalize_dim("cummax", dim, self.ndim)
    places = F.arange(self.shape[dim] if self.ndim else 1, device=self.device)
    if not self.ndim:
        return self.clone(), places.reshape(()) * 0
    wide = self.to(places.dtype) if self.dtype.is_bool else _wide(self)
    values = _doubled(combine, wide, dim)
    here = F.where(values == values, wide == values, wide != wide)
    spread = places.reshape([-1 if d == dim else 1 for d in range(self.ndim)])
    indices = _doubled(F.maximum, F.where(here, spread, spread * 0), dim)
    return values.to(self.dtype) if values is not self else self.clone(), indices


def cummax(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest element so far, and its last place."""
    return _running(self, dim, F.maximum)


def cummin(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The smallest element so far, and its last place."""
    return _running(self, dim, F.minimum)


def diff(
    self: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours, ``n`` times."""
    times, d = as_int("diff", n, "n"), normalize_dim("diff", dim, self.ndim)
    if not self.ndim:
        raise ShapeError("diff: takes a tensor of one dim or more, not 0-d" + fix("x.reshape(1)"))
    if times < 0:
        raise ValueRangeError(f"diff: n must not be negative, and is {times}")
    if not times:
        return self.clone()
    joined = [_fitting(part, self, d) for part in (prepend, self, append) if part is not None]
    x = joined[0] if len(joined) == 1 else F.cat(joined, d)
    for _ in range(min(times, x.shape[d])):
        size = x.shape[d]
        after, before = F.slice(x, d, 1, size), F.slice(x, d, 0, max(size - 1, 0))
        x = F.ne(after, before) if x.dtype.is_bool else after - before
    return x


def _fitting(part: Tensor, self: Tensor, dim: int) -> Tensor:
    if part is self:
        return part
    others = [(d, n) for d, n in enumerate(self.shape) if d != dim]
    if part.ndim != self.ndim or any(part.shape[d] != n for d, n in others):
        raise ShapeError(
            f"diff: what is joined on has shape {part.shape}, and the tensor {self.shape}: "
            f"all sizes but that of dim {dim} must be the same"
        )
    return part
