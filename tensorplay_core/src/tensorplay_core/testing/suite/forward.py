"""Forward results: on samples, on inputs that are not contiguous, and in two threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from functools import partial

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.testing.suite.calls import Judge, Made, Skip, examine, over
from tensorplay_core.testing.suite.cases import Case, larger, on_samples
from tensorplay_core.testing.suite.given import LAYOUTS
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name

CALLS_IN_A_THREAD = 4


def forward(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """Every sample of every dtype: results, repeated, on both paths; inputs, memory, and results after later calls."""
    for dtype in subject.checked_dtypes:
        judge = Judge(subject, op)
        yield from over(judge, "forward", dtype, on_samples(subject, op, dtype), partial(examine, judge))


def layouts(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """Fresh random inputs of several sizes, lying in memory in every way."""
    sizes = (30,) if subject.quick else (12, 90, 400)
    for dtype in subject.checked_dtypes:
        judge = Judge(subject, op)
        found = (larger(subject, op, dtype, "layouts", size, LAYOUTS) for size in sizes)
        yield from over(judge, "layouts", dtype, itertools.chain.from_iterable(found), partial(examine, judge))


def threads(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """The same calls in two threads at once, each with inputs of its own."""
    dtype = next((d for d in ("float32", *subject.dtypes) if d in subject.dtypes and by_name(d).is_inexact), None)
    if dtype is None:
        return
    judge = Judge(subject, op)
    cases = list(larger(subject, op, dtype, "threads", 60, LAYOUTS))
    if cases:
        pair = (cases[0], cases[-1])
        yield from over(judge, "threads", dtype, iter(pair[:1]), lambda _: in_threads(judge, pair))


def in_threads(judge: Judge, cases: tuple[Case, Case]) -> None:
    """Makes calls in two threads, and judges them where they were made.

    Raises:
        Finding: the first that was wrong.
    """
    gate = threading.Barrier(2)
    errors: list[BaseException] = []

    def work(case: Case) -> None:
        try:
            made, expected = Made(judge.subject, judge.op, case), judge.expected(case)
            gate.wait(30)
            for _ in range(CALLS_IN_A_THREAD):
                if expected is None or judge.op.function is None:
                    return
                if plan_of(judge.op).written:
                    made = Made(judge.subject, judge.op, case)
                result = judge.call(case, judge.op.function, made.args, made.kwargs, "thread")
                judge.compare(case, result, expected, "thread", ", in another thread,")
        except BaseException as error:
            errors.append(error)
            gate.abort()

    workers = [threading.Thread(target=work, args=(case,), daemon=True) for case in cases]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for kind in (Finding, Skip, BaseException):
        for error in errors:
            if isinstance(error, kind) and not isinstance(error, threading.BrokenBarrierError):
                raise error
