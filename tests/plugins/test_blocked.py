"""A blocked plugin executes no code: audited from the start of the process, by Python's own audit events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

AUDIT = """
import atexit, json, os, sys

WATCHED = ("tensorplay_cuda", "cupy", "cupy_backends", "cupyx")
SEEN = []

def own(path):
    parts = str(path).replace(os.sep, "/").split("/")
    return any(name in parts for name in WATCHED)

def audit(event, args):
    if event == "import" and str(args[0]).partition(".")[0] in WATCHED:
        SEEN.append(f"import {args[0]}")
    elif event == "exec" and own(getattr(args[0], "co_filename", "")):
        SEEN.append(f"exec {args[0].co_filename}")
    elif event == "open" and own(args[0]) and not str(args[0]).endswith(("backend.yaml", "METADATA")):
        SEEN.append(f"open {args[0]}")

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in WATCHED and name != "tensorplay_cuda":  # which is looked for to find its yaml
            SEEN.append(f"find {name}")

sys.addaudithook(audit)
sys.meta_path.insert(0, Finder())

def finish():
    SEEN.extend(f"module {name}" for name in sys.modules if name.partition(".")[0] in WATCHED)
    with open(os.environ["AUDITED"], "w", encoding="utf-8") as file:
        json.dump(SEEN, file)

atexit.register(finish)
"""
USE = """
import tensorplay as tp
{configure}
assert "cuda" in [record.name for record in tp.backends.list()]
assert str(tp.backends.info("cuda").state) == {state!r}
for use in (
    lambda: tp.ones(2, device="cuda"), lambda: tp.ones(2).to("cuda"), lambda: tp.backends.load("cuda"),
    lambda: tp.zeros(1, device="cuda:1"),
):
    try:
        use()
    except RuntimeError as error:
        message = str(error)
        assert {told!r} in message, message
    else:
        assert {state!r} == "active"
assert tp.backends.is_available("cuda") is ({state!r} == "active")
tp.backends.refresh()
assert (tp.ones(2) + 1).tolist() == [2.0, 2.0]
"""
BLOCKED = "Device 'cuda' cannot be used: its backend (tensorplay-cuda {version}) is blocked: "
COMMANDS = (
    ("backends", "list"), ("backends", "list", "--json"), ("backends", "info", "cuda"), ("backends", "doctor"),
    ("ops", "show", "add"), ("explain", "add(float32[2,3] cuda, float32[3] cuda)"),
)  # fmt: skip


class Audited:
    """An environment whose every process reports what it executed of tensorplay-cuda and of CuPy."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.report = environment.folder / "audited.json"
        self.path: Path = environment.folder / "audit"
        self.path.mkdir()
        (self.path / "sitecustomize.py").write_text(AUDIT, encoding="utf-8")

    def run(self, code: str, **environ: str) -> list[str]:
        """Runs a program that must succeed; returns what it executed."""
        self.report.unlink(missing_ok=True)
        done = self.environment.run(code, before="", path=(self.path,), AUDITED=str(self.report), **environ)
        assert (done.code, done.err) == (0, ""), done
        return json.loads(self.report.read_text(encoding="utf-8"))

    def command(self, *arguments: str, **environ: str) -> tuple[Any, list[str]]:
        """Runs the command line; returns what came out, and what it executed."""
        self.report.unlink(missing_ok=True)
        where = {"PYTHONPATH": str(self.path), "AUDITED": str(self.report)}
        done = self.environment.tensorplay(*arguments, **where, **environ)
        return done, json.loads(self.report.read_text(encoding="utf-8"))


@pytest.fixture
def audited(environment: Any) -> Audited:
    return Audited(environment)


def version() -> str:
    from importlib.metadata import version as installed

    return installed("tensorplay-cuda")


def test_a_blocked_backend_executes_no_code_in_python_whichever_way_it_is_blocked(audited: Audited) -> None:
    told = BLOCKED.format(version=version())
    blocked = USE.format(configure="", state="blocked", told=told)
    assert audited.run("import tensorplay") == []
    assert audited.run(blocked, TENSORPLAY_BACKENDS_BLOCK="cuda") == []
    assert audited.run(blocked, TENSORPLAY_BACKENDS="cpu,loopback") == []
    for configure in ("block=['cuda']", "block='cuda'", "allow=['cpu']"):
        code = USE.format(configure=f"tp.backends.configure({configure})", state="blocked", told=told)
        assert audited.run(code) == [], configure


def test_the_audit_sees_the_code_of_a_backend_that_is_not_blocked(audited: Audited) -> None:
    """Or the test above would prove nothing."""
    executed = audited.run("import tensorplay as tp; tp.backends.is_available('cuda')")
    assert "import tensorplay_cuda.probe" in executed and "module tensorplay_cuda.plugin" in executed
    assert any(one.startswith("exec ") and one.endswith("tensorplay_cuda/plugin.py") for one in executed)
    assert any(one.startswith("open ") and "tensorplay_cuda" in one for one in executed)
    assert "find tensorplay_cuda.plugin" in executed


def test_a_blocked_backend_executes_no_code_in_the_command_line(audited: Audited) -> None:
    for command in COMMANDS:
        done, executed = audited.command(*command, TENSORPLAY_BACKENDS_BLOCK="cuda")
        assert executed == [], command
        assert "Traceback" not in done.err
        if command[:2] == ("backends", "list"):
            assert done.code == 0 and "TENSORPLAY_BACKENDS_BLOCK" in done.out


def test_a_blocked_plugin_of_another_is_told_with_what_blocks_it(environment: Any) -> None:
    environment.install("bad", "raise SystemExit('it ran')", device=False)
    head = "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is blocked: "
    seen = environment.sees("tp.ones(2, device='bad')", "bad", TENSORPLAY_BACKENDS_BLOCK="bad")
    assert seen.kind == "DeviceUnavailable" and seen.message.startswith(f"{head}TENSORPLAY_BACKENDS_BLOCK names it")
    assert "TENSORPLAY_BACKENDS_BLOCK" in seen.fix and seen.record["state"] == "blocked"
    seen = environment.sees("tp.ones(2, device='bad')", "bad", before="tp.backends.configure(block='bad')\n")
    assert seen.message.startswith(head) and "configure" in seen.message, seen.message
