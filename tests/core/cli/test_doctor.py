"""``tensorplay backends doctor``: its exit codes, its JSON, and how it looks in terminals of two widths."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorplay_core

Run = Callable[..., Any]
QUIET = {"TENSORPLAY_BACKENDS_BLOCK": "cuda,vulkan"}


def packed(text: str) -> str:
    return "".join(text.split())


def test_a_healthy_installation_exits_with_0(pipe: Run) -> None:
    shown = pipe("backends", "doctor", **QUIET)
    assert shown.code == 0, shown.text
    assert re.fullmatch(r"\d+ backends, \d+ distributions: .*", shown.text.strip().rpartition("\n")[2])
    found = json.loads(pipe("backends", "doctor", "--json", **QUIET).text)
    assert set(found) == {"ok", "findings", "backends"} and found["ok"] is True
    assert {row["name"] for row in found["backends"]} >= {"cpu", "composite", "loopback"}
    blocked = pipe("backends", "doctor", TENSORPLAY_BACKENDS_BLOCK="cuda,vulkan,loopback")
    assert (
        blocked.code == 0
        and "note: loopback (tensorplay-loopback" in blocked.text
        and "is blocked: TENSORPLAY_" in blocked.text
    )


@pytest.mark.parametrize("columns", [80, 160])
def test_six_bad_plugins_are_whole_in_a_terminal(terminal: Run, pipe: Run, broken: Path, columns: int) -> None:
    env = {"PYTHONPATH": str(broken), **QUIET}
    piped = pipe("backends", "doctor", "--json", **env)
    found = json.loads(piped.text)
    assert piped.code == 1 and found["ok"] is False
    shown = terminal(columns, "backends", "doctor", **env)
    assert shown.code == 1
    lines = shown.text.rstrip("\n").split("\n")
    assert max(map(len, lines)) <= columns and not any(line.endswith(" ") for line in lines)
    assert "…" not in shown.text and "..." not in shown.text and "Traceback" not in shown.text
    for finding in found["findings"]:
        if finding["severity"] == "note":  # a slow import, which the next run may not see
            continue
        head = f"{finding['severity']}: {finding['subject']}"
        assert packed(head) in packed(shown.text)
        for text in (finding["what"], f"fix: {finding['fix']}"):
            assert packed(text) in packed(shown.text), text
    worst = [finding["severity"] for finding in found["findings"]]
    assert worst == sorted(worst, key=("error", "warning", "note").index)
    assert (worst.count("error"), worst.count("warning")) == (6, 1)
    looked = f"{len(found['backends'])} backends, "
    assert re.fullmatch(looked + r"\d+ distributions: 6 errors, 1 warning(, \d notes?)?", lines[-1]), lines[-1]


def test_it_reads_without_colour(terminal: Run, pipe: Run, broken: Path) -> None:
    arguments, env = ("backends", "doctor", "--no-load"), {"PYTHONPATH": str(broken), **QUIET}
    coloured, plain = terminal(80, *arguments, **env), terminal(80, *arguments, NO_COLOR="1", **env)
    assert "\x1b[1;31m" in coloured.raw and "\x1b[1;31m" not in plain.raw and "\x1b[3" not in plain.raw
    piped = pipe(*arguments, COLUMNS="80", **env)
    assert coloured.text.rstrip("\n") == plain.text.rstrip("\n") == piped.text.rstrip("\n")
    assert "no_such_lib" not in piped.text, "nothing was loaded"


def test_what_a_plugin_says_does_not_steer_the_terminal(pipe: Run, tmp_path: Path) -> None:
    text = "raise ValueError('\\x1b[31mred\\x07 [bold]markup[/bold] \\ud800 und \\u202egnirts é 日本')\n"
    (tmp_path / "tensorplay_foo.py").write_text(text)
    info = tmp_path / "tensorplay_foo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorplay-foo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tensorplay.backends]\nfoo = tensorplay_foo\n")
    env = {"PYTHONPATH": str(tmp_path), **QUIET}
    shown = pipe("backends", "doctor", **env)
    assert shown.code == 1
    assert "\\x1b[31mred\\x07 [bold]markup[/bold] \\ud800 und \\u202egnirts é 日本" in " ".join(shown.text.split())
    shown = pipe("backends", "doctor", **{**env, "PYTHONIOENCODING": "ascii"})
    assert shown.code == 1 and "\\xe9 \\u65e5\\u672c" in " ".join(shown.text.split())


def test_a_bad_variable_is_a_finding(pipe: Run) -> None:
    shown = pipe("backends", "doctor", TENSORPLAY_BACKEND_AUTOLOAD="7", TENSORPLAY_FALLBACK="maybe")
    assert shown.code == 1 and "error: TENSORPLAY_BACKEND_AUTOLOAD\n" in shown.text
    assert "error: TENSORPLAY_FALLBACK\n" in shown.text and "fix: correct or unset TENSORPLAY_FALLBACK" in shown.text


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("config/native_functions_view.yaml", "lacks config/native_functions_view.yaml"),
        ("ops/_generated_functional_view.py", "its operators cannot be loaded"),
    ],
)
def test_a_core_with_a_file_left_out_says_so(pipe: Run, tmp_path: Path, file: str, says: str) -> None:
    source = Path(tensorplay_core.__file__).parent
    copy = shutil.copytree(source, tmp_path / "tensorplay_core", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / file).unlink()
    shown = pipe("backends", "doctor", "--json", PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]), **QUIET)
    found = {f["what"]: f for f in json.loads(shown.text)["findings"] if f["subject"] == "tensorplay-core"}
    assert shown.code == 1 and any(says in what for what in found), list(found)
    assert any(file in what for what in found), "named also where the operators cannot be loaded"
    assert any("describes the copy in" in what for what in found), "and it is not the core that is installed"
