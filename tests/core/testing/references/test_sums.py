"""Exact sums, and the bounds for those of other orders."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from tensorplay_core.testing.references.rounding import FORMATS
from tensorplay_core.testing.references.sums import adds_exactly, growth, magnitude, slack_of, total

SINGLE = FORMATS["float32"]


def test_totals_are_exact():
    terms = [0.1, 1e16, 0.2, -1e16, 3e-20]
    assert total(terms) == float(sum(map(Fraction, terms)))
    assert total([1 + 1e16j, -1 + 1j, -1e16j]) == 1j
    assert total([2**70, 1, -(2**70)]) == 1
    assert total([True, True]) == 2
    assert total([]) == 0


def test_totals_of_what_is_not_finite():
    assert total([math.inf, 1.0]) == math.inf
    assert math.isnan(total([math.inf, -math.inf]))
    assert math.isnan(total([math.nan, math.inf]))
    assert total([1e308, 1e308]) == math.inf
    assert total([1e308, 1e308, -1e308]) == 1e308
    assert total([complex(math.inf, 1), 1j]) == complex(math.inf, 2)


def test_sums_of_small_eighths_are_exact_in_any_order():
    eighths = [k / 8 for k in range(-400, 400)]
    assert adds_exactly(eighths, SINGLE)
    assert slack_of(eighths, SINGLE) == 0.0
    assert adds_exactly([complex(x, -x) for x in eighths], SINGLE)
    assert not adds_exactly([0.1], SINGLE)
    assert adds_exactly([0.1], FORMATS["float64"])
    assert not adds_exactly([2.0**24, 1.0], SINGLE)
    assert adds_exactly([2.0**24 - 1, 1.0], SINGLE)
    assert not adds_exactly([math.inf], SINGLE)
    assert not adds_exactly([math.nan, 1.0], SINGLE)
    assert adds_exactly([], SINGLE)


def test_the_bound_is_the_worst_case_for_few_terms_and_for_those_that_repeat():
    tenths = [k / 10 for k in range(1, 13)]
    assert slack_of(tenths, SINGLE) == pytest.approx(12 * 2.0**-24 * sum(tenths))
    assert growth([0.1] * 10_000) == 5008
    assert growth([k / 7 for k in range(10_000)]) == 208


def test_where_the_sum_is_not_finite_there_is_no_slack():
    assert magnitude([math.inf, 1.0]) == magnitude([math.nan]) == 0.0
    assert slack_of([math.inf, 0.1], SINGLE) == 0.0
    assert magnitude([3 + 4j, -1.0 + 0j]) == 6.0
