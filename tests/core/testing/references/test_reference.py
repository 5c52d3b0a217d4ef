"""What counts as right: budgets in units in the last place, infinities, NaN, zeros and elements left open."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.testing.references import UNSPECIFIED, Array, Reference

NAN, INF = math.nan, math.inf
BUDGET = {"float16": 1, "float32": 2, "float64": 2, "complex64": 2, "bfloat16": 1}


def right(actual, expected, dtype="float32", *, slack=None, bits=False, ulps=BUDGET, **options):
    """Whether one element is right."""
    reference = Reference(lambda: None, ulps, bits)
    slacks = None if slack is None else [slack]
    found = reference.mismatches(Array((), [actual], dtype), Array((), [expected], dtype, slacks), **options)
    return not list(found)


def off(value, units, dtype=np.float32):
    """A number some units in the last place away."""
    for _ in range(units):
        value = float(np.nextafter(dtype(value), dtype(np.inf)))
    return value


def test_the_budget_is_counted_in_units_of_the_dtype():
    for value in (1.0, 3.7, 1.9, 1e-30, 1e30):
        value = float(np.float32(value))
        assert right(off(value, 2), value)
        assert not right(off(value, 3), value)
    for value in (1.0, 3.5, 1e-4, 1e4):
        value = float(np.float16(value))
        assert right(off(value, 1, np.float16), value, "float16")
        assert not right(off(value, 2, np.float16), value, "float16")
    assert right(off(1.0, 6), 1.0, factor=3)
    assert not right(off(1.0, 7), 1.0, factor=3)


def test_what_is_exact_is_compared_before_it_is_rounded():
    """A correctly rounded result is within half a unit of it, and the next number is not."""
    exact, half = 1 / 3, {"float32": 0.5}
    nearest = float(np.float32(exact))
    assert right(nearest, exact, ulps=half)
    assert not right(off(nearest, 1), exact, ulps=half)
    assert right(float(np.float16(exact)), exact, "float16", ulps={})
    assert not right(exact, exact + 1e-9, "float64", ulps={})


def test_near_zero_the_unit_is_that_of_the_subnormal_numbers():
    least = float(np.finfo(np.float32).smallest_subnormal)
    assert right(2 * least, 0.0)
    assert not right(3 * least, 0.0)
    assert not right(0.0, 1e-30)
    assert not right(0.0, 1e-38, flush=False)
    assert right(0.0, 1e-38, flush=True)
    assert not right(0.0, 2e-38, flush=True)


def test_slack_is_absolute_and_comes_on_top():
    assert right(1.01, 1.0, slack=0.011)
    assert not right(1.01, 1.0, slack=0.009)
    assert right(0.001, 0.0, slack=0.002)
    assert right(1.01, 1.0, slack=0.005, factor=2.1)


def test_nan_is_right_only_for_nan():
    assert right(NAN, NAN)
    for number in (0.0, 1.0, INF, -INF):
        assert not right(NAN, number)
        assert not right(NAN, number, slack=INF)
        assert not right(number, NAN)
    assert not right(complex(NAN, 0), 1 + 0j, "complex64")


def test_infinities():
    largest = float(np.finfo(np.float32).max)
    assert right(INF, INF)
    assert right(INF, 3.5e38), "what is beyond the largest number is infinite"
    assert right(largest, 3.40282357e38), "or the largest, where the budget allows it"
    assert right(INF, largest * (1 - 2e-8))
    for wrong in (-INF, largest, 1.0, NAN):
        assert not right(wrong, INF)
    assert not right(-INF, 3.5e38)
    assert not right(INF, 1e38)
    assert not right(1e38, 3.5e38)


def test_complex_numbers_are_measured_by_their_modulus():
    assert right(complex(1, 1e-8), 1 + 0j, "complex64")
    assert not right(complex(1, 1e-6), 1 + 0j, "complex64")
    assert right(complex(NAN, INF), complex(INF, NAN), "complex64"), "which part is NaN is agreed on nowhere"
    assert not right(1 + 1j, complex(INF, 0), "complex64")
    assert not right(complex(INF, 0), 1 + 1j, "complex64")
    assert right(complex(INF, 0), 4e38 + 0j, "complex64")


def test_bits_tell_zeros_apart_and_allow_nothing():
    assert right(-0.0, 0.0)
    assert not right(-0.0, 0.0, bits=True)
    assert right(-0.0, -0.0, bits=True)
    assert not right(complex(0.0, -0.0), 0j, "complex64", bits=True)
    assert right(complex(NAN, 1.0), complex(NAN, 1.0), "complex64", bits=True)
    assert not right(complex(NAN, 2.0), complex(NAN, 1.0), "complex64", bits=True)
    assert not right(off(1.0, 1), 1.0, bits=True)
    assert right(NAN, NAN, bits=True)


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_integers_and_bool_are_exact(dtype):
    assert right(1, 1, dtype)
    assert not right(1, 0, dtype, factor=100)
    assert right(77, UNSPECIFIED, "int64")
    assert right(NAN, UNSPECIFIED, "float32")


def test_a_mismatch_says_where_and_how_much():
    reference = Reference(lambda: None, BUDGET)
    expected = Array((3,), [1.0, 2.0, 0.1], "float32")
    (found,) = reference.mismatches(Array((3,), [1.0, 2.5, float(np.float32(0.1))], "float32"), expected)
    assert found == (1, 2.5, 2.0, 0.5, 2 * float(np.spacing(np.float32(2))))
    (found,) = reference.mismatches(Array((3,), [1, 2, 9], "int8"), Array((3,), [1, 2, 3], "int8"))
    assert found == (2, 9, 3, 6, 0.0)


def test_results_are_always_a_tuple():
    one = Array((), [1], "int8")
    assert Reference(lambda x: x, {})(one) == (one,)
    assert Reference(lambda x: (x, x), {})(one) == (one, one)
