"""The conformance suite in several processes at once: each takes an operator at a time, on a device of its own.

A run is fixed by its seed, and each operator draws from a stream of its own, so what is found does not depend on which
process finds it. What a check does to a process, such as a thread that hangs or memory that is lost, stays in it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tensorplay_core.testing.suite.outcome import Outcome

MOST = 8
"""Processes of a run that was not told how many: more would wait for memory."""


class Run(NamedTuple):
    """What every process needs to know.

    Attributes:
        name: the backend.
        namespace: the module that the device is made of, if it is.
        seed: the seed of the run.
        quick: fewer dtypes and samples.
    """

    name: str
    namespace: str | None
    seed: int
    quick: bool


def default_jobs() -> int:
    """Returns how many processes a run of all operators takes: one for each processor that this one may use."""
    return min(MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def outcomes(
    run: Run, names: list[str], steps: list[tuple[str, str]], jobs: int, started: Callable[[str, str], None]
) -> Iterator[Outcome]:
    """Yields what a run finds, in the order of the operators, once all of it is there.

    Args:
        run: what is run.
        names: the operators.
        steps: what the run consists of, as :func:`tensorplay_core.testing.suite.checks.steps` says.
        jobs: how many processes.
        started: is told each step when the operator that it belongs to is done.
    """
    context = multiprocessing.get_context("spawn")  # a fork would share threads' locks and a GPU's context
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(run,)) as pool:
        device = any(not area for _, area in steps)
        tasks: dict[Future[list[Outcome]], str] = {pool.submit(_device): ""} if device else {}
        tasks |= {pool.submit(_operator, name): name for name in names}
        try:
            for task in as_completed(tasks):
                done = tasks[task]
                task.result()
                for name, area in steps:
                    if (name if area else "") == done:
                        started(name, area)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        for task in tasks:
            yield from task.result()


_run: Run | None = None


def _begin(run: Run) -> None:
    global _run
    from tensorplay_core.cli.namespace import backend_of
    from tensorplay_core.plugins import public

    public.load(backend_of(run.name, run.namespace))
    _run = run


def _device() -> list[Outcome]:
    return _found([], device=True)


def _operator(name: str) -> list[Outcome]:
    return _found([name], device=False)


def _found(names: list[str], *, device: bool) -> list[Outcome]:
    from tensorplay_core.testing.suite import checks
    from tensorplay_core.testing.suite.subject import Subject, operators

    assert _run is not None
    known = operators()
    subject = Subject(_run.name, seed=_run.seed, quick=_run.quick, profile=checks.profile_of(_run.name))
    return [*checks.run(subject, {name: known[name] for name in names}, device=device)]
