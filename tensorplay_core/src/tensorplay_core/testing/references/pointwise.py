"""References of the pointwise operators, each from the scalar functions of its kinds of dtype.

Arguments are cast to the dtype that the operator computes in first, as the contract says, then each element is computed
in float64 or in integers without end. Budgets: half a unit is the correctly rounded result, which IEEE 754 asks of
``add``, ``sub`` and ``mul``; one unit for quotients and square roots, which fast modes of GPUs round otherwise; a few
for the others, as vendors state them for float32. The complex functions of array libraries lose more, XLA's logarithm a
hundred units: their budgets only tell complex64 from what has half its digits.
"""

from __future__ import annotations

import cmath
import math
import operator
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array, broadcast_shape
from tensorplay_core.testing.references.elementwise import as_array, budget, common_dtype, kinds, pointwise
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import UNSPECIFIED, Format, format_of, round_to, ulp_of

# How many eps a condition number is multiplied with, see the functions that use them.
_MODULUS, _POWER, _SIGMOID, _TANH = 3.0, 4.0, 8.0, 4.0


def same(x: Any) -> Any:
    """Returns what it is given."""
    return x


def _scaled(plus: Any) -> Any:
    """Returns ``add`` or ``sub``: ``plus(a, alpha * b)``, where the product may be rounded before it is added."""
    boolean = operator.or_ if plus is operator.add else None
    plain = pointwise("default", kinds(plus, plus, plus, boolean))

    def reference(self: Any, other: Any, *, alpha: Any = 1) -> Array:
        if alpha == 1:
            return plain(self, other)
        dtype = common_dtype([self, other])
        scale = round_to([alpha], dtype.name)[0]
        pair = [as_array(value, dtype.name) for value in (self, other)]
        shape = broadcast_shape(pair[0].shape, pair[1].shape)
        left, right = [array.broadcast(shape) for array in pair]
        if dtype.is_bool:
            return Array(shape, [a or (b and scale) for a, b in zip(left, right, strict=True)], dtype.name)
        products = [b * scale for b in right]
        data = [*map(plus, left, products)]
        form = format_of(dtype.name)
        if form is None:
            return Array(shape, round_to(data, dtype.name), dtype.name)
        parts = 2 if dtype.is_complex else 1  # each part of a product is rounded
        return Array(shape, data, dtype.name, [parts * ulp_of(form, product) / 2 for product in products])

    return reference


# ------------------------------------------------------------------------------------------------------------- powers


def integer_power(base: int, exponent: int) -> int:
    """``base ** exponent`` modulo 2 ** 64; a negative power is 0, but for those of 1 and -1, as in PyTorch."""
    if exponent >= 0:
        return pow(base, exponent, 1 << 64)
    return 1 if base == 1 or (base == -1 and exponent % 2 == 0) else -1 if base == -1 else 0


def complex_power(base: complex, exponent: complex) -> Any:
    """``base ** exponent``; no standard settles it at infinities, nor at 0 but for positive exponents."""
    if base != base or exponent != exponent:
        return UNSPECIFIED if base == 1 or not exponent else complex(math.nan, math.nan)
    if not exponent:
        return 1 + 0j
    if base and cmath.isfinite(base) and cmath.isfinite(exponent):
        return ieee.cpow(base, exponent)
    return 0j if not base and 0 < exponent.real < math.inf and not exponent.imag else UNSPECIFIED


def _power_slack(form: Format, base: Any, exponent: Any, result: Any) -> float:
    """``exp(exponent * log(base))`` multiplies the error of its argument, which is as large as the argument is."""
    if base.__class__ is not complex or not base or result is UNSPECIFIED:
        return 0.0
    amplified = ieee.cabs(exponent * ieee.clog(base)) * _POWER * form.eps
    size = ieee.cabs(result)
    return amplified * size if math.isfinite(amplified) and math.isfinite(size) else 0.0


def _modulus_slack(form: Format, z: Any, result: float) -> float:
    """Real numbers have an exact absolute value; a modulus is a square root of rounded squares."""
    return _MODULUS * ulp_of(form, result) if z.__class__ is complex else 0.0


def _tanh_slack(form: Format, z: Any, result: Any) -> float:
    """Near the poles of a complex tanh its derivative, ``1 - tanh(z) ** 2``, multiplies the error of the argument."""
    if z.__class__ is not complex or not cmath.isfinite(result):
        return 0.0
    return _TANH * form.eps * ieee.cabs(1 - ieee.cmul(result, result))


def _sigmoid_slack(form: Format, z: Any, result: Any) -> float:
    """Near its poles a complex ``1 + exp(-z)`` cancels, and what is left has the error of ``exp``."""
    if z.__class__ is not complex or not cmath.isfinite(result):
        return 0.0
    return _SIGMOID * form.eps * ieee.cabs(1 - result) * ieee.cabs(result)


# --------------------------------------------------------------------------------------------------------- the table

_ANY = kinds(same, same, same, same)
_TABLE: dict[str, tuple[Any, dict[str, float]]] = {
    # Arithmetic: float, complex, integers, bool.
    "add": (_scaled(operator.add), budget(0.5, complex=1)),
    "sub": (_scaled(operator.sub), budget(0.5, complex=1)),
    "mul": (pointwise("default", kinds(operator.mul, ieee.cmul, operator.mul, operator.and_)), budget(0.5, complex=4)),
    "div": (pointwise("float", kinds(ieee.div, ieee.cdiv)), budget(1, complex=16)),
    "pow": (
        pointwise(
            "default",
            kinds(ieee.pow, complex_power, integer_power, lambda a, b: a or not b),
            _power_slack,
        ),
        budget(6, complex=32),
    ),
    "abs": (pointwise("real", kinds(abs, ieee.cabs, abs, same), _modulus_slack), {}),
    "sgn": (
        pointwise("keep", kinds(ieee.sign, ieee.csign, lambda x: (x > 0) - (x < 0), same)),
        budget(0, complex=8),
    ),
    "square": (
        pointwise("keep", kinds(lambda x: x * x, lambda z: ieee.cmul(z, z), lambda x: x * x, same)),
        budget(0.5, complex=4),
    ),
    "reciprocal": (
        pointwise("float", kinds(lambda x: ieee.div(1.0, x), lambda z: ieee.cdiv(1.0, z))),
        budget(1, complex=16),
    ),
    "sqrt": (pointwise("float", kinds(ieee.sqrt, ieee.csqrt)), budget(1, complex=16)),
    "rsqrt": (
        pointwise("float", kinds(lambda x: ieee.div(1.0, ieee.sqrt(x)), lambda z: ieee.cdiv(1.0, ieee.csqrt(z)))),
        budget(4, complex=16),
    ),
    # Elementary functions.
    "exp": (pointwise("float", kinds(ieee.exp, ieee.cexp)), budget(4, complex=32)),
    "expm1": (pointwise("float", kinds(ieee.expm1, ieee.cexpm1)), budget(6, half=3, complex=64)),
    "log": (pointwise("float", kinds(ieee.log, ieee.clog)), budget(4, complex=256)),
    "log1p": (pointwise("float", kinds(ieee.log1p, ieee.clog1p)), budget(6, complex=8)),
    "sin": (pointwise("float", kinds(ieee.sin, ieee.csin)), budget(4, complex=32)),
    "cos": (pointwise("float", kinds(ieee.cos, ieee.ccos)), budget(4, complex=32)),
    "tanh": (pointwise("float", kinds(ieee.tanh, ieee.ctanh), _tanh_slack), budget(8, complex=32)),
    "sigmoid": (pointwise("float", kinds(ieee.sigmoid, ieee.csigmoid), _sigmoid_slack), budget(6, complex=32)),
    # Those that choose, and compare.
    "maximum": (pointwise("default", kinds(ieee.maximum, None, max, operator.or_)), {}),
    "minimum": (pointwise("default", kinds(ieee.minimum, None, min, operator.and_)), {}),
    "relu": (pointwise("keep", kinds(lambda x: 0.0 if x <= 0 else x, None, lambda x: max(x, 0), same)), {}),
    "real": (pointwise("real", kinds(same, lambda z: z.real, same, same)), {}),
    **{
        name: (pointwise("bool", kinds(compare, compare, compare, compare)), {})
        for name, compare in (("eq", operator.eq), ("ne", operator.ne))
    },
    **{
        name: (pointwise("bool", kinds(compare, None, compare, compare)), {})
        for name, compare in (("lt", operator.lt), ("le", operator.le), ("gt", operator.gt), ("ge", operator.ge))
    },
}


def where(condition: Any, self: Any, other: Any) -> Array:
    """Takes from ``self`` where ``condition`` is true."""
    dtype = common_dtype([self, other]).name
    chosen, a, b = as_array(condition, "bool"), as_array(self, dtype), as_array(other, dtype)
    shape = broadcast_shape(chosen.shape, a.shape, b.shape)
    rows = zip(chosen.broadcast(shape), a.broadcast(shape), b.broadcast(shape), strict=True)
    return Array(shape, [x if c else y for c, x, y in rows], dtype)


REFERENCES: dict[str, Reference] = {
    **{name: Reference(fn, ulps) for name, (fn, ulps) in _TABLE.items()},
    # -0.0 and 0.0 differ where elements only move, or change their sign.
    "clone": Reference(pointwise("keep", _ANY), {}, bits=True),
    "conj": Reference(pointwise("keep", kinds(same, lambda z: z.conjugate(), same, same)), {}, bits=True),
    "neg": Reference(pointwise("keep", kinds(operator.neg, operator.neg, operator.neg)), {}, bits=True),
    "where": Reference(where, {}, bits=True),
}
