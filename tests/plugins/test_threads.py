"""Threads: a backend is loaded once, its failure is the same for all, and unloading meanwhile crashes nobody."""

from __future__ import annotations

from typing import Any

TOGETHER = """
import threading
def together(work, count=32):
    found, barrier = [None] * count, threading.Barrier(count)
    def run(i):
        barrier.wait()
        try:
            found[i] = work(i)
        except BaseException as error:
            found[i] = [type(error).__name__, str(error)]
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return found
"""
COUNTED = """
import time
LOADS = ["import"]
time.sleep(0.05)

@hookimpl
def tensorplay_register(registry):
    time.sleep(0.05)
    LOADS.append("register")
"""


def test_thirty_two_threads_that_touch_a_backend_at_once_load_it_once(environment: Any) -> None:
    """Show 2."""
    environment.install("toy", COUNTED)
    environment.install("other", "import time\ntime.sleep(0.1)\n")
    environment.install("more", "import tensorplay_toy.plugin as toy\ntoy.LOADS.append('more')\n", device=False,
                        yaml="extends: [toy]\n")  # fmt: skip
    script = (
        TOGETHER
        + """
def work(i):
    x = tp.full((3,), float(i), device=("toy", "other")[i % 4 == 3], requires_grad=True)
    (x * x).sum().backward()
    return [x.grad.tolist(), str(x.device)]
found = together(work)
import sys
record = tp.backends.info("toy")
kernels = len(record.committed.registrations)
held = sum(r.owner == "toy" for op in __import__("tensorplay_core").dispatch.registry.REGISTRY.operators.values()
           for stack in op.table.values() for r in stack)
give([found, sys.modules["tensorplay_toy.plugin"].LOADS, kernels, held])
"""
    )
    found, loads, kernels, held = environment.gives(script)
    for i, result in enumerate(found):
        assert result == [[2.0 * i] * 3, "other:0" if i % 4 == 3 else "toy:0"], (i, result)
    assert loads == ["import", "register", "more"]
    assert kernels == held > 50


def test_a_backend_that_fails_is_tried_once_and_tells_every_thread_the_same(environment: Any) -> None:
    environment.install(
        "bad", "import time, sys\nsys.stdout.write('tried ')\ntime.sleep(0.05)\nraise OSError('no card')\n"
    )  # fmt: skip
    script = TOGETHER + "give(together(lambda i: tp.ones(2, device='bad').tolist()))"
    done = environment.run(script)
    assert (done.code, done.err) == (0, "")
    assert done.out.count("tried") == 1
    assert {kind for kind, _ in done.result} == {"BackendError"}
    messages = {message for _, message in done.result}
    assert len(messages) == 1 and "OSError: no card" in messages.pop()


def test_while_another_thread_unloads_and_loads_a_call_works_or_says_why_not(environment: Any) -> None:
    environment.install("toy")
    script = (
        TOGETHER
        + """
import collections
tp.ones(2, device="toy")
stop, seen, wrong = threading.Event(), collections.Counter(), []

def use(i):
    kept = None
    while not stop.is_set():
        try:
            x = tp.full((2,), float(i), device="toy", requires_grad=True)
            y = x * x + (x if kept is None else kept)
            kept = x.detach()
            y.sum().backward()
            values = [x.tolist(), y.detach().cpu().tolist(), x.grad.tolist()]
            right = values[:2] == [[float(i)] * 2, [float(i * i + i)] * 2] and values[2][0] in (2.0 * i, 2.0 * i + 1)
            if not right:
                wrong.append(values)
            seen["right"] += 1
        except tp.errors.DeviceUnavailable as error:
            if "tensorplay.backends.load('toy')" not in str(error):
                wrong.append(str(error))
            seen["unloaded"] += 1
        except BaseException as error:
            import traceback
            wrong.append(traceback.format_exc())
            return

def swap(i):
    import time
    try:
        for _ in range(60):
            tp.backends.unload("toy")
            time.sleep(0.002)
            tp.backends.load("toy")
            time.sleep(0.004)
    finally:
        stop.set()

together(lambda i: swap(i) if i == 0 else use(i), 7)
cpu_works()
assert (tp.ones(2, device="toy") + 1).tolist() == [2.0, 2.0]
give([seen, wrong[:3], len(wrong), threading.active_count()])
"""
    )
    seen, wrong, count, alive = environment.gives(script)
    assert not count, "\n".join(map(str, wrong))
    assert seen["right"] > 20 and seen["unloaded"] > 0, seen
    assert alive == 1
