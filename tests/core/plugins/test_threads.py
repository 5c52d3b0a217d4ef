from __future__ import annotations

from typing import Any

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
    assert result[0]["ahang"] == ["error", "its probe did not answer within 0.5 s"]
    assert result[1:3] == [True, False]
    assert "fix: set TENSORPLAY_BACKENDS_BLOCK=ahang" in result[3]


def test_who_waits_too_long_learns_for_whom(site: Any) -> None:
    site.add("foo", "import time\ntime.sleep(1.5)\n" + site.source("foo"))
    site.add("good")
    message = site.run(
        """
        import threading, time
        slow = threading.Thread(target=devices.entry, args=("foo",), name="slow-one")
        slow.start(); time.sleep(0.3)
        e = error(devices.entry, "good")
        slow.join()
        devices.entry("good")
        show(str(e))
        """,
        TENSORPLAY_BACKEND_TIMEOUT="0.3",
    )
    assert message.startswith("Loading 'good' waited 0.3 s: thread 'slow-one' has been loading foo for ")
    assert "fix: if that backend hangs, block it with TENSORPLAY_BACKENDS_BLOCK=foo; if it is slow" in message


def test_32_threads_that_first_touch_a_device_at_once_all_get_a_right_result(site: Any) -> None:
    text = """
    import builtins, numpy, threading, time
    from tensorplay_composite.arrays import ArrayDevice, kernels
    from tensorplay_core.plugins import Availability, hookimpl, library_impl
    builtins.RUNS = ["module", *getattr(builtins, "RUNS", [])]
    time.sleep(0.05)
    DEVICE = ArrayDevice(numpy)
    @library_impl("foo", "Arrays")
    def _(m):
        builtins.RUNS.append("block")
        for name, kernel in kernels(numpy, random=DEVICE.random).items():
            m.impl(name, kernel)
    @hookimpl
    def tensorplay_probe():
        builtins.RUNS.append("probe")
        time.sleep(0.05)
        return Availability(ok=True)
    @hookimpl
    def tensorplay_register(registry):
        builtins.RUNS.append("register")
    @hookimpl
    def tensorplay_device():
        return DEVICE
    """
    site.add("foo", text)
    result = site.run(
        """
        import builtins, threading
        gate, seen = threading.Barrier(32), []
        def use(number):
            gate.wait()
            try:
                seen.append((tp.full((2,), float(number), device="foo") * 2 + 1).tolist() == [2.0 * number + 1] * 2)
            except BaseException as e:
                seen.append(repr(e))
        threads = [threading.Thread(target=use, args=(number,)) for number in range(32)]
        [t.start() for t in threads]; [t.join() for t in threads]
        show([builtins.RUNS, seen])
        """,
        whole=True,
    )
    assert result == [["module", "probe", "block", "register"], [True] * 32]


def test_two_threads_that_load_two_backends_that_need_each_other_both_learn_it(site: Any) -> None:
    use = "import time\ntime.sleep(.1)\nfrom tensorplay_core.dispatch import devices\ndevices.entry('{}')\n"
    site.add("foo", site.source("foo", use.format("bar")))
    site.add("bar", site.source("bar", use.format("foo")))
    result = site.run(
        """
        import threading
        gate, seen = threading.Barrier(2), {}
        def go(name):
            gate.wait()
            seen[name] = str(error(devices.entry, name))
        threads = [threading.Thread(target=go, args=(name,)) for name in ("foo", "bar")]
        [t.start() for t in threads]; [t.join(30) for t in threads]
        show([seen, [t.is_alive() for t in threads], table()])
        """
    )
    assert result[1:] == [[False, False], {}]
    for message in result[0].values():
        assert "foo → bar → foo" in message or "bar → foo → bar" in message


def test_refresh_and_unload_wait_for_a_load_in_another_thread(site: Any) -> None:
    site.add("foo")
    site.add("pack", "import builtins\nbuiltins.WAIT()\n" + site.source("foo", device=False).replace('"add"', '"neg"')
             .replace(".add)", ".neg)"), yaml="extends: [foo]")  # fmt: skip
    result = site.run(
        """
        import builtins, threading
        inside, release = threading.Event(), threading.Event()
        builtins.WAIT = lambda: (inside.set(), release.wait(30))
        loader = threading.Thread(target=devices.entry, args=("foo",))
        loader.start(); inside.wait(30)
        others = [threading.Thread(target=call) for call in (public.refresh, lambda: public.unload("foo"))]
        [t.start() for t in others]
        others[0].join(0.2)
        waiting = [t.is_alive() for t in others]
        release.set()
        [t.join(30) for t in (loader, *others)]
        states = {r.name: str(r.state) for r in MANAGER.records()}
        public.load("foo")
        show([waiting, states, table(), table("neg"), devices.entry("foo").count])
        """
    )
    assert result == [[True, True], {"foo": "unloaded", "pack": "active"}, {"Foo": ["foo"]}, {"Foo": ["pack"]}, 2]
