"""Forward results: on samples, on inputs that are not contiguous, and in two threads."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.testing.suite.calls import Judge, Made, Skip, bits_of, over
from tensorplay_core.testing.suite.cases import Case, on_samples, renewed
from tensorplay_core.testing.suite.distributions import distributed, drawn
from tensorplay_core.testing.suite.examination import examine
from tensorplay_core.testing.suite.given import LAYOUTS
from tensorplay_core.testing.suite.interleaving import Pair, Stopping
from tensorplay_core.testing.suite.larger_cases import larger
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.subject import Subject
from tensorplay_core.types.dtype import by_name

LEAST_CALLS, MOST_CALLS, LONG_ENOUGH = 24, 200, 0.03
"""How many calls a thread makes: the least, the most, and the seconds after which it makes no more."""


def forward(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """Every sample of every dtype: results, repeated, on both paths; inputs, memory, and results after later calls."""
    for dtype in subject.checked_dtypes:
        judge = Judge(subject, op)
        yield from over(judge, "forward", dtype, on_samples(subject, op, dtype), partial(examine, judge))
        if "random" in op.tags:
            yield from _of_many(subject, op, dtype)


def _of_many(subject: Subject, op: Operator, dtype: str) -> Iterator[Outcome]:
    """What an operator draws, thousands of numbers at once."""
    found = [*drawn(subject, op, dtype)]
    if found:
        judge, draws = Judge(subject, op), {id(case): draw for case, draw in found}
        cases = (case for case, _ in found)
        yield from over(judge, "forward", dtype, cases, lambda case: distributed(judge, case, draws[id(case)]))


def layouts(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """Fresh random inputs of several sizes, lying in memory in every way."""
    sizes = (30,) if subject.quick else (12, 90, 400)
    for dtype in subject.checked_dtypes:
        judge = Judge(subject, op)
        found = (larger(subject, op, dtype, "layouts", size, LAYOUTS) for size in sizes)
        yield from over(judge, "layouts", dtype, itertools.chain.from_iterable(found), partial(examine, judge))


def threads(subject: Subject, op: Operator) -> Iterator[Outcome]:
    """The same calls in two threads at once, each with inputs of its own."""
    inexact = [d for d in ("float32", *subject.dtypes) if d in subject.dtypes and by_name(d).is_inexact]
    for dtype in inexact[:1] or subject.checked_dtypes:
        yield from _threads_of(subject, op, dtype)


def _threads_of(subject: Subject, op: Operator, dtype: str) -> Iterator[Outcome]:
    judge = Judge(subject, op)
    cases = list(larger(subject, op, dtype, "threads", 60, LAYOUTS))
    if cases:
        at_once = [one for case in (cases[0], cases[-1]) for one in (case, renewed(case))]
        yield from over(judge, "threads", dtype, iter(at_once[:1]), lambda _: in_threads(judge, at_once))


def in_threads(judge: Judge, cases: Sequence[Case]) -> None:
    """Makes each call in a thread of its own, many times, and judges them where they were made.

    Two cases that follow each other have the same shapes and other numbers: each of their threads stops at lines of the
    kernel until the other has made a call, so a kernel with a buffer of its own is met in the middle.

    Raises:
        Finding: the first that was wrong.
    """
    gate = threading.Barrier(len(cases))
    pairs = [Pair() for _ in cases[::2]]
    errors: dict[int, BaseException] = {}

    def work(i: int) -> None:
        try:
            _calls(judge, cases[i], gate, pairs[i // 2])
        except BaseException as error:
            errors[i] = error
        finally:
            pairs[i // 2].end()

    workers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(cases))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for kind in (Finding, Skip, BaseException):
        for _, error in sorted(errors.items()):
            if isinstance(error, kind) and not isinstance(error, threading.BrokenBarrierError):
                raise error


def _calls(judge: Judge, case: Case, gate: threading.Barrier, pair: Pair) -> None:
    """Makes a call many times in this thread, once the others are ready too; results are compared at the end."""
    function, written = judge.op.function, bool(plan_of(judge.op).written)
    try:
        expected = judge.expected(case)
        made = [Made(judge.subject, judge.op, case) for _ in range(LEAST_CALLS if written else 1)]
    except BaseException:
        gate.abort()
        raise
    gate.wait(30)
    if expected is None or function is None:
        return
    results: list[Any] = []
    stopping, end = Stopping(pair), time.perf_counter() + LONG_ENOUGH
    for i in range(LEAST_CALLS if written else MOST_CALLS):
        inputs = made[i if written else 0]
        with stopping:
            results.append(judge.call(case, function, inputs.args, inputs.kwargs, "thread"))
        if i >= LEAST_CALLS and time.perf_counter() > end:
            break
    right: set[bytes] = set()
    for result in results:
        bits = b"".join(map(bits_of, result if isinstance(result, tuple) else (result,)))
        if bits not in right:  # most are the same, and were compared
            judge.compare(case, result, expected, "thread", ", in another thread,")
            right.add(bits)
