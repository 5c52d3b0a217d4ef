"""The real command, in pipes and in terminals, and an environment with six bad plugins at once."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "tensorplay"

PLUGIN = """
import numpy
from tensorplay_composite.arrays import ArrayDevice
from tensorplay_core.plugins import Availability, hookimpl, library_impl

@hookimpl
def tensorplay_device():
    return ArrayDevice(numpy)
"""
REASON = "libtoy.so.3 was not found in /opt/vendor/toy/lib64/stubs/a/path/that/goes/on/and/on/and/on/libtoy.so.3"
REMEDY = "take the driver from https://toy.example/downloads/drivers/2026/linux/x86_64/toy-driver-3.2.1-installer.run"
TOY = f"""
@hookimpl
def tensorplay_probe():
    return Availability(ok=False, reason={REASON!r}, fix={REMEDY!r})
"""
REGISTERS = """
@library_impl("registers", "Things")
def _(m):
    m.impl("no_such_operator", numpy.add)
    m.impl("add", lambda: None)
    m.impl("exp", numpy.exp)
    m.impl("exp", numpy.exp)

@hookimpl
def tensorplay_probe():
    return Availability(ok=True)
"""
LONG_NAME = "a_device_with_quite_a_long_name"
LONG_VERSION = "2026.1.0.dev20260131+g1234567890abcdef.linux.x86.64"


def plant(
    site: Path, name: str, source: str, version: str = "1.0", value: str = "", yaml: str = "", requires: str = ""
) -> None:
    """Installs a plugin: its package and its ``.dist-info``."""
    distribution = f"tensorplay-{name.replace('_', '-')}"
    package = distribution.replace("-", "_")
    folder = site / package
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "plugin.py").write_text(textwrap.dedent(source))
    entries = f"[tensorplay.backends]\n{name} = {value or package + '.plugin'}\n"
    if yaml:
        (folder / "backend.yaml").write_text(yaml)
        entries += f"[tensorplay.backend_info]\n{name} = {package}:backend.yaml\n"
    info = site / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(entries)
    said = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    (info / "METADATA").write_text(said + (f"Requires-Dist: {requires}\n" if requires else ""))


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with six bad plugins, whose names, paths and versions are long."""
    site = tmp_path_factory.mktemp("broken")
    plant(site, "wreck", "import no_such_lib\n", version=LONG_VERSION, requires="no-such-lib>=2")
    plant(site, LONG_NAME, "raise SystemExit(3)\n")
    plant(site, "toy", PLUGIN + TOY)
    plant(site, "registers", PLUGIN + REGISTERS)
    plant(site, "slash", "", value="tensorplay_slash/plugin.py")
    plant(site, "described", "", yaml='api: ">=2"\npriority: high\nviws: true\n')
    return site


class Shown(NamedTuple):
    """What a command printed, and how it ended."""

    text: str
    code: int
    raw: str = ""


def environment(**changes: str) -> dict[str, str]:
    hidden = ("TENSORPLAY_", "TP_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTHONPATH")
    mine = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    return {**mine, "PYTHONIOENCODING": "utf-8", **changes}


def command(*arguments: str) -> list[str]:
    return [str(COMMAND), *arguments] if COMMAND.exists() else [sys.executable, "-m", "tensorplay", *arguments]


@pytest.fixture(scope="session")
def pipe() -> Callable[..., Shown]:
    """Runs the command as a script does; gives what it wrote to stdout, and fails where it wrote to stderr.

    That a backend has been loading for seconds is all that may stand there: it is true of a busy machine.
    """

    def run(*arguments: str, **env: str) -> Shown:
        done = subprocess.run(
            command(*arguments), capture_output=True, encoding="utf-8", env=environment(**env), timeout=120
        )
        said = re.sub(r"^tensorplay: still loading backend .*\n", "", done.stderr, flags=re.M)
        assert done.returncode == 2 or said == "", said
        return Shown(done.stdout if done.returncode != 2 else said, done.returncode)

    return run


@pytest.fixture(scope="session")
def terminal() -> Callable[..., Shown]:
    """Runs the command in a pseudo-terminal of some width; gives what stays on the screen, without colours."""
    pty = pytest.importorskip("pty")
    import fcntl
    import termios

    def run(columns: int, *arguments: str, **env: str) -> Shown:
        argv, variables = command(*arguments), environment(TERM="xterm-256color", **env)
        pid, fd = pty.fork()
        if pid == 0:  # pragma: no cover  the child
            os.execve(argv[0], argv, variables)
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        raw = b""
        while True:
            try:
                chunk = os.read(fd, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            raw += chunk
        os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return Shown(screen(raw.decode()), code, raw.decode())

    return run


def screen(raw: str) -> str:
    """What stays on a terminal: lines that were erased are gone, and so are colours."""
    lines = [""]
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", raw):
        if part == "\n":
            lines.append("")
        elif part in ("\x1b[2K", "\x1b[1K"):
            lines[-1] = ""
        elif part == "\x1b[1A":
            assert lines.pop() == "", "the cursor goes up from a line that is not empty"
        elif not part.startswith("\x1b") and part != "\r":
            lines[-1] += part
    return "\n".join(lines)
