"""The error function in float64: every piece of it against mpmath, layouts, blocks and what is not finite."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import tensorplay as tp

EDGES = [sign * edge * (1 + step * 2**-52) for edge in (0.25, 0.84375, 1.25, 1 / 0.35, 6, 28) for step in (-1, 0, 1)
         for sign in (1, -1)]  # fmt: skip
NUMBERS = np.concatenate([np.linspace(-7, 7, 401), np.linspace(-27, 27, 101), EDGES, [0.0, -0.0, 1e-8, -5e-324, 1e300]])


def exact(name, x):
    if not 0 < abs(x) < 30:  # mpmath has no -0
        return getattr(math, name)(x)
    with mpmath.workdps(40):
        return float(getattr(mpmath, name)(mpmath.mpf(float(x))))


@pytest.mark.parametrize(("name", "ulps"), [("erf", 1), ("erfc", 4)])
def test_each_piece_has_all_digits(name, ulps):
    found = getattr(tp, name)(tp.from_numpy(NUMBERS)).numpy()
    expected = np.array([exact(name, x) for x in NUMBERS])
    assert (np.abs(found - expected) <= ulps * np.spacing(np.abs(expected))).all()
    assert np.array_equal(np.signbit(found), np.signbit(expected))


def test_the_values_at_infinity_and_nan():
    x = tp.tensor([math.inf, -math.inf, math.nan] * 20, dtype=tp.float64)
    for function, ends in ((tp.erf, [1.0, -1.0]), (tp.erfc, [0.0, 2.0])):
        *found, last = function(x)[:3].tolist()
        assert found == ends
        assert math.isnan(last)


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_blocks_and_layouts_change_nothing(name):
    function = getattr(tp, name)
    x = tp.from_numpy(np.resize(NUMBERS, (300, 100)))
    one_by_one = tp.stack([function(row) for row in x.unbind(0)])
    assert tp.equal(function(x), one_by_one)
    assert tp.equal(function(x.t()), one_by_one.t())
    assert tp.equal(function(x[::3, ::2]), one_by_one[::3, ::2])
    assert function(x[:, 0][3]).item() == one_by_one[3, 0].item()


def test_gelu_is_x_times_the_chance_below_it():
    x = tp.from_numpy(NUMBERS[np.abs(NUMBERS) < 30])
    expected = [float(v) * exact("erfc", -v * math.sqrt(0.5)) / 2 for v in x.tolist()]
    assert np.allclose(tp.nn.functional.gelu(x).numpy(), expected, rtol=1e-13, atol=0)
