"""Processes: what a fork does to a backend that has started, to one that has not, and to a load that is under way."""

from __future__ import annotations

from typing import Any

CHILD = """
import multiprocessing, os, signal, threading, time, traceback
# Python 3.12 and later warn of a fork beside another thread, also one that has ended and that the system still counts.
warnings.filterwarnings("ignore", "This process", DeprecationWarning)
def in_child(work, limit=30):
    there, here = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(limit)  # a deadlock ends the child, not the test
        os.close(there)
        try:
            text = json.dumps(work())
        except BaseException:
            text = json.dumps("FAILED " + traceback.format_exc())
        os.write(here, text.encode())
        os._exit(0)
    os.close(here)
    with os.fdopen(there) as pipe:
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, (text, "the child hung or died")
    return json.loads(text)

def works(name):
    x = tp.tensor([1.0, 2.0], device=name, requires_grad=True)
    (x * x).sum().backward()
    return [(x + x).tolist(), x.grad.tolist()]
"""
RIGHT = [[2.0, 4.0], [2.0, 4.0]]
LOST = """
class Lost(ArrayDevice):
    survives_fork = False

    def from_host(self, host, index):
        import os
        assert os.getpid() == PID, "the driver of the parent was used in the child"
        return super().from_host(host, index)

    from_list = ArrayDevice.from_list

import os
PID = os.getpid()
DEVICE = Lost(numpy)

@library_impl("lost", "Lost")
def _(m):
    for op, kernel in kernels(numpy, random=DEVICE.random).items():
        m.impl(op, kernel)

@hookimpl
def tensorplay_probe():
    return Availability(ok=True, device_count=1)

@hookimpl
def tensorplay_device():
    return DEVICE
"""


def test_a_forked_child_uses_what_has_started_and_starts_what_has_not(environment: Any) -> None:
    for name in ("toy", "late"):
        environment.install(name)
    script = (
        CHILD
        + """
kept = tp.ones(2, device="toy", requires_grad=True)
loss = (kept * 3).sum()
def child():
    loss.backward()
    return [works("toy"), works("late"), works("cpu"), kept.grad.tolist(), [str(r.state) for r in tp.backends.list()]]
first = in_child(child)
def grandchild():
    return in_child(child)
second = in_child(grandchild)
def worker(queue, name):
    queue.put(works(name))
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=worker, args=(queue, "late"))
process.start()
third = queue.get(timeout=30)
process.join(30)
with context.Pool(2) as pool:
    fourth = pool.map(works, ["toy", "late"])
give([first, second, third, fourth, kept.grad, str(tp.backends.info("late").state)])
"""
    )
    first, second, third, fourth, grad, late = environment.gives(script)
    for seen in (first, second):
        assert seen[:4] == [RIGHT, RIGHT, RIGHT, [3.0, 3.0]]
        assert set(seen[4]) <= {"active", "unavailable"}
    assert (third, fourth) == (RIGHT, [RIGHT, RIGHT])
    assert (grad, late) == (None, "discovered")  # what the children did stayed with them


def test_a_fork_while_another_thread_loads_does_not_hang_the_child(environment: Any) -> None:
    environment.install("toy")
    environment.install("slow", "import time\ntime.sleep(1.0)\n")
    environment.install("lazy", "@hookimpl\ndef tensorplay_register(registry):\n    import time\n    time.sleep(1.0)\n")
    script = (
        CHILD
        + """
seen = {}
for name in ("lazy", "slow"):
    thread = threading.Thread(target=works, args=(name,))
    thread.start()
    while not (record := tp.backends.info(name)).stage and not record.state == "active":
        time.sleep(0.005)
    time.sleep(0.1)
    assert str(record.state) == "discovered", record  # the load is under way, and holds the lock
    def child():
        other = works("toy")
        try:
            same = works(name)
        except tp.TensorPlayError as error:
            same = str(error)
        return [other, same]
    seen[name] = in_child(child)
    thread.join()
    seen[name + " parent"] = works(name)
give(seen)
"""
    )
    seen = environment.gives(script)
    assert seen["lazy"] == [RIGHT, RIGHT]
    assert seen["slow"][0] == RIGHT
    # Its module is half executed by a thread that the child does not have.
    assert seen["slow"][1] == RIGHT or ("slow" in seen["slow"][1] and "fix:" in seen["slow"][1])
    assert seen["lazy parent"] == seen["slow parent"] == RIGHT


def test_a_backend_that_does_not_survive_a_fork_says_so_in_the_child_and_works_in_a_spawned_one(
    environment: Any,
) -> None:
    environment.install("lost", LOST, device=False)
    script = (
        CHILD
        + """
before = in_child(lambda: works("cpu"))
x = tp.ones(2, device="lost")
def child():
    calls = [lambda: tp.ones(2, device="lost"), lambda: tp.ones(2).to("lost"), lambda: x + x,
             lambda: tp.tensor([1.0], device="lost"), lambda: tp.set_default_device("lost"),
             lambda: tp.backends.load("lost")]
    once, again = [[raised(call)[:2] for call in calls] for _ in range(2)]
    assert once == again, (once, again)
    cpu_works()
    return [once, str(tp.backends.info("lost").state)]
told = in_child(child)
give([before, told, works("lost"), (x + x).tolist()])
"""
    )
    before, (errors, state), parent, kept = environment.gives(script)
    assert before == RIGHT
    for kind, message in errors:
        assert kind in ("DeviceUnavailable", "BackendError"), (kind, message)
        assert "'lost'" in message and "fork" in message, message
        assert "spawn" in message.partition("fix:")[2], message
    assert state != "active"
    assert (parent, kept) == (RIGHT, [2.0, 2.0])

    first = CHILD + 'give([in_child(lambda: works("lost")), works("lost")])'  # before its parent has started it
    assert environment.gives(first) == [RIGHT, RIGHT]
    module = environment.elsewhere / "work.py"
    module.write_text(
        "import tensorplay as tp\n\ndef work(name):\n    x = tp.ones(2, device=name)\n    return (x + x).tolist()\n",
        encoding="utf-8",
    )
    spawned = """
    if __name__ == "__main__":
        import multiprocessing, work
        work.work("lost")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            give(pool.map(work.work, ["lost", "cpu"]))
    """
    assert environment.gives(spawned) == [[2.0, 2.0], [2.0, 2.0]]
