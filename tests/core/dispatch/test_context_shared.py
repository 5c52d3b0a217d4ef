"""One scope that several contexts are inside of: each leaves what it has entered itself."""

from __future__ import annotations

import asyncio
import io
import threading
import weakref

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE, State

DEFAULT = State()


@pytest.fixture(autouse=True)
def nothing_stays_open():
    assert STATE.get() == DEFAULT and active.special == 0
    yield
    assert STATE.get() == DEFAULT and active.special == 0


SHARED = {
    "autocast": lambda: tp.autocast("cpu"),
    "no_grad": tp.no_grad,
    "inference_mode": tp.inference_mode,
    "Logging": tp.modes.Logging,
    "FakeMode": tp.modes.FakeMode,
    "TensorPlayMode": tp.overrides.TensorPlayMode,
    "profile": tp.profiler.profile,
    "trace": lambda: tp.profiler.trace(io.StringIO()),
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("first", [0, 1])
def test_threads_in_one_object_each_leave_what_they_have_entered(name, first):
    scope = SHARED[name]()
    turns = [threading.Event() for _ in range(4)]
    left = {}

    def inside(number):
        with scope:
            turns[number].set()
            turns[2 + number].wait(10)
        left[number] = STATE.get() == DEFAULT

    threads = [threading.Thread(target=inside, args=(number,)) for number in (0, 1)]
    for number, thread in enumerate(threads):
        thread.start()
        assert turns[number].wait(10)
    for number in (first, 1 - first):
        turns[2 + number].set()
        threads[number].join(10)
    assert left == {0: True, 1: True}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("first", [0, 1])
def test_tasks_in_one_object_each_leave_what_they_have_entered(name, first):
    scope = SHARED[name]()
    left = {}

    async def main():
        goes = [asyncio.Event(), asyncio.Event()]

        async def inside(number):
            with scope:
                await goes[number].wait()
            left[number] = STATE.get() == DEFAULT

        tasks = [asyncio.create_task(inside(number)) for number in (0, 1)]
        await asyncio.sleep(0)
        for number in (first, 1 - first):
            goes[number].set()
            await tasks[number]

    asyncio.run(main())
    assert left == {0: True, 1: True}


@pytest.mark.parametrize("first", [0, 1])
def test_two_generators_in_one_object(first):
    scope = tp.no_grad()

    def inside():
        with scope:
            yield

    both = [inside(), inside()]
    for one in both:
        next(one)
    assert not tp.is_grad_enabled()
    both[first].close()
    assert not tp.is_grad_enabled()
    both[1 - first].close()
    assert tp.is_grad_enabled()


def test_an_object_that_was_left_is_entered_again():
    mode = tp.set_grad_enabled(False)
    for _ in range(2):
        with mode:
            assert not tp.is_grad_enabled()
        assert tp.is_grad_enabled()


def test_a_mode_is_freed_with_its_last_reference():
    mode = tp.modes.Logging()
    with mode:
        tp.ones(2)
    known = weakref.ref(mode)
    del mode
    assert known() is None
