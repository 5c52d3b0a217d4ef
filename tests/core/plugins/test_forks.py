from __future__ import annotations

import os
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

FORK = """
import builtins, os, threading, time, warnings
warnings.simplefilter("ignore")
def forked(call):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = json.dumps(call(), default=str)
        except BaseException as error:
            text = json.dumps(f"{type(error).__name__}: {error}")
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with open(read) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text)
"""
DEVICE = """
class Device(DeviceAPI):
    survives_fork = {survives}
@hookimpl
def tensorplay_device():
    return Device()
@hookimpl
def tensorplay_unload():
    raise AssertionError("foreign code in a child")
"""


def test_a_device_that_does_not_survive_a_fork_is_lost_in_the_child_alone(site: Any) -> None:
    site.add("foo", site.source("foo", DEVICE.format(survives=False), device=False))
    site.add("good")
    result = site.run(
        FORK
        + """
devices.entry("foo"); devices.entry("good")
def child():
    first, second = error(devices.entry, "foo"), error(public.load, "foo")
    out = [str(first), str(first) == str(second), table(), devices.entry("good").count, type(first).__name__]
    public.refresh()
    grandchild = forked(lambda: str(error(devices.entry, "foo")) == str(first))
    return [*out, str(public.info("foo").state), public.info("foo").reason, grandchild]
show([forked(child), forked(lambda: devices.entry("good").count), devices.entry("foo").count, table()])
"""
    )
    message = (
        "Device 'foo' cannot be used: its backend (tensorplay-foo 1.0) is unavailable: it was initialised before this"
        " process was forked\nfix: start processes with multiprocessing's 'spawn' or 'forkserver', or use the device"
        " only in the child"
    )
    child = [message, True, {"Good": ["good"]}, 2, "DeviceUnavailable", "unavailable"]
    assert result[0] == [*child, "it was initialised before this process was forked", True]
    assert result[1:] == [2, 2, {"Foo": ["foo"], "Good": ["good"]}]


def test_what_was_not_started_before_the_fork_starts_in_the_child(site: Any) -> None:
    site.add("foo", site.source("foo", DEVICE.format(survives=False), device=False))
    site.add("good", site.source("good", DEVICE.format(survives=True), device=False))
    script = "devices.entry('good'); show(forked(lambda: [devices.entry(n).count for n in ('foo', 'good')]))"
    assert site.run(f"{FORK}\n{script}") == [2, 2]


def test_a_backend_that_was_unloaded_before_the_fork_is_lost_too(site: Any) -> None:
    site.add("foo", site.source("foo", DEVICE.format(survives=False), device=False).replace("raise Assert", "0 and ("))
    script = "public.load('foo'); public.unload('foo'); show(forked(lambda: str(error(public.load, 'foo'))))"
    folder = site.path / "tensorplay_foo" / "plugin.py"
    folder.write_text(folder.read_text().replace('0 and (ionError("foreign code in a child")', "pass"))
    assert "initialised before this process was forked" in site.run(f"{FORK}\n{script}")


@pytest.mark.parametrize("stage", ["import", "probe"])
def test_a_load_that_another_thread_was_in_at_the_fork_starts_anew_in_the_child(site: Any, stage: str) -> None:
    note = "import builtins\nbuiltins.RUNS = getattr(builtins, 'RUNS', 0) + 1\n"
    wait = "builtins.WAIT()\n"
    probe = (
        "@hookimpl\ndef tensorplay_probe():\n    builtins.WAIT()\n    return Availability(ok=True, device_count=2)\n"
    )
    folder = site.add(
        "foo", note + (wait if stage == "import" else "") + site.source("foo", probe * (stage == "probe"))
    )
    (folder / "kernels.py").write_text("")
    result = site.run(
        FORK
        + """
release, inside = threading.Event(), threading.Event()
def wait():
    inside.set()
    release.wait(30)
builtins.WAIT = wait
thread = threading.Thread(target=devices.entry, args=("foo",))
thread.start()
inside.wait(30)
def child():
    before = [str(public.info("foo").state), public.info("foo").stage]
    builtins.WAIT = lambda: None
    return [before, devices.entry("foo").count, table(), builtins.RUNS]
in_child = forked(child)
release.set()
thread.join()
show([in_child, devices.entry("foo").count, table(), builtins.RUNS])
"""
    )
    runs = 2 if stage == "import" else 1  # a module that was half run is run again; one that has run is not
    assert result == [[["discovered", ""], 2, {"Foo": ["foo"]}, runs], 2, {"Foo": ["foo"]}, 1]


def test_a_child_can_change_the_tables_whatever_lock_another_thread_held(site: Any) -> None:
    site.add("foo")
    result = site.run(
        FORK
        + """
from tensorplay_core.dispatch import tensor_type
from tensorplay_core.plugins import forks
forks.WAIT = 0.1
inside, release = threading.Event(), threading.Event()
def hold():
    with tensor_type.lock, devices._lock:
        inside.set()
        release.wait(30)
thread = threading.Thread(target=hold)
thread.start()
inside.wait(30)
in_child = forked(lambda: devices.entry("foo").count)
release.set()
thread.join()
show([in_child, devices.entry("foo").count])
"""
    )
    assert result == [2, 2]
