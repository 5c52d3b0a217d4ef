"""Real distributions for the tests: a folder with a package and its ``.dist-info`` is what an installed one is.

Scripts run in a process of their own, where the only backends are those of the test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

PRELUDE = """
import importlib.metadata, json, sys
_real = importlib.metadata.distributions
importlib.metadata.distributions = lambda **kw: _real(path=SITES)
from tensorplay_core.errors import *
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
if WHOLE:
    import tensorplay as tp
for _signature in ("add(Tensor self, Tensor other) -> Tensor", "neg(Tensor self) -> Tensor") if not WHOLE else ():
    REGISTRY.define(Operator(_signature, namespace="tp", where="test"))
from tensorplay_core.plugins import lifecycle, public
from tensorplay_core.plugins.lifecycle import MANAGER
WHOLE or lifecycle.connect()

def table(op="add"):
    from tensorplay_core.dispatch.keys import slot_name
    stacks = REGISTRY.find(op).table.items()
    return {slot_name(key): [r.owner for r in stack] for key, stack in stacks if slot_name(key) not in FUNCTIONAL}

FUNCTIONAL = ("Autograd", "Autocast", "Vmap", "Python")

def error(call, *args):
    try:
        call(*args)
    except TensorPlayError as caught:
        return caught
    raise AssertionError("nothing was raised")

def show(value):
    print("RESULT " + json.dumps(value, default=str))
"""

PLUGIN = """
import operator
from tensorplay_core.plugins import Availability, DeviceAPI, hookimpl, library_impl

@library_impl({name!r}, "Blocks")
def _(m):
    m.impl("add", operator.add)

@hookimpl
def tensorplay_probe():
    return Availability(ok=True, device_count=2)
"""

DEVICE = """
@hookimpl
def tensorplay_device():
    return DeviceAPI()
"""


class Site:
    """A folder on ``sys.path`` into which distributions are put."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cache = path.parent.parent / "bytecode"  # shared by the tests of a run: most of their time is importing
        path.mkdir(exist_ok=True)

    @staticmethod
    def source(name: str, extra: str = "", *, device: bool = True) -> str:
        """The source of a plugin that works, with ``extra`` appended."""
        return PLUGIN.format(name=name) + (DEVICE if device else "") + textwrap.dedent(extra)

    def add(
        self,
        name: str,
        source: str | None = None,
        *,
        yaml: str | None = None,
        distribution: str = "",
        version: str = "1.0",
        value: str = "",
        entry: str = "",
        metadata: str | None = None,
    ) -> Path:
        distribution = distribution or f"tensorplay-{name}"
        package = distribution.replace("-", "_")
        folder = self.path / package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("")
        (folder / "plugin.py").write_text(self.source(name) if source is None else textwrap.dedent(source))
        info = self.path / f"{package}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        entries = f"[tensorplay.backends]\n{entry or name} = {value or f'{package}.plugin'}\n"
        if yaml is not None:
            (folder / "backend.yaml").write_text(textwrap.dedent(yaml))
            entries += f"\n[tensorplay.backend_info]\n{entry or name} = {package}:backend.yaml\n"
        (info / "entry_points.txt").write_text(entries)
        (info / "RECORD").write_text("")
        good = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(good if metadata is None else metadata)
        return folder

    def run(self, script: str, *, sites: tuple[Path, ...] = (), whole: bool = False, **environ: str) -> Any:
        """Runs a script after the prelude; returns what it gave to ``show``; it must print nothing else.

        With ``whole`` all of TensorPlay is there, as ``tp``; else the floors up to the plugins, and two operators.
        """
        paths = [str(self.path), *map(str, sites)]
        code = f"SITES, WHOLE = {paths!r}, {whole}\n{PRELUDE}\n{textwrap.dedent(script)}"
        env = {key: value for key, value in os.environ.items() if not key.startswith("TENSORPLAY_BACKEND")}
        env["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, sys.path)])
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = str(self.cache)
        done = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", "-c", code],
            capture_output=True, text=True, env={**env, **environ}, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", done.stderr
        head, _, result = done.stdout.partition("RESULT ")
        assert head == "", head
        return json.loads(result) if result else None


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")
