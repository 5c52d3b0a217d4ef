"""Which calls the suite makes: the samples of an operator's shape rule with fresh numbers.

The samples' own numbers are multiples of 1/8, which float16 holds; a kernel that computes in less than its dtype would
pass. So numbers get random digits of the dtype's full length, except where a sample is about its numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.testing.references.rounding import format_of, round_to
from tensorplay_core.testing.sample_domains import DOMAINS
from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.samples import samples
from tensorplay_core.testing.suite.given import Given, described, mapped, tensors_of
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name

WRAPS = ("default", "keep", "bool", "sum")
"""The promote rules of operators on integers that stay integers, whatever their size."""
BOUNDED = {
    *("pow", "div", "cross_entropy", "matmul", "mm", "bmm", "mv", "dot", "vdot", "outer", "addmm", "addmv", "baddbmm"),
    *("linear", "index", "index_backward", "scatter_reduce", "_embedding"),
}
"""Operators that are not tried with integers of the dtype's whole range."""
PLACED = ("factorization", "_cdist_backward")
"""The tag and the operator whose samples have numbers that belong together, so that only all of them may change."""
BLOCK = 2**17
"""Large inputs have more elements than this, and not a multiple of anything that a kernel's block may be."""


class Case(NamedTuple):
    """One call of an operator, described.

    Attributes:
        name: what it is about.
        args: positional arguments, each tensor a :class:`Given`.
        kwargs: keyword arguments.
        dtype: the dtype of its tensors.
        smooth: whether a numerical gradient means something here.
        shared: whether its tensors are one, given several times.
        placed: whether the places of its numbers matter, as in a matrix that must be positive-definite.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dtype: str
    smooth: bool = False
    shared: bool = False
    placed: bool = False

    @property
    def tensors(self) -> list[Given]:
        """The tensors among its arguments."""
        return [*tensors_of((*self.args, *self.kwargs.values()))]

    @property
    def needs(self) -> set[str]:
        """The dtypes that a device must have for it."""
        named = {v.name for v in (*self.args, *self.kwargs.values()) if isinstance(v, Named) and v.kind == "dtype"}
        return named | {given.dtype for given in self.tensors}

    def replaced(self, function: Callable[[Given], Given], name: str | None = None) -> Case:
        """Returns the case with a function applied to each of its tensors."""
        return self._replace(
            name=self.name if name is None else name,
            args=tuple(mapped(value, function) for value in self.args),
            kwargs={key: mapped(value, function) for key, value in self.kwargs.items()},
        )


def suited(subject: Subject, case: Case) -> Case | None:
    """Returns a case as a device can be asked for it, with its own default integer; None where it lacks a dtype."""
    if subject.integer != "int64":
        case = case.replaced(lambda given: given._replace(dtype=subject.integer) if given.dtype == "int64" else given)
    if subject.profile.flushes:
        case = case.replaced(normal)
    return case if subject.has(*case.needs) else None


def normal(given: Given) -> Given:
    """Returns a tensor with the smallest normal number in the place of those below it, which a device may take for 0.

    Example:
        >>> normal(Given((2,), [-1e-320, 1.0], "float64")).data
        [-2.2250738585072014e-308, 1.0]
    """
    form = format_of(given.dtype)
    if form is None:
        return given
    tiny = form.tiny

    def real(value: float) -> float:
        return math.copysign(tiny, value) if 0 < abs(value) < tiny else value

    data = [complex(real(v.real), real(v.imag)) if v.__class__ is complex else real(v) for v in given.data]
    return given._replace(data=data, spelled="")


def on_samples(subject: Subject, op: Operator, dtype: str, area: str = "forward") -> Iterator[Case]:
    """Yields the samples of an operator with fresh numbers, and one with integers of the dtype's whole range."""
    from tensorplay_core.testing.suite.further_cases import further_cases  # here, for it stands on this module

    rng = subject.rng(op.display_name, dtype, area)
    wide: Case | None = None
    plain: Case | None = None
    placed = any(one in PLACED for one in (op.name, *op.tags))
    for sample in samples(op, dtype=dtype, seed=rng.getrandbits(32)):
        args = tuple(map(described, sample.args))
        kwargs = {name: described(value) for name, value in sample.kwargs.items()}
        case = suited(subject, Case(sample.name, args, kwargs, dtype, sample.smooth, placed=placed))
        if case is None:
            continue
        expanded = any(given.layout == "expanded" for given in case.tensors)
        yield case.replaced(lambda given: fresh(given, rng)) if sample.smooth or expanded else case
        if sample.smooth and any(len(given.data) > 1 for given in case.tensors):
            wide = wide or case
            plain = plain or (case if len({given.shape for given in case.tensors}) == 1 else None)
    if wide is not None and takes_any_integer(op, dtype):
        yield wide.replaced(lambda given: whole_range(given, rng), "integers of the whole range")
    for case in further_cases(op, dtype, rng, plain):
        fitting = suited(subject, case)
        if fitting is not None:
            yield fitting


def takes_any_integer(op: Operator, dtype: str) -> bool:
    """Whether an operator computes modulo 2**bits on integers of any size."""
    return by_name(dtype).is_integral and op.promote in WRAPS and op.name not in BOUNDED | DOMAINS.keys()


def fresh(given: Given, rng: random.Random) -> Given:
    """Returns a tensor whose numbers have random digits of its dtype's full length, near what they were.

    Example:
        >>> before = Given((1,), [1.0], "float64")
        >>> 0.9 < fresh(before, random.Random(1)).data[0] < 1.1
        True
    """
    if not by_name(given.dtype).is_inexact:
        return given

    def near(value: float) -> float:
        return value * (1 + (rng.random() - 0.5) / 8)

    rows = given.shape[0] if given.layout == "expanded" and given.shape else 1
    first = given.data[: len(given.data) // rows] if rows else []
    if by_name(given.dtype).is_complex:
        data: list[Any] = [complex(near(value.real), near(value.imag)) for value in first]
    else:
        data = [near(value) for value in first]
    return given._replace(data=round_to(data * rows, given.dtype))


def renewed(case: Case) -> Case:
    """Returns a call of the same shapes and layouts with the same numbers in other places.

    What is right for it is something else, so a result that was kept is found; a single number becomes another, and so
    do numbers whose places matter.
    """

    def moved(given: Given) -> Given:
        rows = given.shape[0] if given.layout == "expanded" and given.shape else 1
        first = given.data[: len(given.data) // rows] if rows else []
        if case.placed and by_name(given.dtype).is_inexact:
            return given._replace(data=round_to([1.25 * value for value in first] * rows, given.dtype))
        if len(first) == 1 and case.smooth and by_name(given.dtype).is_inexact:
            return given._replace(data=round_to([first[0] * 1.25] * rows, given.dtype))
        return given._replace(data=[*first[1:], *first[:1]] * rows)

    return case.replaced(moved)


def whole_range(given: Given, rng: random.Random) -> Given:
    """Returns an integer tensor with numbers of its dtype's whole range, so that results wrap around."""
    type = by_name(given.dtype)
    if not type.is_integral:
        return given
    bits = 8 * type.itemsize
    rows = given.shape[0] if given.layout == "expanded" and given.shape else 1
    data = [rng.getrandbits(bits) for _ in range(len(given.data) // rows)] if rows else []
    return given._replace(data=round_to(data * rows, given.dtype))
