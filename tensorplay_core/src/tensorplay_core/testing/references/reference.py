"""What a reference is: the right result of an operator, and how far from it a kernel may be.

A budget is counted in units in the last place of the result's dtype, because a kernel's error is proportional to what
it computes: an absolute tolerance would pass a kernel that gives 0 for every small number. Sums may differ by what
another order of summation explains, which the result's ``slack`` says.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.ieee import cabs
from tensorplay_core.testing.references.rounding import UNSPECIFIED, Format, format_of, round_to


class Mismatch(NamedTuple):
    """An element that is outside of its budget.

    Attributes:
        place: where, in C order.
        actual: what was found.
        expected: what is right, rounded to the dtype.
        error: the difference.
        allowed: the largest difference that would have been right.
    """

    place: int
    actual: Any
    expected: Any
    error: float
    allowed: float


@dataclass(frozen=True, slots=True)
class Reference:
    """The right results of one operator.

    Attributes:
        fn: takes the operator's arguments in the order of its schema, each tensor an :class:`Array`, each dtype its
            name; gives one :class:`Array` or a tuple of them. It never writes to what it is given.
        ulps: the error budget in units in the last place, by the name of the result's dtype; 0 where it has none.
        bits: whether -0.0 is not 0.0, as for operators that only move elements.
    """

    fn: Callable[..., Any]
    ulps: Mapping[str, float]
    bits: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Returns the operator's results, always as a tuple."""
        result = self.fn(*args, **kwargs)
        return (result,) if isinstance(result, Array) else tuple(result)

    def mismatches(
        self, actual: Array, expected: Array, *, factor: float = 1.0, flush: bool = False
    ) -> Iterator[Mismatch]:
        """Yields the elements of one result that are not right.

        NaN is right only where NaN is expected. A complex number that is not finite is right where one that is not
        finite is expected: standards and libraries differ on which part is which.

        Args:
            actual: what a kernel gave. Shape and dtype are the caller's to compare.
            expected: what :attr:`fn` gave for it.
            factor: multiplies the budget, for a device that declares a lesser accuracy.
            flush: whether a result that is not a normal number may be 0.

        Example:
            >>> exact = Reference(lambda x: x, {})
            >>> list(exact.mismatches(Array((1,), [2.0], "float32"), Array((1,), [1.0], "float32")))
            [Mismatch(place=0, actual=2.0, expected=1.0, error=1.0, allowed=0.0)]
        """
        dtype, form = expected.dtype, format_of(expected.dtype)
        rounded = round_to(expected.data, dtype)
        if form is None:
            for place, (a, e) in enumerate(zip(actual.data, rounded, strict=True)):
                if a != e and e is not UNSPECIFIED:
                    yield Mismatch(place, a, e, abs(a - e), 0.0)
            return
        ulps = 0.0 if self.bits else factor * self.ulps.get(dtype, 0.0)
        quick = ulps * form.eps / 2  # of a number at most half of its last place: most elements need no closer look
        size = cabs if dtype.startswith("complex") else abs
        for place, (a, e, exact) in enumerate(zip(actual.data, rounded, expected.data, strict=True)):
            if a == e:
                if not self.bits or a or _same_zero(a, e):
                    continue
            elif e is UNSPECIFIED or size(a - e) <= quick * size(e) < math.inf:
                continue
            allowed = 0.0 if expected.slack is None else factor * expected.slack[place]
            if math.isfinite(size(exact)):
                allowed += ulps * form.ulp(min(size(exact), form.largest))
            if self.bits:
                right = _same_bits(a, e)
            else:
                right = _right(a, exact, allowed, form) or (flush and not a and size(exact) < form.tiny)
            if not right:
                yield Mismatch(place, a, e, size(a - exact), allowed)


def _right(a: Any, exact: Any, allowed: float, form: Format) -> bool:
    """Whether ``a`` is near enough to what is exact, which it is not equal to."""
    if a.__class__ is complex:
        if not cmath.isfinite(exact):
            return not cmath.isfinite(a)
        if not cmath.isfinite(a):
            return cmath.isinf(a) and cabs(exact) + allowed >= form.largest
        return cabs(a - exact) <= allowed
    if a != a or exact != exact:
        return bool(a != a and exact != exact)
    if math.isinf(a):
        return bool(abs(exact) + allowed >= form.largest and (a > 0) == (exact > 0))
    return bool(abs(a - exact) <= allowed)


def _same_bits(a: Any, e: Any) -> bool:
    """Whether two numbers are one, a NaN being any other."""
    if a.__class__ is complex:
        return _same_bits(a.real, e.real) and _same_bits(a.imag, e.imag)
    return (a == e and (bool(a) or _same_zero(a, e))) or (a != a and e != e)


def _same_zero(a: Any, e: Any) -> bool:
    if a.__class__ is complex:
        return _same_zero(a.real, e.real) and _same_zero(a.imag, e.imag)
    return math.copysign(1.0, a) == math.copysign(1.0, e)
