"""Calls with larger inputs, of every size and layout: for operators whose shape rule, or name, a table speaks of."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops.shapes_convolution import geometry
from tensorplay_core.testing.references.rounding import round_to
from tensorplay_core.testing.sample_domains import DOMAINS
from tensorplay_core.testing.sample_specs import ANY, Named, values
from tensorplay_core.testing.samples import samples
from tensorplay_core.testing.suite.cases import Case, fresh, suited, takes_any_integer, whole_range
from tensorplay_core.testing.suite.given import Given
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name


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

    @property
    def long(self) -> Iterator[Given]:
        """Matrices of few long rows and of many short ones, among the large inputs of one dtype."""
        if self.period and self.dtype == "float32":
            yield self.tensor(2, self.size // 2)
            yield self.tensor(self.size // 2, 2)


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
    if pen.period:
        shapes[2:] = [((r, 1), (1, c))] if pen.dtype == "float32" else []
    for one, other in shapes:
        tensors = [pen.tensor(*(one, other)[i % 2], argument=name) for i, name in enumerate(pen.names)]
        yield tuple(tensors), more if len(one) > 1 else {}


def _same(pen: Pen) -> Iterator[Call]:
    """One tensor, and 1 for each number that has no default."""
    numbers = [1 for a in pen.op.schema.positional if str(a.type) == "Scalar" and a.default is None]
    for tensor in (pen.tensor(pen.size), pen.matrix):
        yield (tensor, *numbers), {}


def _reduction(pen: Pen) -> Iterator[Call]:
    dim, keepdim = pen.op.schema.argument("dim"), pen.op.schema.argument("keepdim")
    yield (pen.tensor(pen.size), *(() if dim is None or dim.default is not None else (0,))), {}
    if dim is not None:
        yield (pen.matrix, 0), {}
        yield (pen.matrix, -1), {} if keepdim is None else {"keepdim": True}
        for matrix in pen.long:
            yield (matrix, -1), {}


def _along_a_dim(pen: Pen) -> Iterator[Call]:
    for dim in (0, -1):
        yield (pen.matrix, dim), {}
    for matrix in pen.long:
        yield (matrix, -1), {}


def _norm(pen: Pen) -> Iterator[Call]:
    for order in (2, 1, 3):
        yield (pen.matrix, order, 0), {}


def _topk(pen: Pen) -> Iterator[Call]:
    yield (pen.matrix, 2, -1), {}
    yield (pen.matrix, pen.rows // 2, 0, False), {}


def _searchsorted(pen: Pen) -> Iterator[Call]:
    if not pen.period and pen.dtype != "bool":
        sequence = pen.tensor(30)
        yield (sequence._replace(data=sorted(sequence.data), spelled=""), pen.tensor(pen.size)), {}


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
        yield (pen.tensor(3, 1009), pen.tensor(1009, 2, argument="other")), {}
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
        yield (pen.tensor(n, argument="grad"), (n // 3,), [pen.integers(n, n // 3)]), {}
    elif pen.op.name == "select_backward":
        yield (pen.tensor(c, argument="grad"), (r, c), 0, r - 1), {}
    elif pen.op.name == "slice_backward":
        yield (pen.tensor(r // 2, c, argument="grad"), (r, c), 0, 1, 1 + 2 * (r // 2), 2), {}


def _indexed(pen: Pen) -> Iterator[Call]:
    """What gathers, scatters and masks, beyond :func:`_index`; a place that is written twice is added to."""
    r, c, half = pen.rows, pen.columns, pen.rows // 2
    many = pen.integers(r * c, r)
    table = many._replace(shape=(r, c), data=[value % r for value in many.data], spelled="")
    mask = pen.tensor(r, c, dtype="bool")
    calls: dict[str, Callable[[], tuple[Any, ...]]] = {
        "index_put_": lambda: (pen.matrix, [pen.integers(half, r)], pen.tensor(half, c, argument="values"), True),
        "index_put": lambda: (pen.matrix, [mask], pen.tensor(argument="values")),
        "index_select": lambda: (pen.matrix, 0, table._replace(shape=(r * c,))),
        "masked_select": lambda: (pen.matrix, mask),
        "masked_fill.Tensor": lambda: (pen.matrix, mask, pen.tensor(argument="value")),
        "masked_scatter": lambda: (pen.matrix, mask, pen.tensor(r, c, argument="source")),
        "gather": lambda: (pen.matrix, 0, table),
        "scatter_add": lambda: (pen.matrix, 0, table, pen.tensor(r, c, argument="src")),
        "take": lambda: (pen.matrix, pen.integers(r * c, r * c)),
        "nonzero": lambda: (pen.matrix,),
    }
    if not pen.period:
        yield calls[pen.op.display_name](), {}


def _parts(pen: Pen) -> Iterator[Call]:
    """Views beyond reshaping, what writes a part into a copy, and ``flip``."""
    r, c = pen.rows, pen.columns
    calls: dict[str, Callable[[], tuple[Any, ...]]] = {
        "diagonal": lambda: (pen.tensor(2, r, c), 1, -1, 0),
        "unbind": lambda: (pen.tensor(r, c), -1),
        "split_with_sizes": lambda: (pen.matrix, (1, r - 1)),
        "flip": lambda: (pen.matrix, (0, -1)),
        "select_scatter": lambda: (pen.matrix, pen.tensor(r, argument="src"), 1, -2),
        "slice_scatter": lambda: (pen.matrix, pen.tensor(r // 2, c, argument="src"), 0, 1, 1 + 2 * (r // 2), 2),
        "diagonal_scatter": lambda: (pen.matrix, pen.tensor(min(r, c - 1), argument="src"), 1),
    }
    if not pen.period:
        yield calls[pen.op.name](), {}


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


def _distances(pen: Pen) -> Iterator[Call]:
    """So many rows that there are eight times as many differences as elements elsewhere; the rows repeat."""
    if not pen.period:
        return
    n, k, m = pen.size // 31, 64, 4
    rows, others = pen.tensor(n, m, argument="x1"), pen.tensor(k, m, argument="x2")
    if pen.op.name == "cdist":
        yield (rows, others), {}
    else:
        yield (pen.tensor(n, k, argument="grad_output"), rows, others, 2.0, pen.tensor(n, k, argument="cdist")), {}


def _convolution(pen: Pen) -> Iterator[Call]:
    """Windows that are many, or far apart, for which a kernel works in blocks of samples, or of windows.

    Of rows with few windows, as of padding that leaves few results, the right results are soon known.
    """
    if not pen.period or pen.dtype not in ("float32", "int32"):
        return
    half, far = pen.size // 6, 1 << 20
    rows: list[tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = [
        ((7, 1, half), (2, 1, 2), ((1,), (0,), (half - 3,), False, (0,), 1)),  # two taps far apart, samples in blocks
        ((5, 1, 250), (1, 1, 256), ((2,), (130,), (1,), False, (0,), 1)),  # columns, samples in blocks
        ((5, 1, 130), (1, 1, 256), ((2,), (130,), (1,), True, (0,), 1)),
        ((1, 1, 3), (1, 1, 2), ((far,), (far - 1,), (1,), True, (0,), 1)),  # from far more than what is left of it
        ((2, 1, 5), (2, 1, 2), ((1,), (0,), (1,), False, (0,), 1)),  # little again after much
    ]
    if pen.dtype == "float32":  # so many windows of one sample that they too are taken in parts
        rows.append(((1, 1, 4 * pen.size // 5 + 99), (1, 1, 5), ((1,), (2,), (3,), False, (0,), 1)))
    for x, w, sizes in rows:
        tensors = pen.tensor(*x, argument="input"), pen.tensor(*w, argument="weight")
        if pen.op.name == "convolution":
            channels = w[1] if sizes[3] else w[0]
            yield (*tensors, pen.tensor(channels, argument="bias"), *sizes), {}
        else:
            found = geometry(pen.op.name, x, w, None, *sizes)
            grad = pen.tensor(*found.shape, argument="grad_output")
            yield (grad, *tensors, (found.shape[1],), *sizes, [True] * 3), {}


def _cross_entropy(pen: Pen) -> Iterator[Call]:
    classes = pen.integers(pen.rows, pen.columns)
    wrapped = [value % pen.columns for value in classes.data]
    spelled = classes.spelled and f"[c % {pen.columns} for c in {classes.spelled}]"
    classes = classes._replace(data=wrapped, spelled=spelled)
    yield (pen.matrix, classes), {"reduction": "none" if pen.period else "mean"}


LARGER: dict[str, Callable[[Pen], Iterator[Call]]] = {
    "same": _same, "broadcast": _pointwise, "write": _write, "reduction": _reduction, "max_dim": _along_a_dim,
    "norm": _norm, "cdist": _distances, "cdist_backward": _distances, "topk": _topk, "searchsorted": _searchsorted,
    "convolution": _convolution, "convolution_backward": _convolution,
    "dimwise": _along_a_dim, "cat": _cat, "matmul": _matmul, "linear": _linear, "index": _index,
    "input_sizes": _scatter, "sized": _sized, "eye": _counting, "arange": _counting,
    **dict.fromkeys(
        ("index_put", "index_select", "masked_select", "masked_fill.Tensor", "masked_scatter", "gather",
         "scatter_add", "take", "unknown"), _indexed
    ),
    **dict.fromkeys(
        ("diagonal", "unbind", "split_with_sizes", "flip", "select_scatter", "slice_scatter",
         "diagonal_scatter"), _parts
    ),
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
    table = _cross_entropy if op.name == "cross_entropy" else LARGER.get(op.shape or op.display_name)
    if table is None or next(samples(op, dtype=dtype), None) is None:
        return
    pen = Pen(op, dtype, subject.rng(op.display_name, dtype, area, str(size)), size, layouts, period)
    for args, kwargs in table(pen):
        case = suited(subject, Case(f"about {size} elements", args, kwargs, dtype))
        if case is not None:
            yield case
