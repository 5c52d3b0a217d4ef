"""Composite kernels of rounding, bounds and error functions, for devices that have none of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_composite import error_function
from tensorplay_core.dispatch.integers import has_dtype
from tensorplay_core.errors import DTypeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32, get_default_dtype
from tensorplay_core.types.promotion import promote

LARGEST = {
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    "float32": float.fromhex("0x1.fffffep127"),
    "float64": float.fromhex("0x1.fffffffffffffp1023"),
}
"""The largest number of each floating dtype."""
ROUNDINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "trunc": lambda self, other: _towards_zero(self, other),
    "floor": lambda self, other: F.floor_divide(self, other),
}


def clamp(self: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """The larger of an element and ``min``, the smaller of that and ``max``."""
    if min is not None:
        self = F.maximum(self, min)
    return self if max is None else F.minimum(self, max)


def clamp_min(self: Tensor, min: Tensor) -> Tensor:
    """The larger of two elements."""
    return F.maximum(self, min)


def clamp_max(self: Tensor, max: Tensor) -> Tensor:
    """The smaller of two elements."""
    return F.minimum(self, max)


def div_mode(self: Tensor, other: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    """A quotient, rounded as ``rounding_mode`` says."""
    if rounding_mode is None:
        return F.div(self, other)
    function = ROUNDINGS.get(rounding_mode)
    if function is None:
        known = ", ".join(map(repr, ROUNDINGS))
        near = did_you_mean(str(rounding_mode), ROUNDINGS)
        raise ValueRangeError(f"div: rounding_mode must be None or one of {known}, not {rounding_mode!r}.{near}")
    return function(self, other)


def _towards_zero(self: Tensor, other: Tensor) -> Tensor:
    common = promote(self.dtype, other.dtype)
    if common.is_inexact and common.itemsize == 2:  # a half may round the quotient up to the next whole number
        return F.trunc(F.div(self.to(float32), other.to(float32))).to(common)
    if common.is_inexact:
        return F.trunc(F.div(self, other))
    quotient = F.floor_divide(self, other)
    inexact = F.remainder(self, other) != 0
    return F.where(inexact & ((self < 0) != (other < 0)), quotient + 1, quotient)


def round_decimals(self: Tensor, *, decimals: int = 0) -> Tensor:
    """``round(x * 10**n) / 10**n``; for places before the point the division comes first, as ``10**n`` is exact."""
    if not self.dtype.is_floating_point:
        remedy = fix("convert the tensor with .to(tp.float32), or leave decimals out.")
        raise DTypeError(f"round: integers have no decimals, and the tensor is {self.dtype.name}{remedy}")
    if self.dtype.itemsize == 2:
        return round_decimals(self.to(float32), decimals=decimals).to(self.dtype)
    power = 10.0 ** abs(decimals)
    return F.round(self * power) / power if decimals >= 0 else F.round(self / power) * power


def nan_to_num(
    self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Chooses by comparison; a number that the dtype cannot hold is infinite again."""
    if not self.dtype.is_floating_point:
        return self.clone()
    largest = LARGEST[self.dtype.name]
    result = F.where(self != self, 0.0 if nan is None else float(nan), self)
    result = F.where(self == float("inf"), largest if posinf is None else float(posinf), result)
    return F.where(self == float("-inf"), -largest if neginf is None else float(neginf), result)


def logit(self: Tensor, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``, of the number as it is, or moved into [eps, 1 - eps]."""
    if not self.dtype.is_inexact:
        self = self.to(get_default_dtype())
    if self.dtype.itemsize == 2:
        return logit(self.to(float32), eps).to(self.dtype)
    if eps is not None:
        self = F.clamp(self, eps, 1 - eps)
    return F.log(self / (1 - self))


def isclose(self: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Equal, or finite and near: ``abs(self - other) <= atol + rtol * abs(other)``."""
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise ValueRangeError(f"isclose: {name} must not be negative, but is {value!r}")
    close = F.eq(self, other)
    common = promote(self.dtype, other.dtype)
    if equal_nan and common.is_inexact:
        close = close | (F.isnan(self) & F.isnan(other))
    if rtol == 0 and atol == 0:
        return close
    if not common.is_inexact:  # a difference of integers may wrap around
        wide = _wide(common, self.device)
        self, other = self.to(wide), other.to(wide)
    near = F.abs(F.sub(self, other))
    return close | (F.isfinite(near) & (near <= atol + rtol * F.abs(other)))


def _wide(dtype: Any, device: Any) -> Any:
    from tensorplay_core.types.dtype import float64

    return float64 if dtype.itemsize > 2 and has_dtype(device, float64) else get_default_dtype()


def erf(self: Tensor) -> Tensor:
    """See :mod:`tensorplay_composite.error_function`."""
    return _error(error_function.erf, self)


def erfc(self: Tensor) -> Tensor:
    """See :mod:`tensorplay_composite.error_function`."""
    return _error(error_function.erfc, self)


def _error(function: Callable[..., Tensor], self: Tensor) -> Tensor:
    dtype = self.dtype
    if not dtype.is_inexact:
        return _error(function, self.to(get_default_dtype()))
    if dtype.itemsize == 2:
        return _error(function, self.to(float32)).to(dtype)
    splitter = 2.0**12 + 1 if dtype is float32 else 2.0**27 + 1
    return function(self, error_function.Functions(F.where, F.exp, F.abs, splitter))
