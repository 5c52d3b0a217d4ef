from __future__ import annotations

from typing import Any

import pytest

FAIL = "e = error(MANAGER.ensure_device, 'foo'); show([type(e).__name__, str(e), str(MANAGER.record('foo').state)])"


def test_registering_in_the_hook_and_an_entry_point_with_an_attribute(site: Any) -> None:
    text = """
    class Plugin:
        __name__ = "Plugin"
        @hookimpl
        def tensorplay_register(self, registry):
            registry.impl("neg", "foo", operator.neg)
        @hookimpl
        def tensorplay_device(self):
            return DeviceAPI()
    plugin = Plugin()
    """
    site.add("foo", site.source("foo", text), value="tensorplay_foo.plugin:plugin")
    result = site.run("MANAGER.ensure_device('foo'); show([table('add'), table('neg'), devices.entry('foo').count])")
    assert result == [{"Foo": ["foo"]}, {"Foo": ["foo"]}, 1]


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        (
            "x = 1\n1 / 0",
            "its module raised ZeroDivisionError: division by zero (tensorplay_foo/plugin.py:2)",
            "report it to the authors of tensorplay-foo, with the text of tensorplay.backends.info('foo').traceback",
        ),
        (
            "raise SystemExit(3)",
            "its module raised SystemExit: 3 (tensorplay_foo/plugin.py:1)",
            "when it is mended, call tensorplay.backends.refresh()",
        ),
        ("raise GeneratorExit", "its module raised GeneratorExit (tensorplay_foo/plugin.py:1)", ""),
        ("x = (", "its module raised SyntaxError", ""),
        (
            "import nosuchmodule.sub",
            "ModuleNotFoundError: No module named 'nosuchmodule'",
            "with the module 'nosuchmodule'",
        ),
        ("from . import nothing", "its module raised ImportError: cannot import name 'nothing'", ""),
        ("def f(): f()\nf()", "its module raised RecursionError", ""),
        ("import sys\nsys.modules[__name__] = None\n1 / 0", "its module raised ZeroDivisionError", ""),
        ("import sys\nsys.modules[__package__] = object()\n1 / 0", "its module raised ZeroDivisionError", ""),
        (
            "class E(BaseException):\n    def __str__(self): raise SystemExit\nraise E",
            "its module raised E: (no text",
            "",
        ),
    ],
)
def test_whatever_a_module_raises_is_kept(site: Any, text: str, reason: str, remedy: str) -> None:
    site.add("foo", text)
    site.add("good", site.source("good"))
    kind, message, state = site.run(FAIL)
    assert (kind, state) == ("BackendError", "error")
    assert message.startswith(
        "Device 'foo' cannot be used: its backend (tensorplay-foo 1.0) is broken: its module raised "
    )
    assert reason in message
    assert remedy in message.split("\nfix: ")[1]
    assert "pip install" not in message
    assert site.run("error(MANAGER.ensure_device, 'foo'); show(devices.entry('good').count)") == 2


def test_a_syntax_error_names_its_line(site: Any) -> None:
    site.add("foo", "x = 1\ny = = 2\n")
    assert "(tensorplay_foo/plugin.py:2)" in site.run(FAIL)[1]


def test_a_stale_entry_point_says_so(site: Any) -> None:
    import shutil

    shutil.rmtree(site.add("foo"))
    message = site.run(FAIL)[1]
    assert "fix: its metadata is stale or its files are incomplete: reinstall tensorplay-foo" in message


def test_a_probe_that_says_no_makes_it_unavailable_with_reason_and_fix(site: Any) -> None:
    text = """
    @hookimpl
    def tensorplay_probe():
        print(end="")
        return Availability(ok=False, reason="no driver was found", fix="install the Foo driver")
    """
    site.add("foo", site.source("foo", text))
    result = site.run(
        """
        first, second = error(MANAGER.ensure_device, "foo"), error(MANAGER.load, "foo")
        show([type(first).__name__, str(first), str(first) == str(second), second.__cause__, table()])
        """
    )
    what = "Device 'foo' cannot be used: its backend (tensorplay-foo 1.0) is unavailable: no driver was found"
    message = f"{what}\nfix: install the Foo driver"
    assert result == ["DeviceUnavailable", message, True, None, {}]


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ("def tensorplay_probe(): raise OSError('libfoo.so')", "it failed at its probe step: OSError: libfoo.so"),
        ("def tensorplay_probe(): return True", "TypeError: tensorplay_probe must return an Availability, got True"),
        ("def tensorplay_probe(): return None", "must return an Availability, got None"),
        ("def tensorplay_probe(): return Availability(ok=False)", "needs a reason"),
        ("def tensorplay_device(): return 3", "tensorplay_device must return a DeviceAPI, got 3"),
        ("def tensorplay_device(): raise SystemExit", "it failed at its device step: SystemExit"),
        (
            "def tensorplay_register(registry): raise KeyError('half')",
            "it failed at its register step: KeyError: 'half'",
        ),
        ("def tensorplay_register(registri): pass", "(registri)"),
        ("def tensorplay_prob(): pass", "Did you mean 'tensorplay_probe'?"),
        (
            "def tensorplay_register(registry): registry.impl('ad', 'foo', abs)",
            "there is no operator 'ad'. Did you mean 'add'",
        ),
        ("def tensorplay_register(registry): registry.impl('add', 'foo', abs)", "the operator is add("),
        (
            "def tensorplay_register(registry): registry.impl('neg', 'fooo', operator.neg)",
            "there is no dispatch key 'fooo'",
        ),
        ("def tensorplay_register(registry): registry.impl('add', 'foo', operator.sub)", "registered twice"),
    ],
)
def test_a_bad_hook_is_named_and_nothing_is_registered(site: Any, extra: str, reason: str) -> None:
    site.add("foo", site.source("foo", f"@hookimpl\n{extra}\n"))
    result = site.run(FAIL.replace("str(M", "table(), 'foo' in devices.active_devices(), str(M"))
    assert reason in result[1]
    assert "\nfix: " in result[1]
    assert [result[0], *result[2:]] == ["BackendError", {}, False, "error"]


def test_an_unmarked_hook_and_a_missing_device_are_told(site: Any) -> None:
    site.add("foo", site.source("foo", "def tensorplay_unload(): pass\n"))
    assert "is not marked with @hookimpl" in site.run(FAIL)[1]
    site.add("foo", site.source("foo", device=False))
    assert "the owner of device 'foo' must implement tensorplay_device" in site.run(FAIL)[1]


def test_all_problems_of_a_registration_are_told_at_once(site: Any) -> None:
    extra = """
    @hookimpl
    def tensorplay_register(registry):
        registry.impl("ad", "foo", operator.add)
        registry.impl("neg", "foo", operator.add)
        registry.impl("neg", "nokey", operator.neg)
    """
    site.add("foo", site.source("foo", extra))
    message = site.run(FAIL)[1]
    assert "its registrations have 3 problems and none was made:" in message
    assert message.count("\n  - ") == 3


def test_a_wall_of_problems_is_cut_in_the_reason_and_whole_in_the_error(site: Any) -> None:
    extra = """
    @hookimpl
    def tensorplay_register(registry):
        for number in range(12):
            registry.impl(f"nothing_{number}", "foo", operator.neg)
    """
    site.add("foo", site.source("foo", extra))
    _, message, _, whole = site.run(FAIL.replace("])", ", public.info('foo').traceback])"))
    assert "have 12 problems" in message and message.count("\n  - nothing_") == 10
    assert "\n  - and 2 more, listed by: tensorplay backends info foo\n" in message
    assert whole.count("there is no operator 'nothing_") == 12


def test_a_conflict_names_both_distributions(site: Any) -> None:
    site.add("foo", site.source("foo"))
    site.add("pack", site.source("foo", device=False), yaml="extends: [foo]")
    message = site.run("MANAGER.ensure_device('foo'); show(str(error(MANAGER.load, 'pack')))")
    assert "tensorplay-foo" in message and "tensorplay-pack" in message
    assert message.count("tensorplay_foo/plugin.py:") == message.count("tensorplay_pack/plugin.py:") == 1
    assert message.count("\nfix: ") == 1 and "override=True" in message


def test_an_error_of_our_own_keeps_its_fix_when_wrapped(site: Any) -> None:
    text = "from tensorplay_core.errors import BackendError, fix\nraise BackendError('low memory' + fix('buy more'))"
    site.add("foo", text)
    message = site.run(FAIL)[1]
    assert "its module raised BackendError: low memory (tensorplay_foo/plugin.py:2)\nfix: buy more" in message
    assert message.count("fix:") == 1


def test_the_kept_error_does_not_pin_what_its_frames_held(site: Any) -> None:
    text = """
    import builtins, weakref
    class Big: ...
    def fail():
        big = Big()
        builtins.WEAK = weakref.ref(big)
        raise ValueError
    fail()
    """
    site.add("foo", text)
    assert (
        site.run("import builtins, gc; error(MANAGER.load, 'foo'); gc.collect(); show(builtins.WEAK() is None)") is True
    )


def test_importing_core_is_silent_with_six_bad_plugins_installed(site: Any) -> None:
    site.add("a", "raise SystemExit")
    site.add("b", "x = (")
    site.add("c", yaml="nonsense: [")
    site.add("d", metadata="")
    site.add("e", value="a/b")
    site.add("f", "import nosuchmodule")
    site.add("good", site.source("good"))
    result = site.run(
        """
        import tensorplay_core
        show([{r.name: str(r.state) for r in public.list()}, all(r.fix for r in MANAGER.records() if r.name != "good")])
        """
    )
    assert result == [{**dict.fromkeys("abcdef", "error"), "good": "active"}, True]
