"""Plugins as their users meet them: distributions that are built by a build backend and installed into an environment.

Each test has a virtual environment of its own, on top of the one that runs the tests (where our distributions and what
they need are installed). A plugin is a project folder; ``uv`` builds its wheel and installs it there, so that metadata,
entry points, file lists and ``.pyc`` files are those of a real installation. Programs run in that environment's
Python, in a folder where nothing can be imported by accident.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HEADER = """
import numpy
from tensorplay_composite.arrays import ArrayDevice, emitter, kernels
from tensorplay_core.plugins import Availability, DeviceAPI, hookimpl, library_impl
"""
DEVICE = """
DEVICE = ArrayDevice(numpy)

@library_impl({name!r}, "Arrays")
def _(m):
    made = kernels(numpy, random=DEVICE.random)
    for op, kernel in made.items():
        if op not in SPECIAL:
            m.impl(op, kernel)
    for op, kernel in SPECIAL.items():
        if kernel is not None:
            m.impl(op, kernel)
    m.emitter(emitter(numpy, made))

@hookimpl
def tensorplay_probe():
    return Availability(ok=True, device_count={count})

@hookimpl
def tensorplay_device():
    return DEVICE
"""
USER = """
import json, sys, warnings
import tensorplay as tp

def cpu_works():
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    (x * x + 1).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert (tp.ones(2) + 1).tolist() == [2.0, 2.0]

def raised(call):
    try:
        value = call()
    except BaseException as error:
        cause = error.__cause__
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return [type(error).__name__, str(error), "" if cause is None else text(cause), kinds]
    raise AssertionError(f"nothing was raised, it gave {value!r}")

def text(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # one whose str raises
        return type(error).__name__

def give(value):
    print("RESULT " + json.dumps(value, default=str))

cpu_works()
"""
TWICE = """
first = raised(lambda: {call})
cpu_works()
second = raised(lambda: {call})
cpu_works()
record = {{known.name: known for known in tp.backends.list(load=False)}}.get({name!r})
everything.append([first, second, record and record.as_dict()])
"""


class Seen(NamedTuple):
    """What a user sees of a call that fails, at the first try and, proven equal, at the second.

    Attributes:
        kind: the class of the error, and ``kinds``, its bases too.
        message: its text, with the ``fix:`` line.
        cause: the exception that it is chained to, as ``Class: text``; empty when there is none.
        record: the backend's record afterwards, as plain values; None where no such backend is known.
    """

    kind: str
    message: str
    cause: str
    kinds: list[str]
    record: dict[str, Any]

    @property
    def fix(self) -> str:
        """The remedy, which every error has."""
        return self.message.partition("\nfix: ")[2]


class Done(NamedTuple):
    """What a program printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> Any:
        """What it gave to ``give``."""
        return json.loads(self.out.rpartition("RESULT ")[2])


class Environment:
    """A virtual environment with plugins in it.

    Attributes:
        folder: where everything of the test lies.
        site: its ``site-packages``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "env" / "bin" / "python"
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir(parents=True)
        uv("venv", "--no-project", "--python", sys.executable, folder / "env")
        # An environment of the same Python has its packages at the same place below its own folder.
        ours = Path(sysconfig.get_paths()["purelib"])
        self.site = folder / "env" / ours.relative_to(sys.prefix)
        # ``addsitedir`` and not a mere path: it reads the .pth files there, by which editable installs are found.
        (self.site / "_base.pth").write_text(f"import site; site.addsitedir({str(ours)!r})\n", encoding="utf-8")

    def project(
        self,
        name: str,
        plugin: str = "",
        *,
        device: bool = True,
        count: int = 1,
        distribution: str = "",
        version: str = "1.0",
        yaml: str = "",
        value: str = "",
        dependencies: tuple[str, ...] = (),
        files: Mapping[str, str] | None = None,
    ) -> Path:
        """Writes the project of a plugin, and returns its folder.

        Args:
            name: the backend's name, that of its entry point.
            plugin: what its plugin module says after the usual imports; it may define ``SPECIAL``, operator to kernel,
                for kernels of its own (None leaves the operator out).
            device: whether the module ends as that of a good backend over NumPy does.
            count: how many devices that one has.
            distribution: ``tensorplay-NAME`` by default.
            version: its version.
            yaml: its ``backend.yaml``; without one there is no description.
            value: the value of its entry point; the plugin module by default.
            dependencies: what it requires.
            files: further files of the package, by path inside it.
        """
        distribution = distribution or f"tensorplay-{name}"
        package = distribution.replace("-", "_")
        folder = self.folder / "projects" / f"{distribution}-{version}"
        source = folder / "src" / package
        body = textwrap.dedent(plugin)
        if device:
            special = "" if "SPECIAL" in body else "SPECIAL = {}\n"
            body = special + body + DEVICE.format(name=name, count=count)
        written = {"__init__.py": "", "plugin.py": HEADER + body, **(files or {})}
        groups = {"tensorplay.backends": f"{name} = {json.dumps(value or f'{package}.plugin')}"}
        if yaml:
            written["backend.yaml"] = textwrap.dedent(yaml)
            groups["tensorplay.backend_info"] = f'{name} = "{package}:backend.yaml"'
        for path, text in written.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(text, encoding="utf-8")
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["uv_build>=0.9,<0.14"]\nbuild-backend = "uv_build"\n\n[project]\n'
            f'name = "{distribution}"\nversion = "{version}"\ndependencies = {json.dumps(dependencies)}\n'
            + "".join(f'\n[project.entry-points."{group}"]\n{entry}\n' for group, entry in groups.items()),
            encoding="utf-8",
        )
        return folder

    def build(self, name: str, plugin: str = "", **options: Any) -> Path:
        """Builds a plugin's wheel, and returns it; takes what :meth:`project` takes."""
        return self.wheel(self.project(name, plugin, **options))

    def wheel(self, folder: Path) -> Path:
        """Builds the wheel of a project's folder, and returns it."""
        uv("build", "--wheel", "--out-dir", folder / "dist", folder)
        (wheel,) = (folder / "dist").glob("*.whl")
        return wheel

    def install(self, name: str, plugin: str = "", **options: Any) -> Path:
        """Builds a plugin's wheel and installs it; takes what :meth:`project` takes. Returns its ``.dist-info``."""
        wheel = self.build(name, plugin, **options)
        self.pip("install", "--no-deps", wheel)
        (info,) = self.site.glob(f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info")
        return info

    def rewrite(self, name: str, plugin: str, *, file: str = "plugin.py") -> None:
        """Replaces a file of an installed ``tensorplay-NAME``, as installing its next release would."""
        package = self.site / f"tensorplay_{name}"
        shutil.rmtree(package / "__pycache__", ignore_errors=True)  # a file of the same second and size would be stale
        head = HEADER if file == "plugin.py" else ""
        (package / file).write_text(head + textwrap.dedent(plugin), encoding="utf-8")

    def pip(self, command: str, *arguments: str | Path) -> None:
        """Runs a command of ``uv pip`` on this environment, without an index."""
        index = ("--no-index",) if command == "install" else ()
        uv("pip", command, "--python", self.python, *index, *arguments)

    def run(
        self, code: str, *, before: str = USER, path: tuple[Path, ...] = (), timeout: float = 120, **environ: str
    ) -> Done:
        """Runs a program, which has ``tp``, ``cpu_works``, ``raised`` and ``give``.

        Args:
            code: the program.
            before: what it begins with.
            path: what goes in front of the environment on ``sys.path``.
            timeout: seconds after which the test fails.
            **environ: environment variables.
        """
        program = self.elsewhere / "program.py"
        program.write_text(before + textwrap.dedent(code), encoding="utf-8")
        return self._python(program, path=path, timeout=timeout, **environ)

    def gives(self, code: str, **options: Any) -> Any:
        """Runs a program that must succeed and write nothing to stderr; returns what it gave to ``give``."""
        done = self.run(code, **options)
        assert done.code == 0, done.err
        assert done.err == "", done.err
        return done.result

    def sees(self, call: str, name: str = "", *, before: str = "", **options: Any) -> Seen:
        """Returns what a user sees of a call that fails; a second try must be as clear, and the CPU must work.

        Args:
            call: an expression.
            name: the backend whose record is wanted.
            before: statements that come first.
            **options: those of :meth:`run`.
        """
        (seen,) = self.sees_each({call: name}, before=before, **options)
        return seen

    def sees_each(self, calls: Mapping[str, str], *, before: str = "", **options: Any) -> list[Seen]:
        """Returns what a user sees of several calls in one program, each as :meth:`sees` looks at it.

        Args:
            calls: expressions, each with the backend whose record is wanted.
            before: statements that come first.
            **options: those of :meth:`run`.
        """
        parts = [TWICE.format(call=call, name=name) for call, name in calls.items()]
        script = textwrap.dedent(before) + "\neverything = []\n" + "".join(parts) + "give(everything)\n"
        found = []
        for first, second, record in self.gives(script, **options):
            assert first == second, (first, second)
            seen = Seen(*first, record)
            assert "TensorPlayError" in seen.kinds, seen
            assert seen.fix, seen
            found.append(seen)
        return found

    def tensorplay(self, *arguments: str, **environ: str) -> Done:
        """Runs the command line."""
        return self._python("-m", "tensorplay", *arguments, **environ)

    def module(self, *arguments: str | Path, timeout: float = 600) -> Done:
        """Runs a module as a program, for as long as a whole conformance suite takes."""
        return self._python("-m", *arguments, timeout=timeout)

    def _python(
        self, *arguments: str | Path, path: tuple[Path, ...] = (), timeout: float = 120, **environ: str
    ) -> Done:
        hidden = ("TENSORPLAY_", "TP_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        env |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "80", **environ}
        done = subprocess.run(
            [str(self.python), *map(str, arguments)],
            capture_output=True, text=True, env=env, cwd=self.elsewhere, timeout=timeout, check=False,
        )  # fmt: skip
        # That a backend has been loading for seconds is true of a busy machine; nothing here is about it.
        said = re.sub(r"^tensorplay: still loading backend .*\n", "", done.stderr, flags=re.M)
        return Done(done.returncode, done.stdout, said)


def uv(*arguments: str | Path) -> None:
    """Runs uv without a network; a failure shows what it said."""
    command = [sys.executable, "-m", "uv", *map(str, arguments), "--offline"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)
