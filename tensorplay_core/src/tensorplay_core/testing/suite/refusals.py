"""Bad calls: each must raise an error of TensorPlay's, with its inputs as they were; none may end the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import TensorPlayError
from tensorplay_core.testing.sample_specs import Named
from tensorplay_core.testing.suite.calls import Judge, Made, Skip, over
from tensorplay_core.testing.suite.cases import Case, suited
from tensorplay_core.testing.suite.given import Given
from tensorplay_core.testing.suite.outcome import Outcome
from tensorplay_core.testing.suite.subject import Subject

DEVICE = {"device": Named("device", "")}
Bad = tuple[tuple[Any, ...], dict[str, Any]]


def _t(*shape: int) -> Given:
    count = 1
    for size in shape:
        count *= size
    return Given(shape, [float(k + 1) for k in range(count)], "float32")


def _i(*values: int) -> Given:
    return Given((len(values),), list(values), "int64")


X = _t(2, 3)


def _broadcast(op: Operator) -> Iterator[Bad]:
    if sum(a.type.is_tensor for a in op.schema.positional) == 3:
        yield (Given((4,), [True] * 4, "bool"), X, X), {}
    else:
        yield (X, _t(4, 5)), {}
        yield (X, _t(2)), {}


def _scatter(op: Operator) -> Iterator[Bad]:
    if op.name == "index_backward":
        yield (_t(1), (5,), [_i(9)]), {}
        yield (_t(3), (5,), [_i(1, 2)]), {}
    elif op.name == "select_backward":
        yield (_t(3), (2, 3), 0, 2), {}
    elif op.name == "slice_backward":
        yield (_t(3), (5,), 0, 0, 5, 1), {}


def _sized(op: Operator) -> Iterator[Bad]:
    rest = (1,) if op.schema.argument("fill_value") is not None else ()
    yield ((-1, 2), *rest), DEVICE


def _write(op: Operator) -> Iterator[Bad]:
    if op.name == "copy_":
        yield (X, _t(4)), {}
    elif op.name == "fill_":
        yield (X, "x"), {}


def _each(*bad: tuple[Any, ...]) -> Callable[[Operator], Iterator[Bad]]:
    return lambda op: ((args, {}) for args in bad)


BAD: dict[str, Callable[[Operator], Iterator[Bad]]] = {
    "broadcast": _broadcast, "input_sizes": _scatter, "sized": _sized, "write": _write,
    "reduction": lambda op: ((args, {}) for args in ((X, 2), (X, -3)) if op.schema.argument("dim") is not None),
    "max_dim": _each((X, 2), (X, -3), (_t(0, 3), 0)),
    "dimwise": _each((X, 2), (X, -3)),
    "matmul": _each((X, X), (_t(3), _t(4)), (X, _t()), (_t(2, 2, 3), _t(3, 3, 2))),
    "linear": _each((X, _t(4, 5)), (X, _t(4, 3), _t(5))),
    "reshape": _each((X, (4,)), (X, (-1, -1)), (X, (-1, 4)), (X, (-2, 3))),
    "permute": _each((X, (0, 0)), (X, (0,)), (X, (0, 2))),
    "transpose": _each((X, 0, 2), (X, -3, 0)),
    "expand": _each((X, (4, 3)), (X, (3,)), (_t(1), (-2,))),
    "squeeze": _each((X, 2), (X, (0, 0)), (X, (0, -2))),
    "unsqueeze": _each((X, 3), (X, -4)),
    "select": _each((X, 0, 2), (X, 0, -3), (X, 2, 0), (_t(), 0, 0)),
    "slice": _each((X, 2), (X, 0, 0, 2, 0), (X, 0, 0, 2, -1), (_t(), 0)),
    "cat": _each(([X, _t(2, 4)], 0), ([X, X], 2), ([], 0), ([X, _t(3)], 0)),
    "index": _each((X, [_i(2)]), (X, [_i(0, -3)]), (X, [None, _i(3)]), (X, [_i(0), _i(0), _i(0)])),
    "arange": lambda op: iter([((0, 5, 0), DEVICE), ((0, -5, 1), DEVICE)]),
    "eye": lambda op: iter([((-1,), DEVICE)]),
    "randperm": lambda op: iter([((-1,), DEVICE)]),
}  # fmt: skip


def bad_calls(op: Operator) -> Iterator[Case]:
    """Yields calls of an operator that must raise."""
    if op.name == "cross_entropy":
        yield Case("a class out of range", (X, _i(0, 3)), {}, "float32")
        yield Case("too few classes", (X, _i(0)), {}, "float32")
    for args, kwargs in BAD.get(op.shape or "", _each())(op):
        yield Case("a bad call", args, kwargs, "float32")
    if op.schema.positional and op.schema.positional[0].type.is_tensor:
        rest = [X if a.type.is_tensor else 1 for a in op.schema.positional[1:] if a.default is None]
        yield Case("no tensor", ("x", *rest), {}, "float32")


def errors(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """Every bad call of an operator."""
    judge = Judge(subject, op)

    def check(case: Case) -> None:
        fitting = suited(subject, case)
        if fitting is None:
            raise Skip
        refuses(judge, fitting)

    yield from over(judge, "errors", "", bad_calls(op), check)


def refuses(judge: Judge, case: Case) -> None:
    """Makes a bad call twice, so that the fast path meets it too.

    Raises:
        Finding: it does not raise, or raises what is not TensorPlay's, or has written to an input.
    """
    for _ in range(2):
        made = Made(judge.subject, judge.op, case)
        assert judge.op.function is not None
        try:
            result = judge.op.function(*made.args, **made.kwargs)
        except TensorPlayError:
            judge.calls += 1
        except Exception as error:
            judge.wrong(case, f"raised {type(error).__name__}, which is not TensorPlay's: {error}")
        else:
            judge.wrong(case, f"must raise, and gives {type(result).__name__}")
        judge.inputs(case, made, " raised, and before that it")
