"""``tensorplay backends list`` and ``info``: for programs, in pipes, and in terminals of two widths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorplay_core import __version__

Run = Callable[..., Any]
BAD = {"a_device_with_quite_a_long_name", "described", "registers", "slash", "toy", "wreck"}


def rows(pipe: Run, *arguments: str, **env: str) -> dict[str, dict[str, Any]]:
    shown = pipe("backends", "list", "--json", *arguments, **env)
    assert shown.code == 0
    return {row["name"]: row for row in json.loads(shown.text)}


def lines(text: str) -> list[str]:
    return text.split("\n")


def packed(text: str) -> str:
    """The text without any whitespace: folding adds it, and takes nothing else away."""
    return "".join(text.split())


def test_list_for_programs(pipe: Run) -> None:
    found = rows(pipe)
    assert {"composite", "cpu", "loopback"} <= set(found)
    assert all(found[name]["state"] == "active" for name in ("composite", "cpu", "loopback"))
    cpu = found["cpu"]
    assert (cpu["distribution"], cpu["version"], cpu["page"]) == ("tensorplay-cpu", __version__, 0)
    assert found["loopback"]["page"] >= 1
    served = cpu["operators"]
    import tensorplay_core.ops.load  # noqa: F401
    from tensorplay_core.dispatch.registry import REGISTRY

    contract = [op for op in REGISTRY.operators.values() if op.namespace == "tp" and op.functional is None]
    assert served["specialised"] + served["composite"] + served["missing"] == len(contract)
    assert served["missing"] == len(served["missing_names"])
    assert cpu["load_seconds"] > 0 and cpu["device_count"] == 1
    for name in ("cuda", "vulkan"):
        if name in found and found[name]["state"] != "active":
            assert found[name]["reason"] and found[name]["fix"]


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("what", ["list", "info"])
def test_nothing_is_cut_in_a_terminal_with_six_bad_plugins(
    terminal: Run, pipe: Run, broken: Path, columns: int, what: str
) -> None:
    found = rows(pipe, PYTHONPATH=str(broken))
    assert {name for name, row in found.items() if row["state"] != "active"} - {"cuda", "vulkan"} == BAD
    for name in ["wreck", "registers", *sorted(BAD)[:1]] if what == "info" else [""]:
        shown = terminal(columns, "backends", *filter(None, (what, name)), PYTHONPATH=str(broken))
        assert shown.code == 0
        assert max(map(len, lines(shown.text))) <= columns
        assert "…" not in shown.text and "..." not in shown.text.partition("Traceback")[0]
        facts, _, traceback = shown.text.partition("\n\n") if name else (shown.text, "", "")
        for row in [found[name]] if name else found.values():
            for text in (row["name"], row["state"], row["distribution"], row["version"], row["reason"], row["fix"]):
                assert packed(text) in packed(facts), text
        assert ("Error" in traceback or "SystemExit" in traceback) == bool(name), "tracebacks are in info, at its end"
        if name:
            assert packed(found[name]["traceback"]) == packed(traceback)
            assert packed(f"module: {found[name]['module']}") in packed(facts) and "failed at: " in facts


def test_columns_stay_below_each_other_and_use_a_wide_terminal(terminal: Run, broken: Path) -> None:
    for columns in (80, 160):
        shown = lines(terminal(columns, "backends", "list", PYTHONPATH=str(broken)).text)
        assert "a_device_with_quite_a_long_name" in shown, "alone, where it is wider than its column"
        assert not any(line.endswith(" ") for line in shown)
        heads = [found for line in shown if (found := re.match(r"(\S* +)(?:active|error|unavailable)( +|$)", line))]
        assert len(heads) >= len(BAD) + 3 and {len(head[1]) for head in heads} == {12}
        (cpu,) = [line for line in shown if line.startswith("cpu ")]
        assert (" kernels, loaded in " in cpu) == (columns == 160), "what has room beside it stands beside it"


def test_colours_are_for_terminals_that_have_them(terminal: Run, pipe: Run, broken: Path) -> None:
    env = {"PYTHONPATH": str(broken), "TENSORPLAY_BACKENDS_BLOCK": "cuda"}
    coloured = terminal(80, "backends", "list", "--no-load", **env)
    assert "\x1b[31m" in coloured.raw
    plain = terminal(80, "backends", "list", "--no-load", NO_COLOR="1", **env)
    assert "\x1b[3" not in plain.raw and plain.text == coloured.text
    piped = pipe("backends", "list", "--no-load", COLUMNS="80", **env)
    assert "\x1b" not in piped.text and piped.text.rstrip("\n") == plain.text.rstrip("\n")


def test_whom_it_waits_for_is_told_on_a_terminal_and_gone_afterwards(terminal: Run, pipe: Run, tmp_path: Path) -> None:
    from tensorplay_core.cli.loading import Loading

    (tmp_path / "tensorplay_hang.py").write_text("import time\nprint('noise')\ntime.sleep(60)\n")
    info = tmp_path / "tensorplay_hang-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorplay-hang\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tensorplay.backends]\nhang = tensorplay_hang\n")
    env = {"PYTHONPATH": str(tmp_path)}
    shown = terminal(80, "backends", "list", "--timeout", str(Loading.patience + 2), **env)
    assert "loading hang" in shown.raw and "loading" not in shown.text
    assert "hangs at its import step" in shown.text
    assert pipe("backends", "info", "cpu", "--timeout", "1", **env).text.count("noise") == 1, "what it says is its own"


def test_no_load_runs_no_backend(pipe: Run) -> None:
    found = rows(pipe, "--no-load")
    assert {row["state"] for row in found.values()} == {"discovered"}
    assert all(row["operators"] is None and row["load_seconds"] is None for row in found.values())
    assert "not loaded" in pipe("backends", "list", "--no-load").text


def test_blocked_and_narrow(pipe: Run) -> None:
    shown = pipe("backends", "list", TENSORPLAY_BACKENDS_BLOCK="loopback", COLUMNS="40").text
    assert "blocked" in shown and "TENSORPLAY_BACKENDS_BLOCK" in shown
    assert max(map(len, lines(shown))) <= 40


def test_no_backend_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from tensorplay_core.cli import main
    from tensorplay_core.plugins import public

    monkeypatch.setattr(public, "list", lambda **_: [])
    shown = CliRunner().invoke(main, ["backends", "list"])
    assert shown.output == f"No backend is installed.\nfix: pip install tensorplay-cpu=={__version__}\n"


def test_info(pipe: Run) -> None:
    row = json.loads(pipe("backends", "info", "loopback", "--json").text)
    assert row["name"] == "loopback" and row["state"] == "active"
    assert f"tensorplay-loopback {__version__}" in pipe("backends", "info", "loopback").text
    for name, says in (("lopback", "Did you mean 'loopback'"), ("nothing", "Installed backends: composite, cpu")):
        shown = pipe("backends", "info", name)
        assert shown.code == 2 and says in " ".join(shown.text.split())
    bad = pipe("backends", "info", "cpu", "--json", TENSORPLAY_BACKEND_AUTOLOAD="7")
    assert bad.code == 1 and json.loads(bad.text)["error"] == "EnvironmentVariableError"
