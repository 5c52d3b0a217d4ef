"""Elementary functions against mpmath with 50 digits, and where Python raises."""

from __future__ import annotations

import cmath
import math
import random

import mpmath
import pytest

from tensorplay_core.testing.references import ieee

M = mpmath.MPContext()
M.dps = 50
NAN, INF = math.nan, math.inf

REAL = {
    "exp": M.exp,
    "expm1": M.expm1,
    "log": M.log,
    "log1p": M.log1p,
    "sin": M.sin,
    "cos": M.cos,
    "sqrt": M.sqrt,
    "tanh": M.tanh,
    "sigmoid": lambda x: 1 / (1 + M.exp(-x)),
    "softplus": lambda x: M.log1p(M.exp(x)),
}
COMPLEX = {
    "cexp": M.exp,
    "cexpm1": M.expm1,
    "clog": M.log,
    "clog1p": M.log1p,
    "csin": M.sin,
    "ccos": M.cos,
    "csqrt": M.sqrt,
    "ctanh": M.tanh,
    "csigmoid": lambda z: 1 / (1 + M.exp(-z)),
    "cabs": abs,
    "csign": lambda z: z / abs(z),
}


def numbers(count, positive=False):
    rng = random.Random(3)
    drawn = [
        rng.gauss(0, 2) if rng.random() < 0.5 else math.ldexp(rng.random(), rng.randint(-40, 8)) for _ in range(count)
    ]
    return [abs(x) for x in drawn] if positive else [x * rng.choice((1, -1)) for x in drawn]


@pytest.mark.parametrize("name", REAL)
def test_real_functions_are_right_to_two_units(name):
    for x in numbers(400, positive=name in ("log", "log1p", "sqrt")):
        right = REAL[name](M.mpf(x))
        assert abs(getattr(ieee, name)(x) - right) <= 2 * math.ulp(float(right)), x


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_are_right_to_a_few_units_of_the_modulus(name):
    parts = numbers(800)
    for z in map(complex, parts[::2], parts[1::2]):
        right = COMPLEX[name](M.mpc(z))
        # Near a pole of the logistic function its condition, abs(1 - result), multiplies the error of exp.
        condition = max(1.0, float(abs(1 - right))) if name == "csigmoid" else 1.0
        assert abs(getattr(ieee, name)(z) - right) <= 6 * condition * math.ulp(float(abs(right))), z


def test_powers_and_quotients_of_complex_numbers():
    parts = [max(-8.0, min(8.0, x)) for x in numbers(800)]
    for a, b in zip(map(complex, parts[::4], parts[1::4]), map(complex, parts[2::4], parts[3::4]), strict=True):
        right = M.mpc(a) ** M.mpc(b)
        size = float(abs(M.mpc(b) * M.log(M.mpc(a))))
        assert abs(ieee.cpow(a, b) - right) <= (4 + 4 * size) * math.ulp(float(abs(right))), (a, b)
        assert abs(ieee.cdiv(a, b) - M.mpc(a) / M.mpc(b)) <= 6 * math.ulp(abs(a / b)), (a, b)


@pytest.mark.parametrize(
    ("name", "arguments", "right"),
    [
        ("exp", (710.0,), INF),
        ("exp", (-INF,), 0.0),
        ("expm1", (INF,), INF),
        ("expm1", (-INF,), -1.0),
        ("expm1", (800.0,), INF),
        ("log", (0.0,), -INF),
        ("log", (-0.0,), -INF),
        ("log", (-1.0,), NAN),
        ("log", (-INF,), NAN),
        ("log", (INF,), INF),
        ("log1p", (-1.0,), -INF),
        ("log1p", (-1.5,), NAN),
        ("sin", (INF,), NAN),
        ("cos", (-INF,), NAN),
        ("sqrt", (-1e-300,), NAN),
        ("sqrt", (INF,), INF),
        ("sigmoid", (-INF,), 0.0),
        ("sigmoid", (INF,), 1.0),
        ("softplus", (INF,), INF),
        ("softplus", (-INF,), 0.0),
        ("div", (1.0, -0.0), -INF),
        ("div", (-1.0, -0.0), INF),
        ("div", (0.0, 0.0), NAN),
        ("div", (INF, INF), NAN),
        ("div", (1e300, 1e-300), INF),
        ("pow", (NAN, 0.0), 1.0),
        ("pow", (1.0, NAN), 1.0),
        ("pow", (-1.0, INF), 1.0),
        ("pow", (-0.0, -1 + 2.0**-53), INF),
        ("pow", (-2.0, 0.5), NAN),
        ("pow", (-10.0, 309.0), -INF),
        ("pow", (-10.0, 310.0), INF),
        ("pow", (0.0, -2.0), INF),
        ("pow", (-0.0, -3.0), -INF),
        ("pow", (-0.0, -2.5), INF),
        ("maximum", (NAN, 1.0), NAN),
        ("maximum", (1.0, NAN), NAN),
        ("minimum", (NAN, -INF), NAN),
        ("minimum", (-INF, NAN), NAN),
        ("sign", (NAN,), NAN),
        ("cabs", (complex(-INF, NAN),), INF),
    ],
)
def test_where_python_raises_ieee_754_has_a_number(name, arguments, right):
    found = getattr(ieee, name)(*arguments)
    assert found == right or (found != found and right != right)


def test_nan_goes_through_everything():
    for name in REAL:
        assert math.isnan(getattr(ieee, name)(NAN)), name
    for name in COMPLEX:
        assert cmath.isnan(getattr(ieee, name)(complex(NAN, NAN))), name


def test_zeros_keep_their_sign():
    for name in ("expm1", "log1p", "sin", "sqrt", "tanh"):
        assert math.copysign(1, getattr(ieee, name)(-0.0)) == -1, name


def test_a_complex_overflow_is_not_finite():
    for name in ("cexp", "cexpm1", "csin", "ccos"):
        assert not cmath.isfinite(getattr(ieee, name)(complex(1000, 1000))), name
    assert not cmath.isfinite(ieee.cdiv(1j, 0j))
