"""The context of a call: scopes restore it whatever happens, and it never disagrees with the fast path's counters."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE, Scope, State, exclude, include
from tensorplay_core.dispatch.keys import AUTOGRAD, FAMILIES, DispatchKey
from tensorplay_core.testing import force_slow_path

DEFAULT = State()


def counters():
    return active.special, active.grad_off, active.inference


@pytest.fixture(autouse=True)
def nothing_stays_open():
    assert STATE.get() == DEFAULT and counters() == (0, 0, 0)
    yield
    assert STATE.get() == DEFAULT and counters() == (0, 0, 0)


def records(slow=False):
    """Whether a multiplication records a gradient, on the fast path or on the slow one."""
    x = tp.ones(2, requires_grad=True)
    if slow:
        with force_slow_path():
            return (x * x).requires_grad
    x * x  # fills the slot
    return (x * x).requires_grad


def agree():
    """The fast path, the slow path and the question have one answer."""
    answer = tp.is_grad_enabled()
    assert records() is answer and records(slow=True) is answer
    return answer


def test_defaults():
    state = STATE.get()
    assert (state.include, state.exclude, state.grad, state.inference, state.probe) == (0, 0, True, False, None)
    assert agree()


def test_include_and_exclude_add_up_and_are_restored():
    with include(1 << 12), exclude(1 << 17), include(1 << 5):
        assert STATE.get().include == 1 << 12 | 1 << 5
        assert STATE.get().exclude == 1 << 17
        assert counters() == (3, 0, 0)


def test_excluding_autograd_sets_the_state_that_no_grad_sets():
    with exclude(AUTOGRAD):
        assert counters() == (0, 1, 0)
        assert agree() is False
        with tp.enable_grad():  # the steps are still excluded: nothing could be recorded
            assert agree() is False
    with exclude(FAMILIES["Vmap"]):
        assert agree() is True


def test_excluding_leaves_the_key_out_of_every_call():
    seen = []
    lib = tp.library.Library("tp", "IMPL")

    def spy(keys, self):
        seen.append(keys)
        return tp.ops.tp.tanh.default.redispatch(keys.below(DispatchKey.AutogradCPU), self)

    lib.impl("tanh", spy, "AutogradCPU", with_keyset=True)
    try:
        tp.tanh(tp.ones(2))
        with exclude(AUTOGRAD):
            tp.tanh(tp.ones(2))
        with tp.inference_mode():
            tp.tanh(tp.ones(2))
        assert len(seen) == 1 and seen[0].bits == 1 << 0 | 1 << 7
    finally:
        lib.close()


@pytest.mark.parametrize(
    ("scope", "open_counters"),
    [
        (tp.no_grad, (0, 1, 0)),
        (tp.inference_mode, (0, 1, 1)),
        (lambda: tp.set_grad_enabled(False), (0, 1, 0)),
        (tp.enable_grad, (0, 0, 0)),
        (lambda: include(1 << 5), (1, 0, 0)),
        (lambda: exclude(1 << 17), (1, 0, 0)),
    ],
    ids=["no_grad", "inference_mode", "set_grad_enabled", "enable_grad", "include", "exclude"],
)
def test_state_and_counters_are_restored_after_exceptions(scope, open_counters):
    with pytest.raises(ZeroDivisionError), scope():
        assert counters() == open_counters
        raise ZeroDivisionError
    assert counters() == (0, 0, 0) and STATE.get() == DEFAULT
    with pytest.raises(tp.ShapeError), scope():
        tp.ones(2) + tp.ones(3)
    with pytest.raises(KeyboardInterrupt), scope():
        raise KeyboardInterrupt


def test_scopes_nest_and_one_object_can_be_entered_again():
    scope = tp.no_grad()
    with scope, scope:
        assert counters() == (0, 2, 0) and agree() is False
        with tp.enable_grad():
            assert agree() is True
        assert agree() is False


def test_a_redispatch_that_raises_restores_the_state():
    lib = tp.library.Library("tp", "IMPL")

    def fails(keys, self):
        raise ValueError("inside")

    lib.impl("exp", fails, "CPU", override=True, level="tensor", with_keyset=True)
    try:
        with pytest.raises(ValueError, match="inside"):
            tp.exp(tp.ones(2, requires_grad=True))
        assert STATE.get() == DEFAULT
    finally:
        lib.close()


# ------------------------------------------------------------------------------------------ threads, tasks, generators


def test_new_threads_start_with_the_defaults():
    answers = []
    with tp.no_grad(), include(1 << 12):
        thread = threading.Thread(
            target=lambda: answers.append((STATE.get() == DEFAULT, tp.is_grad_enabled(), records()))
        )
        thread.start()
        thread.join()
    assert answers == [(True, True, True)]


def test_a_scope_in_one_thread_changes_nothing_in_another():
    inside, done = threading.Event(), threading.Event()

    def other():
        with tp.inference_mode():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    try:
        assert counters() == (0, 1, 1) and agree() is True
        assert not tp.ones(2).is_inference() and not (tp.ones(2) + tp.ones(2)).is_inference()
    finally:
        done.set()
        thread.join()


def test_an_async_task_has_a_context_of_its_own():
    async def without(gate):
        with tp.no_grad():
            await gate.wait()
            return agree()

    async def with_gradient(gate):
        answer = agree()
        gate.set()
        await asyncio.sleep(0)
        return answer, agree()

    async def main():
        gate = asyncio.Event()
        return await asyncio.gather(without(gate), with_gradient(gate))

    assert asyncio.run(main()) == [False, (True, True)]


def test_a_task_started_inside_a_scope_keeps_its_state_on_both_paths():
    """The counters follow the states that are alive, or the fast path, which trusts them, and the slow one would
    differ.
    """

    async def task(gate):
        first = agree()
        await gate.wait()
        with tp.enable_grad():
            inner = agree()
        return first, inner, agree()

    async def main():
        gate = asyncio.Event()
        with tp.no_grad():
            inside = asyncio.create_task(task(gate))
            await asyncio.sleep(0)
        outside = agree()
        gate.set()
        return outside, await inside

    assert asyncio.run(main()) == (True, (False, True, False))
    assert counters() == (0, 0, 0)


def test_a_task_started_in_inference_mode_stays_in_it():
    async def task(gate):
        await gate.wait()
        x = tp.ones(2)
        with force_slow_path():
            slow = x + x
        return x.is_inference(), (x + x).is_inference(), slow.is_inference()

    async def main():
        gate = asyncio.Event()
        with tp.inference_mode():
            inside = asyncio.create_task(task(gate))
            await asyncio.sleep(0)
        gate.set()
        return tp.ones(2).is_inference(), await inside

    assert asyncio.run(main()) == (False, (True, True, True))
    assert counters() == (0, 0, 0)


def test_a_mode_set_by_a_call_ends_with_the_scope_around_it():
    with tp.enable_grad():
        tp.set_grad_enabled(False)
        assert agree() is False
    assert agree() is True and counters() == (0, 0, 0)


def test_scopes_that_close_in_another_order_leave_the_defaults():
    first, second = tp.no_grad(), Scope(include=1 << 12)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert STATE.get() == DEFAULT and agree()


def test_a_generator_closed_in_another_context_leaves_the_defaults():
    def generator():
        with tp.no_grad():
            yield

    running = generator()
    contextvars.copy_context().run(next, running)
    running.close()
    assert agree()


def test_states_of_a_long_loop_inside_a_scope_are_not_kept():
    with tp.no_grad():
        for _ in range(100):
            with exclude(1 << 17):
                pass
        assert STATE.get().beneath == DEFAULT and counters() == (0, 1, 0)


def test_a_decorated_function_has_its_scope_and_leaves_it():
    @tp.no_grad()
    def function(fail):
        assert agree() is False
        if fail:
            raise ValueError
        return 3

    assert function(False) == 3 and agree()
    with pytest.raises(ValueError):
        function(True)
    assert function.__name__ == "function"


def test_a_decorated_coroutine_is_in_its_scope_while_others_run_outside():
    @tp.no_grad()
    async def inside(gate):
        await gate.wait()
        return agree()

    async def main():
        gate = asyncio.Event()
        task = asyncio.create_task(inside(gate))
        await asyncio.sleep(0)
        outside = agree()
        gate.set()
        return outside, await task

    assert asyncio.run(main()) == (True, False)

    async def yields():
        yield 1

    with pytest.raises(TypeError, match="an asynchronous generator"):
        tp.no_grad()(yields)


@pytest.mark.parametrize("mode", [tp.no_grad, tp.inference_mode, lambda: tp.set_grad_enabled(False)])
def test_a_decorated_generator_is_in_its_scope_only_while_it_runs(mode):
    closed = []

    @mode()
    def generator():
        try:
            sent = yield tp.is_grad_enabled()
            try:
                yield sent, tp.is_grad_enabled()
            except KeyError:
                yield "caught", tp.is_grad_enabled()
            return "returned"
        finally:
            closed.append(tp.is_grad_enabled())

    running = generator()
    assert counters() == (0, 0, 0)
    assert next(running) is False and agree() is True
    assert running.send(5) == (5, False) and agree() is True
    assert running.throw(KeyError) == ("caught", False) and agree() is True
    with pytest.raises(StopIteration) as info:
        next(running)
    assert info.value.value == "returned" and closed == [False]
    again = generator()
    next(again)
    again.close()
    assert closed == [False, False]
    other = generator()
    next(other)
    del other
    gc.collect()
    assert closed == [False] * 3


def test_a_decorated_generator_passes_its_errors_on():
    @tp.no_grad()
    def generator():
        yield 1
        raise ValueError("mine")

    running = generator()
    next(running)
    with pytest.raises(ValueError, match="mine"):
        next(running)


@pytest.mark.parametrize("mode", [tp.no_grad, tp.inference_mode, force_slow_path])
def test_counters_return_to_zero_from_many_threads(mode):
    barrier = threading.Barrier(4)

    def loop():
        barrier.wait()
        for i in range(200):
            try:
                with mode():
                    if i % 3 == 0:
                        raise ValueError
            except ValueError:
                pass

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters() == (0, 0, 0)
