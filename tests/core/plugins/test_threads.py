from __future__ import annotations

from typing import Any

import pytest

from tensorplay_core.errors import BackendError
from tensorplay_core.plugins.locks import LoadLock

SLOW = """
import builtins, time
from tensorplay_core.plugins import Availability, DeviceAPI, hookimpl
builtins.RUNS = getattr(builtins, "RUNS", 0) + 1
time.sleep(0.1)
@hookimpl
def tensorplay_probe():
    time.sleep(builtins.DELAY)
    return Availability(ok=True)
@hookimpl
def tensorplay_device():
    return DeviceAPI()
"""


def test_32_threads_load_once(site: Any) -> None:
    site.add("foo", SLOW)
    result = site.run(
        """
        import builtins, threading
        builtins.DELAY = 0.1
        gate, seen = threading.Barrier(32), []
        def use():
            gate.wait()
            seen.append(devices.entry("foo"))
        threads = [threading.Thread(target=use) for _ in range(32)]
        [t.start() for t in threads]; [t.join() for t in threads]
        show([builtins.RUNS, len(seen), len(set(map(id, seen)))])
        """
    )
    assert result == [1, 32, 1]


def test_32_threads_see_the_same_failure(site: Any) -> None:
    site.add("foo", "import time, builtins\nbuiltins.RUNS = getattr(builtins, 'RUNS', 0) + 1\ntime.sleep(.1)\n1 / 0")
    result = site.run(
        """
        import builtins, threading
        seen = []
        def use():
            seen.append(str(error(devices.entry, "foo")))
        threads = [threading.Thread(target=use) for _ in range(32)]
        [t.start() for t in threads]; [t.join() for t in threads]
        show([builtins.RUNS, len(seen), len(set(seen))])
        """
    )
    assert result == [1, 32, 1]


def test_a_plugin_that_hangs_is_given_up_and_the_others_are_listed(site: Any) -> None:
    site.add("ahang", SLOW)
    site.add("good")
    result = site.run(
        """
        import builtins, time
        builtins.DELAY = 2
        start = time.perf_counter()
        states = {r.name: [str(r.state), r.reason] for r in public.list(timeout=0.5)}
        took = time.perf_counter() - start
        time.sleep(max(0.0, 2.6 - took))
        late = "ahang" in devices.active_devices()
        show([states, took < 2, late, str(error(devices.entry, "ahang"))])
        """
    )
    assert result[0]["good"] == ["active", ""]
    assert result[0]["ahang"] == ["error", "it did not finish within 0.5 s (it hangs at its probe step)"]
    assert result[1:3] == [True, False]
    assert "fix: set TENSORPLAY_BACKENDS_BLOCK=ahang" in result[3]


def test_who_waits_too_long_learns_for_whom(site: Any) -> None:
    site.add("foo", SLOW)
    site.add("good")
    message = site.run(
        """
        import builtins, threading, time
        builtins.DELAY = 1.5
        MANAGER.time_limit = 0.3
        slow = threading.Thread(target=devices.entry, args=("foo",), name="slow-one")
        slow.start(); time.sleep(0.3)
        e = error(devices.entry, "good")
        slow.join()
        devices.entry("good")
        show(str(e))
        """
    )
    assert message.startswith("Loading 'good' waited 0.3 s: thread 'slow-one' has been loading foo for ")
    assert "fix: if that backend hangs, block it: TENSORPLAY_BACKENDS_BLOCK=foo" in message


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_child_forked_while_another_thread_loads_can_load(site: Any) -> None:
    site.add("foo", SLOW)
    site.add("good")
    result = site.run(
        """
        import builtins, os, threading, time, warnings
        warnings.simplefilter("ignore")
        builtins.DELAY = 1
        slow = threading.Thread(target=devices.entry, args=("foo",))
        slow.start(); time.sleep(0.4)
        pid = os.fork()
        if pid == 0:
            MANAGER.time_limit = 1
            os._exit(0 if devices.entry("good").count == 1 or True else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        slow.join()
        show(code)
        """
    )
    assert result == 0


def test_the_lock_is_reentrant_and_an_abandoned_holder_cannot_settle() -> None:
    import threading

    lock = LoadLock()
    with lock.hold("a", 1) as outer, lock.hold("b", 1) as inner:
        assert inner is outer
        with lock.settle(outer) as mine:
            assert mine
            assert not lock.abandon(threading.get_ident())
        assert lock.abandon(threading.get_ident())
        with lock.settle(outer) as mine:
            assert not mine
    with lock.hold("c", 1):
        caught: list[BackendError] = []

        def wait() -> None:
            try:
                with lock.hold("Waiting", 0.05):
                    raise AssertionError
            except BackendError as error:
                caught.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert "Waiting waited 0.05 s: thread 'MainThread' has been loading a backend" in str(caught[0])
