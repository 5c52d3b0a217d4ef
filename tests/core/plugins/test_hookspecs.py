from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from tensorplay_core import plugins
from tensorplay_core.errors import ArgumentError, ValueRangeError
from tensorplay_core.plugins import hookspecs
from tensorplay_core.plugins.hookspecs import Availability, hookimpl


def test_availability_is_frozen_and_has_defaults() -> None:
    answer = Availability(True)
    assert (answer.reason, answer.device_count, answer.fix) == ("", 0, "")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        answer.ok = False  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields", [{"ok": 1}, {"ok": True, "reason": None}, {"ok": True, "device_count": True}, {"ok": True, "fix": 3}]
)
def test_availability_refuses_wrong_types(fields: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match="Availability: "):
        Availability(**fields)  # type: ignore[arg-type]


def test_availability_needs_a_reason_and_a_count_that_can_be() -> None:
    with pytest.raises(ValueRangeError, match="needs a reason"):
        Availability(ok=False, reason=" ")
    with pytest.raises(ValueRangeError, match="must not be negative"):
        Availability(ok=True, device_count=-1)


def test_misspelt_and_unmarked_hooks_are_found() -> None:
    class Plugin:
        @hookimpl
        def tensorplay_prob(self) -> None: ...

    plugin = Plugin()
    manager = hookspecs.plugin_manager()
    manager.register(plugin, "foo")
    (problem,) = hookspecs.problems(manager, plugin)
    assert "no hook 'tensorplay_prob' (" in problem and "Did you mean 'tensorplay_probe'?" in problem


def test_plugins_serve_their_names_lazily() -> None:
    script = (
        "import sys, tensorplay_core.plugins as p, tensorplay_core.plugins.lifecycle as l; l.connect()\n"
        "heavy = {'pluggy', 'attr', 'attrs', 'yaml', 'importlib.metadata', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "from tensorplay_core.plugins import hookimpl, Availability, library_impl, DeviceAPI, API_VERSION, hookspec\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'hookimpl'"):
        plugins.hookimp  # noqa: B018
    assert set(plugins.__all__) <= set(dir(plugins))
