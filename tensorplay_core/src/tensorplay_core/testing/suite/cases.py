"""Which calls the suite makes: the samples of an operator's shape rule with fresh numbers, and larger inputs.

The samples' own numbers are multiples of 1/8, which float16 holds; a kernel that computes in less than its dtype would
pass. So numbers get random digits of the dtype's full length, except where a sample is about its numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.testing.references.rounding import round_to
from tensorplay_core.testing.sample_maker import DOMAINS
from tensorplay_core.testing.sample_specs import ANY, Named, values
from tensorplay_core.testing.samples import samples
from tensorplay_core.testing.suite.given import Given, described, mapped, tensors_of
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name

WRAPS = ("default", "keep", "bool", "sum")
"""The promote rules of operators on integers that stay integers, whatever their size."""
BOUNDED = frozenset({"pow", "div", "cross_entropy", "matmul", "linear", "index", "index_backward"})
"""Operators that are not tried with integers of the dtype's whole range."""
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
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dtype: str
    smooth: bool = False

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
    return case if subject.has(*case.needs) else None


def on_samples(subject: Subject, op: Operator, dtype: str, area: str = "forward") -> Iterator[Case]:
    """Yields the samples of an operator with fresh numbers, and one with integers of the dtype's whole range."""
    rng = subject.rng(op.display_name, dtype, area)
    wide: Case | None = None
    for sample in samples(op, dtype=dtype, seed=rng.getrandbits(32)):
        args = tuple(map(described, sample.args))
        kwargs = {name: described(value) for name, value in sample.kwargs.items()}
        case = suited(subject, Case(sample.name, args, kwargs, dtype, sample.smooth))
        if case is None:
            continue
        expanded = any(given.layout == "expanded" for given in case.tensors)
        yield case.replaced(lambda given: fresh(given, rng)) if sample.smooth or expanded else case
        if wide is None and sample.smooth and any(len(given.data) > 1 for given in case.tensors):
            wide = case
    if wide is not None and takes_any_integer(op, dtype):
        yield wide.replaced(lambda given: whole_range(given, rng), "integers of the whole range")


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

    What is right for it is something else, so a result that was kept is found; a single number becomes another.
    """

    def moved(given: Given) -> Given:
        rows = given.shape[0] if given.layout == "expanded" and given.shape else 1
        first = given.data[: len(given.data) // rows] if rows else []
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


# ------------------------------------------------------------------------------------------------------ larger inputs


class Pen:
    """Writes the larger calls of one operator: it knows the dtype, the sizes and the layouts.

    Args:
        op: the operator.
        dtype: the dtype of its tensors.
        rng: what numbers are drawn from.
        size: about how many elements a tensor has.
        layouts: the layouts to draw from.
        period: after how many elements the numbers repeat; 0 for never.
    """

    def __init__(
        self, op: Operator, dtype: str, rng: random.Random, size: int, layouts: tuple[str, ...], period: int = 0
    ) -> None:
        """See the class."""
        self.op, self.dtype, self.rng, self.size, self.layouts, self.period = op, dtype, rng, size, layouts, period
        self.columns = 4 * period or rng.randrange(5, 12)
        self.rows = size // self.columns + 1
        self.names = [a.name for a in op.schema.positional if a.type.is_tensor]
        self.any_integer = takes_any_integer(op, dtype) and rng.random() < 0.5

    def tensor(self, *shape: int, argument: str = "self", dtype: str = "", layout: str = "") -> Given:
        """Describes a tensor."""
        dtype = dtype or ("bool" if argument == "condition" else self.dtype)
        count = math.prod(shape)
        drawn = min(count, self.period or count)
        domain = DOMAINS.get(self.op.name, {}).get(argument, ANY)
        data = values(self.rng, drawn, by_name(dtype), domain)
        given = Given(shape, round_to(data, dtype), dtype)
        given = whole_range(given, self.rng) if self.any_integer else fresh(given, self.rng)
        repeated = (given.data * (count // drawn + 1))[:count] if drawn else []
        return given._replace(
            data=repeated, layout=layout or self.rng.choice(self.layouts), period=drawn if drawn < count else 0
        )

    def integers(self, count: int, below: int) -> Given:
        """Describes indices."""
        if not self.period:
            return Given((count,), [self.rng.randrange(-below, below) for _ in range(count)], "int64")
        step = self.rng.choice((7919, 7927, 7933))
        spelled = f"[{step} * i % {below} - {below // 2} for i in range({count})]"
        return Given((count,), [step * i % below - below // 2 for i in range(count)], "int64", spelled=spelled)

    @property
    def matrix(self) -> Given:
        """A matrix of the size."""
        return self.tensor(self.rows, self.columns)


Call = tuple[tuple[Any, ...], dict[str, Any]]


def _pointwise(pen: Pen) -> Iterator[Call]:
    n, r, c = pen.size, pen.rows, pen.columns
    more = {"alpha": 3} if pen.op.schema.argument("alpha") is not None and pen.dtype != "bool" else {}
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((n,), (n,)),
        ((r, c), (c,)),
        ((r, 1), (r, c)),
        ((2, r, c), (r, 1)),
    ]
    for one, other in shapes[: 2 if pen.period else 4]:
        tensors = [pen.tensor(*(one, other)[i % 2], argument=name) for i, name in enumerate(pen.names)]
        yield tuple(tensors), more if len(one) > 1 else {}


def _reduction(pen: Pen) -> Iterator[Call]:
    yield (pen.tensor(pen.size),), {}
    if pen.op.schema.argument("dim") is not None:
        yield (pen.matrix, 0), {}
        yield (pen.matrix, -1, True), {}


def _along_a_dim(pen: Pen) -> Iterator[Call]:
    for dim in (0, -1):
        yield (pen.matrix, dim), {}


def _view(pen: Pen) -> Iterator[Call]:
    r, c = pen.rows, pen.columns
    rest: dict[str, tuple[Any, ...]] = {
        "expand": ((pen.rng.randrange(2, 4), r, c),), "permute": ((1, 0),), "reshape": ((c, r),),
        "select": (-1, c - 1), "slice": (0, 1, -1, 2), "squeeze": (), "transpose": (0, 1), "unsqueeze": (1,),
    }  # fmt: skip
    yield (pen.matrix, *rest[pen.op.shape or ""]), {}


def _cat(pen: Pen) -> Iterator[Call]:
    for dim in (0, 1):
        yield ([pen.matrix, pen.matrix, pen.matrix], dim), {}
    yield ([pen.tensor(0), pen.tensor(pen.size), pen.tensor(0)], 0), {}


def _matmul(pen: Pen) -> Iterator[Call]:
    if pen.period:
        yield (pen.tensor(370, 3), pen.tensor(3, 371)), {}
        yield (pen.tensor(2, pen.size), pen.tensor(pen.size, argument="other")), {}
        return
    r, c, k = (pen.rng.randrange(3, 20) for _ in range(3))
    yield (pen.tensor(r, k), pen.tensor(k, c, argument="other")), {}
    yield (pen.tensor(2, r, k), pen.tensor(k, c, argument="other")), {}


def _linear(pen: Pen) -> Iterator[Call]:
    r, c, k = (365, 361, 3) if pen.period else (pen.rng.randrange(3, 20) for _ in range(3))
    yield (pen.tensor(r, k), pen.tensor(c, k), pen.tensor(c)), {}


def _index(pen: Pen) -> Iterator[Call]:
    yield (pen.tensor(pen.size), [pen.integers(pen.size, pen.size)]), {}
    yield (pen.matrix, [pen.integers(pen.rows // 2, pen.rows)]), {}


def _scatter(pen: Pen) -> Iterator[Call]:
    n, r, c = pen.size, pen.rows, pen.columns
    if pen.op.name == "index_backward":
        yield (pen.tensor(n, argument="grad"), (n,), [pen.integers(n, n)]), {}
    elif pen.op.name == "select_backward":
        yield (pen.tensor(c, argument="grad"), (r, c), 0, r - 1), {}
    elif pen.op.name == "slice_backward":
        yield (pen.tensor(r // 2, c, argument="grad"), (r, c), 0, 1, 1 + 2 * (r // 2), 2), {}


def _write(pen: Pen) -> Iterator[Call]:
    rest = {"copy_": lambda: (pen.tensor(pen.columns),), "fill_": lambda: (1,)}.get(pen.op.name, tuple)
    yield (pen.matrix, *rest()), {}


def _sized(pen: Pen) -> Iterator[Call]:
    rest = (1,) if pen.op.schema.argument("fill_value") is not None else ()
    yield ((pen.rows, pen.columns), *rest), {"dtype": Named("dtype", pen.dtype), "device": Named("device", "")}


def _counting(pen: Pen) -> Iterator[Call]:
    given = {"device": Named("device", "")}
    if pen.op.shape == "eye":
        yield (pen.columns, pen.columns + 100), {"dtype": Named("dtype", pen.dtype), **given}
        return
    yield (3, 3 + 2 * pen.size, 2), given
    if not pen.period and by_name(pen.dtype).kind in "uif":
        typed = {"dtype": Named("dtype", pen.dtype), **given}
        yield (3, 3 + 2 * (pen.size % 50), 2), typed
        yield (1.5, 9.0, 0.75), typed


def _cross_entropy(pen: Pen) -> Iterator[Call]:
    classes = pen.integers(pen.rows, pen.columns)
    wrapped = [value % pen.columns for value in classes.data]
    spelled = classes.spelled and f"[c % {pen.columns} for c in {classes.spelled}]"
    classes = classes._replace(data=wrapped, spelled=spelled)
    yield (pen.matrix, classes), {"reduction": "none" if pen.period else "mean"}


LARGER: dict[str, Callable[[Pen], Iterator[Call]]] = {
    "same": lambda pen: ((args, {}) for args in ((pen.tensor(pen.size),), (pen.matrix,))),
    "broadcast": _pointwise, "write": _write, "reduction": _reduction, "max_dim": _along_a_dim,
    "dimwise": _along_a_dim, "cat": _cat, "matmul": _matmul, "linear": _linear, "index": _index,
    "input_sizes": _scatter, "sized": _sized, "eye": _counting, "arange": _counting,
    **dict.fromkeys(
        ("expand", "permute", "reshape", "select", "slice", "squeeze", "transpose", "unsqueeze"), _view
    ),
}  # fmt: skip


def larger(
    subject: Subject, op: Operator, dtype: str, area: str, size: int, layouts: tuple[str, ...], period: int = 0
) -> Iterator[Case]:
    """Yields calls of an operator with about ``size`` elements in each tensor; none where no table speaks of it.

    Args:
        subject: the device.
        op: the operator.
        dtype: the dtype of its tensors.
        area: the check that asks, whose stream of random numbers is used.
        size: about how many elements.
        layouts: what to draw layouts from.
        period: after how many elements the numbers repeat; 0 for never.
    """
    table = _cross_entropy if op.name == "cross_entropy" else LARGER.get(op.shape or "")
    if table is None or next(samples(op, dtype=dtype), None) is None:
        return
    pen = Pen(op, dtype, subject.rng(op.display_name, dtype, area, str(size)), size, layouts, period)
    for args, kwargs in table(pen):
        case = suited(subject, Case(f"about {size} elements", args, kwargs, dtype))
        if case is not None:
            yield case
