"""Shape rules of pointwise operators that ask more of a call than that its shapes broadcast.

What an operator does not take, a dtype, a bound, a word, is refused here too: this is where a call is looked at before
any kernel runs, and the meta device has nothing else. The other rules, and what they are, are in :mod:`shapes`.
"""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import ArgumentError, DimError, DTypeError, ShapeError, ValueRangeError, did_you_mean, fix
from tensorplay_core.ops.shape_checks import (
    Shape,
    Shaped,
    base_name,
    broadcast_shapes,
    check_real,
    check_write,
    normalize_dim,
    shape_of,
)

APPROXIMATIONS = ("none", "tanh")
"""How ``gelu`` can be computed."""


def _broadcast(op: str, *tensors: Any) -> Shape:
    shapes = [shape_of(one) for one in tensors if one is not None]
    if base_name(op).endswith("_"):
        for source in shapes[1:]:
            check_write(op, source, shapes[0])
        return shapes[0]
    return broadcast_shapes(op, *shapes)


def bitwise(op: str, *tensors: Any, **keywords: Any) -> Shape:
    """The shape that all tensors broadcast to; integers have bits to work on, and bools are one."""
    for one in tensors:
        if isinstance(one, Shaped) and one.dtype is not None and one.dtype.is_inexact:
            raise DTypeError(
                f"{op}: takes integers and bool, and a tensor is {one.dtype.name}"
                + fix("compare first, as in x > 0, or convert with .to(tp.int64).")
            )
    return _broadcast(op, *tensors)


def clamp(op: str, self: Shaped, min: Any = None, max: Any = None, **keywords: Any) -> Shape:
    """The shape that the tensor and its bounds broadcast to; there is a bound."""
    if min is None and max is None:
        raise ArgumentError(f"{op}: at least one of min and max must be given" + fix("clamp(x, min=0) bounds below."))
    return _broadcast(op, self, min, max)


def gelu(op: str, *tensors: Shaped, approximate: Any = "none", **keywords: Any) -> Shape:
    """The shape that all tensors have; ``approximate`` is one of the words for it."""
    check_approximation(op, approximate)
    return _broadcast(op, *tensors)


def check_approximation(op: str, approximate: Any) -> None:
    """Refuses an approximation that there is not; for kernels too, which are called without asking the rule.

    Raises:
        ValueRangeError: naming those that there are.
    """
    if approximate not in APPROXIMATIONS:
        known = " and ".join(map(repr, APPROXIMATIONS))
        near = did_you_mean(str(approximate), APPROXIMATIONS)
        raise ValueRangeError(f"{op}: approximate must be one of {known}, not {approximate!r}.{near}")


def hardtanh(op: str, self: Shaped, min_val: Any = -1, max_val: Any = 1, **keywords: Any) -> Shape:
    """The shape of ``self``; the bounds are in order, and numbers that its dtype has."""
    check_real(op, "min_val", min_val)
    check_real(op, "max_val", max_val)
    if self.dtype is not None and self.dtype.kind == "u" and min_val < 0:
        raise ValueRangeError(
            f"{op}: {self.dtype.name} has no negative numbers, and min_val is {min_val!r}"
            + fix("give min_val and max_val, or convert the tensor: x.to(tp.int64).")
        )
    if min_val > max_val:
        raise ValueRangeError(
            f"{op}: min_val must not be larger than max_val, but {min_val!r} > {max_val!r}" + fix("exchange them.")
        )
    return self.shape


def shrink(op: str, self: Shaped, lambd: Any = 0.5, **keywords: Any) -> Shape:
    """The shape of ``self``; ``lambd`` is half the width of what becomes 0."""
    check_real(op, "lambd", lambd)
    if not lambd >= 0:
        raise ValueRangeError(f"{op}: lambd must not be negative, but is {lambd!r}")
    return self.shape


def celu(op: str, self: Shaped, alpha: Any = 1.0, **keywords: Any) -> Shape:
    """The shape of ``self``; ``alpha`` is divided by."""
    if alpha == 0:
        raise ValueRangeError(f"{op}: alpha must not be 0: the formula divides by it" + fix("use relu, its limit."))
    return self.shape


def glu(op: str, self: Shaped, dim: Any = -1, **keywords: Any) -> Shape:
    """Half the size along ``dim``, which must be even."""
    shape = self.shape
    if not shape:
        raise DimError(f"{op}: halves a dim, and the tensor is 0-d" + fix("give it a dim of even size."))
    d = normalize_dim(op, dim, len(shape))
    if shape[d] % 2:
        even = [k for k, size in enumerate(shape) if size % 2 == 0]
        remedy = fix(f"halve a dim of even size: {even}") if even else ""
        raise ShapeError(f"{op}: halving dim {d} needs an even size, but it is {shape[d]} of shape {shape}{remedy}")
    return (*shape[:d], shape[d] // 2, *shape[d + 1 :])


def prelu(op: str, self: Shaped, weight: Shaped, **keywords: Any) -> Shape:
    """The shape of ``self``; ``weight`` has one element, or one for each channel, which dim 1 counts."""
    shape, given = self.shape, shape_of(weight)
    channels = shape[1] if len(shape) > 1 else 1
    if given not in ((), (1,), (channels,)):
        raise ShapeError(
            f"{op}: weight must have one element or {channels}, one for each channel of a tensor of shape {shape}, "
            f"but has shape {given}"
        )
    return shape
