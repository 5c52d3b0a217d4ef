"""Rounding, remainders, bounds, bits and elementary functions: values that can be checked by hand, and every edge."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp

INF, NAN = math.inf, math.nan


def test_rounding_goes_to_the_even_number_half_way():
    x = tp.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    assert tp.round(x).tolist() == [-2.0, -2.0, -0.0, 0.0, 2.0, 2.0]
    assert tp.floor(x).tolist() == [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0]
    assert tp.ceil(x).tolist() == [-2.0, -1.0, -0.0, 1.0, 2.0, 3.0]
    assert tp.trunc(x).tolist() == tp.fix(x).tolist() == [-2.0, -1.0, -0.0, 0.0, 1.0, 2.0]
    assert tp.frac(x).tolist() == [-0.5, -0.5, -0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_rounding_keeps_integers_and_what_is_not_finite(name):
    function = getattr(tp, name)
    big = tp.tensor([2**62 + 1, -5])
    assert function(big).tolist() == [2**62 + 1, -5]
    assert function(big).dtype is tp.int64
    assert function(tp.tensor([INF, -INF])).tolist() == [INF, -INF]
    assert math.isnan(function(tp.tensor(NAN)).item())
    with pytest.raises(tp.DTypeError, match="bool"):
        function(tp.tensor([True]))


def test_decimals():
    assert tp.round(tp.tensor([1234.5678], dtype=tp.float64), decimals=2).tolist() == [1234.57]
    assert tp.round(tp.tensor([1234.5678], dtype=tp.float64), decimals=-2).tolist() == [1200.0]
    with pytest.raises(tp.DTypeError, match="integers have no decimals"):
        tp.round(tp.tensor([7]), decimals=1)


def test_remainders_follow_python_and_c():
    for a, b in ((7, 3), (-7, 3), (7, -3), (-7, -3)):
        x, y = tp.tensor(a), tp.tensor(b)
        assert (x // y).item() == a // b
        assert (x % y).item() == a % b
        assert tp.fmod(x, y).item() == math.fmod(a, b)
        assert (x.double() // y.double()).item() == a // b
        assert (x.double() % y.double()).item() == a % b
        assert tp.div(x, y, rounding_mode="trunc").item() == math.trunc(a / b)
        assert tp.div(x, y, rounding_mode="floor").item() == a // b


def test_remainders_beside_numbers():
    x = tp.tensor([7.5, -7.5])
    assert (x // 2).tolist() == [3.0, -4.0]
    assert (8 % tp.tensor([3, 5])).tolist() == [2, 3]
    assert (8 // tp.tensor([3, 5])).tolist() == [2, 1]
    x //= 2
    assert x.tolist() == [3.0, -4.0]
    x %= 3
    assert x.tolist() == [0.0, 2.0]


def test_division_by_zero_has_a_value():
    x, zero = tp.tensor([1.0, -1.0, 0.0]), tp.tensor(0.0)
    assert (x // zero).tolist()[:2] == [INF, -INF]
    assert all(math.isnan(v) for v in (x % zero).tolist())
    assert all(math.isnan(v) for v in tp.fmod(x, zero).tolist())
    for function in (tp.floor_divide, tp.remainder, tp.fmod):
        assert function(tp.tensor([5, -5]), 0).tolist() == [0, 0]


def test_a_wrong_rounding_mode_is_named():
    with pytest.raises(tp.ValueRangeError, match="rounding_mode must be None or one of 'trunc', 'floor', not 'flor'"):
        tp.div(tp.tensor([1.0]), 2, rounding_mode="flor")
    assert tp.div(tp.tensor([1, 2]), 2, rounding_mode=None).tolist() == [0.5, 1.0]


def test_clamp():
    x = tp.tensor([-2.0, 0.5, 3.0, NAN])
    assert tp.clamp(x, 0, 1).tolist()[:3] == tp.clip(x, 0, 1).tolist()[:3] == [0.0, 0.5, 1.0]
    assert math.isnan(tp.clamp(x, 0, 1)[3].item())
    assert tp.clamp(x[:3], min=0).tolist() == tp.clamp_min(x[:3], 0).tolist() == [0.0, 0.5, 3.0]
    assert tp.clamp(x[:3], max=0).tolist() == tp.clamp_max(x[:3], 0).tolist() == [-2.0, 0.0, 0.0]
    assert tp.clamp(x[:3], 3, 1).tolist() == [1.0, 1.0, 1.0], "the upper bound wins, as in PyTorch"
    assert tp.clamp(tp.tensor([1, 5]), 2.5).tolist() == [2.5, 5.0], "a float bound makes floats of integers"
    y = tp.tensor([1.0, 5.0])
    assert y.clamp_(max=2) is y
    assert y.tolist() == [1.0, 2.0]
    with pytest.raises(tp.ArgumentError, match="at least one of min and max"):
        tp.clamp(x)


def test_the_gradient_of_clamp_is_1_on_the_bounds():
    x = tp.tensor([-1.0, 0.0, 0.5, 1.0, 2.0], requires_grad=True)
    low, high = tp.tensor(0.0, requires_grad=True), tp.tensor(1.0, requires_grad=True)
    tp.clamp(x, low, high).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert (low.grad.item(), high.grad.item()) == (1.0, 1.0)


def test_nan_to_num_knows_the_largest_number_of_each_dtype():
    for name, largest in (
        ("float16", 65504.0),
        ("float32", 3.4028234663852886e38),
        ("float64", 1.7976931348623157e308),
    ):
        x = tp.tensor([NAN, INF, -INF, 1.5], dtype=getattr(tp, name))
        assert tp.nan_to_num(x).tolist() == [0.0, largest, -largest, 1.5]
        assert tp.nan_to_num(x, 1.0, neginf=-7.0).tolist() == [1.0, largest, -7.0, 1.5]
    assert tp.nan_to_num(tp.tensor([1, 2])).tolist() == [1, 2]


def test_signs():
    assert tp.sign(tp.tensor([-2.0, 0.0, 5.0])).tolist() == [-1.0, 0.0, 1.0]
    assert tp.signbit(tp.tensor([-0.0, 0.0, -1.0])).tolist() == [True, False, True]
    assert tp.copysign(tp.tensor([1.0, -2.0]), tp.tensor([-0.0, 0.0])).tolist() == [-1.0, 2.0]
    assert tp.heaviside(tp.tensor([-1.0, 0.0, 1.0]), tp.tensor(0.25)).tolist() == [0.0, 0.25, 1.0]


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("tan", (-1.0, 0.0, 0.5)), ("asin", (-1.0, 0.0, 0.5)), ("acos", (-1.0, 0.0, 0.5)), ("atan", (-1e9, 0.0, 0.5)),
        ("sinh", (-20.0, 1e-9, 0.5)), ("cosh", (-20.0, 0.0, 0.5)), ("asinh", (-1e200, 1e-9, 0.5)),
        ("acosh", (1.0, 1.5, 1e200)), ("atanh", (-0.9, 1e-9, 0.5)), ("log2", (0.125, 3.0)), ("log10", (0.001, 3.0)),
        ("erf", (-3.0, 1e-9, 0.1, 0.84375, 1.25, 2.9, 6.5)), ("erfc", (-3.0, 1e-9, 0.3, 0.84375, 1.25, 2.9, 10.0)),
    ],
)  # fmt: skip
def test_elementary_functions_are_those_of_python(name, points):
    found = getattr(tp, name)(tp.tensor(points, dtype=tp.float64)).tolist()
    for x, y in zip(points, found, strict=True):
        exact = getattr(math, name)(x)
        assert abs(y - exact) <= 4 * math.ulp(exact), (name, x, y, exact)


@pytest.mark.parametrize("count", [7, 70_001])
def test_error_functions_in_float32_keep_their_digits_in_the_tail(count):
    points = [-9.0 + 18.0 * i / count for i in range(count)]
    x = tp.tensor(points)
    for name, ulps in (("erf", 8), ("erfc", 12)):
        rounded, found = x.tolist(), getattr(tp, name)(x).tolist()
        for v, y in list(zip(rounded, found, strict=True))[:: max(1, count // 500)]:
            exact = getattr(math, name)(v)
            assert abs(y - exact) <= ulps * max(abs(exact), 2.0**-126) * 2.0**-23, (name, v, y, exact)


def test_aliases():
    x = tp.tensor([0.25, 0.5])
    for alias, name in (("arcsin", "asin"), ("arccos", "acos"), ("arctan", "atan"), ("arcsinh", "asinh")):
        assert getattr(tp, alias) is getattr(tp, name)
        assert getattr(x, alias)().tolist() == getattr(x, name)().tolist()


def test_logarithms_of_sums_and_products():
    assert tp.logaddexp(tp.tensor(1000.0), tp.tensor(1000.0)).item() == pytest.approx(1000 + math.log(2))
    assert tp.logaddexp(tp.tensor(-INF), tp.tensor(-INF)).item() == -INF
    assert tp.logaddexp(tp.tensor(-INF), tp.tensor(2.0)).item() == 2.0
    assert tp.xlogy(tp.tensor([0.0, 0.0, 2.0]), tp.tensor([0.0, INF, math.e])).tolist() == pytest.approx([0, 0, 2])
    assert math.isnan(tp.xlogy(tp.tensor(0.0), tp.tensor(NAN)).item())


def test_bits():
    a, b = tp.tensor([12, 10]), tp.tensor([10, 6])
    assert ((a & b).tolist(), (a | b).tolist(), (a ^ b).tolist()) == ([8, 2], [14, 14], [6, 12])
    assert (~a).tolist() == [-13, -11]
    assert (6 & a).tolist() == [4, 2]
    assert ((a << 2).tolist(), (a >> 1).tolist()) == ([48, 40], [6, 5])
    mask = tp.tensor([True, False])
    assert (~mask).tolist() == [False, True]
    assert (mask & True).tolist() == [True, False]
    mask |= tp.tensor([False, True])
    assert mask.tolist() == [True, True]


def test_shifts_beyond_the_bits_have_a_value():
    x = tp.tensor([1, -1], dtype=tp.int8)
    assert tp.bitwise_left_shift(x, tp.tensor([8, 7], dtype=tp.int8)).tolist() == [0, -128]
    assert tp.bitwise_right_shift(x, tp.tensor([100, 100], dtype=tp.int8)).tolist() == [0, -1]
    for device in ("cpu", "loopback"):
        large = tp.tensor([200, 200], dtype=tp.uint8, device=device)
        assert tp.bitwise_right_shift(large, tp.tensor([8, 7], dtype=tp.uint8, device=device)).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_numbers_with_a_fraction_have_no_bits(name):
    with pytest.raises(tp.DTypeError, match=r"takes integers and bool, and a tensor is float32"):
        getattr(tp, name)(tp.tensor([1.0]), tp.tensor([2]))


def test_logical_operators_take_every_dtype():
    x, y = tp.tensor([0.0, 2.0, NAN]), tp.tensor([1, 0, 1])
    assert tp.logical_and(x, y).tolist() == [False, False, True]
    assert tp.logical_or(x, y).tolist() == [True, True, True]
    assert tp.logical_xor(x, y).tolist() == [True, True, False]
    assert tp.logical_not(tp.tensor([0j, 1j])).tolist() == [True, False]


def test_questions():
    x = tp.tensor([1.0, INF, -INF, NAN])
    assert tp.isnan(x).tolist() == [False, False, False, True]
    assert tp.isinf(x).tolist() == [False, True, True, False]
    assert tp.isfinite(x).tolist() == [True, False, False, False]
    assert tp.isposinf(x).tolist() == [False, True, False, False]
    assert tp.isneginf(x).tolist() == [False, False, True, False]
    assert tp.isfinite(tp.tensor([1e200 + 1e200j], dtype=tp.complex128)).tolist() == [True]
    assert tp.isnan(tp.tensor([3])).tolist() == [False]


def test_isclose():
    x = tp.tensor([1.0, INF, NAN, 100.0])
    y = tp.tensor([1.000001, INF, NAN, 101.0])
    assert tp.isclose(x, y).tolist() == [True, True, False, False]
    assert tp.isclose(x, y, equal_nan=True).tolist() == [True, True, True, False]
    assert tp.isclose(tp.tensor([250], dtype=tp.uint8), tp.tensor([1], dtype=tp.uint8), atol=8).tolist() == [False]
    with pytest.raises(tp.ValueRangeError, match="rtol must not be negative"):
        tp.isclose(x, y, rtol=-1.0)


def test_combinations():
    x, y = tp.tensor([1.0, 2.0]), tp.tensor([3.0, 10.0])
    assert tp.lerp(x, y, 0.25).tolist() == [1.5, 4.0]
    assert tp.lerp(x, y, tp.tensor([0.0, 1.0])).tolist() == [1.0, 10.0]
    assert tp.addcmul(x, y, y, value=2).tolist() == [19.0, 202.0]
    assert tp.addcdiv(x, y, tp.tensor([2.0, 4.0])).tolist() == [2.5, 4.5]
    assert tp.rsub(x, 10, alpha=2).tolist() == [8.0, 6.0]


def test_a_call_of_div_without_keywords_takes_the_fast_path():
    x, y = tp.tensor([1.0, 2.0], requires_grad=True), tp.tensor([2.0, 4.0])
    z = tp.div(x, y)
    assert z.tolist() == [0.5, 0.5]
    z.sum().backward()
    assert x.grad.tolist() == [0.5, 0.25]
    assert x.div(y).tolist() == tp.divide(x, y).tolist() == tp.div(input=x, other=y).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("dtype", "a", "b", "quotient"),
    [("float16", -4.6171875, -0.51318359375, 8.0), ("bfloat16", 23.125, -0.50390625, -45.0)],
)
def test_a_quotient_of_halves_is_truncated_before_it_is_rounded(dtype, a, b, quotient):
    x, y = (tp.tensor([n], dtype=getattr(tp, dtype)) for n in (a, b))
    assert x.tolist() == [a] and y.tolist() == [b]
    for _ in range(3):
        assert tp.div(x, y, rounding_mode="trunc").tolist() == [quotient] == [math.trunc(a / b)]
        assert x.clone().div_(y, rounding_mode="trunc").tolist() == [quotient]
        assert tp.div(x, y, rounding_mode="trunc").dtype is x.dtype
