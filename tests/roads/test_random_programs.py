"""Random programs that nest everything which changes the context leave it as it was, whatever they raise.

``TENSORPLAY_TEST_PROGRAMS`` says how many are tried; 500 unless it is set.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorplay as tp
from tensorplay.autograd import forward_ad
from tensorplay.overrides import TensorPlayMode
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE
from tensorplay_core.dispatch.wrapped import INNERMOST
from tensorplay_core.tensor import dual

PROGRAMS = int(os.environ.get("TENSORPLAY_TEST_PROGRAMS", "500"))
SIZE = 2


class Deliberate(Exception):
    """What a program raises in its midst."""


class Seen(tp.DispatchMode):
    """Sees operators and goes on."""

    def __tensorplay_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Asked(TensorPlayMode):
    """Sees functions and goes on."""

    def __tensorplay_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


Run = Callable[[Any], Any]
"""Part of a program: takes a tensor of two dims and returns one."""


def compute(x: Any) -> Any:
    """A few operators: with a gradient, a new tensor, a view and a write."""
    y = tp.zeros_like(x)
    y[0] = x[0] * 2
    return (y + x.sin()) @ tp.ones(SIZE, SIZE)


def within(make: Callable[[], Any]) -> Callable[[Run], Run]:
    """Returns what runs a part inside of a ``with`` block."""

    def wrapped(inner: Run) -> Run:
        def run(x: Any) -> Any:
            with make():
                return inner(x)

        return run

    return wrapped


def decorated(make: Callable[[], Any]) -> Callable[[Run], Run]:
    return lambda inner: lambda x: make()(lambda: inner(x))()


def in_generator(inner: Run) -> Run:
    """Runs a part in a generator inside of ``no_grad``; the caller's state holds between its steps."""

    def run(x: Any) -> Any:
        @tp.no_grad()
        def steps() -> Iterator[Any]:
            yield inner(x)
            yield x

        before = STATE.get().grad
        stepped = steps()
        found = next(stepped)
        assert STATE.get().grad is before
        stepped.close()
        return found

    return run


def in_thread(inner: Run) -> Run:
    """Runs a part on a plain tensor in a thread, which starts with the defaults."""

    def run(x: Any) -> Any:
        raised: list[BaseException] = []

        def work() -> None:
            try:
                assert STATE.get().grad and INNERMOST.get() is None
                inner(tp.ones(SIZE, SIZE))
            except Deliberate as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]
        return compute(x)

    return run


def caught(inner: Run) -> Run:
    def run(x: Any) -> Any:
        try:
            return inner(x)
        except Deliberate:
            return compute(x)

    return run


def raising(inner: Run) -> Run:
    def run(x: Any) -> Any:
        inner(x)
        raise Deliberate

    return run


def batched(inner: Run) -> Run:
    return lambda x: tp.vmap(inner)(tp.stack([x, x * 2]))[0]


def differentiated(inner: Run) -> Run:
    return lambda x: tp.func.grad(lambda y: inner(y).float().sum())(x)


def along(inner: Run) -> Run:
    return lambda x: tp.func.jvp(inner, (x,), (tp.ones_like(x),))[1]


def dual_level(inner: Run) -> Run:
    def run(x: Any) -> Any:
        if dual.open_level() is not None or STATE.get().inference:
            return inner(x)
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(inner(forward_ad.make_dual(x, tp.ones_like(x)))).primal

    return run


PARTS: dict[str, Callable[[Run], Run]] = {
    "no_grad": within(tp.no_grad),
    "enable_grad": within(tp.enable_grad),
    "inference_mode": within(tp.inference_mode),
    "inference_mode(False)": within(lambda: tp.inference_mode(False)),
    "autocast": within(lambda: tp.autocast("cpu", tp.bfloat16)),
    "autocast off": within(lambda: tp.autocast("cpu", enabled=False)),
    "decorated no_grad": decorated(tp.no_grad),
    "decorated autocast": decorated(lambda: tp.autocast("cpu", tp.float16)),
    "operators seen": within(Seen),
    "functions seen": within(Asked),
    "profile": within(lambda: tp.profiler.profile(record_shapes=True)),
    "generator": in_generator,
    "thread": in_thread,
    "caught": caught,
    "raising": raising,
    "vmap": batched,
    "grad": differentiated,
    "jvp": along,
    "dual level": dual_level,
}

programs = st.lists(st.lists(st.sampled_from(sorted(PARTS)), max_size=6), min_size=1, max_size=3)
"""Several chains, one after the other; the parts of each are nested, the first outermost."""


@settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(programs)
def test_the_context_is_as_it_was(program):
    state = STATE.get()
    counts = active.special, active.grad_off, active.inference, active.levels, active.subclassed
    for chain in program:
        run: Run = compute
        for part in reversed(chain):
            run = PARTS[part](run)
        try:
            found = run(tp.ones(SIZE, SIZE))
        except Deliberate:
            assert "raising" in chain
        except tp.errors.TensorPlayError as error:
            assert "inference" in str(error), error  # recording and inference do not always go together, and say so
        else:
            assert found.shape == (SIZE, SIZE) and found._type.wrapper is None
            found.tolist()
    assert STATE.get() is state and INNERMOST.get() is None and dual.open_level() is None and dual.enabled()
    if (active.special, active.grad_off, active.inference, active.levels, active.subclassed) != counts:
        gc.collect()  # of what an exception's traceback has kept
    assert (active.special, active.grad_off, active.inference, active.levels, active.subclassed) == counts


def test_a_program_is_right_where_everything_is_nested():
    """The derivative of sin(x) is cos(x), also through all of it."""
    chain = ["profile", "functions seen", "operators seen", "enable_grad", "vmap", "grad"]
    run: Run = lambda x: x.sin()  # noqa: E731
    for part in reversed(chain):
        run = PARTS[part](run)
    found = run(tp.full((SIZE, SIZE), 0.5))
    assert found.flatten().tolist() == pytest.approx([0.8775825618903728] * SIZE * SIZE)
