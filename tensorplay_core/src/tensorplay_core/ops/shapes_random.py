"""The shape rules of drawing random numbers, which refuse what no distribution has before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorplay_core.errors import ArgumentError, DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import (
    Shape,
    Shaped,
    SizeError,
    as_int,
    as_sizes,
    base_name,
    broadcast_shapes,
    check_shape,
    check_write,
)
from tensorplay_core.ops.typing_rules import holds
from tensorplay_core.types.dtype import DType

DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Bits of the significand: a floating dtype has every integer up to 2 to that power."""


def randint(op: str, low: Any, high: Any, size: Any, **keywords: Any) -> Shape:
    """``size``; the interval must not be empty, and its ends fit the dtype."""
    first, last = as_int(op, low, "low"), as_int(op, high, "high")
    check_interval(op, first, last, keywords.get("dtype"))
    return as_sizes(op, size)


def check_interval(op: str, low: int, high: int, dtype: DType | None) -> None:
    """Refuses an interval of integers that is empty, or whose ends a dtype does not have.

    Raises:
        ValueRangeError: it is.
        DTypeError: integers are not drawn in a complex dtype.
    """
    if low >= high:
        raise ValueRangeError(f"{op}: draws from {low} up to, but without, {high}: there is no such integer")
    if dtype is None:
        if not (low >= -(2**63) and high <= 2**63):
            raise ValueRangeError(f"{op}: the integers from {low} to {high - 1} do not fit int64")
        return
    if dtype.is_complex:
        raise DTypeError(f"{op}: draws real numbers, and the dtype is {dtype.name}")
    bounds = (0, 1) if dtype.is_bool else None
    for value in (low, high - 1):
        if dtype.is_integral and not holds(dtype, value):
            raise ValueRangeError(f"{op}: {value} does not fit {dtype.name}" + fix("choose an interval in its range"))
        if bounds is not None and value not in bounds:
            raise ValueRangeError(f"{op}: {value} is no bool" + fix("draw from 0 to 2"))
    if dtype.is_floating_point and max(abs(low), abs(high - 1)) > 2 ** min(DIGITS[dtype.name], 62):
        raise ValueRangeError(
            f"{op}: {dtype.name} does not have all integers from {low} to {high - 1}"
            + fix(f"stay within {2 ** min(DIGITS[dtype.name], 62)}, or draw in int64")
        )


def _floating(op: str, name: str, dtype: DType | None, *, complex: bool = False) -> None:
    if dtype is not None and not (dtype.is_floating_point or (complex and dtype.is_complex)):
        raise DTypeError(
            f"{op}: {name} must be of a floating dtype, not {dtype.name}" + fix(f"convert it: {name}.to(tp.float32)")
        )


def _number(op: str, name: str, value: Any, *, least: float = -math.inf, strictly: bool = False) -> None:
    number = float(value)
    if not math.isfinite(number) or number < least or (strictly and number == least):
        bound = "" if least == -math.inf else f" {'above' if strictly else 'of at least'} {least:g}"
        raise ValueRangeError(f"{op}: {name} is a finite number{bound}, not {value!r}")


def _probability(op: str, name: str, value: Any) -> None:
    if not 0 <= value <= 1:
        raise ValueRangeError(f"{op}: {name} is a probability, from 0 to 1, not {value!r}")


def normal_sized(op: str, mean: Any, std: Any, size: Any, **keywords: Any) -> Shape:
    """``size``."""
    _number(op, "mean", mean)
    _number(op, "std", std, least=0)
    dtype = keywords.get("dtype")
    _floating(op, "the result", dtype, complex=True)
    return as_sizes(op, size)


def normal(op: str, mean: Any, std: Any = 1.0, **keywords: Any) -> Shape:
    """What the mean and the standard deviation broadcast to."""
    shapes = []
    for name, value, least in (("mean", mean, -math.inf), ("std", std, 0.0)):
        if isinstance(value, Shaped):
            _floating(op, name, value.dtype)
            shapes.append(value.shape)
        else:
            _number(op, name, value, least=least)
    return broadcast_shapes(op, *shapes)


def bernoulli(op: str, self: Shaped, p: Any = None, **keywords: Any) -> Shape:
    """The shape of ``self``, whose elements are probabilities unless ``p`` is one."""
    if p is None:
        _floating(op, "self", self.dtype)
    else:
        _probability(op, "p", p)
    return self.shape


def multinomial(op: str, self: Shaped, num_samples: Any, replacement: Any = False, **keywords: Any) -> Shape:
    """``num_samples`` for each row."""
    shape = self.shape
    if len(shape) not in (1, 2):
        raise ShapeError(f"{op}: the probabilities must have 1 or 2 dims, and have shape {shape}")
    _floating(op, "self", self.dtype)
    count = as_int(op, num_samples, "num_samples")
    if count < 1:
        raise SizeError(f"{op}: num_samples is 1 or more, and it is {count}")
    if not shape[-1]:
        raise ShapeError(f"{op}: there is no category to draw from: the shape is {shape}")
    if not replacement and count > shape[-1]:
        raise ValueRangeError(
            f"{op}: cannot draw {count} times from {shape[-1]} categories without replacement"
            + fix("pass replacement=True, or draw fewer")
        )
    return check_shape(op, (*shape[:-1], count))


def draw(op: str, self: Shaped, *rest: Any, **keywords: Any) -> Shape:
    """The shape of ``self``, which is filled; each distribution has its own demands."""
    _DRAWN[base_name(op)](op, self, *rest)
    return self.shape


def _uniform(op: str, self: Shaped, from_: Any = 0.0, to: Any = 1.0) -> None:
    _floating(op, "self", self.dtype)
    _number(op, "from", from_)
    _number(op, "to", to)
    if from_ > to:
        raise ValueRangeError(f"{op}: draws from [from, to), and from is {from_}, to {to}" + fix("exchange them"))


def _normal(op: str, self: Shaped, mean: Any = 0.0, std: Any = 1.0) -> None:
    _floating(op, "self", self.dtype, complex=True)
    _number(op, "mean", mean)
    _number(op, "std", std, least=0)


def _bernoulli(op: str, self: Shaped, p: Any = 0.5) -> None:
    if isinstance(p, Shaped):
        _floating(op, "p", p.dtype)
        check_write(op, p.shape, self.shape)
    else:
        _probability(op, "p", p)


def _exponential(op: str, self: Shaped, lambd: Any = 1.0) -> None:
    _floating(op, "self", self.dtype)
    _number(op, "lambd", lambd, least=0, strictly=True)


def _geometric(op: str, self: Shaped, p: Any) -> None:
    if self.dtype is not None and (self.dtype.is_complex or self.dtype.is_bool):
        raise DTypeError(f"{op}: counts trials, and self is {self.dtype.name}")
    if not 0 < p <= 1:
        raise ValueRangeError(f"{op}: p is a probability above 0, at most 1, not {p!r}")


def _random(op: str, self: Shaped, *ends: Any) -> None:
    if self.dtype is None:
        return
    low, high = random_interval(self.dtype, *ends)
    check_interval(op, low, high, self.dtype)


def random_interval(dtype: DType, *ends: int | None) -> tuple[int, int]:
    """Returns the interval that ``random_`` draws from, without its end: ``(to)``, ``(from, to)``, or none given.

    Example:
        >>> from tensorplay_core.types.dtype import float32, int8
        >>> random_interval(int8), random_interval(float32, 3), random_interval(int8, -5, None)
        ((0, 128), (0, 3), (-5, 128))
    """
    if dtype.is_complex:
        raise DTypeError(f"random_: draws real numbers, and the dtype is {dtype.name}")
    if dtype.is_bool:
        most = 2
    elif dtype.is_floating_point:
        most = 2 ** DIGITS[dtype.name] + 1
    else:
        most = 2 ** (8 * dtype.itemsize - dtype.is_signed)
    if len(ends) < 2:
        return 0, most if not ends or ends[0] is None else ends[0]
    low, high = ends
    if low is None:
        raise ArgumentError("random_: from must be an int, not None")
    return low, most if high is None else high


_DRAWN: dict[str, Callable[..., None]] = {
    "uniform_": _uniform,
    "normal_": _normal,
    "bernoulli_": _bernoulli,
    "exponential_": _exponential,
    "geometric_": _geometric,
    "random_": _random,
}
