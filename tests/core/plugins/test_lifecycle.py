from __future__ import annotations

import textwrap
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


def test_an_extender_that_was_loaded_alone_does_not_take_its_device_away_from_the_owner(site: Any) -> None:
    site.add("foo")
    site.add("greedy", site.source("foo", device=False), yaml="extends: [foo]")
    neg = site.source("foo", device=False).replace('"add"', '"neg"').replace(".add)", ".neg)")
    site.add("pack", neg, yaml="extends: [foo]")
    result = site.run(
        """
        public.load("pack"); public.load("greedy")
        alone = [table(), "foo" in devices.active_devices()]
        devices.entry("foo")
        show([alone, table(), table("neg"), {r.name: str(r.state) for r in MANAGER.records()},
              str(error(public.load, "greedy"))])
        """
    )
    assert result[0] == [{"Foo": ["greedy"]}, False]
    assert result[1:3] == [{"Foo": ["foo"]}, {"Foo": ["pack"]}]
    assert result[3] == {"foo": "active", "pack": "active", "greedy": "error"}
    assert "tensorplay-foo" in result[4] and "tensorplay-greedy" in result[4]


def test_what_ran_once_and_was_refused_later_is_refused_again_after_a_refresh(site: Any) -> None:
    site.add("foo")
    site.add("greedy", site.source("foo", device=False), yaml="extends: [foo]")
    result = site.run(
        """
        public.load("greedy")
        devices.entry("foo")
        public.refresh()
        show([str(error(public.load, "greedy")), table()])
        """
    )
    assert "tensorplay-foo" in result[0] and result[1] == {"Foo": ["foo"]}


@pytest.mark.parametrize("first", ["", "public.load('alpha')", "public.load('zeta')"])
def test_of_two_extenders_that_claim_a_free_slot_priority_and_name_decide_and_not_arrival(
    site: Any, first: str
) -> None:
    site.add("foo")
    neg = site.source("foo", device=False).replace('"add"', '"neg"').replace(".add)", ".neg)")
    for name in ("zeta", "alpha"):
        site.add(name, neg, yaml="extends: [foo]")
    script = f"""
        {first}
        devices.entry("foo")
        show([table("neg"), {{r.name: str(r.state) for r in MANAGER.records()}}, MANAGER.record(LOSER).reason])
        """
    one = site.run(f"LOSER = 'zeta'\n{textwrap.dedent(script)}")
    assert one[:2] == [{"Foo": ["alpha"]}, {"foo": "active", "alpha": "active", "zeta": "error"}]
    assert "tensorplay-alpha" in one[2] and "override=True" in one[2]
    other = site.run(f"LOSER = 'alpha'\n{textwrap.dedent(script)}", TENSORPLAY_BACKENDS_PRIORITY="zeta=-5")
    assert other[:2] == [{"Foo": ["zeta"]}, {"foo": "active", "alpha": "error", "zeta": "active"}]


def test_an_unloaded_extender_of_an_active_device_stays_away_until_it_is_loaded(site: Any) -> None:
    site.add("foo")
    neg = site.source("foo", device=False).replace('"add"', '"neg"').replace(".add)", ".neg)")
    site.add("pack", neg, yaml="extends: [foo]")
    result = site.run(
        """
        devices.entry("foo")
        public.unload("pack")
        out = [table("neg")]
        public.unload("foo"); public.load("foo"); public.refresh(); out.append(table("neg"))
        public.load("pack"); out.append(table("neg"))
        show(out)
        """
    )
    assert result == [{}, {}, {"Foo": ["pack"]}]


def test_listing_inside_a_load_lists_the_others(site: Any) -> None:
    site.add("foo", site.source("foo", "from tensorplay_core.plugins import public\npublic.list()\n"))
    site.add("good")
    assert site.run("devices.entry('foo'); show({r.name: str(r.state) for r in MANAGER.records()})") == {
        "foo": "active", "good": "active"
    }  # fmt: skip
