"""Casting to a dtype gives what NumPy and ml_dtypes give, rounded once."""

from __future__ import annotations

import math
import random

import ml_dtypes
import numpy as np
import pytest

from tensorplay_core.testing.references.rounding import (
    FORMATS,
    UNSPECIFIED,
    accumulator_of,
    format_of,
    round_to,
    ulp_of,
)

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}


def numbers():
    """Of every exponent, and the neighbourhoods of ties, of the largest and of the smallest numbers."""
    rng = random.Random(11)
    drawn = [math.ldexp(rng.uniform(-2, 2), rng.randint(-160, 135)) for _ in range(3000)]
    for form in FORMATS.values():
        edges = [form.largest, form.largest * (1 + form.eps / 4), form.largest * (1 + form.eps / 3), form.tiny]
        edges += [form.tiny * form.eps * k / 4 for k in (1, 2, 3, 6, 10)] + [1 + form.eps / 2, 1 + 1.5 * form.eps]
        drawn += [x for edge in edges if abs(edge) < 1e300 or form.digits == 53 for x in (edge, -edge)]
    return [*drawn, 0.0, -0.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floats_round_as_numpy_rounds(dtype):
    values = numbers()
    with np.errstate(over="ignore"):
        expected = np.array(values).astype(dtype).astype(float)
    assert np.array_equal(round_to(values, dtype), expected, equal_nan=True)
    assert np.array_equal(np.signbit(round_to(values, dtype))[:-1], np.signbit(expected)[:-1])


def test_bfloat16_rounds_once_to_the_nearest_even():
    """ml_dtypes rounds float64 to float32 first, so it is asked about float32 numbers; ties are decided by hand."""
    with np.errstate(over="ignore"):
        values = np.array(numbers()).astype(np.float32)
        expected = values.astype(ml_dtypes.bfloat16).astype(float)
    assert np.array_equal(round_to(values.tolist(), "bfloat16"), expected, equal_nan=True)
    # Just above a tie; by way of float32 it would be the tie, and round to even.
    assert round_to([1 + 2.0**-8 + 2.0**-40], "bfloat16") == [1 + 2.0**-7]
    assert round_to([1 + 2.0**-8], "bfloat16") == [1.0]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "int64", "uint64"])
def test_integers_wrap_around_and_floats_are_cut(dtype):
    values = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**64 - 1]
    expected = [int(np.array([v % 2**64], np.uint64).astype(dtype)[0]) for v in values]
    assert round_to(values, dtype) == expected
    assert round_to([1.9, 0.5, 100.0, True, 3 + 9j], dtype) == [1, 0, 100, 1, 3]


def test_a_float_that_no_integer_of_the_dtype_is_has_no_right_cast():
    assert round_to([math.nan, math.inf, -1.0, 256.0, 255.9, -0.9], "uint8") == [UNSPECIFIED] * 4 + [255, 0]
    assert round_to([1.0, UNSPECIFIED, 2.6], "float16")[1] is UNSPECIFIED


def test_bool_and_complex():
    assert round_to([0, 2, 0.0, -0.0, math.nan, 0j, 1e-300], "bool") == [False, True, False, False, True, False, True]
    assert round_to([0.1 + 0.2j, 1e39, True], "complex64") == [
        complex(float(np.float32(0.1)), float(np.float32(0.2))),
        complex(math.inf),
        1 + 0j,
    ]
    assert round_to([2 + 3j], "float32") == [2.0]


@pytest.mark.parametrize("dtype", NUMPY)
def test_formats_are_those_of_numpy(dtype):
    form, info = format_of(dtype), ml_dtypes.finfo(NUMPY[dtype])
    assert (form.eps, form.tiny, form.largest) == (float(info.eps), float(info.tiny), float(info.max))
    for value in round_to([1.0, 1.5, 0.7, 3e-5, 1000.0, 0.0, form.tiny / 2], dtype):
        above = np.nextafter(NUMPY[dtype](value), NUMPY[dtype](np.inf))
        assert ulp_of(form, -value) == float(above) - value


def test_what_computes_in_what():
    assert format_of("complex64") is FORMATS["float32"]
    assert format_of("int8") is format_of("bool") is None
    assert accumulator_of("bfloat16") is accumulator_of("complex64") is FORMATS["float32"]
    assert accumulator_of("complex128") is FORMATS["float64"]
    assert ulp_of(FORMATS["float32"], math.inf) == ulp_of(FORMATS["float32"], math.nan) == 0.0
    assert ulp_of(FORMATS["float64"], 3 + 4j) == math.ulp(5.0)
