"""Numbers of every dtype as Python numbers: rounding to it, its unit in the last place, and integers that wrap around.

References compute in Python's own float64, complex128 and integers without end; what a dtype makes of such a number is
said here and nowhere else. Each number is rounded once, to nearest, ties to even.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tensorplay_core.ops.typing_rules import wrapped_integer
from tensorplay_core.types.dtype import by_name


class Format(NamedTuple):
    """A binary floating format of IEEE 754's kind.

    Attributes:
        digits: bits of the significand, the hidden one included.
        least: exponent of the smallest normal number.
        largest: the largest finite number.
    """

    digits: int
    least: int
    largest: float

    @property
    def eps(self) -> float:
        """The distance from 1 to the next larger number."""
        return math.ldexp(1.0, 1 - self.digits)

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return math.ldexp(1.0, self.least)

    def ulp(self, value: float) -> float:
        """Returns the distance between neighbours at a finite value; that of the subnormal numbers near 0."""
        exponent = math.frexp(value)[1] - 1 if value else self.least
        return math.ldexp(1.0, max(exponent, self.least) + 1 - self.digits)


FORMATS: Final[dict[str, Format]] = {
    "float16": Format(11, -14, 65504.0),
    "bfloat16": Format(8, -126, float.fromhex("0x1.fep127")),
    "float32": Format(24, -126, float.fromhex("0x1.fffffep127")),
    "float64": Format(53, -1022, float.fromhex("0x1.fffffffffffffp1023")),
}
_PARTS = {"complex64": "float32", "complex128": "float64"}


class _Unspecified:
    """The value of an element that no standard settles, such as NaN cast to an integer: whatever is found is right."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED: Final = _Unspecified()


def accumulator_of(dtype: str) -> Format:
    """Returns the format that a floating or complex dtype is computed in: half precisions compute in float32.

    Example:
        >>> accumulator_of("float16") is FORMATS["float32"]
        True
    """
    name = _PARTS.get(dtype, dtype)
    return FORMATS["float64" if name == "float64" else "float32"]


def format_of(dtype: str) -> Format | None:
    """Returns the format of a floating dtype or of a complex one's parts; None for integers and bool.

    Example:
        >>> format_of("complex64").digits, format_of("int8")
        (24, None)
    """
    return FORMATS.get(_PARTS.get(dtype, dtype))


def ulp_of(form: Format, value: Any) -> float:
    """Returns the unit in the last place at a number or at a complex one's modulus; 0 where it is not finite."""
    size = math.hypot(value.real, value.imag)
    return form.ulp(size) if size <= form.largest else 0.0


def round_to(values: Sequence[Any], dtype: str) -> list[Any]:
    """Casts numbers to a dtype, as ``Tensor.to`` does.

    Args:
        values: Python numbers of any kind.
        dtype: the dtype's name.

    Returns:
        A new list: bools, ints, floats or complex numbers that the dtype holds exactly; :data:`UNSPECIFIED` where a
        float has no integer of that dtype.

    Example:
        >>> round_to([0.1, 1e39, 3], "float32")
        [0.10000000149011612, inf, 3.0]
        >>> round_to([300, -1.75, True], "uint8"), round_to([1.01], "bfloat16")
        ([44, UNSPECIFIED, 1], [1.0078125])
    """
    kind = by_name(dtype).kind
    if UNSPECIFIED in values:
        return [value if value is UNSPECIFIED else round_to([value], dtype)[0] for value in values]
    if kind == "b":
        return [bool(value) for value in values]
    if kind in "ui":
        return _integers(values, dtype)
    if kind == "c":
        parts = _PARTS[dtype]
        real, imag = ([*map(_part(name), values)] for name in ("real", "imag"))
        return [*map(complex, _floats(real, parts), _floats(imag, parts))]
    return _floats([_real(value) for value in values], dtype)


def _part(name: str) -> Any:
    return lambda value: float(getattr(value, name))


def _real(value: Any) -> float:
    return value.real if value.__class__ is complex else float(value)


def _integers(values: Sequence[Any], dtype: str) -> list[Any]:
    type = by_name(dtype)
    bits = 8 * type.itemsize - type.is_signed
    least, beyond = -(1 << bits) * type.is_signed, 1 << bits

    def integer(value: Any) -> Any:
        if value.__class__ is complex:
            value = value.real
        if value.__class__ is not float:
            return wrapped_integer(int(value), type)
        return int(value) if math.isfinite(value) and least <= math.trunc(value) < beyond else UNSPECIFIED

    return [v if v.__class__ is int and least <= v < beyond else integer(v) for v in values]


def _floats(values: list[float], dtype: str) -> list[float]:
    if dtype == "float64":
        return values
    if dtype == "float32":
        return array("f", values).tolist()
    if dtype == "float16":
        try:
            return list(struct.unpack(f"{len(values)}e", struct.pack(f"{len(values)}e", *values)))
        except OverflowError:
            return [*map(_float16, values)]
    return [*map(_bfloat16, values)]


def _float16(value: float) -> float:
    try:
        return struct.unpack("e", struct.pack("e", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, value)


def _bfloat16(value: float) -> float:
    if not value or not math.isfinite(value):
        return value
    if abs(value) > 2 * FORMATS["bfloat16"].largest:
        return math.copysign(math.inf, value)
    exponent = max(math.frexp(value)[1], -125) - 8
    rounded = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
    if abs(rounded) > FORMATS["bfloat16"].largest:
        return math.copysign(math.inf, value)
    return math.copysign(rounded, value)
