from __future__ import annotations

from typing import Any


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
        from tensorplay_core.types.device import Device
        a, b = error(public.info, "fooo"), error(public.load, "composite")
        c, d = error(public.load, 3), error(public.info, Device("foo"))
        show([type(a).__name__, str(a), type(b).__name__, str(b), public.is_available("foo"), public.is_available("x"),
              f"{type(c).__name__}: {c}", str(d)])
        """
    )
    assert result[0] == "BackendError" and "Did you mean 'foo'? Installed backends: foo." in result[1]
    assert result[2] == "DeviceUnavailable" and "pip install tensorplay-composite" in result[3]
    assert result[4:6] == [True, False]
    assert result[6] == "ArgumentError: a backend's name must be a str, got 3\nfix: pass a name, such as 'cpu'"
    assert result[7].endswith("\nfix: pass 'foo', its type")
