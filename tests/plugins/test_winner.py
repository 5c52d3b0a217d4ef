"""Two plugins that override one operator: the same one wins in every order, and all can see who, and over whom."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

OVERRIDES = """
def sub(self, other, *, alpha=1):
    return numpy.subtract(self, alpha * other) + {mark}

@library_impl("toy", "Mine")
def _(m):
    m.impl("sub", sub{override})

@library_impl("CPU", "MineCPU")
def _(m):
    m.impl("sub", sub{override})
"""
LOOK = """
def look():
    sums = []
    for device in ("toy", "cpu"):
        x = tp.zeros(2, device=device)
        sums += [(x - x).tolist()[0] for _ in range(3)]  # the slow path first, the fast one then
    assert len(set(sums)) == 1, sums
    return sums[0]
"""
LOADS = """
seen = {"first": look()}
tp.backends.refresh()
seen["refreshed"] = look()
for order in (("alpha", "beta"), ("beta", "alpha")):
    for name in order:
        tp.backends.unload(name)
    seen["bare", order] = look()
    for name in order:
        tp.backends.load(name)
    seen["again", order] = look()
tp.backends.unload("beta")
seen["without beta"] = look()
tp.backends.refresh()  # an unloaded backend stays so
seen["still without"] = look()
tp.backends.load("beta")
tp.backends.unload("toy"); tp.backends.load("toy")
seen["toy again"] = look()
give({str(key): value for key, value in seen.items()})
"""


def extender(environment: Any, name: str, mark: int, priority: int = 0, overrides: bool = True) -> Path:
    """Builds an extender of ``toy`` and of the cpu, whose ``sub`` adds ``mark`` too; returns its wheel."""
    yaml = f"extends: [{'toy, cpu' if overrides else 'toy'}]\npriority: {priority}\n"
    code = OVERRIDES.format(mark=mark, override=", override=True" if overrides else "")
    wheel: Path = environment.build(name, code, device=False, yaml=yaml)
    return wheel


def test_both_orders_of_installing_and_of_the_path_give_the_same_winner(environment: Any) -> None:
    environment.install("toy")
    wheels = {"alpha": extender(environment, "alpha", 10), "beta": extender(environment, "beta", 20)}
    expected = {
        "first": 20.0, "refreshed": 20.0, "without beta": 10.0, "still without": 10.0, "toy again": 20.0,
    }  # fmt: skip
    found = []
    for order in itertools.permutations(wheels):
        for name in order:
            environment.pip("install", "--no-deps", wheels[name])
        found.append(environment.gives(LOOK + LOADS))
        environment.pip("uninstall", *(f"tensorplay-{name}" for name in order))
    folders = {name: environment.folder / f"path-{name}" for name in wheels}
    for name, folder in folders.items():
        environment.pip("install", "--no-deps", "--target", folder, wheels[name])
    for order in itertools.permutations(folders.values()):
        found.append(environment.gives(LOOK + LOADS, path=order))
        for first, second in itertools.permutations(folders):  # and whichever somebody loads first
            load = f"tp.backends.load({first!r}); tp.backends.load({second!r})\n"
            assert environment.gives(load + LOOK + "give(look())", path=order) == 20.0
    for seen in found:
        assert {key: seen[key] for key in expected} == expected, seen
        assert {value for key, value in seen.items() if "again" in key} == {20.0}, seen
        assert {value for key, value in seen.items() if "bare" in key} == {0.0}, seen


def test_priority_decides_before_the_name_and_the_environment_over_both(environment: Any) -> None:
    environment.install("toy")
    for name, mark, priority in (("alpha", 10, 5), ("beta", 20, 0)):
        environment.pip("install", "--no-deps", extender(environment, name, mark, priority))
    assert environment.gives(LOOK + "give(look())") == 10.0
    assert environment.gives(LOOK + "give(look())", TENSORPLAY_BACKENDS_PRIORITY="alpha=-1") == 20.0
    assert environment.gives(LOOK + "give(look())", TENSORPLAY_BACKENDS_BLOCK="alpha") == 20.0
    assert environment.gives(LOOK + "give(look())", TENSORPLAY_BACKENDS="cpu,toy") == 0.0


def test_both_are_listed_explain_names_the_winner_and_a_third_without_override_is_refused(environment: Any) -> None:
    environment.install("toy")
    for name, mark in (("alpha", 10), ("beta", 20)):
        environment.pip("install", "--no-deps", extender(environment, name, mark))
    environment.pip("install", "--no-deps", extender(environment, "gamma", 30, overrides=False))

    shown = json.loads(environment.tensorplay("ops", "show", "sub", "--json").out)
    for slot, owner in (("Toy", "tensorplay-toy"), ("CPU", "tensorplay-cpu")):
        stack = [row for row in shown["slots"] if row["slot"] == slot]
        names = [(row["distribution"], row["active"], row["override"]) for row in stack]
        assert names == [("tensorplay-beta", True, True), ("tensorplay-alpha", False, True), (owner, False, False)]
        assert stack[0]["where"].endswith("tensorplay_beta/plugin.py:6")
    told = environment.tensorplay("ops", "show", "sub").out
    assert "beneath it: " in told and told.index("tensorplay-beta") < told.index("tensorplay-alpha")

    for owner, call in (("toy", "sub(float32[2] toy, float32[2] toy)"), ("cpu", "sub(float32[2], float32[2])")):
        text = environment.tensorplay("explain", call)
        assert text.code == 0, text
        line = next(line for line in text.out.splitlines() if "tensorplay-beta" in line)
        assert "tensorplay_beta/plugin.py:6" in text.out, text.out
        assert "tensorplay-alpha" not in line, text.out
        assert f"over those of tensorplay-alpha and tensorplay-{owner}" in " ".join(text.out.split()), text.out

    assert environment.gives(LOOK + "give(look())") == 20.0  # the device has not suffered
    early = "raised(lambda: tp.backends.load('gamma'))\n" + LOOK + "give(look())"  # nor has it by coming first
    assert environment.gives(early) == 20.0
    seen = environment.sees("tp.backends.load('gamma')", "gamma", before="tp.ones(2, device='toy')")
    assert seen.kind in ("BackendConflict", "BackendError"), seen
    for name, line in (("toy", ""), ("gamma", "6"), ("cpu", "")):
        place = f"tensorplay_{name}/plugin.py:{line}"
        assert f"tensorplay-{name}" in seen.message and place in seen.message, (name, seen.message)
    assert seen.message.count("sub at") == 2, seen.message  # both slots, in one error
    assert "override=True" in seen.message
    assert (seen.record["state"], seen.record["registrations"]) == ("error", 0)
