"""Variances, norms, medians and quantiles written in other operators.

The forms with ``unbiased`` are those with a ``correction`` of 1 or 0. What selects by order is a sort and a gather, so
its gradient goes back to the elements that were selected.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.errors import ArgumentError, DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import Shaped, normalize_dim
from tensorplay_core.ops.shapes import RULES
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element
from tensorplay_core.types.dtype import DType, float32

Dims = int | tuple[int, ...] | list[int] | None
Pair = tuple[Tensor, Tensor]
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")

# ----------------------------------------------------------------------------------------------------------- variances


def var_correction(self: Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """The mean first, then the squared distances from it."""
    _check_inexact("var", self.dtype)
    wide = self.to(float32) if self.dtype.itemsize == 2 else self
    dims = tuple(range(self.ndim)) if dim is None or dim in ((), []) else dim
    distance = wide - wide.mean(dims, True)
    squares = (distance * distance.conj()).real() if self.dtype.is_complex else distance * distance
    total = squares.sum(dims, keepdim)
    reduced = (dims,) if isinstance(dims, int) else dims
    count = math.prod(self.shape[d] for d in reduced) if self.ndim else 1
    freedom = max(count - (1 if correction is None else correction), 0)
    result = total / F.full((), freedom, dtype=total.dtype, device=total.device)
    return result if wide is self else result.to(self.dtype)


def std_correction(self: Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """The square root of the variance."""
    wide = self.to(float32) if self.dtype.is_inexact and self.dtype.itemsize == 2 else self
    result = F.sqrt(var_correction(wide, dim, correction=correction, keepdim=keepdim))
    return result if wide is self else result.to(self.dtype)


def _check_inexact(name: str, dtype: DType) -> None:
    if not dtype.is_inexact:
        raise DTypeError(
            f"{name}: the tensor is {dtype.name}, and only floating and complex dtypes have a {name}"
            + fix("convert it: x.to(tp.float32)")
        )


def var(self: Tensor, unbiased: bool = True) -> Tensor:
    """Of all elements."""
    return F.var(self, None, correction=int(unbiased))


def var_dim(self: Tensor, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """Over some dims."""
    return F.var(self, dim, correction=int(unbiased), keepdim=keepdim)


def std(self: Tensor, unbiased: bool = True) -> Tensor:
    """Of all elements."""
    return F.std(self, None, correction=int(unbiased))


def std_dim(self: Tensor, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """Over some dims."""
    return F.std(self, dim, correction=int(unbiased), keepdim=keepdim)


def var_mean_correction(self: Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Pair:
    """Both of one tensor."""
    return F.var(self, dim, correction=correction, keepdim=keepdim), F.mean(self, dim, keepdim)


def var_mean(self: Tensor, unbiased: bool = True) -> Pair:
    """Of all elements."""
    return var_mean_correction(self, None, correction=int(unbiased))


def var_mean_dim(self: Tensor, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Pair:
    """Over some dims."""
    return var_mean_correction(self, dim, correction=int(unbiased), keepdim=keepdim)


def std_mean_correction(self: Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Pair:
    """Both of one tensor."""
    return F.std(self, dim, correction=correction, keepdim=keepdim), F.mean(self, dim, keepdim)


def std_mean(self: Tensor, unbiased: bool = True) -> Pair:
    """Of all elements."""
    return std_mean_correction(self, None, correction=int(unbiased))


def std_mean_dim(self: Tensor, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Pair:
    """Over some dims."""
    return std_mean_correction(self, dim, correction=int(unbiased), keepdim=keepdim)


# --------------------------------------------------------------------------------------------------------------- norms


def norm(self: Tensor, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The p-norm by its definition."""
    _check_inexact("norm", self.dtype)
    RULES["norm"]("norm", Shaped(self.shape, self.dtype), p, dim, keepdim)
    order = 2.0 if p is None else float(p)
    size = abs(self.to(float32) if self.dtype.itemsize == 2 else self)
    if order == 0:
        result = size.ne(0).to(size.dtype).sum(dim, keepdim)
    elif math.isinf(order):
        result = (F.amax if order > 0 else F.amin)(size, () if dim is None else dim, keepdim)
    elif order == 1:
        result = size.sum(dim, keepdim)
    elif order == 2:
        result = F.sqrt((size * size).sum(dim, keepdim))
    else:
        result = F.pow(F.pow(size, order).sum(dim, keepdim), 1 / order)
    return result.to(self.dtype) if self.dtype.itemsize == 2 else result


def norm_dtype(self: Tensor, p: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DType) -> Tensor:
    """Of the elements cast to ``dtype``."""
    _check_inexact("norm", self.dtype)
    if self.dtype.is_complex and not dtype.is_complex:
        raise DTypeError(f"norm: the tensor is complex, so dtype must be too, and is {dtype.name}")
    return F.norm(self.to(dtype), p, dim, keepdim)


def norm_str(self: Tensor, p: str, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The Frobenius norm."""
    if p != "fro":
        raise ArgumentError(f"norm: p must be a number or 'fro', and is {p!r}" + fix("the norm of order 2 is 'fro'"))
    return linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype)


def linalg_vector_norm(
    self: Tensor, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The norm of order ``ord``, of the elements cast to ``dtype``."""
    if ord is None:  # which is 2 to norm
        raise TypeError("linalg_vector_norm: ord must be a number, not None")
    return F.norm(self, ord, dim, keepdim) if dtype is None else norm_dtype(self, ord, dim, keepdim, dtype=dtype)


# ---------------------------------------------------------------------------------------------- selected by their order


def median(self: Tensor) -> Tensor:
    """The lower middle of all elements, or NaN, which is the last."""
    RULES["reduction"]("median", Shaped(self.shape, self.dtype))
    values = F.sort(self.reshape(-1), 0)[0]
    size = values.shape[0]
    middle, last = values.select(0, (size - 1) // 2), values.select(0, size - 1)
    return F.where(last == last, middle, last)


def median_dim(self: Tensor, dim: int, keepdim: bool = False) -> Pair:
    """The lower middle of what is sorted, or the first NaN behind the numbers."""
    RULES["max_dim"]("median", Shaped(self.shape, self.dtype), dim, keepdim)
    if not self.ndim:
        return F.sort(self, dim)
    size = self.shape[dim]
    values, indices = F.sort(self, dim)
    if not self.dtype.is_floating_point:
        place = F.full((), (size - 1) // 2, dtype=indices.dtype, device=self.device)
        shape: Any = RULES["reduction"]("sum", Shaped(self.shape), dim, True)
        places = place.expand(shape)
    else:
        numbers = (self == self).sum(dim, True)
        places = F.where(numbers == size, (size - 1) // 2, numbers)
    values, indices = F.gather(values, dim, places), F.gather(indices, dim, places)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def quantile_scalar(
    self: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """For one number, whose range is known without data."""
    whole = F.full((), q, dtype=self.dtype, device=self.device)
    if not 0 <= q <= 1:
        _check_quantile(self, whole, interpolation)
        raise _out_of_range()
    return quantile(self, whole, dim, keepdim, interpolation=interpolation)


def quantile(
    self: Tensor, q: Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Between the two elements on both sides of ``q * (n - 1)``, in what is sorted; NaN where there is a NaN."""
    _check_quantile(self, q, interpolation)
    if self.dtype.itemsize == 2:
        result = quantile(self.to(float32), q.to(float32), dim, keepdim, interpolation=interpolation)
        return result.to(self.dtype)
    d = 0 if dim is None else normalize_dim("quantile", dim, self.ndim)
    x = self.reshape(-1) if dim is None or not self.ndim else self.movedim(d, -1)
    size = x.shape[-1]
    if not size:
        raise ShapeError("quantile: no elements have no quantile" + fix("check for x.numel() == 0 before"))
    ordered = F.sort(x, -1)[0]
    ranks = q.reshape(-1) * (size - 1)
    shape = (*x.shape[:-1], ranks.shape[0])
    ranks = F.where((x == x).sum(-1, True) == size, ranks, size - 1).expand(shape)  # NaN is the last
    low = ranks.to(F.arange(0, device=self.device).dtype)  # cut, for a rank is not negative
    high = F.where(low.to(ranks.dtype) < ranks, low + 1, low)
    result = _between(ordered, ranks, low, high, interpolation)
    result = result.movedim(-1, 0).contiguous()  # the quantiles first
    if keepdim:
        kept = (1,) * self.ndim if dim is None else (*self.shape[:d], 1, *self.shape[d + 1 :]) if self.ndim else ()
        result = result.reshape((ranks.shape[-1], *kept))
    return result if q.ndim else result.reshape(result.shape[1:])


def _between(ordered: Tensor, ranks: Tensor, low: Tensor, high: Tensor, interpolation: str) -> Tensor:
    if interpolation == "lower":
        return F.gather(ordered, -1, low)
    if interpolation == "higher":
        return F.gather(ordered, -1, high)
    part = ranks - low.to(ranks.dtype)
    if interpolation == "nearest":  # of two that are as near the even one, as rounding does
        even = (low - (low.to(ranks.dtype) / 2).to(low.dtype) * 2) == 0
        return F.gather(ordered, -1, F.where(F.where(even, part <= 0.5, part < 0.5), low, high))
    below, above = F.gather(ordered, -1, low), F.gather(ordered, -1, high)
    weight = F.where(part == 0, 0, 0.5) if interpolation == "midpoint" else part
    return F.where(weight < 0.5, below + weight * (above - below), above - (1 - weight) * (above - below))


def _check_quantile(self: Tensor, q: Tensor, interpolation: str) -> None:
    if not self.dtype.is_floating_point:
        raise DTypeError(
            f"quantile: takes floating dtypes, not {self.dtype.name}" + fix("convert it: x.to(tp.float32)")
        )
    if q.dtype is not self.dtype:
        raise DTypeError(f"quantile: q must be {self.dtype.name} as the tensor is, not {q.dtype.name}")
    if q.ndim > 1:
        raise ShapeError(f"quantile: q must have one dim or none, and has shape {q.shape}")
    if interpolation not in INTERPOLATIONS:
        raise ValueRangeError(f"quantile: interpolation must be one of {INTERPOLATIONS}, and is {interpolation!r}")
    if q.numel() and not q.is_meta:
        every = every_element(q)
        if not bool(((every >= 0) * (every <= 1)).all()):
            raise _out_of_range()


def _out_of_range() -> ValueRangeError:
    return ValueRangeError("quantile: q must be between 0 and 1" + fix("a percentage is divided by 100"))
