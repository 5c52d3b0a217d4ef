from __future__ import annotations

from typing import Any

import pytest

FAIL = "e = error(MANAGER.ensure_device, 'foo'); show([type(e).__name__, str(e), str(MANAGER.record('foo').state)])"


def test_a_good_plugin_becomes_active_at_first_use(site: Any) -> None:
    site.add("foo", site.source("foo"))
    result = site.run(
        """
        before = [str(MANAGER.record("foo").state), "tensorplay_foo" in sys.modules]
        entry = devices.entry("foo")
        r = MANAGER.record("foo")
        show([before, entry.count, entry.distribution, entry.page, table(), str(r.state), r.device_count,
              [x.owner for x in r.committed.registrations], r.load_seconds > 0, r.as_dict()["registrations"]])
        """
    )
    assert result == [
        ["discovered", False], 2, "tensorplay-foo", 1, {"Foo": ["foo"]}, "active", 2, ["foo"], True, 1,
    ]  # fmt: skip


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
            "see tensor",
        ),
        (
            "raise SystemExit(3)",
            "its module raised SystemExit: 3 (tensorplay_foo/plugin.py:1)",
            "or report it to the authors",
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
        show([type(first).__name__, str(first), str(first) == str(second), str(second.__cause__), table()])
        """
    )
    what = "Device 'foo' cannot be used: its backend (tensorplay-foo 1.0) is unavailable: no driver was found"
    message = f"{what}\nfix: install the Foo driver"
    assert result == ["DeviceUnavailable", message, True, message, {}]


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
        ("def tensorplay_register(registri): pass", "Argument(s) {'registri'} are declared in the hookimpl"),
        ("def tensorplay_prob(): pass", "there is no hook 'tensorplay_prob'. Did you mean 'tensorplay_probe'?"),
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
    assert "'tensorplay_unload' is not marked with @hookimpl" in site.run(FAIL)[1]
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


def test_retry_keeps_the_first_error_and_runs_nothing_again(site: Any) -> None:
    site.add("foo", "import builtins\nbuiltins.RUNS = getattr(builtins, 'RUNS', 0) + 1\nraise ValueError('first')")
    result = site.run(
        """
        import builtins
        first, second = error(MANAGER.ensure_device, "foo"), error(devices.entry, "foo")
        show([builtins.RUNS, first is second, str(first) == str(second), type(second) is type(first),
              repr(first.__cause__), second.__cause__ is first.__cause__,
              "ValueError: first" in public.info("foo").traceback])
        """
    )
    assert result == [1, False, True, True, "ValueError('first')", True, True]


def test_refresh_gives_a_mended_plugin_a_new_try(site: Any) -> None:
    folder = site.add("foo", site.source("foo", "from . import kernels\n1 / 0\n"))
    (folder / "kernels.py").write_text("VALUE = 1")
    result = site.run(
        f"""
        import pathlib
        folder = pathlib.Path({str(folder)!r})
        error(MANAGER.ensure_device, "foo")
        (folder / "kernels.py").write_text("VALUE = 2222")
        (folder / "plugin.py").write_text({site.source("foo", "from . import kernels")!r})
        error(MANAGER.ensure_device, "foo")
        public.refresh()
        state = str(MANAGER.record("foo").state)
        MANAGER.ensure_device("foo")
        import tensorplay_foo.plugin
        show([state, str(MANAGER.record("foo").state), tensorplay_foo.plugin.kernels.VALUE, table()])
        """
    )
    assert result == ["discovered", "active", 2222, {"Foo": ["foo"]}]


def test_refresh_probes_again_without_running_the_module_again(site: Any) -> None:
    text = """
    import builtins
    builtins.RUNS = getattr(builtins, "RUNS", 0) + 1
    @hookimpl
    def tensorplay_probe():
        return Availability(ok=builtins.READY, reason="" if builtins.READY else "no card")
    """
    site.add("foo", site.source("foo", text))
    result = site.run(
        """
        import builtins
        builtins.READY = False
        error(MANAGER.ensure_device, "foo")
        builtins.READY = True
        error(MANAGER.ensure_device, "foo")
        MANAGER.refresh()
        MANAGER.ensure_device("foo")
        show([builtins.RUNS, table()])
        """
    )
    assert result == [1, {"Foo": ["foo"]}]


def test_refresh_appends_what_was_installed_since(site: Any) -> None:
    site.add("foo", site.source("foo"))
    late = type(site)(site.path.parent / "late")
    late.add("aaa", site.source("aaa"))
    result = site.run(
        f"""
        MANAGER.ensure_device("foo")
        SITES.append({str(late.path)!r}); sys.path.append({str(late.path)!r})
        error(MANAGER.ensure_device, "aaa")
        names = [r.name for r in public.refresh()]
        show([names, devices.entry("foo").page, devices.entry("aaa").page, str(MANAGER.record("foo").state)])
        """
    )
    assert result == [["aaa", "foo"], 1, 2, "active"]


def test_a_blocked_plugin_executes_nothing(site: Any) -> None:
    folder = site.add("foo", "open('ran', 'w')", yaml="summary: Foo")
    (folder / "__init__.py").write_text("raise SystemExit")
    script = """
    class Guard:
        def find_spec(self, name, path=None, target=None):
            assert not name.startswith("tensorplay_foo."), name
    sys.meta_path.insert(0, Guard())
    e = error(MANAGER.ensure_device, "foo"); public.list(); error(MANAGER.load, "foo")
    r = MANAGER.record("foo")
    show([type(e).__name__, str(e), str(r.state), r.info.summary, [m for m in sys.modules if "_foo" in m]])
    """
    kind, message, *rest = site.run(script, TENSORPLAY_BACKENDS_BLOCK="foo")
    assert kind == "DeviceUnavailable"
    assert "is blocked: TENSORPLAY_BACKENDS_BLOCK names it\nfix: change or unset TENSORPLAY_BACKENDS_BLOCK" in message
    assert rest == ["blocked", "Foo", []]
    assert "does not name it" in site.run(script, TENSORPLAY_BACKENDS="cpu")[1]


def test_a_wrong_environment_is_an_error_at_first_use_not_at_import(site: Any) -> None:
    site.add("foo", site.source("foo"))
    script = "e = error(devices.entry, 'foo'); show([type(e).__name__, type(error(public.list)).__name__])"
    assert site.run(script, TENSORPLAY_BACKEND_AUTOLOAD="perhaps") == ["EnvironmentVariableError"] * 2
    assert site.run(script, TENSORPLAY_BACKENDS="nosuch") == ["EnvironmentVariableError"] * 2


def test_without_autoload_only_what_is_named_is_loaded(site: Any) -> None:
    site.add("foo", site.source("foo"))
    site.add("composite", site.source("Composite", device=False))
    script = """
    message, listed = str(error(devices.entry, "foo")), [str(r.state) for r in public.list()]
    public.load("foo")
    show([message, listed, table(), devices.entry("foo").count])
    """
    message, *rest = site.run(script, TENSORPLAY_BACKEND_AUTOLOAD="0")
    assert "fix: call tensorplay.backends.load('foo'), or unset TENSORPLAY_BACKEND_AUTOLOAD" in message
    assert rest == [["discovered", "discovered"], {"Foo": ["foo"]}, 2]


def test_composite_comes_first_then_the_owner_then_its_extenders(site: Any) -> None:
    note = "import builtins\nbuiltins.ORDER = [*getattr(builtins, 'ORDER', []), '{}']\n"
    site.add("foo", site.source("foo", note.format("foo")))
    site.add("composite", site.source("Composite", note.format("composite"), device=False))
    pack = "@library_impl('foo', 'Neg')\ndef _(m): m.impl('neg', operator.neg)\n"
    for name, extends in (("apack", "[foo]"), ("other", "[bar]"), ("star", "['*']")):
        text = note.format(name) + "import operator\nfrom tensorplay_core.plugins import library_impl\n"
        site.add(name, text + (pack if name == "apack" else ""), yaml=f"extends: {extends}")
    result = site.run(
        """
        import builtins
        MANAGER.ensure_device("foo")
        show([builtins.ORDER, table("neg"), {r.name: str(r.state) for r in MANAGER.records()}])
        """
    )
    assert result[0] == ["composite", "foo", "apack", "star"]
    assert result[1] == {"Foo": ["apack"]}
    assert result[2] == {
        "composite": "active", "foo": "active", "apack": "active", "star": "active", "other": "discovered"
    }  # fmt: skip


def test_a_device_of_cores_own_takes_composite_and_the_extenders_that_name_it_once(site: Any) -> None:
    note = "import builtins\nbuiltins.ORDER = [*getattr(builtins, 'ORDER', []), '{}']\n"
    site.add("foo", site.source("foo"))
    site.add("composite", site.source("Composite", note.format("composite"), device=False))
    for name, extends in (("apack", "[own]"), ("broken", "[own]"), ("other", "[foo]")):
        site.add(name, note.format(name) + "1 / 0\n" * (name == "broken"), yaml=f"extends: {extends}")
    script = """
    import builtins
    MANAGER.extend_device("own"); MANAGER.extend_device("own")
    show([getattr(builtins, "ORDER", []), {r.name: str(r.state) for r in MANAGER.records()}])
    """
    order, states = site.run(script)
    assert order == ["composite", "apack", "broken"]
    assert (states["composite"], states["broken"]) == ("active", "error")
    assert states["foo"] == states["other"] == "discovered"
    assert site.run(script, TENSORPLAY_BACKEND_AUTOLOAD="0")[0] == []


def test_the_failure_of_an_extender_leaves_the_owner_active(site: Any) -> None:
    site.add("foo", site.source("foo"))
    site.add("composite", "raise SystemExit")
    site.add("pack", "1 / 0", yaml="extends: [foo]")
    site.add("greedy", site.source("foo"), yaml="extends: [foo]")
    result = site.run(
        """
        MANAGER.ensure_device("foo"); MANAGER.ensure_device("foo")
        show([{r.name: str(r.state) for r in MANAGER.records()}, str(error(MANAGER.load, "pack")),
              str(error(MANAGER.load, "greedy")), table()])
        """
    )
    assert result[0] == {"foo": "active", "composite": "error", "pack": "error", "greedy": "error"}
    assert result[1].startswith("Backend 'pack' (tensorplay-pack 1.0) is broken: its module raised ZeroDivisionError")
    assert "must not implement tensorplay_device" in result[2]
    assert result[3] == {"Foo": ["foo"]}


def test_a_conflict_names_both_distributions(site: Any) -> None:
    site.add("foo", site.source("foo"))
    site.add("pack", site.source("foo", device=False), yaml="extends: [foo]")
    message = site.run("MANAGER.ensure_device('foo'); show(str(error(MANAGER.load, 'pack')))")
    assert "tensorplay-foo" in message and "tensorplay-pack" in message
    assert message.count("tensorplay_foo/plugin.py:") == message.count("tensorplay_pack/plugin.py:") == 1
    assert message.count("\nfix: ") == 1 and "override=True" in message


def test_an_override_of_an_extender_wins_and_leaves_when_unloaded(site: Any) -> None:
    site.add("foo", site.source("foo"))
    text = site.source("foo", device=False).replace("operator.add)", "operator.add, override=True)")
    site.add("pack", text, yaml="extends: [foo]")
    result = site.run(
        """
        MANAGER.ensure_device("foo")
        with_pack = table()
        MANAGER.unload("pack")
        without = table()
        MANAGER.load("pack")
        show([with_pack, without, table()])
        """
    )
    assert result == [{"Foo": ["pack", "foo"]}, {"Foo": ["foo"]}, {"Foo": ["pack", "foo"]}]


def test_unload_takes_everything_back_and_load_brings_it_again(site: Any) -> None:
    text = """
    import builtins
    builtins.RUNS = getattr(builtins, "RUNS", 0) + 1
    builtins.UNLOADED = []
    @hookimpl
    def tensorplay_unload():
        from tensorplay_core.dispatch import devices
        builtins.UNLOADED.append("foo" in devices.active_devices())
    """
    site.add("foo", site.source("foo", text))
    result = site.run(
        """
        import builtins
        for _ in range(20):
            public.load("foo")
            assert table() == {"Foo": ["foo"]}
            public.unload("foo")
            assert table() == {} and "foo" not in devices.active_devices()
        e = error(devices.entry, "foo")
        public.unload("foo")
        state = str(public.info("foo").state)
        show([type(e).__name__, str(e), state, str(public.load("foo").state), builtins.RUNS, len(builtins.UNLOADED)])
        """
    )
    assert result[0] == "DeviceUnavailable"
    assert "was unloaded: tensorplay.backends.unload was called\nfix: call tensorplay.backends.load('foo')" in result[1]
    assert result[2:] == ["unloaded", "active", 1, 20]


def test_an_unload_hook_that_raises_is_told_and_the_backend_is_gone(site: Any) -> None:
    site.add("foo", site.source("foo", "@hookimpl\ndef tensorplay_unload(): raise OSError('busy')\n"))
    result = site.run(
        "MANAGER.load('foo'); e = error(MANAGER.unload, 'foo'); show([str(e), table(), str(MANAGER.load('foo').state)])"
    )
    assert "Backend 'foo' was unloaded, but its tensorplay_unload raised OSError: busy" in result[0]
    assert result[1:] == [{}, "active"]


def test_devices_that_nobody_provides(site: Any) -> None:
    site.add("foo", site.source("foo"))
    site.add("pack", yaml="extends: [foo]")
    names = ["cpu", "cuda", "loopback", "composite", "pack", "fooo", "tpu"]
    cpu, cuda, loopback, composite, pack, fooo, tpu = site.run(f"show([str(error(devices.entry, n)) for n in {names}])")
    assert "Installed devices: foo." in cpu
    assert "\nfix: pip install tensorplay-cpu" in cpu
    assert "\nfix: pip install 'tensorplay[cuda]" in cuda
    assert "pip install ./backends/tensorplay_loopback" in loopback
    assert "'composite' is not a device" in composite
    assert "'pack' is not a device: that backend extends the devices of others" in pack
    assert "Did you mean 'foo'?" in fooo and "pip install" not in fooo
    assert "Installed devices: foo." in tpu and "pip install" not in tpu


def test_names_of_backends_that_are_not_installed(site: Any) -> None:
    site.add("foo", site.source("foo"))
    result = site.run(
        """
        a, b = error(public.info, "fooo"), error(public.load, "composite")
        show([type(a).__name__, str(a), type(b).__name__, str(b), public.is_available("foo"), public.is_available("x")])
        """
    )
    assert result[0] == "BackendError" and "Did you mean 'foo'? Installed backends: foo." in result[1]
    assert result[2] == "DeviceUnavailable" and "pip install tensorplay-composite" in result[3]
    assert result[4:] == [True, False]


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


def test_a_plugin_that_uses_its_own_device_while_loading(site: Any) -> None:
    site.add("foo", site.source("foo", "from tensorplay_core.dispatch import devices\ndevices.entry('foo')\n"))
    assert "Backend 'foo' is used while it is still being loaded (foo → foo)." in site.run(FAIL)[1]


def test_a_plugin_may_load_another_and_two_that_need_each_other_are_told(site: Any) -> None:
    use = "from tensorplay_core.dispatch import devices\ndevices.entry('{}')\n"
    site.add("foo", site.source("foo", use.format("bar")))
    site.add("bar", site.source("bar"))
    script = "MANAGER.ensure_device('foo'); show([table(), sorted(devices.active_devices())])"
    assert site.run(script) == [{"Foo": ["foo"], "Bar": ["bar"]}, ["bar", "foo"]]
    site.add("bar", site.source("bar", use.format("foo")))
    assert "foo → bar → foo" in site.run(FAIL)[1]


def test_an_interrupt_at_import_reaches_the_user_and_a_new_try_works(site: Any) -> None:
    text = """
    import builtins
    builtins.TRIES = getattr(builtins, "TRIES", 0) + 1
    if builtins.TRIES == 1:
        raise KeyboardInterrupt
    """
    site.add("foo", site.source("foo", text))
    result = site.run(
        """
        try:
            MANAGER.ensure_device("foo")
        except KeyboardInterrupt:
            first = str(MANAGER.record("foo").state)
        MANAGER.ensure_device("foo")
        show([first, table()])
        """
    )
    assert result == ["discovered", {"Foo": ["foo"]}]


def test_an_interrupt_that_a_plugin_raises_by_itself_is_its_error_in_a_listing(site: Any) -> None:
    site.add("foo", "raise KeyboardInterrupt")
    reason = site.run("show([r.reason for r in public.list()])")
    assert reason == ["its module raised KeyboardInterrupt (tensorplay_foo/plugin.py:1)"]


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


def test_before_load_runs_ahead_of_a_plugin(site: Any) -> None:
    site.add("foo", site.source("foo", "import builtins\nassert builtins.PREPARED\n"))
    result = site.run(
        """
        import builtins
        lifecycle.connect(lambda: setattr(builtins, "PREPARED", True))
        MANAGER.ensure_device("foo")
        show(table())
        """
    )
    assert result == {"Foo": ["foo"]}
