"""Inputs of more than 2**17 elements, where a kernel works in blocks and the last one is not whole.

A reference in Python takes a tenth of a second for so many numbers, so the numbers repeat with a prime period: what a
pointwise operator makes of them repeats too, and only one period has to be computed. A block of a kernel has no such
length, so it cannot hide behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.testing.references import Array
from tensorplay_core.testing.suite.calls import Judge, Made, over
from tensorplay_core.testing.suite.cases import BLOCK, Case
from tensorplay_core.testing.suite.given import LAYOUTS
from tensorplay_core.testing.suite.larger_cases import larger
from tensorplay_core.testing.suite.outcome import Outcome
from tensorplay_core.testing.suite.subject import Subject

DTYPES = ("float32", "int32", "float16", "float64")
PERIODS = (53, 59, 61, 67)


def large(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """One call in a quick run, else several in four dtypes, all but the first on inputs that are not contiguous."""
    for dtype in DTYPES[: 1 if subject.quick else None]:
        if not subject.has(dtype):
            continue
        judge = Judge(subject, op)
        rng = subject.rng(op.display_name, dtype, "large")
        size, period = BLOCK + rng.randrange(1, 2000), rng.choice(PERIODS)

        def of(layouts: tuple[str, ...], first: int, stop: int | None) -> Iterator[Case]:
            return itertools.islice(larger(subject, op, dtype, "large", size, layouts, period), first, stop)  # noqa: B023

        found = of(("c",), 0, 1) if subject.quick else itertools.chain(of(("c",), 0, 1), of(LAYOUTS[1:], 1, None))
        yield from over(judge, "large", dtype, found, partial(once, judge))


def once(judge: Judge, case: Case) -> None:
    """Makes a large call twice and judges the second: the first fills the slot of the fast path."""
    made = Made(judge.subject, judge.op, case)
    expected = repeated(judge, case) or judge.expected(case)
    function = judge.op.function
    if expected is None or function is None:
        return
    writes = bool(plan_of(judge.op).written)
    if not writes:
        judge.call(case, function, made.args, made.kwargs)
    result = judge.call(case, function, made.args, made.kwargs)
    judge.compare(case, result, expected)
    judge.inputs(case, made, skip=int(writes))


def repeated(judge: Judge, case: Case) -> tuple[Array, ...] | None:
    """Returns the right results of a pointwise operator from one period of its inputs; None where there is none."""
    givens = case.tensors
    period = givens[0].period if givens else 0
    if not period or "pointwise" not in judge.op.tags or plan_of(judge.op).written:
        return None
    shape = max((given.shape for given in givens), key=len)
    if any(given.period != period or given.shape not in (shape, shape[-1:]) for given in givens):
        return None
    if len(shape) > 1 and shape[-1] % period:
        return None
    one = case.replaced(lambda given: given._replace(shape=(period,), data=given.data[:period], period=0))
    results = judge.expected(one)
    if results is None:
        return None
    count = len(max((given.data for given in givens), key=len))

    def whole(values: list[Any]) -> list[Any]:
        return (values * (count // period + 1))[:count]

    return tuple(Array(shape, whole(r.data), r.dtype, None if r.slack is None else whole(r.slack)) for r in results)
