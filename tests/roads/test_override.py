"""A built-in kernel overridden, by a program and by a plugin, through the one code path; and restored."""

from __future__ import annotations

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
