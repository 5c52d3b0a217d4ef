"""Exact sums, and how far another order of summation may be from them.

Where all partial sums are numbers of the format, as for small multiples of 1/8, every order gives the exact sum, and
nothing else will do. Elsewhere the worst case of n additions, ``n * u * sum(abs(terms))`` with the unit roundoff u,
would let a kernel pass that leaves out a block of a large array. Errors of single additions are as often up as down, so
the bound used here grows with the square root of n, by a factor that is practically never exceeded: Higham and Mary, "A
new approach to probabilistic rounding error analysis", 2019, https://doi.org/10.1137/18M1226312. It is the worst case
for few terms, and for terms that repeat, whose errors repeat too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorplay_core.testing.references.ieee import cabs
from tensorplay_core.testing.references.rounding import Format

_HUGE = 1000  # bits; what has more, of subnormal numbers, is more than a float can be


def growth(terms: Sequence[Any]) -> float:
    """Returns how many roundings the additions of some terms amount to.

    Example:
        >>> growth([0.1, 0.2, 0.3]), growth(range(10_000)), growth([0.1] * 10_000)
        (3, 208.0, 5008.0)
    """
    count = len(terms)
    likely = min(count, 8 + 2 * math.sqrt(count))
    return likely if likely == count or 4 * len(set(terms)) > count else 8 + count / 2


def adds_exactly(terms: Sequence[Any], form: Format) -> bool:
    """Whether every sum of some of the terms is a number of a format.

    Example:
        >>> from tensorplay_core.testing.references.rounding import FORMATS
        >>> adds_exactly([0.125, -3.0, 1000.0], FORMATS["float32"]), adds_exactly([0.1, 0.2], FORMATS["float32"])
        (True, False)
    """
    if terms and terms[0].__class__ is complex:
        return all(adds_exactly([getattr(z, part) for z in terms], form) for part in ("real", "imag"))
    if not all(map(math.isfinite, terms)):
        return False
    # Each term is a whole number of 1 / finest, so each sum is too, and no larger than their magnitude.
    finest = max((x.as_integer_ratio()[1] for x in terms), default=1)
    return finest.bit_length() < _HUGE and magnitude(terms) * finest <= 2.0**form.digits


def total(terms: Sequence[Any]) -> Any:
    """Returns the exact sum of numbers of one kind, rounded once to Python's.

    Example:
        >>> total([1e16, 1.0, -1e16]), total([float("inf"), 1.0]), total([])
        (1.0, inf, 0)
    """
    if not terms or terms[0].__class__ is int:
        return sum(terms)
    if terms[0].__class__ is complex:
        return complex(_real([z.real for z in terms]), _real([z.imag for z in terms]))
    return _real(terms)


def _real(terms: Sequence[float]) -> float:
    try:
        return math.fsum(terms)
    except ValueError:  # infinities of both signs
        return math.nan
    except OverflowError:
        scaled = math.fsum(x * 2.0**-64 for x in terms)
        return scaled * 2.0**64


def magnitude(terms: Sequence[Any]) -> float:
    """Returns the sum of the absolute values, 0 where it is not finite: then nothing is near the result."""
    size = sum(map(cabs, terms)) if terms and terms[0].__class__ is complex else sum(map(abs, terms))
    return size if math.isfinite(size) else 0.0


def slack_of(terms: Sequence[Any], form: Format) -> float:
    """Returns how far a sum in a format may be from the exact one."""
    return 0.0 if adds_exactly(terms, form) else growth(terms) * form.eps / 2 * magnitude(terms)
