"""Memory: a kernel that remembers the numbers of its calls must forget them again, or a long program runs out of it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import TensorPlayError
from tensorplay_core.ops.arguments import plan_of
from tensorplay_core.testing.suite.calls import Made, Skip
from tensorplay_core.testing.suite.cases import Case, on_samples
from tensorplay_core.testing.suite.device_checks import Check, of_device
from tensorplay_core.testing.suite.outcome import Finding, Outcome
from tensorplay_core.testing.suite.program import Script
from tensorplay_core.testing.suite.subject import Subject, operators
from tensorplay_core.types.schema import BaseType

DTYPES = ("float32", "int32")
CALLS, ROUNDS, APART = 25, 12, 6
"""After each of so many rounds of calls memory is measured, and compared with that of some rounds before."""
LEAST = 32
"""Bytes per call: what remembers a number takes more."""
TRIES = 4
"""A pool of small blocks that is still filling up looks like a cache at first; it is full in the end."""


def memory(subject: Subject) -> Iterator[Outcome]:
    """Calls each operator that takes a number with hundreds of different ones."""
    chosen = [op for op in operators().values() if names_of(op)]
    ready: set[str] = set()
    checks: list[Check] = [partial(_keeps, subject, op, dtype, ready) for dtype in DTYPES for op in chosen]
    yield from of_device(subject, "memory", checks[: len(chosen) if subject.quick else None])


def names_of(op: Operator) -> list[str]:
    """Returns the arguments of an operator on tensors that are numbers; none where it writes to its tensors."""
    takes_tensors = any(a.type.is_tensor for a in op.schema.positional)
    names = [a.name for a in op.schema.arguments if a.type.base is BaseType.SCALAR and not a.type.is_list]
    return names if takes_tensors and not plan_of(op).written else []


def _keeps(subject: Subject, op: Operator, dtype: str, ready: set[str]) -> None:
    """Calls an operator with numbers that core has already; ``ready`` are the dtypes of which it has the first ones."""
    case = next((one for one in on_samples(subject, op, dtype, "memory") if one.tensors), None)
    if case is None or op.function is None:
        raise Skip
    given = Made(subject, op, case).args
    try:
        for tried in (2, 3):
            args, kwargs = _with_number(op, given, case.kwargs, float(tried) if dtype == "float32" else tried)
            op.function(*args, **kwargs)
    except TensorPlayError:  # only some numbers mean anything to it
        raise Skip from None
    grown = 0
    with _traced():
        for again in range(TRIES):
            first = 2 + again * ROUNDS * CALLS
            numbers = [(float if dtype == "float32" else int)(first + k) for k in range(ROUNDS * CALLS)]
            if again or dtype not in ready:
                x = subject.tp.ones(2, dtype=getattr(subject.tp, dtype), device=subject.device)
                for number in numbers:  # now core, which keeps some thousands, has these, and what formulas make
                    _ = x + number, x + -number, x + 1 / number if dtype == "float32" else 0
                ready.add(dtype)
            grown = _growth(op, given, case, numbers)
            if grown <= LEAST * CALLS * APART:
                return
    names = " and ".join(names_of(op))
    what = f"{op.display_name} in {dtype} keeps memory for every {names} that it was ever called with"
    more = f"{grown} bytes more after {CALLS * APART} calls, again and again"
    raise Finding(f"{what}: {more}", _program(subject, op, case))


@contextmanager
def _traced() -> Iterator[None]:
    """Traces memory through all tries: what a pool had before the trace began looks like growth once it is replaced."""
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        yield
    finally:
        if not already:
            tracemalloc.stop()


def _growth(op: Operator, given: tuple[Any, ...], case: Case, numbers: list[Any]) -> int:
    """Returns by how many bytes memory grows at least from a round to that which comes ``APART`` after it.

    What is never forgotten grows alike all the time; a cache that is emptied shrinks between some two of them, and a
    pool of blocks that is filling up grows less and less.
    """
    assert op.function is not None
    frozen = gc.get_freeze_count()
    gc.freeze()  # a collection then looks at what the calls made, and not at all that was there before
    try:
        sizes = []
        for n in range(ROUNDS):
            for number in numbers[n * CALLS : (n + 1) * CALLS]:
                args, kwargs = _with_number(op, given, case.kwargs, number)
                op.function(*args, **kwargs)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        if not frozen:  # else some of it is whoever froze it before
            gc.unfreeze()
    return min(late - early for early, late in zip(sizes[1:], sizes[1 + APART :], strict=False))


def _with_number(
    op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], number: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call with a number in the place of each that it has."""
    positional = [a.name for a in op.schema.positional]
    values = {**dict(zip(positional, args, strict=False)), **kwargs, **dict.fromkeys(names_of(op), number)}
    return tuple([values.pop(name) for name in positional if name in values]), values


class _Spelled:
    """An argument that a program has a name for."""

    def __repr__(self) -> str:
        return "number"


def _program(subject: Subject, op: Operator, case: Case) -> str:
    script = Script(subject.device)
    args, kwargs = _with_number(op, case.args, case.kwargs, _Spelled())
    call = script.call(op, case._replace(args=args, kwargs=kwargs))
    number = "int" if case.dtype == "int32" else "float"
    script.lines.insert(0, "import tracemalloc\n")
    script.add("tracemalloc.start()", "for i in range(1000):", f"    number = {number}(i)", f"    {call}")
    script.add("    if i % 100 == 0:", "        print(tracemalloc.get_traced_memory()[0])")
    return script.text()
