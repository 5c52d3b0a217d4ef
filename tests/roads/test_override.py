"""A built-in kernel overridden, by a program and by a plugin, through the one code path; and restored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY

ADD = REGISTRY.find("add")

PLUGIN = """
import numpy
from tensorplay_core.plugins import Availability, hookimpl, library_impl

CALLS = []

def add(self, other):
    CALLS.append(numpy.shape(self))
    return numpy.add(self, other) + {extra}

@library_impl("CPU", "a faster add")
def _(m):
    m.impl("add", add, override={override})

@hookimpl
def tensorplay_probe():
    return Availability(ok=True)
"""


@pytest.fixture
def faster(tmp_path: Path):
    """A plugin that extends the cpu; a function that runs a program with it installed."""

    def run(program: str, *, extra: int = 10, override: bool = True) -> str:
        package = tmp_path / "tensorplay_faster"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "plugin.py").write_text(PLUGIN.format(extra=extra, override=override))
        (package / "backend.yaml").write_text('summary: a faster add\napi: ">=1,<2"\nextends: [cpu]\n')
        info = tmp_path / "tensorplay_faster-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorplay-faster\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[tensorplay.backends]\nfaster = tensorplay_faster.plugin\n"
            "[tensorplay.backend_info]\nfaster = tensorplay_faster:backend.yaml\n"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
        code = "import tensorplay as tp\n" + textwrap.dedent(program)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def everything(x: tp.Tensor) -> list[list[float]]:
    """What the override of ``add`` must serve: function, operator, method, in place, out=, packet, with a gradient."""
    leaf = x.clone().requires_grad_()
    y = leaf + x
    y.sum().backward()
    assert leaf.grad.tolist() == [1.0, 1.0]
    found = [tp.add(x, x), x + x, x.add(x), x.clone().add_(x), tp.add(x, x, out=tp.zeros(2)), tp.ops.tp.add(x, x), y]
    return [t.tolist() for t in found]


@pytest.mark.parametrize("level", ["array", "tensor"])
def test_a_program_overrides_a_kernel_and_gives_it_back(level):
    x = tp.tensor([1.0, 2.0])
    plain = [[2.0, 4.0]] * 7
    before = dict(ADD.table)
    assert everything(x) == everything(x) == plain

    def array(self, other):
        return np.add(self, other) + 10

    def tensor(self, other, *, alpha=1):
        return tp.from_numpy(array(self.numpy(), other.numpy()))

    for _ in range(3):
        with closing(tp.library.Library("tp", "IMPL")) as lib:
            lib.impl("add", array if level == "array" else tensor, "CPU", override=True, level=level)
            top, beneath = ADD.table[0]
            assert top.override and top.where.startswith(__file__) and beneath.distribution == "tensorplay-cpu"
            assert everything(x) == everything(x) == [[12.0, 14.0]] * 7
        assert everything(x) == everything(x) == plain
        assert dict(ADD.table) == before


def test_a_program_overrides_by_the_functions_of_tp_library_too():
    x = tp.tensor([1.0, 2.0])
    with closing(tp.library.Library("tp", "IMPL")) as lib:
        tp.library.register_kernel(
            "add", "cpu", lambda a, b, *, alpha=1: tp.from_numpy(a.numpy() * 0 + 7), lib=lib, override=True
        )
        assert (x + x).tolist() == tp.add(x, x, alpha=2).tolist() == [7.0, 7.0]
    assert (x + x).tolist() == [2.0, 4.0] and tp.add(x, x, alpha=2).tolist() == [3.0, 6.0]


def test_a_plugin_overrides_a_kernel_and_unloading_restores_it(faster):
    said = faster(
        """
        from tensorplay_core.dispatch.registry import REGISTRY
        def state():
            x = tp.tensor([1.0], requires_grad=True)
            y = x + 1.0
            y.backward()
            stack = [r.distribution for r in REGISTRY.find("add").table.get(0, ())]
            values = [x.detach() + 1.0, tp.tensor([1.0]).add_(tp.tensor([1.0])), y, x.grad]
            return [v.item() for v in values], stack
        tp.ones(1)
        print(state())
        print(state())
        tp.backends.unload("faster")
        print(state())
        tp.backends.load("faster")
        print(state())
        """
    )
    both = "['tensorplay-faster', 'tensorplay-cpu']"
    on, off = f"([12.0, 12.0, 12.0, 1.0], {both})", "([2.0, 2.0, 2.0, 1.0], ['tensorplay-cpu'])"
    assert said.splitlines() == [on, on, off, on]


def test_a_plugin_that_does_not_say_override_is_refused_and_the_built_in_kernel_stays(faster):
    said = faster(
        """
        x = tp.ones(1)
        print((x + x).item())
        record = tp.backends.info("faster")
        print(record.state.value)
        print(record.error)
        """,
        override=False,
    )
    value, state, *error = said.splitlines()
    text = "\n".join(error)
    assert (value, state) == ("2.0", "error")
    assert "add at CPU is taken by tensorplay-cpu" in text and "tensorplay-faster" in text and "override=True" in text


# ------------------------------------------------------------------------------------- several plugins, and a program

MANY = """
from tensorplay_core.plugins import library_impl

@library_impl("CPU", "{name}")
def _(m):
    beneath = m.below("add")

    def add(self, other):
        return beneath(self, other) + {extra}

    m.impl("add", add, override={override})
"""


def installed(folder: Path, name: str, *, extra: int, priority: int = 0, override: bool = True) -> str:
    """Installs a plugin that adds to what lies beneath its ``add``; returns the folder for ``sys.path``."""
    package = folder / f"tensorplay_{name}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MANY.format(name=name, extra=extra, override=override))
    (package / "backend.yaml").write_text(f"extends: [cpu]\npriority: {priority}\n")
    info = folder / f"tensorplay_{name}-{extra}.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tensorplay-{name}\nVersion: {extra}.0\n")
    (info / "entry_points.txt").write_text(
        f"[tensorplay.backends]\n{name} = tensorplay_{name}\n"
        f"[tensorplay.backend_info]\n{name} = tensorplay_{name}:backend.yaml\n"
    )
    return str(folder)


def said(paths: list[str], *command: str, columns: int = 80) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)]), "COLUMNS": str(columns)}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


VALUE = "import tensorplay as tp; x = tp.tensor([1.0]); print((x + x).item(), (x + x).item())"
SHOW = ("-c", "from tensorplay_core.cli import main; main()", "ops", "show", "add")


def stack_of(text: str) -> list[tuple[str, bool]]:
    slots = [slot for slot in json.loads(text)["slots"] if slot["slot"] == "CPU"]
    return [(f"{slot['distribution']} {slot['version']}", slot["active"]) for slot in slots]


def test_two_plugins_that_override_one_operator_have_one_winner_in_any_order(tmp_path: Path) -> None:
    version = tp.__version__
    for number, order in enumerate(("ab", "ba")):  # the order in which they are installed
        paths = [installed(tmp_path / f"{number}{name}", name, extra={"a": 10, "b": 100}[name]) for name in order]
        for path in (paths, paths[::-1]):  # and that in which they are found
            assert said(path, "-c", VALUE) == "112.0 112.0\n"
            assert stack_of(said(path, *SHOW, "--json")) == [
                ("tensorplay-b 100.0", True), ("tensorplay-a 10.0", False), (f"tensorplay-cpu {version}", False)
            ]  # fmt: skip
    text = said(paths, *SHOW)
    lines = text[text.index("  CPU (0)") :].splitlines()[:6]
    assert [line for line in lines if "from" in line] == [
        "  CPU (0): add from tensorplay-b 100.0 [wins, override]",
        "      beneath it: add from tensorplay-a 10.0 [override]",
        f"      beneath it: numpy.add from tensorplay-cpu {version}",
    ]
    assert "tensorplay_b/__init__.py:8" in lines[1] and "tensorplay_a/__init__.py:8" in lines[3]
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "beneath it: add from tensorplay-a 10.0 [override]" in said(paths, *SHOW, columns=160)


def test_the_higher_priority_wins_and_a_program_wins_over_every_plugin(tmp_path: Path) -> None:
    paths = [installed(tmp_path, "a", extra=10, priority=1000), installed(tmp_path / "b", "b", extra=100)]
    program = """
import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
x = tp.tensor([1.0])
def state():
    return (x + x).item(), [(r.distribution, r.priority, r.run_time) for r in REGISTRY.find("add").table[0]]
print(*state())
lib = tp.library.Library("tp", "IMPL", "CPU")
beneath = lib.below("add")
lib.impl("add", lambda self, other: beneath(self, other) * 2, override=True)
print(*state())
road = tp.explain(tp.add, x, x).steps[-1]
print(road.distribution, road.label)
tp.backends.unload("a")
print((x + x).item())
tp.backends.unload("b")
print((x + x).item())
lib.close()
print((x + x).item())
"""
    plugins = "('tensorplay-a', 1000, False), ('tensorplay-b', 0, False), ('tensorplay-cpu', 0, False)]"
    assert said(paths, "-c", program).splitlines() == [
        f"112.0 [{plugins}",
        f"224.0 [('__main__', 0, True), {plugins}",
        "__main__ <lambda>",
        "204.0",
        "4.0",
        "2.0",
    ]


def test_a_third_that_takes_the_slot_without_override_is_refused_and_the_others_stay(tmp_path: Path) -> None:
    paths = [installed(tmp_path / name, name, extra=extra) for name, extra in (("a", 10), ("b", 100))]
    paths.append(installed(tmp_path / "c", "c", extra=1000, override=False))
    program = "print(tp.backends.info('c').state, tp.backends.info('c').reason)"
    value, told, *rest = said(paths, "-c", f"{VALUE}; {program}").splitlines()
    text = " ".join([told, *rest])
    assert value == "112.0 112.0" and told.startswith("error ")
    for part in ("tensorplay-cpu (", "tensorplay_cpu/plugin.py:", "tensorplay-c claims it too (", "override=True"):
        assert part in text
    assert f"{paths[2]}/tensorplay_c/__init__.py:8" in text
    assert [name for name, _ in stack_of(said(paths, *SHOW, "--json"))][:2] == [
        "tensorplay-b 100.0", "tensorplay-a 10.0"
    ]  # fmt: skip


def test_a_plugin_that_registers_for_a_device_that_it_does_not_extend_is_told_so(tmp_path: Path) -> None:
    path = installed(tmp_path, "c", extra=1)
    source = 'from tensorplay_core.plugins import library_impl\n@library_impl("Loopback", "C")\n'
    Path(path, "tensorplay_c", "__init__.py").write_text(
        source + "def _(m):\n    m.impl('linear', lambda input, weight, bias: input)\n"
    )
    program = "import tensorplay as tp; tp.backends.list(); record = tp.backends.info('c'); print(record.reason)"
    text = said([path], "-c", program)
    assert "'c' does not serve the device 'loopback', and registers for it: linear (" in text
    assert "tensorplay_c/__init__.py:4" in text and "'extends: [loopback]'" in text
