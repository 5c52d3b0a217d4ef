from __future__ import annotations

import re
from typing import Any

PROBE = """
import builtins, threading, time
from contextvars import ContextVar
from tensorplay_core.plugins import Availability, DeviceAPI, hookimpl
builtins.RUNS = getattr(builtins, "RUNS", 0) + 1
@hookimpl
def tensorplay_probe():
    builtins.PROBES = getattr(builtins, "PROBES", 0) + 1
    builtins.PROBED(builtins.PROBES)
    return Availability(ok=True)
@hookimpl
def tensorplay_device():
    return DeviceAPI()
"""


def test_a_probe_that_hangs_is_given_up_and_what_it_does_later_changes_nothing(site: Any) -> None:
    site.add("foo", PROBE)
    site.add("good")
    result = site.run(
        """
        import builtins, threading, time
        release = threading.Event()
        builtins.PROBED = lambda number: release.wait(60) if number == 1 else None
        start = time.perf_counter()
        first = str(error(devices.entry, "foo"))
        took = time.perf_counter() - start
        second, again = str(error(devices.entry, "foo")), time.perf_counter() - start - took
        good = devices.entry("good").count
        release.set()
        [t.join() for t in threading.enumerate() if t.name == "tensorplay-probe-foo"]
        late = [str(public.info("foo").state), "foo" in devices.active_devices()]
        public.refresh()
        show([first, first == second, 0.3 < took < 20, again < 0.25, good, late, devices.entry("foo").count,
              builtins.RUNS, builtins.PROBES])
        """,
        TENSORPLAY_BACKEND_TIMEOUT="0.3",
    )
    assert result[0] == (
        "Device 'foo' cannot be used: its backend (tensorplay-foo 1.0) is broken: its probe did not answer within"
        " 0.3 s\n"
        "fix: set TENSORPLAY_BACKENDS_BLOCK=foo, give it more time with TENSORPLAY_BACKEND_TIMEOUT (in seconds; in a"
        " listing, with its timeout) and call tensorplay.backends.refresh(), or report it to the authors of"
        " tensorplay-foo"
    )
    assert result[1:] == [True, True, True, 2, ["error", False], 1, 1, 2]


def test_a_probe_runs_in_the_callers_context_and_may_load_another_backend(site: Any) -> None:
    site.add("foo", PROBE)
    site.add("good")
    result = site.run(
        """
        import builtins, threading, time
        from contextvars import ContextVar
        var = ContextVar("var"); var.set("mine")
        seen = []
        def probed(number):
            seen.extend([var.get(), threading.current_thread().name, devices.entry("good").count])
            var.set("the plugin's")
        builtins.PROBED = probed
        devices.entry("foo")
        show([*seen, var.get(), sorted(devices.active_devices())])
        """
    )
    assert result == ["mine", "tensorplay-probe-foo", 2, "mine", ["foo", "good"]]


def test_a_probe_that_hangs_in_another_backend_leaves_that_one_loadable(site: Any) -> None:
    site.add("foo", PROBE)
    site.add("good", "import builtins\nbuiltins.WAIT()\n" + site.source("good"))
    result = site.run(
        """
        import builtins, threading, time
        release = threading.Event()
        builtins.WAIT = lambda: release.wait(60)
        builtins.PROBED = lambda number: devices.entry("good")
        message = str(error(devices.entry, "foo"))
        state = str(public.info("good").state)
        release.set()
        [t.join() for t in threading.enumerate() if t.name == "tensorplay-probe-foo"]
        show([message, state, str(public.info("foo").state), table(), devices.entry("good").count, table()])
        """,
        TENSORPLAY_BACKEND_TIMEOUT="0.3",
    )
    assert "its probe did not answer within 0.3 s" in result[0]
    assert result[1:] == ["discovered", "error", {}, 2, {"Good": ["good"]}]


def test_an_interrupt_during_a_probe_reaches_the_user_and_a_new_try_works(site: Any) -> None:
    site.add("foo", PROBE)
    result = site.run(
        """
        import builtins, os, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        def probed(number):
            if number == 1:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
            if number == 2:
                raise KeyboardInterrupt
        builtins.PROBED = probed
        try:
            devices.entry("foo")
        except KeyboardInterrupt:
            first = str(MANAGER.record("foo").state)
        second = str(error(devices.entry, "foo"))
        public.refresh()
        show([first, second, devices.entry("foo").count, builtins.RUNS])
        """
    )
    assert result[0] == "discovered"
    assert "it failed at its probe step: KeyboardInterrupt" in result[1]  # the plugin's own, in a thread of ours
    assert result[2] == 1


def test_an_import_that_hangs_in_a_listing_is_given_up_and_its_module_is_kept_when_it_comes(site: Any) -> None:
    site.add("foo", "import builtins\nbuiltins.WAIT()\n" + site.source("foo"))
    result = site.run(
        """
        import builtins, threading, time
        release, started = threading.Event(), []
        builtins.WAIT = lambda: release.wait(60)
        (record,) = public.list(timeout=0.2, started=lambda record: started.append(record.name))
        out = [str(record.state), record.reason, started, record.import_seconds]
        public.refresh()
        out.append(public.info("foo").reason == record.reason)  # a new import would wait for the thread that hangs
        release.set()
        record.worker.join()
        public.refresh()
        show([*out, str(public.info("foo").state), devices.entry("foo").count, table()])
        """
    )
    assert result[:4] == ["error", "it did not finish within 0.2 s (it hangs at its import step)", ["foo"], None]
    assert result[4:] == [True, "discovered", 2, {"Foo": ["foo"]}]


def test_a_step_that_takes_long_is_told_once_on_stderr(site: Any) -> None:
    site.add("foo", "import builtins\nbuiltins.WAIT()\n" + site.source("foo"))
    site.add("needs", "from tensorplay_core.dispatch import devices\ndevices.entry('foo')\n" + site.source("needs"))
    result = site.run(
        """
        import builtins, io, time
        from tensorplay_core.plugins import watch
        watch.NOTICE = 0.2
        sys.stderr = io.StringIO()
        builtins.WAIT = lambda: time.sleep(0.9)
        devices.entry("needs")
        text, sys.stderr = sys.stderr.getvalue(), sys.__stderr__
        show([text, public.info("foo").import_seconds > 0.8, public.info("foo").as_dict()["import_seconds"] > 0.8])
        """
    )
    assert re.sub(r"[0-9]+ s", "0 s", result[0]) == (
        "tensorplay: still loading backend 'foo' (tensorplay-foo 1.0), 0 s at its import step; Ctrl-C interrupts,"
        " TENSORPLAY_BACKENDS_BLOCK=foo skips it\n"
    )
    assert result[1:] == [True, True]


def test_an_interrupt_while_the_watch_starts_leaves_nothing_that_tells_of_a_load_later(site: Any) -> None:
    site.add("foo")
    result = site.run(
        """
        import threading
        from tensorplay_core.plugins import watch
        start, watches = watch.started, []
        def interrupted(worker):
            start(worker)
            if "watch" in worker.name:
                watches.append(worker)
                raise KeyboardInterrupt
            return True
        watch.started = interrupted
        try:
            devices.entry("foo")
        except KeyboardInterrupt:
            watches[0].join(watch.NOTICE / 2)
        show([len(watches), watches[0].is_alive(), str(public.info("foo").state)])
        """
    )
    assert result == [1, False, "discovered"]


def test_a_load_leaves_no_thread_behind(site: Any) -> None:
    site.add("foo", PROBE)
    names = site.run(
        """
        import builtins, threading, time
        from tensorplay_core.plugins import watch
        tell = watch.Attempt._tell
        watch.Attempt._tell = lambda self: (tell(self), time.sleep(0.1))
        builtins.PROBED = lambda number: None
        devices.entry("foo")
        show([thread.name for thread in threading.enumerate()])
        """
    )
    assert names == ["MainThread"]


def test_a_backend_loads_where_no_thread_can_be_started(site: Any) -> None:
    site.add("foo")
    script = """
    import threading
    def refuse(self): raise RuntimeError("can't start new thread at interpreter shutdown")
    threading.Thread.start = refuse
    show([devices.entry("foo").count, [str(r.state) for r in public.list()]])
    """
    assert site.run(script) == [2, ["active"]]
