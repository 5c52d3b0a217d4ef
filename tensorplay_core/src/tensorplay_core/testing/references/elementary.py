"""References of rounding, remainders, elementary functions, bits and bounds, each from Python's functions of numbers.

Python raises where IEEE 754 has an infinity or NaN; what stands here says which it is. Budgets are those of
:mod:`pointwise`; where a formula cancels or multiplies an error, a slack says by how much.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import budget, common_dtype, kinds, pointwise
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import FORMATS, Format, accumulator_of, round_to
from tensorplay_core.types.dtype import by_name

NAN, INF = math.nan, math.inf
Real = Callable[..., float]


def guarded(function: Real, domain: float = NAN, overflow: float = INF) -> Real:
    """Returns a function that gives a number where Python's raises: beyond its domain, and where it overflows."""

    def total(*values: float) -> float:
        try:
            return float(function(*values))
        except OverflowError:
            return overflow
        except (ValueError, ZeroDivisionError):
            return domain

    return total


def whole(function: Callable[[float], int]) -> Real:
    """Returns a rounding function that leaves infinities and NaN as they are."""
    return lambda x: float(function(x)) if math.isfinite(x) else x


def sinh(x: float) -> float:
    """The hyperbolic sine."""
    return guarded(math.sinh, overflow=math.copysign(INF, x))(x)


def atanh(x: float) -> float:
    """The inverse of the hyperbolic tangent; infinite at -1 and 1."""
    return math.copysign(INF, x) if abs(x) == 1 else guarded(math.atanh)(x)


def log2(x: float) -> float:
    """The logarithm to the base 2."""
    return -INF if x == 0 else guarded(math.log2)(x)


def log10(x: float) -> float:
    """The logarithm to the base 10."""
    return -INF if x == 0 else guarded(math.log10)(x)


def exp2(x: float) -> float:
    """A power of 2."""
    return guarded(lambda x: 2.0**x)(x)


def floor_divide(a: float, b: float) -> float:
    """``a // b``; of a zero the quotient."""
    return ieee.div(a, b) if b == 0 else a // b


def remainder(a: float, b: float) -> float:
    """``a % b``, NaN for a zero."""
    return guarded(operator.mod)(a, b)


def int_fmod(a: int, b: int) -> int:
    """The rest of a division rounded towards 0; 0 for a zero."""
    return 0 if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


def logaddexp(a: float, b: float) -> float:
    """``log(exp(a) + exp(b))``."""
    if a == b:
        return a + math.log(2)
    high, low = ieee.maximum(a, b), ieee.minimum(a, b)
    return high + math.log1p(math.exp(low - high)) if high == high else NAN


def xlogy(a: float, b: float) -> float:
    """``a * log(b)``, 0 at 0."""
    return b if b != b else 0.0 if a == 0 else a * ieee.log(b)


def sinc(x: float) -> float:
    """``sin(pi x) / (pi x)``."""
    t = math.pi * x
    return 1.0 if t == 0 else ieee.div(ieee.sin(t), t)


def _logit(x: float) -> float:
    return ieee.log(ieee.div(x, 1 - x))


def copysign(a: float, b: float) -> float:
    """The size of one number with the sign of another."""
    return math.copysign(a, b)


def heaviside(a: Any, b: Any) -> Any:
    """A step of height 1, ``b`` in the middle."""
    return a if a != a else 0 * b if a < 0 and b * 0 == 0 else 0 if a < 0 else 1 if a > 0 else b


def _signbit(x: float) -> bool:
    return math.copysign(1.0, x) < 0


def _clamped(x: Any, low: Any, high: Any) -> Any:
    return ieee.minimum(ieee.maximum(x, low), high)


# --------------------------------------------------------------------------------------------- with arguments of theirs


def clamp(self: Array, min: Any = None, max: Any = None) -> Array:
    """The larger of an element and ``min``, the smaller of that and ``max``."""
    result = self if min is None else pointwise("default", kinds(ieee.maximum, None, ieee.maximum))(self, min)
    if max is None:
        return result
    upper = pointwise("default", kinds(ieee.minimum, None, ieee.minimum))
    if min is None:
        return upper(self, max)
    dtype = common_dtype([self, min, max]).name
    return upper(result.cast(dtype), max)


def div_mode(self: Any, other: Any, *, rounding_mode: Any = None) -> Array:
    """A quotient, rounded."""
    if rounding_mode is None:
        return pointwise("float", kinds(ieee.div, ieee.cdiv))(self, other)
    if rounding_mode == "floor":
        return pointwise("default", kinds(floor_divide, None, guarded_int(operator.floordiv)))(self, other)

    def truncated(a: int, b: int) -> int:
        return 0 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)

    form = FORMATS["float64"] if by_name(common_dtype([self, other]).name).is_integral else None
    name = common_dtype([self, other]).name if form is None else ""
    step = (lambda x: float(round_to([x], "float64" if name == "float64" else "float32")[0])) if name else float
    return pointwise("default", kinds(lambda a, b: whole(math.trunc)(step(ieee.div(a, b))), None, truncated))(
        self, other
    )


def guarded_int(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Returns a division of integers that gives 0 for a zero."""
    return lambda a, b: 0 if b == 0 else function(a, b)


def round_decimals(self: Array, *, decimals: int = 0) -> Array:
    """Rounds a multiple, or a part, in the precision that kernels compute in: it decides what is half-way."""
    wide = "float64" if accumulator_of(self.dtype) is FORMATS["float64"] else "float32"
    power = 10.0 ** abs(decimals)

    def rounded(x: float) -> float:
        scaled = round_to([x * power if decimals >= 0 else x / power], wide)[0]
        result = whole(round)(scaled)
        return result / power if decimals >= 0 else result * power

    return Array(self.shape, [*map(rounded, self.data)], self.dtype)


def nan_to_num(self: Array, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Array:
    """Numbers in the place of those that are none."""
    if self.dtype not in FORMATS:
        return self
    largest = FORMATS[self.dtype].largest
    high, low = largest if posinf is None else float(posinf), -largest if neginf is None else float(neginf)
    zero = 0.0 if nan is None else float(nan)
    data = [zero if x != x else high if x == INF else low if x == -INF else x for x in self.data]
    return Array(self.shape, data, self.dtype)


def logit(self: Array, eps: Any = None) -> Array:
    """``log(x / (1 - x))``."""

    def function(x: float) -> float:
        return _logit(x if eps is None else _clamped(x, eps, 1 - eps))

    # The quotient is rounded, and 1 - x before it: an error of as many eps, whatever the logarithm is.
    wide = 1 - (eps or 0.0)
    return pointwise("float", kinds(function), lambda form, x, y: 4 * form.eps * (1 + wide))(self)


def isclose(self: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    """Equal, or finite and near."""

    def close(a: Any, b: Any) -> bool:
        if a == b or (equal_nan and a != a and b != b):
            return True
        size = ieee.cabs if isinstance(a, complex) else abs
        distance = size(a - b)
        return bool(math.isfinite(distance) and distance <= atol + rtol * size(b))

    return pointwise("bool", kinds(close, close, close, close))(self, other)


def shift(function: Callable[[int, int], int], beyond: Callable[[int], int]) -> Callable[..., Array]:
    """Returns a shift; ``beyond`` gives its result for a number of bits that the dtype has not."""

    def reference(self: Any, other: Any) -> Array:
        bits = 8 * common_dtype([self, other]).itemsize
        shifted = pointwise("default", kinds(None, None, lambda a, b: function(a, b) if 0 <= b < bits else beyond(a)))  # type: ignore[arg-type]
        return shifted(self, other)

    return reference


def lerp(self: Any, end: Any, weight: Any) -> Array:
    """``self + weight * (end - self)``."""

    def function(a: Any, b: Any, w: Any) -> Any:
        if isinstance(a, complex):
            return a + ieee.cmul(w, b - a) if ieee.cabs(w) < 0.5 else b - ieee.cmul(b - a, 1 - w)
        return a + w * (b - a) if abs(w) < 0.5 else b - (b - a) * (1 - w)

    def slack(form: Format, a: Any, b: Any, w: Any, y: Any) -> float:
        size = ieee.cabs if isinstance(a, complex) else abs
        found = 4 * form.eps * (size(a) + size(b)) * (1 + size(w))
        return found if math.isfinite(found) else 0.0

    return pointwise("float", kinds(function, function), slack)(self, end, weight)


def combined(function: Callable[[Any, Any, Any, Any], Any], rule: str = "default") -> Callable[..., Array]:
    """Returns ``self`` plus a multiple of what ``function`` makes of two other tensors, and its largest rounding."""

    def reference(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Array:
        def one(a: Any, b: Any, c: Any) -> Any:
            return a + function(a, b, c, value)

        def slack(form: Format, a: Any, b: Any, c: Any, y: Any) -> float:
            term = function(a, b, c, value)
            found = 4 * form.eps * (ieee.cabs(complex(term)) + ieee.cabs(complex(a)))
            return found if math.isfinite(found) else 0.0

        def boolean(a: bool, b: bool, c: bool) -> bool:
            return a or (b and c and bool(value))

        return pointwise(rule, kinds(one, one, one, boolean), slack)(self, tensor1, tensor2)

    return reference


def rsub(self: Any, other: Any, *, alpha: Any = 1) -> Array:
    """``other - alpha * self``."""

    def one(a: Any, b: Any) -> Any:
        return b - (ieee.cmul(alpha, a) if isinstance(a, complex) else alpha * a)

    def slack(form: Format, a: Any, b: Any, y: Any) -> float:
        found = 2 * form.eps * ieee.cabs(complex(a)) * abs(alpha)
        return found if math.isfinite(found) else 0.0

    return pointwise("default", kinds(one, one, one), slack)(self, other)


def _times(a: Any, b: Any) -> Any:
    return ieee.cmul(a, b) if isinstance(a, complex) or isinstance(b, complex) else a * b


def _over(a: Any, b: Any) -> Any:
    return ieee.cdiv(a, b) if isinstance(a, complex) or isinstance(b, complex) else ieee.div(a, b)


def _log_slack(form: Format, a: float, b: float, y: float) -> float:
    """What is added may cancel."""
    found = 2 * form.eps * max(abs(a), abs(b))
    return found if math.isfinite(found) else 0.0


def _pole_slack(form: Format, z: Any, y: Any) -> float:
    """Near a pole of a complex function its derivative multiplies the error of the argument."""
    size = ieee.cabs(complex(y))
    return 8 * form.eps * (1 + size * size) if z.__class__ is complex and math.isfinite(size * size) else 0.0


def _inverse_slack(form: Format, z: Any, y: Any) -> float:
    """Complex inverses cancel near their branch points; which digits are left is the library's choice."""
    return 64 * form.eps * (1 + ieee.cabs(complex(y))) if z.__class__ is complex and cmath.isfinite(y) else 0.0


def _half_turns(factor: float) -> Callable[..., Array]:
    return pointwise("float", kinds(lambda x: x * factor))


def _complex(function: Callable[[complex], complex]) -> Callable[..., complex]:
    return ieee.complete(function)


_TABLE: dict[str, tuple[Any, dict[str, float]]] = {
    **{
        name: (pointwise("keep", kinds(whole(function), None, lambda x: x)), {})
        for name, function in (("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", round))
    },
    "round.decimals": (round_decimals, budget(1)),
    "frac": (pointwise("keep", kinds(lambda x: x - whole(math.trunc)(x), None, lambda x: 0)), {}),
    "sign": (pointwise("keep", kinds(ieee.sign, None, lambda x: (x > 0) - (x < 0), lambda x: x)), {}),
    "floor_divide": (
        pointwise("default", kinds(floor_divide, None, guarded_int(operator.floordiv))),
        budget(1),
    ),
    "remainder": (pointwise("default", kinds(remainder, None, guarded_int(operator.mod))), budget(0.5)),
    "fmod": (pointwise("default", kinds(guarded(math.fmod), None, int_fmod)), {}),
    "clamp": (clamp, {}),
    "clamp_min": (pointwise("default", kinds(ieee.maximum, None, max)), {}),
    "clamp_max": (pointwise("default", kinds(ieee.minimum, None, min)), {}),
    "nan_to_num": (nan_to_num, {}),
    "copysign": (pointwise("float", kinds(copysign)), {}),
    "heaviside": (pointwise("default", kinds(heaviside, None, heaviside)), {}),
    "div.Tensor_mode": (div_mode, budget(1, complex=16)),
    # Trigonometry.
    "tan": (pointwise("float", kinds(guarded(math.tan), _complex(cmath.tan)), _pole_slack), budget(8, complex=32)),
    "asin": (
        pointwise("float", kinds(guarded(math.asin), _complex(cmath.asin)), _inverse_slack),
        budget(6, complex=32),
    ),
    "acos": (
        pointwise("float", kinds(guarded(math.acos), _complex(cmath.acos)), _inverse_slack),
        budget(6, complex=32),
    ),
    "atan": (pointwise("float", kinds(math.atan, _complex(cmath.atan)), _inverse_slack), budget(6, complex=32)),
    "sinh": (pointwise("float", kinds(sinh, _complex(cmath.sinh))), budget(8, complex=32)),
    "cosh": (pointwise("float", kinds(guarded(math.cosh), _complex(cmath.cosh))), budget(8, complex=32)),
    "asinh": (pointwise("float", kinds(math.asinh, _complex(cmath.asinh)), _inverse_slack), budget(8, complex=32)),
    "acosh": (
        pointwise("float", kinds(guarded(math.acosh), _complex(cmath.acosh)), _inverse_slack),
        budget(8, complex=32),
    ),
    "atanh": (pointwise("float", kinds(atanh, _complex(cmath.atanh)), _inverse_slack), budget(8, complex=32)),
    "atan2": (pointwise("float", kinds(math.atan2)), budget(6)),
    "hypot": (pointwise("float", kinds(math.hypot)), budget(3)),
    "deg2rad": (_half_turns(math.pi / 180), budget(2)),
    "rad2deg": (_half_turns(180 / math.pi), budget(2)),
    # Exponentials.
    "exp2": (pointwise("float", kinds(exp2, _complex(lambda z: cmath.exp(z * math.log(2))))), budget(4, complex=64)),
    "log2": (pointwise("float", kinds(log2, _complex(lambda z: cmath.log(z) / math.log(2)))), budget(4, complex=256)),
    "log10": (pointwise("float", kinds(log10, _complex(cmath.log10))), budget(4, complex=256)),
    "logaddexp": (pointwise("float", kinds(logaddexp), _log_slack), budget(6)),
    "xlogy": (pointwise("float", kinds(xlogy)), budget(6)),
    "erf": (pointwise("float", kinds(math.erf)), budget(8)),
    "erfc": (pointwise("float", kinds(math.erfc)), budget(16)),
    "logit": (logit, budget(6)),
    "sinc": (pointwise("float", kinds(sinc), lambda form, x, y: 4 * form.eps if math.isfinite(x) else 0.0), budget(6)),
    # Bits, and questions.
    "isnan": (pointwise("bool", dict.fromkeys("fcuib", lambda x: x != x)), {}),
    "isfinite": (pointwise("bool", dict.fromkeys("fcuib", cmath.isfinite)), {}),
    "isinf": (pointwise("bool", dict.fromkeys("fcuib", cmath.isinf)), {}),
    "isposinf": (pointwise("bool", dict.fromkeys("fuib", lambda x: x == INF)), {}),
    "isneginf": (pointwise("bool", dict.fromkeys("fuib", lambda x: x == -INF)), {}),
    "signbit": (pointwise("bool", kinds(_signbit, None, lambda x: x < 0, lambda x: False)), {}),
    "isclose": (isclose, {}),
    "logical_not": (pointwise("bool", dict.fromkeys("fcuib", operator.not_)), {}),
    "logical_and": (pointwise("bool", dict.fromkeys("fcuib", lambda a, b: bool(a) and bool(b))), {}),
    "logical_or": (pointwise("bool", dict.fromkeys("fcuib", lambda a, b: bool(a) or bool(b))), {}),
    "logical_xor": (pointwise("bool", dict.fromkeys("fcuib", lambda a, b: bool(a) != bool(b))), {}),
    "bitwise_not": (pointwise("keep", {**dict.fromkeys("ui", operator.invert), "b": operator.not_}), {}),
    "bitwise_and": (pointwise("default", dict.fromkeys("uib", operator.and_)), {}),
    "bitwise_or": (pointwise("default", dict.fromkeys("uib", operator.or_)), {}),
    "bitwise_xor": (pointwise("default", dict.fromkeys("uib", operator.xor)), {}),
    "bitwise_left_shift": (shift(operator.lshift, lambda a: 0), {}),
    "bitwise_right_shift": (shift(operator.rshift, lambda a: -1 if a < 0 else 0), {}),
    # Several tensors.
    "lerp": (lerp, budget(2, complex=8)),
    "addcmul": (combined(lambda a, b, c, value: _times(_times(value, b), c)), budget(2, complex=8)),
    "addcdiv": (combined(lambda a, b, c, value: _times(value, _over(b, c)), "float"), budget(2, complex=16)),
    "rsub": (rsub, budget(0.5, complex=2)),
}
REFERENCES: dict[str, Reference] = {name: Reference(fn, ulps) for name, (fn, ulps) in _TABLE.items()}
