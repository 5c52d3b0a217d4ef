from __future__ import annotations

from typing import Any

import pytest

from tensorplay_core.errors import ArgumentError, TensorPlayError, ValueRangeError
from tensorplay_core.plugins import configuration


def test_what_is_given_lies_over_the_environment_until_it_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORPLAY_BACKENDS_PRIORITY", "foo=1,bar=2")
    monkeypatch.setenv("TENSORPLAY_BACKENDS_BLOCK", "foo")
    mine = configuration.updated({}, {"block": "bar, baz", "priority": {"foo": 5}, "timeout": 0}, ())
    settings = configuration.merged(mine)
    assert settings.block == {"bar", "baz"} and settings.priority == {"foo": 5, "bar": 2} and settings.timeout is None
    assert settings.sources == {
        "block": "configure", "priority": "environment, configure", "timeout": "configure"
    }  # fmt: skip
    assert repr(settings) == (
        "Settings(block=bar,baz from tensorplay.backends.configure(block=…), priority=bar=2,foo=5 from"
        " TENSORPLAY_BACKENDS_PRIORITY and tensorplay.backends.configure(priority=…), timeout=no limit from"
        " tensorplay.backends.configure(timeout=…))"
    )
    assert "\nfallback          raise" in str(settings) and str(settings).count("\n") == 7
    more = configuration.updated(mine, {"priority": {"new": 1}}, ())
    assert configuration.merged(more).priority == {"foo": 5, "bar": 2, "new": 1}
    back = configuration.updated(more, {"block": None, "priority": None, "timeout": None}, ())
    assert configuration.merged(back).block == {"foo"} and configuration.merged(back).priority == {"foo": 1, "bar": 2}
    assert back == {} and mine["block"] == {"bar", "baz"}


def test_an_empty_text_allows_all_and_an_empty_list_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORPLAY_BACKENDS", "foo")
    assert configuration.merged({}).blocked("bar") == "TENSORPLAY_BACKENDS=foo does not name it"
    assert configuration.merged(configuration.updated({}, {"allow": ""}, ())).allow is None
    nothing = configuration.merged(configuration.updated({}, {"allow": []}, ()))
    assert nothing.blocked("foo") == "tensorplay.backends.configure(allow='') does not name it"
    assert nothing.remedy("foo").startswith("call tensorplay.backends.configure(allow=…) with 'foo'; allow=None leaves")
    assert nothing.blocked("composite") == ""


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (
            {"allow": ["cpu", "fooo"]},
            ValueRangeError,
            "allow names 'fooo', and no such backend is installed. Did you mean",
        ),
        ({"allow": 3}, ArgumentError, "allow must be names of backends, such as ['cpu', 'cuda'], got 3"),
        ({"block": [1]}, ArgumentError, "block must be names of backends"),
        ({"block": {"foo": 1}}, ArgumentError, "block must be names of backends"),
        ({"block": "CUDA"}, ValueRangeError, "block: 'CUDA' is no backend's name"),
        ({"priority": ["foo"]}, ArgumentError, "priority must be a mapping of names to integers"),
        ({"priority": {"foo": True}}, ArgumentError, "priority of 'foo' must be an integer, got True"),
        ({"priority": {"foo": 10**9}}, ValueRangeError, "at most 9 digits"),
        ({"autoload": 1}, ArgumentError, "autoload must be True or False, got 1"),
        ({"trace": "1"}, ArgumentError, "trace must be True or False"),
        ({"fallback": "wran"}, ValueRangeError, "there is no 'wran'. Did you mean 'warn'"),
        ({"timeout": "60"}, ArgumentError, "timeout must be a number of seconds"),
        ({"timeout": -1}, ValueRangeError, "timeout must be between 0 and 1,000,000 seconds, got -1"),
        ({"timeout": float("nan")}, ValueRangeError, "got nan"),
        ({"timeout": 10**400}, ValueRangeError, "between 0 and 1,000,000 seconds"),
    ],
)
def test_a_value_that_means_nothing_is_refused_with_a_remedy(
    given: dict[str, Any], kind: type[TensorPlayError], text: str
) -> None:
    before = {"block": frozenset({"bar"})}
    with pytest.raises(kind) as caught:
        configuration.updated(before, {"trace": True, **given}, ["foo"])
    assert text in str(caught.value) and "\nfix: " in str(caught.value)
    assert before == {"block": frozenset({"bar"})}


def test_a_listing_takes_a_time_limit_that_means_something_and_records_nothing_otherwise(site: Any) -> None:
    site.add("foo")
    result = site.run(
        """
        calls = (lambda timeout: public.list(timeout=timeout), public.doctor)
        wrong = [error(call, timeout) for call in calls for timeout in (-1, float("nan"), "2")]
        untried = str(public.info("foo").state)
        public.list(timeout=0)  # no limit, as everywhere
        show([[f"{type(e).__name__}: {e}" for e in wrong], untried, str(public.info("foo").state)])
        """
    )
    assert result[0][0] == (
        "ValueRangeError: list: timeout must be between 0 and 1,000,000 seconds, got -1\nfix: pass 0 for no limit"
    )
    assert result[0][5].startswith("ArgumentError: doctor: timeout must be a number of seconds, got '2'\nfix: ")
    assert result[1:] == ["discovered", "active"]


def test_the_settings_reach_the_floors_below_before_anything_is_loaded(site: Any) -> None:
    site.add("foo")
    script = """
    from tensorplay_core.dispatch import fallbacks, misses, active
    public.configure(fallback="warn", trace_kernel_miss=True)
    told = [fallbacks.mode, misses.trace_misses(), "tensorplay_core.profiler.trace" in sys.modules, MANAGER._records]
    public.configure(trace=True)
    told.append(active.probe is not None)
    public.configure(trace=None, trace_kernel_miss=None)
    told += [active.probe is None, misses.trace_misses()]
    e = error(lambda: public.configure(timeout=-1, fallback="allow"))
    told += [fallbacks.mode, public.settings().fallback, repr(public.settings())]
    public.list()
    show([*told, fallbacks.mode, str(MANAGER.record("foo").state)])
    """
    result = site.run(script, TENSORPLAY_FALLBACK="allow")
    assert result[:4] == ["warn", True, False, None]
    assert result[4:8] == [True, True, False, "warn"]
    assert result[8:] == [
        "warn",
        "Settings(fallback=warn from tensorplay.backends.configure(fallback=…))",
        "warn",
        "active",
    ]
    traced = "from tensorplay_core.dispatch import active; public.list(load=False); show(active.probe is not None)"
    assert site.run(traced, TENSORPLAY_TRACE="1") is True
    assert site.run(f"public.configure(trace=False); {traced}", TENSORPLAY_TRACE="1") is False


def test_threads_that_configure_different_settings_lose_none_of_them(site: Any) -> None:
    site.add("foo")
    lost = site.run(
        """
        import threading
        from tensorplay_core.plugins import configuration
        public.list()
        updated = configuration.updated
        def slow(overrides, given, installed):
            after = updated(overrides, given, installed)
            if threading.current_thread() is threading.main_thread():
                other.start()
                other.join(0.3)  # it has to wait, and would be done long before otherwise
            return after
        other = threading.Thread(target=lambda: public.configure(fallback="warn"))
        configuration.updated = slow
        public.configure(block="foo")
        other.join()
        first = [sorted(public.settings().block), public.settings().fallback]
        other = threading.Thread(target=lambda: public.configure(fallback="allow"))
        public.refresh()
        other.join()
        show([first, public.settings().fallback])
        """
    )
    assert lost == [[["foo"], "warn"], "allow"]


def test_a_variable_that_changed_counts_from_the_next_refresh_on_and_settings_say_so(site: Any) -> None:
    site.add("foo")
    result = site.run(
        """
        import os
        public.list(load=False)
        os.environ["TENSORPLAY_BACKENDS_BLOCK"] = "foo"
        public.configure(fallback="warn")
        before = [sorted(public.settings().block), str(public.info("foo").state)]
        public.refresh()
        show([before, [sorted(public.settings().block), str(public.info("foo").state)]])
        """
    )
    assert result == [[[], "discovered"], [["foo"], "blocked"]]


def test_an_active_backend_that_is_blocked_is_unloaded_and_comes_back(site: Any) -> None:
    text = """
    import builtins
    builtins.UNLOADED = 0
    @hookimpl
    def tensorplay_unload():
        builtins.UNLOADED += 1
    """
    site.add("foo", site.source("foo", text))
    result = site.run(
        """
        import builtins, os
        record = public.load("foo")
        public.configure(block=["foo"])
        out = [str(record.state), public.info("foo") is record, table(), str(error(devices.entry, "foo"))]
        out.append(str(error(public.load, "foo")) == out[-1])
        public.configure(block=None)
        out += [str(public.info("foo").state), devices.entry("foo").count, table(), builtins.UNLOADED]
        os.environ["TENSORPLAY_BACKENDS_BLOCK"] = "foo"
        public.refresh()
        out += [str(public.info("foo").state), str(error(devices.entry, "foo"))]
        public.configure(block="")
        show([*out, devices.entry("foo").count])
        """
    )
    assert result[:3] == ["blocked", True, {}]
    assert result[3] == (
        "Device 'foo' cannot be used: its backend (tensorplay-foo 1.0) is blocked:"
        " tensorplay.backends.configure(block=…) names it\nfix: call tensorplay.backends.configure(block=…) without"
        " 'foo'; block=None leaves it to TENSORPLAY_BACKENDS_BLOCK"
    )
    assert result[4:9] == [True, "discovered", 2, {"Foo": ["foo"]}, 1]
    assert result[9] == "blocked"
    assert "change or unset TENSORPLAY_BACKENDS_BLOCK, then call tensorplay.backends.refresh()" in result[10]
    assert result[11] == 2


def test_an_unload_hook_that_raises_when_its_backend_is_blocked_is_warned_of(site: Any) -> None:
    for name in ("foo", "bar"):
        site.add(name, site.source(name, "@hookimpl\ndef tensorplay_unload(): raise OSError('busy')\n"))
    result = site.run(
        """
        import warnings
        public.load("foo")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            public.configure(block="foo")
        many = [[str(w.message) for w in seen], str(public.info("foo").state), table(), public.info("foo").traceback]
        public.configure(block="")
        active = [public.load(name).traceback for name in ("foo", "bar")]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                public.configure(block="foo,bar")
            except RuntimeWarning:
                many += [[sorted(devices.active_devices()), table()], active]
        show(many)
        """
    )
    assert len(result[0]) == 1 and "'foo' was unloaded, but its tensorplay_unload raised OSError: busy" in result[0][0]
    assert result[1:3] == ["blocked", {}]
    assert "OSError: busy" in result[3], "the remedy says that it is there"
    assert result[4] == [[], {}], "where warnings are errors, all were taken down all the same"
    assert result[5] == ["", ""]


def test_a_priority_reorders_active_backends_and_their_kernels(site: Any) -> None:
    site.add("foo")
    for name in ("apack", "bpack"):
        text = site.source("foo", device=False).replace("operator.add)", "operator.add, override=True)")
        site.add(name, text, yaml="extends: [foo]")
    result = site.run(
        """
        devices.entry("foo")
        before = [table(), [r.name for r in public.list()]]
        public.configure(priority={"apack": 5})
        after = [table(), [r.name for r in public.list()]]
        public.configure(priority=None)
        show([before, after, [table(), [r.name for r in public.list()]] == before])
        """
    )
    assert result[0] == [{"Foo": ["bpack", "apack", "foo"]}, ["apack", "bpack", "foo"]]
    assert result[1] == [{"Foo": ["apack", "bpack", "foo"]}, ["bpack", "foo", "apack"]]
    assert result[2] is True


def test_without_autoload_by_python_the_error_names_the_call(site: Any) -> None:
    site.add("foo")
    script = "public.configure(autoload=False); e = str(error(devices.entry, 'foo')); public.configure(autoload=True)"
    message, count = site.run(f"{script}; show([e, devices.entry('foo').count])")
    assert "and tensorplay.backends.configure(autoload=False) forbids loading it by itself." in message
    assert message.endswith("or call tensorplay.backends.configure(autoload=True)")
    assert count == 2


@pytest.mark.parametrize(
    "call",
    [
        "tp.backends.configure(trace=True)",
        "tp.backends.refresh()",
        "tp.manual_seed(0)",
        "tp.set_default_device('meta')",
    ],
)
def test_a_plugin_cannot_change_what_is_the_users_while_it_is_loaded(site: Any, call: str) -> None:
    site.add("foo", site.source("foo", f"import tensorplay as tp\n{call}\n"))
    script = """
    from tensorplay_core.dispatch import active
    tp.manual_seed(7)
    message = str(error(tp.backends.load, "foo"))
    show([message, str(tp.get_default_device()), devices.initial_seed(), active.probe is None])
    """
    message, default, seed, untraced = site.run(script, whole=True)
    name = call.partition("(")[0].removeprefix("tp.")
    assert f"{name} was called while backend 'foo' is being loaded, and is the user's to call." in message
    assert "\nfix: remove the call" in message
    assert (default, seed, untraced) == ("cpu", 7, True)


def test_the_context_of_the_caller_is_not_changed_by_a_plugin(site: Any) -> None:
    site.add("foo", site.source("foo", "import tensorplay as tp\ntp.set_grad_enabled(False)\n"))
    assert site.run("tp.backends.load('foo'); show(tp.is_grad_enabled())", whole=True) is True
