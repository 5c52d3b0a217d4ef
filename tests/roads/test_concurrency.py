"""Threads and tables: readers take no lock, and no stale kernel stays in a slot."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import KernelMissing

THREADS, CHANGES = 8, 10_000
Library = tp.library.Library


def in_threads(count, function):
    """Runs a function in threads that start together; returns what they raised."""
    errors, barrier = [], threading.Barrier(count)

    def run(i):
        barrier.wait()
        try:
            function(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads, errors


@pytest.fixture
def often():
    """Lets threads take turns much more often than the interpreter would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("with_grad", [False, True], ids=["plain", "recording"])
def test_eight_threads_call_add_while_another_overrides_and_undoes_its_kernel(with_grad):
    """Every result is one kernel's, never a mixture, and afterwards it is the table's."""
    changes = CHANGES if not with_grad else CHANGES // 10
    x = tp.tensor([1.0, 2.0, 3.0], requires_grad=with_grad)
    y = tp.tensor([10.0, 20.0, 30.0])
    ours, theirs = [11.0, 22.0, 33.0], [-9.0, -18.0, -27.0]
    op = REGISTRY.find("add")
    table = dict(op.table)
    stop = threading.Event()
    counts = [[0, 0] for _ in range(THREADS)]

    def call(i):
        mine = counts[i]
        while not stop.is_set():
            for _ in range(8):
                found = (x + y).tolist()
                if found == ours:
                    mine[0] += 1
                elif found == theirs:
                    mine[1] += 1
                else:
                    raise AssertionError(found)
            time.sleep(0.002)  # the thread that changes the table needs the interpreter too

    threads, errors = in_threads(THREADS, call)
    try:
        for i in range(changes):
            staging = REGISTRY.stage("racing", "racing-distribution")
            staging.impl("add", "CPU", lambda a, b: a - b, override=True)
            committed = staging.commit()
            if i % 100 == 0:  # in the thread that changes the table, the change is in force at once
                assert (x + y).tolist() == theirs
            committed.undo()
            if i % 100 == 0:
                assert (x + y).tolist() == ours
                time.sleep(0)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not errors and all(sum(mine) for mine in counts)
    assert sum(mine[0] for mine in counts) and sum(mine[1] for mine in counts)  # both kernels were met
    assert dict(op.table) == table
    assert [(x + y).tolist() for _ in range(3)] == [ours] * 3


@pytest.mark.usefixtures("often")
def test_a_change_that_ended_before_a_call_began_is_seen_by_it():
    """No thread is served by a kernel that left before its call started."""
    x = tp.ones(4)
    epoch, stop = [0], threading.Event()

    def call(i):
        while not stop.is_set():
            before = epoch[0]
            value = (x * x)[0].item()
            after = epoch[0]
            # Kernel n was in force at some time between the two looks at the clock.
            assert before - 1 <= value - 1 <= after + 1, (before, value, after)

    threads, errors = in_threads(4, call)
    with closing(Library("tp", "IMPL")) as lib:
        for n in range(1, 500):
            # The same owner replaces its own.
            lib.impl("mul", lambda a, b, n=n: a * b + n, "CPU", override=True)
            epoch[0] = n
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not errors
    assert (x * x)[0].item() == 1.0


@pytest.mark.usefixtures("often")
def test_threads_that_define_and_drop_operators_do_not_meet():
    def define(i):
        for n in range(40):
            with closing(Library(f"thread{i}", "DEF")) as lib:
                lib.define("op(Tensor x) -> Tensor")
                lib.impl("op", lambda x, n=n: x + n, "Composite")
                assert getattr(tp.ops, f"thread{i}").op(tp.ones(1)).item() == 1.0 + n
                assert f"thread{i}" in dir(tp.ops)

    threads, errors = in_threads(6, define)
    for thread in threads:
        thread.join(60)
    assert not errors
    assert not [name for name in REGISTRY.operators if name.startswith("thread")]


@pytest.mark.usefixtures("often")
def test_a_kernel_that_comes_and_goes_is_either_there_or_missing():
    with closing(Library("comes", "DEF")) as lib:
        lib.define("op(Tensor x) -> Tensor")
        stop, seen = threading.Event(), set()

        def call(i):
            x = tp.ones(1)
            while not stop.is_set():
                try:
                    seen.add(tp.ops.comes.op(x).item())
                except KernelMissing:
                    seen.add("missing")

        threads, errors = in_threads(4, call)
        for _ in range(300):
            with closing(Library("comes", "IMPL")) as other:
                other.impl("op", lambda x: x * 7, "CPU")
        stop.set()
        for thread in threads:
            thread.join(30)
        assert not errors and seen <= {7.0, "missing"}


def test_gradients_recorded_in_several_threads_are_right():
    results = [None] * 6

    def train(i):
        w = tp.tensor([float(i)], requires_grad=True)
        for _ in range(50):
            w.grad = None
            (w * w * 3).sum().backward()
        results[i] = w.grad.item()

    threads, errors = in_threads(6, train)
    for thread in threads:
        thread.join(60)
    assert not errors and results == [6.0 * i for i in range(6)]
