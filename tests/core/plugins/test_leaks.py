from __future__ import annotations

from typing import Any

COUNTS = """
import gc, tracemalloc, types, warnings
import pluggy
from tensorplay_core.dispatch import keys, tensor_type
def counts():
    gc.collect()
    objects = gc.get_objects()
    stacks = [len(stack) for op in REGISTRY.operators.values() for stack in op.table.values()]
    return {
        "registrations": sum(stacks), "tables": len(stacks), "emitters": sum(map(len, REGISTRY.emitters.values())),
        "operators": len(REGISTRY.operators), "listeners": len(REGISTRY.on_define), "slots": len(tensor_type._slots),
        "types": len(tensor_type._types), "pages": len(keys._pages) if hasattr(keys, "_pages") else 0,
        "modules": len(sys.modules), "managers": sum(isinstance(o, pluggy.PluginManager) for o in objects),
        "filters": len(warnings.filters), "devices": sorted(devices.active_devices()), "objects": len(objects),
    }
"""
PLUGIN = """
import numpy
from tensorplay_composite.arrays import ArrayDevice, emitter, kernels
from tensorplay_core.dispatch.library import Library
from tensorplay_core.plugins import hookimpl, library_impl
DEVICE = ArrayDevice(numpy)
own = Library("foo", "FRAGMENT")
own.define("twice(Tensor x) -> Tensor")
own.impl("twice", lambda x: x + x, "Composite")
@library_impl("foo", "Arrays")
def _(m):
    made = kernels(numpy, random=DEVICE.random)
    for name, kernel in made.items():
        m.impl(name, kernel)
    m.emitter(emitter(numpy, made))
@hookimpl
def tensorplay_device():
    return DEVICE
"""


def _grown(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: (value, after[name]) for name, value in before.items() if value != after[name] and name != "objects"}


def test_loading_and_unloading_twenty_times_leaves_nothing_behind(site: Any) -> None:
    site.add("foo", PLUGIN)
    before, after, memory = site.run(
        COUNTS
        + """
def cycle():
    tp.backends.load("foo")
    x = tp.ones(3, device="foo", requires_grad=True)
    (tp.ops.foo.twice(x.detach()) * 2 + tp.silu(x)).sum().backward()
    tp.backends.unload("foo")
    error(lambda: x + x)
for _ in range(3):
    cycle()
before = counts()
tracemalloc.start()
cycle(); gc.collect()
base = tracemalloc.get_traced_memory()[0]
for _ in range(20):
    cycle()
gc.collect()
memory = tracemalloc.get_traced_memory()[0] - base
tracemalloc.stop()
show([before, counts(), memory])
""",
        whole=True,
    )
    assert _grown(before, after) == {}
    assert after["objects"] - before["objects"] < 40  # two a cycle would be 40
    assert memory < 60_000, (
        memory
    )  # CPython's attribute cache takes some 500 bytes a cycle; a table is more than 10,000


def test_failing_refreshing_and_blocking_twenty_times_leaves_nothing_behind(site: Any) -> None:
    site.add("foo", PLUGIN + "1 / 0\n")
    site.add("slow", "from tensorplay_core.plugins import hookimpl\n@hookimpl\ndef tensorplay_probe(): import time;"
                     " time.sleep(0.02)\n@hookimpl\ndef tensorplay_device(): pass\n")  # fmt: skip
    site.add("bar")
    before, after = site.run(
        COUNTS
        + """
import threading
def cycle():
    tp.backends.configure(timeout=0.01)
    for name in ("foo", "slow"):
        error(lambda: tp.ones(2, device=name))
    tp.backends.configure(timeout=None)
    tp.backends.load("bar")
    tp.backends.configure(block="bar")
    tp.backends.configure(block=None)
    tp.backends.refresh()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
for _ in range(3):
    cycle()
before = counts()
for _ in range(20):
    cycle()
show([before, counts()])
""",
        whole=True,
    )
    assert _grown(before, after) == {}
    assert after["objects"] - before["objects"] < 40
