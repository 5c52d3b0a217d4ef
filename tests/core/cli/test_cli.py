"""The command line: what it prints for people and for programs, and the codes that it exits with."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tensorplay as tp
from tensorplay_core import __version__
from tensorplay_core.cli import main

TENSORPLAY = Path(sysconfig.get_path("scripts")) / "tensorplay"

# The table of the design, section 3, word for word.
KEYS = [
    ("CPU, CUDA, Vulkan, Sparse, Meta", "0–4"),
    ("Python", "5"),
    ("DynamicLayerBackMode", "6"),
    ("AutogradCPU … AutogradMeta", "7–11 (backend + 7)"),
    ("AutocastCPU … AutocastMeta", "12–16 (backend + 12)"),
    ("VmapCPU … VmapMeta", "17–21 (backend + 17)"),
    ("Composite", "22 (a table slot, never a member of a key set)"),
    ("VmapMode, DynamicLayerFrontMode", "23, 24"),
    ("EndOfKeys", "25"),
]


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, prog_name="tensorplay", env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output
    return result


def data(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def process(*arguments: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    command = [str(TENSORPLAY)] if TENSORPLAY.exists() else [sys.executable, "-m", "tensorplay"]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", **env}
    done = subprocess.run([*command, *arguments], capture_output=True, encoding="utf-8", env=environment, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


# ------------------------------------------------------------------------------------------------------------ the whole


def test_version() -> None:
    assert run("--version").stdout == f"tensorplay {__version__}\n"
    assert process("--version").stdout == f"tensorplay {__version__}\n"


def test_every_command_has_help() -> None:
    for command in ([], ["backends"], ["backends", "list"], ["backends", "info"], ["backends", "doctor"], ["ops"],
                    ["ops", "list"], ["ops", "show"], ["ops", "keys"], ["explain"], ["codegen"], ["demo"]):  # fmt: skip
        shown = run(*command, "--help").stdout
        assert shown.startswith("Usage: tensorplay") and widest(shown) <= 80
        assert "..." not in shown.replace("[ARGS]...", ""), "a summary is cut"


def test_wrong_usage_exits_with_2() -> None:
    for command in (["nothing"], ["ops", "show"], ["explain"], ["demo", "--epochs", "0"], ["backends", "list", "--x"]):
        run(*command, code=2)


def test_start_imports_click_alone() -> None:
    code = (
        "import sys; old = set(sys.modules); import tensorplay_core.cli\n"
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - old} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "['click', 'tensorplay_core']", done.stderr


def test_pipes_are_quiet() -> None:
    for command in (["backends", "list"], ["ops", "show", "add"], ["ops", "keys"], ["explain", "add(float32[2], 1)"]):
        done = process(*command, COLUMNS="80")
        assert "\x1b" not in done.stdout and re.fullmatch(r"(tensorplay: still loading backend .*\n)*", done.stderr)
        assert widest(done.stdout) <= 80
        assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_an_error_is_a_message_and_a_fix() -> None:
    done = process("backends", "list", code=1, TENSORPLAY_BACKEND_AUTOLOAD="7")
    assert done.stdout == "" and "Traceback" not in done.stderr
    first, last = done.stderr.strip().split("\n")
    assert first.startswith("EnvironmentVariableError: TENSORPLAY_BACKEND_AUTOLOAD='7'")
    assert last == "fix: correct or unset TENSORPLAY_BACKEND_AUTOLOAD"
    done = process("backends", "list", "--json", code=1, TENSORPLAY_BACKEND_AUTOLOAD="7")
    assert done.stderr == "" and json.loads(done.stdout)["fix"] == "correct or unset TENSORPLAY_BACKEND_AUTOLOAD"


# ------------------------------------------------------------------------------------------------------------ operators


def test_ops_list() -> None:
    rows = data("ops", "list")
    names = {row["name"] for row in rows}
    assert {"add", "add_", "max.dim", "cross_entropy"} <= names
    shown = run("ops", "list").stdout
    assert "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" in shown and widest(shown) <= 80
    tagged = data("ops", "list", "--tag", "pointwise")
    assert tagged and all("pointwise" in row["tags"] for row in tagged) and len(tagged) < len(rows)
    assert "Did you mean 'pointwise'" in run("ops", "list", "--tag", "pointwize", code=2).stderr


def test_ops_show() -> None:
    found = data("ops", "show", "add")
    slots = {slot["slot"]: slot for slot in found["slots"]}
    assert {"Autograd", "CPU", "Composite", "Loopback"} <= set(slots)
    assert slots["CPU"]["kernel"] == "numpy.add" and slots["CPU"]["distribution"] == "tensorplay-cpu"
    assert all(Path(slot["where"].rpartition(":")[0]).is_file() for slot in found["slots"])
    assert found["gradients"][0] == "self: grad" and found["doc"].startswith("Adds")
    assert found["function"].rpartition(":")[0].endswith("_generated_functional_pointwise.py")
    shown = run("ops", "show", "add").stdout
    assert "numpy.add from tensorplay-cpu" in shown and "tensorplay_cpu/" in shown and widest(shown) <= 80


@pytest.mark.parametrize(("name", "first"), [("max.dim", "max.dim("), ("tp::add", "add("), ("add_", "add_(")])
def test_ops_show_takes_overloads_namespaces_and_forms(name: str, first: str) -> None:
    assert run("ops", "show", name).stdout.startswith(first)


def test_ops_show_takes_all_overloads_of_a_name() -> None:
    assert [one["name"] for one in data("ops", "show", "max")] == ["max", "max.dim", "max.other"]


def test_ops_show_names_the_nearest() -> None:
    assert "Did you mean 'add'" in run("ops", "show", "addd", code=2).stderr


def test_ops_show_has_custom_operators_overrides_and_unchecked_kernels() -> None:
    lib = tp.library.Library("shown", "FRAGMENT")
    try:
        lib.define("op(Tensor x) -> Tensor")
        lib.impl("op", lambda x: x + x, "Composite")
        lib.impl("tp::exp", lambda x: x, "CPU", override=True)
        assert "Composite (22): <lambda> from" in run("ops", "show", "shown::op").stdout
        slots = [slot for slot in data("ops", "show", "exp")["slots"] if slot["slot"] == "CPU"]
        assert [slot["active"] for slot in slots] == [True, False] and slots[0]["override"]
        shown = run("ops", "show", "exp").stdout
        assert "[wins, override, registered at run time]" in shown and "beneath it: " in shown
    finally:
        lib.close()


def test_ops_keys_is_the_table_of_the_design() -> None:
    assert [(row["keys"], row["values"]) for row in data("ops", "keys")["table"]] == KEYS
    shown = run("ops", "keys").stdout
    width = max(len(keys) for keys, _ in KEYS)
    for keys, values in KEYS:
        assert f"{keys:<{width}}  {values}\n" in shown
    assert widest(shown) <= 80


def test_ops_keys_has_every_number_and_the_pages_in_use() -> None:
    found = data("ops", "keys")
    assert [row["value"] for row in found["keys"]] == list(range(26))
    assert {row["name"]: row["value"] for row in found["keys"]}["AutogradMeta"] == 11
    page = next(row for row in found["pages"] if row["device"] == "loopback")
    assert {key: number - 32 * page["page"] for key, number in page["keys"].items()} == {
        "Loopback": 0, "SparseLoopback": 3, "AutogradLoopback": 7, "AutocastLoopback": 12, "VmapLoopback": 17
    }  # fmt: skip
    assert f"page {page['page']}, loopback: Loopback {32 * page['page']}" in run("ops", "keys").stdout


# -------------------------------------------------------------------------------------------------------------- explain


def test_explain() -> None:
    text = "add(float32[2,3] loopback grad, float32[3] loopback)"
    found = data("explain", text)
    assert found["key_set"] == ["AutogradLoopback", "Loopback"] and found["page"] >= 1
    assert run("explain", text).stdout == str(tp.explain(text)) + "\n"


def test_the_examples_of_explain_stand_on_lines_of_their_own() -> None:
    lines = run("explain", "--help").stdout.splitlines()
    assert "    tensorplay explain 'add(float32[2,3], float32[3] grad)'" in lines
    assert not any("\b" in line or "\\b" in line for line in lines)


def test_explain_exits_with_1_where_the_call_fails_and_2_where_it_cannot_be_read() -> None:
    run("explain", "add(float32[2], float32[3])", code=1)
    result = run("explain", "add(flot32[2], 1)", code=2)
    assert "Did you mean 'float32'" in result.stderr and "      ^^^^^^" in result.stderr
    assert "one device" in run("explain", "add(float32[2], float32[2] loopback)", code=1).stderr
    assert data("explain", "add(float32[2], float32[2] loopback)", code=1)["error"] == "DeviceMismatch"


# -------------------------------------------------------------------------------------------------------------- codegen


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, in which nothing is known."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def test_codegen_is_not_run_again_where_nothing_has_changed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("codegen", "--check").stdout
    assert len(list(cache.rglob("*"))) == 3, "one stamp"
    from tensorplay_core.codegen.context import CodegenContext

    monkeypatch.setattr(CodegenContext, "load", classmethod(lambda cls: pytest.fail("it ran")))
    assert run("codegen", "--check").stdout == first == run("codegen").stdout
    with pytest.raises(pytest.fail.Exception, match="it ran"):
        CliRunner().invoke(main, ["codegen", "--check", "--report"], catch_exceptions=False)


@pytest.mark.usefixtures("cache")
def test_codegen_check_of_this_tree() -> None:
    shown = run("codegen", "--check").stdout
    assert shown.startswith("codegen: ") and shown.count("\n") == 1 and "nothing to do" in shown
    found = data("codegen", "--check")
    assert found["clean"] and not found["written"]


def test_codegen_of_a_plugin_says_the_command_that_mends_it(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "native_functions.yaml").write_text("- func: a::f(Tensor self) -> Tensor\n")
    options = ("--contract", str(folder), "--out", str(folder))
    shown = run("codegen", *options, "--check", code=1).stdout
    command = shown.rpartition("Bring them up to date: tensorplay ")[2].split()
    assert command == ["codegen", *options] and "wrote" in run(*command).stdout
    assert "nothing to do" in run("codegen", *options, "--check").stdout


def test_codegen_finds_and_mends_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorplay_core.codegen.context import CodegenContext

    context = CodegenContext.load().into(tmp_path)
    monkeypatch.setattr(CodegenContext, "load", classmethod(lambda cls: context))
    shown = run("codegen", "--targets", "schemas").stdout
    assert shown.startswith("codegen: wrote ")
    broken = sorted(tmp_path.glob("_generated_schemas_*.py"))[0]
    broken.write_text(broken.read_text() + "x = 1\n")
    shown = run("codegen", "--check", "--targets", "schemas", code=1).stdout
    assert "-x = 1" in shown and "1 file to write" in shown and "tensorplay codegen" in shown
    assert data("codegen", "--check", "--targets", "schemas", code=1)["written"] == [broken.name]
    assert "wrote 1 file" in run("codegen", "--targets", "schemas").stdout
    assert "nothing to do" in run("codegen", "--check", "--targets", "schemas").stdout


def test_codegen_options() -> None:
    assert "Did you mean 'schemas'" in run("codegen", "--targets", "schema", code=2).stderr
    assert "a plugin's contract needs --out" in run("codegen", "--contract", ".", code=2).stderr
    assert "give its contract too, with --contract" in run("codegen", "--out", ".", code=2).stderr


def test_codegen_report() -> None:
    shown = run("codegen", "--check", "--report").stdout
    flat = " ".join(shown.split())
    assert "ops/creation.py arange, as_tensor" in flat and "Skipped variants: none" in flat
    assert "inplace _generated_inplace_activation.py" in flat
    assert "no input is a tensor: empty, zeros" in flat and "linear, cross_entropy" in flat
    assert all(len(line) <= 80 for line in shown.splitlines()), "folded, not cut"
    found = data("codegen", "--check")["report"]
    assert found["handwritten"]["arange"] == "ops/creation.py" and found["skipped"] == []
    assert f"Written by hand: {len(found['handwritten'])} ops/" in flat
    assert found["written"] + found["symbolic"] + len(found["without"]) == found["operators"]
    assert all(operator["declared"] for operator in found["without"]), "every gap in our contract has its reason"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience", "terminal"), [(0.0, True), (60.0, True), (0.0, False)])
def test_codegen_shows_a_bar_after_a_while_and_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, patience: float, terminal: bool
) -> None:
    module = importlib.import_module("tensorplay_core.cli.codegen")

    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module.Bar, "patience", patience)
    with module.Bar() as bar:
        bar("nodes", 3, 9)
        deadline = time.monotonic() + 5
        while patience == 0 and terminal and "nodes" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
    shown = stream.getvalue()
    assert ("nodes" in shown and "3/9" in shown) is (terminal and patience == 0), shown


# ----------------------------------------------------------------------------------------------------------------- demo


def test_demo_passes_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import ModuleType

    seen: list[dict[str, Any]] = []
    module = ModuleType("tensorplay.demo")

    def fake(**given: Any) -> dict[str, Any]:
        given["console"].print("a picture")
        seen.append(given)
        return {"accuracy": 1.0}

    module.run = fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorplay.demo", module)
    assert run("demo", "--device", "loopback", "--epochs", "2", "--seed", "3").stdout == "a picture\n"
    assert {**seen[0], "console": None} == {"device": "loopback", "epochs": 2, "seed": 3, "console": None}
    assert data("demo") == {"accuracy": 1.0}
