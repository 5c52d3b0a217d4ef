from __future__ import annotations

from typing import Any

import pytest

LIBRARY = """
from tensorplay_core.dispatch.library import Library
lib = Library("tp", "IMPL")
lib.impl("neg", operator.neg, "foo")
own = Library("mine", "FRAGMENT")
own.define("twice(Tensor x) -> Tensor")
own.impl("twice", lambda x: x, "Composite")
"""
SEEN = """
def seen():
    own = REGISTRY.operators.get("mine::twice")
    return [table("neg"), None if own is None else len(own.table)]
"""


def test_what_a_plugin_registers_with_a_library_at_its_import_goes_and_comes_with_it(site: Any) -> None:
    site.add("foo", site.source("foo", LIBRARY))
    result = site.run(
        SEEN
        + """
out = []
public.load("foo"); out.append(seen())
for _ in range(3):
    public.unload("foo"); out.append(seen())
    public.load("foo"); out.append(seen())
show(out)
"""
    )
    loaded, unloaded = result[0], result[1]
    assert [*loaded[0]] == ["Foo"] and unloaded[0] == {}
    assert loaded[1] == unloaded[1] + 1  # the operator stays, as the module that defined it does; its kernel does not
    assert result == [loaded, *[unloaded, loaded] * 3]


@pytest.mark.parametrize(
    ("extra", "state", "operator"),
    [
        ("1 / 0", "error", False),
        ("@hookimpl\ndef tensorplay_register(registry): 1 / 0", "error", False),
        ("@hookimpl\ndef tensorplay_probe(): return Availability(ok=False, reason='no card')", "unavailable", True),
        ("@hookimpl\ndef tensorplay_device(): raise KeyboardInterrupt", "discovered", True),
    ],
)
def test_and_leaves_nothing_in_force_when_the_load_fails(site: Any, extra: str, state: str, operator: bool) -> None:
    folder = site.add("foo", site.source("foo", f"{LIBRARY}\n{extra}\n"))
    good = site.source(
        "foo", LIBRARY.replace("twice(Tensor x)", "twice(Tensor y)").replace("lambda x: x", "lambda y: y")
    )
    mended = good if state == "error" else None  # else the module has run, for good
    result = site.run(
        f"""{SEEN}
import pathlib
try:
    MANAGER.load("foo")
except (TensorPlayError, KeyboardInterrupt):
    pass
failed = [str(public.info("foo").state), table("neg"), "mine::twice" in REGISTRY.operators, table("add")]
if {mended!r}:
    pathlib.Path({str(folder / "plugin.py")!r}).write_text({mended!r})
    public.refresh()
    failed.append([*[public.load("foo").state], *table("neg")])
show(failed)
"""
    )
    assert result[:4] == [state, {}, operator, {}]
    assert result[4:] == ([["active", "Foo"]] if mended else [])


def test_a_backend_that_another_ones_import_loads_keeps_its_kernels_when_that_one_goes(site: Any) -> None:
    site.add("foo", site.source("foo", "from tensorplay_core.dispatch import devices\ndevices.entry('bar')\n"))
    site.add("bar")
    assert site.run("public.load('foo'); public.unload('foo'); show(table())") == {"Bar": ["bar"]}


def test_registrations_that_come_too_late_are_refused(site: Any) -> None:
    text = """
    import builtins
    @library_impl("foo", "Kept")
    def _(m):
        builtins.BLOCK = m
    @hookimpl
    def tensorplay_register(registry):
        builtins.KEPT = registry
    """
    site.add("foo", site.source("foo", text))
    result = site.run(
        """
        import builtins, operator
        public.load("foo")
        calls = (
            lambda: builtins.KEPT.impl("neg", "foo", operator.neg),
            lambda: builtins.BLOCK.impl("neg", operator.neg),
            lambda: builtins.KEPT.emitter("foo", lambda program: None),
            lambda: builtins.KEPT.commit(),
        )
        show([[str(error(call)) for call in calls], table("neg"), table()])
        """
    )
    assert result[0][0] == (
        "tensorplay-foo registers a kernel of neg at foo too late: this batch of registrations is complete\nfix:"
        " register all kernels before tensorplay_register returns, or with a tensorplay.library.Library"
    )
    assert "a kernel of neg" in result[0][1] and "an emitter" in result[0][2] and "committed already" in result[0][3]
    assert result[1:] == [{}, {"Foo": ["foo"]}]


def test_a_plugin_that_commits_its_own_batch_is_refused_and_leaves_nothing(site: Any) -> None:
    site.add("foo", site.source("foo", "@hookimpl\ndef tensorplay_register(registry): registry.commit()\n"))
    message, left = site.run("show([str(error(MANAGER.load, 'foo')), table()])")
    assert "tensorplay_register called commit(): core does it" in message
    assert left == {}


TOY = """
import numpy
from tensorplay_composite.arrays import ArrayDevice, kernels
from tensorplay_core.dispatch import devices
from tensorplay_core.plugins import hookimpl, library_impl
DEVICE = ArrayDevice(numpy)
HOOK = []
def add(x, y):
    for call in HOOK:
        call()
    return numpy.add(x, y)
@library_impl("foo", "Toy")
def _(m):
    for name, kernel in kernels(numpy, random=DEVICE.random).items():
        m.impl(name, add if name == "add" else kernel)
@hookimpl
def tensorplay_device():
    return DEVICE
"""


def test_tensors_of_a_blocked_backend_say_so_and_work_again_when_it_is_unblocked(site: Any) -> None:
    site.add("foo", TOY)
    result = site.run(
        """
        x = tp.tensor([1.0, 2.0], device="foo")
        for _ in range(3):
            x + x
        tp.backends.configure(block="foo")
        calls = (lambda: x + x, lambda: x * 2, lambda: x.tolist(), lambda: x[0].item(),
                 lambda: tp.ones(2, device="foo"), lambda: x.add_(1), lambda: x.to("meta") + x)
        messages = {str(error(call)) for call in calls}
        tp.backends.configure(block=None)
        first = (x + x).tolist()
        tp.backends.configure(block="foo"); tp.backends.configure(block=None)
        show([[*messages], first, x.tolist(), str(tp.backends.info("foo").state)])
        """,
        whole=True,
    )
    assert len(result[0]) == 1 and "is blocked: tensorplay.backends.configure(block=…) names it" in result[0][0]
    assert result[1:] == [[2.0, 4.0], [1.0, 2.0], "active"]


def test_a_kernel_may_unload_its_own_backend(site: Any) -> None:
    site.add("foo", TOY)
    result = site.run(
        """
        import tensorplay_foo.plugin as plugin
        x = tp.tensor([1.0, 2.0], device="foo")
        out = []
        for fast in (False, True):
            for _ in range(3 * fast):
                x + x
            plugin.HOOK.append(lambda: (plugin.HOOK.clear(), tp.backends.unload("foo")))
            try:
                y = x + x
            except TensorPlayError as e:
                out.append(str(e))
            out.append([str(error(lambda: x + x)), str(tp.backends.info("foo").state)])
            tp.backends.load("foo")
            out.append((x + x).tolist())
        show(out)
        """,
        whole=True,
    )
    for part in result:
        assert part == [2.0, 4.0] or "was unloaded" in str(part), part
    assert result.count([2.0, 4.0]) == 2
