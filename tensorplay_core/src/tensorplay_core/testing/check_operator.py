"""``tp.autograd.check_operator``: everything that an operator's gradient must be, checked at once, for its author.

What each check does is elsewhere: differences in ``gradcheck``, the two modes in
:mod:`~tensorplay_core.testing.differentiation`, what was registered in ``opcheck``. Here they are run over samples, and
told in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from tensorplay_core import public as tp
from tensorplay_core.autograd.api import grad
from tensorplay_core.autograd.gradcheck import gradcheck, gradgradcheck
from tensorplay_core.autograd.jacobians import inexact
from tensorplay_core.autograd.node import NoFormula
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, OpCheckError, TensorPlayError, fix
from tensorplay_core.ops.custom.registration import find
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.testing.differentiation import (
    Called,
    called_with,
    calls,
    forward_agrees,
    is_declared_constant,
    node_of,
    source,
)
from tensorplay_core.testing.opcheck import SUCCESS, opcheck
from tensorplay_core.testing.opcheck_tests import ALL
from tensorplay_core.testing.sample_features import is_finite
from tensorplay_core.testing.sample_specs import Sample
from tensorplay_core.testing.samples import BY_NAME
from tensorplay_core.testing.samples import samples as derived

REGISTERED = tuple(name for name in ALL if name != "test_gradient")
FEW = 3
RTOL, ATOL = 2e-3, 1e-4
"""What a float32 gradient may differ from the float64 one."""


class Row(NamedTuple):
    """What one check found.

    Attributes:
        check: its name.
        dtype: the dtype of the samples.
        samples: how many it ran.
        problem: what is wrong, with the sample's name; None where all is well.
        note: why there was nothing to check.
    """

    check: str
    dtype: str
    samples: int
    problem: str | None = None
    note: str = ""


class Report:
    """What :func:`check_operator` found; printed, it is a table.

    Attributes:
        operator: the operator's name.
        rows: what each check found.
    """

    def __init__(self, operator: str, rows: Iterable[Row]) -> None:
        """See the class."""
        self.operator, self.rows = operator, tuple(rows)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(row.problem is None for row in self.rows)

    def __bool__(self) -> bool:
        """Whether no check failed."""
        return self.ok

    def __str__(self) -> str:
        """Returns the table, and below it what is wrong."""
        lines = [("check", "dtype", "samples", "result")]
        for row in self.rows:
            result = row.note or ("ok" if row.problem is None else "FAILED")
            lines.append((row.check, row.dtype, str(row.samples), result))
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        table = ["  ".join([*(line[i].ljust(widths[i]) for i in range(3)), line[3]]) for line in lines]
        problems = [f"{row.check}, {row.dtype}: {row.problem}" for row in self.rows if row.problem is not None]
        return "\n".join([f"check_operator: {self.operator}", *table, *problems])

    def __repr__(self) -> str:
        """Prints as the table, in a notebook too."""
        return str(self)


def check_operator(
    op: Any,
    *,
    samples: Iterable[Any] | None = None,
    dtypes: Sequence[str] = ("float64", "complex128"),
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> Report:
    """Checks the gradients of an operator in every way there is.

    First and second gradients against finite differences, forward against reverse mode, the in-place form and ``out=``,
    the dtype of gradients, and that the registration tells the truth, as ``tp.library.opcheck`` does.

    Args:
        op: a name such as ``"ns::op"``, an operator of ``tp.ops``, what ``custom_op`` returned, or ``tp.mul``.
        samples: calls to check: each a tuple of arguments, or ``(args, kwargs)`` with a tuple and a dict. Left out,
            they are derived from the schema and the shape rule.
        dtypes: what derived samples are made of: ``"float64"``, ``"complex128"``.
        atol: absolute tolerance of the differences.
        rtol: relative tolerance of the differences.
        raise_exception: raise where a check failed, rather than return.

    Returns:
        A report, whose text is a table; true where all is well.

    Raises:
        OpCheckError: a check failed; the message is the table, and what is wrong.
        ArgumentError: there is no such operator, or no way to make samples for it.

    Example:
        >>> import tensorplay as tp
        >>> print(tp.autograd.check_operator("tanh", dtypes=("float64",)))
        check_operator: tanh
        check            dtype    samples  result
        gradient         float64  6        ok
        second gradient  float64  6        ok
        forward mode     float64  8        ok
        in-place         float64  6        ok
        out=             float64  6        ok
        dtypes           float32  6        ok
        registration     float64  3        ok
    """
    operator = _operator(op)
    given = None if samples is None else [_given(one) for one in samples]
    if given is None and source(operator).shape is None and source(operator).schema.name not in BY_NAME:
        raise ArgumentError(
            f"check_operator: no samples can be derived for {operator.schema}: it names no shape rule"
            + fix("pass some: samples=[(x, y), (x0, y0)], each a tuple of arguments; try 0-d and empty tensors too.")
        )
    rows = [row for dtype in dtypes for row in _of_dtype(operator, dtype, given, {"atol": atol, "rtol": rtol})]
    further = (_dtypes(operator, given), _registration(operator, dtypes[0], given))
    report = Report(operator.display_name, [*rows, *(row for row in further if row is not None)])
    if raise_exception and not report.ok:
        raise OpCheckError(str(report))
    return report


def _operator(op: Any) -> Operator:
    known = next((one for one in REGISTRY.operators.values() if one.function is not None and one.function is op), None)
    return known if known is not None else find(op)


def _given(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, Tensor):
        return (sample,), {}
    if not isinstance(sample, (tuple, list)):
        raise ArgumentError(
            f"check_operator: a sample is a tuple of arguments, not {type(sample).__name__}"
            + fix("write (x,), with a comma, for one argument.")
        )
    if len(sample) == 2 and isinstance(sample[0], (tuple, list)) and isinstance(sample[1], dict):
        return tuple(sample[0]), dict(sample[1])
    return tuple(sample), {}


def _calls(op: Operator, dtype: str, given: Any) -> Iterator[Called]:
    """Yields the calls to check, in a dtype; those that were given only where they have a tensor of its kind."""
    if given is None:
        yield from calls(op, dtype)
        return
    wanted = getattr(tp, dtype)
    for i, (args, kwargs) in enumerate(given):

        def converted(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(map(converted, value))
            if isinstance(value, Tensor) and value.dtype.is_inexact:
                return value.detach().clone().to(wanted if value.is_complex() == wanted.is_complex else value.dtype)
            return value.detach().clone() if isinstance(value, Tensor) else value

        new = converted(args), {name: converted(value) for name, value in kwargs.items()}
        made = called_with(op, Sample((), {}, f"number {i}"), *new)
        if any(t.dtype is wanted for t in made.tensors):
            yield made


def _of_dtype(op: Operator, dtype: str, given: Any, tolerance: dict[str, float]) -> Iterator[Row]:
    every = list(_calls(op, dtype, given))
    every = [call for call in every if call.tensors and inexact(call.function(*call.tensors))]
    if not every:
        yield Row("gradient", dtype, 0, note="it takes no such tensors, or returns none")
        return
    if is_declared_constant(op):
        yield Row("gradient", dtype, 0, note="it is declared not differentiable")
        return
    smooth = [call for call in every if call.sample.smooth]
    if isinstance(node_of(every[0].function(*every[0].tensors)), NoFormula):
        yield Row("gradient", dtype, len(every), problem="it has no gradient formula, so a backward pass raises")
        return
    yield _row("gradient", dtype, smooth, lambda c: _raised(gradcheck, c, tolerance))
    yield _row("second gradient", dtype, smooth, lambda c: _raised(gradgradcheck, c, tolerance))
    yield _row("forward mode", dtype, every, lambda c: forward_agrees(c.function, c.tensors))
    form = next((one for one in REGISTRY.operators.values() if one.functional is op), None)
    if form is not None and given is None:
        written = [call for call in calls(form, dtype) if call.sample.smooth]
        yield _row("in-place", dtype, written, lambda c: _raised(gradcheck, c, tolerance))
    if given is None and _takes_out(op):
        yield _row("out=", dtype, smooth, partial(_out, op))


def _row(check: str, dtype: str, every: Sequence[Called], judge: Callable[[Called], str | None]) -> Row:
    for call in every:
        try:
            problem = judge(call)
        except TensorPlayError as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            return Row(check, dtype, len(every), f"sample {call.sample.name!r}: {problem}")
    return Row(check, dtype, len(every))


def _raised(check: Callable[..., bool], call: Called, tolerance: dict[str, float]) -> str | None:
    check(call.function, call.tensors, **tolerance)
    return None


def _takes_out(op: Operator) -> bool:
    import inspect

    return op.function is not None and "out" in inspect.signature(op.function).parameters


def _out(op: Operator, call: Called) -> str | None:
    """Compares ``out=`` with the result, and wants it refused where a gradient would be lost."""
    args, kwargs = call.sample.build(tp)
    assert op.function is not None
    expected = op.function(*args, **kwargs)
    results = expected if isinstance(expected, tuple) else (expected,)
    made = tuple([y.new_zeros(y.shape) for y in results])
    out: Any = made if isinstance(expected, tuple) else made[0]
    op.function(*args, **kwargs, out=out)
    for y, written in zip(results, made, strict=True):
        if y.tolist() != written.tolist() and not (y != y).any():
            return "what out= receives is not the result"
    return None


def _dtypes(op: Operator, given: Any) -> Row | None:
    """Checks that float32 gradients are float32, and near those of float64."""
    if is_declared_constant(op):
        return None
    narrow = [call for call in _calls(op, "float32", given) if call.tensors and call.sample.smooth]
    if not narrow:
        return None

    def judge(call: Called) -> str | None:
        wide = [t.detach().to(tp.float64).requires_grad_() for t in call.tensors]
        found, expected = _gradients(call.function, call.tensors), _gradients(call.function, wide)
        for x, g, w in zip(call.tensors, found, expected, strict=True):
            if g is None or w is None:
                continue
            if g.dtype is not x.dtype:
                return f"the gradient of a {x.dtype.name} tensor is {g.dtype.name}"
            for a, b in zip(_numbers(g), _numbers(w), strict=True):
                if abs(a - b) > ATOL + RTOL * abs(b):
                    return f"a gradient is {a!r} in float32 and {b!r} in float64"
        return None

    return _row("dtypes", "float32", narrow, judge)


def _numbers(t: Tensor) -> list[Any]:
    return t.reshape(-1).tolist()  # type: ignore[no-any-return]


def _gradients(function: Callable[..., Any], tensors: list[Tensor]) -> Sequence[Tensor | None]:
    roots = [y for y in inexact(function(*tensors)) if y.requires_grad]
    if not roots:
        return [None] * len(tensors)
    return grad(roots, tensors, [y.new_ones(y.shape) for y in roots], allow_unused=True)


def _registration(op: Operator, dtype: str, given: Any) -> Row | None:
    """Runs ``opcheck`` on the first few samples: what needs no differences."""
    if given is None:
        found = (s for s in derived(source(op), dtype=dtype) if s.smooth and is_finite(s))
        built = [s.build(tp) for s, _ in zip(found, range(FEW), strict=False)]
    else:
        built = given[:FEW]
    if not built or op.is_inplace:
        return None
    target = op.function if op.function is not None else op.qualified_name
    for args, kwargs in built:
        results = opcheck(target, args, kwargs, test_utils=REGISTERED, raise_exception=False)
        for name, result in results.items():
            if result != SUCCESS:
                return Row("registration", dtype, len(built), f"{name}: {result}")
    return Row("registration", dtype, len(built))
