"""``--namespace MODULE``: the commands that make a device of an array module, and what they say of one that is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import array_api_strict
import pytest
from click.testing import CliRunner, Result

import tensorplay as tp
from tensorplay_core.cli import main
from tensorplay_core.plugins.lifecycle import MANAGER
from tensorplay_core.testing.suite import Profile
from tensorplay_core.testing.suite.checks import profile_of

STRICT = ("--namespace", "array_api_strict")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    """Drops the devices that a command has made in this process."""
    yield
    for name in [name for name, record in MANAGER._records.items() if record.made is not None]:
        tp.backends.unload(name)
        MANAGER._records.pop(name)


def test_check_makes_the_device_and_says_of_which_module_it_is():
    result = run("backends", "check", *STRICT, "--op", "exp", "--quick", "--seed", "5")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert f"array_api_strict {array_api_strict.__version__} (tensorplay-composite " in said
    assert "nothing failed, 0 declared gaps" in said
    assert "tensorplay backends check --namespace array_api_strict --seed 5 --quick" in said


def test_the_device_may_have_another_name_and_json_tells_both():
    result = run("backends", "check", "mine", *STRICT, "--op", "neg", "--quick", "--seed", "5", "--json")
    found = json.loads(result.stdout)
    assert (found["backend"], found["namespace"], found["ok"]) == ("mine", "array_api_strict", True)
    assert json.loads(run("backends", "check", "cpu", "--op", "neg", "--quick", "--json").stdout)["namespace"] is None


def test_a_program_that_shows_a_failure_makes_the_device_itself(tmp_path: Path):
    tp.backends.from_namespace(array_api_strict, "mine", device_count=2)
    library = tp.library.Library("tp", "IMPL", "mine")
    library.impl("neg", lambda x: x, override=True)
    try:
        found = run("backends", "check", "mine", "--op", "neg", "--quick", "--json")
    finally:
        library.close()
    program = next(one["program"] for one in json.loads(found.stdout)["failures"] if one["area"] == "forward")
    assert 'tp.backends.from_namespace(array_api_strict, "mine", device_count=2)' in program
    (tmp_path / "shown.py").write_text(program)
    done = subprocess.run([sys.executable, tmp_path / "shown.py"], capture_output=True, text=True)
    assert done.returncode == 0 and "device='mine:0'" in done.stdout, done.stderr


def test_explain_info_and_the_demo_take_it_too():
    explained = run("explain", "exp(float32[2] array_api_strict)", *STRICT)
    assert explained.exit_code == 0 and "runs: specialised kernel" in explained.stdout
    info = json.loads(run("backends", "info", "mine", *STRICT, "--json").stdout)
    assert (info["name"], info["state"], info["operators"]["missing"]) == ("mine", "active", 0)
    shown = json.loads(run("demo", *STRICT, "--epochs", "1", "--json").stdout)
    assert shown["device"] == "array_api_strict" and shown["accuracy"] > 0.5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check"], "Missing argument 'NAME': a backend that 'tensorplay backends list' shows, or --namespace MODULE."),
        (["check", "--namespace", "no_such.module"], "there is no module 'no_such' in this environment"),
        (["check", "--namespace", "json.no_such"], "there is no module 'json.no_such'"),
        (["check", "--namespace", "../folder"], "that is not the name of a module, such as jax.numpy"),
        (["check", "--namespace", "math"], "'math' is no NumPy-like module: it lacks abs, add"),
        (["check", "loopback", *STRICT], "a backend 'loopback' is installed; give the device another name"),
        (["check", "Mine!", *STRICT], "name it 'mine'"),
        (["check", "meta", *STRICT], "a name of TensorPlay's own"),
        (["info"], "Missing argument 'NAME'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_exit_code_2(arguments: list[str], says: str):
    result = run("backends", *arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())


def test_a_module_that_breaks_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "half_done.py").write_text("import no_such_dependency\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module, why in (("half_done", "No module named 'no_such_dependency'"), ("leaves", "SystemExit: 0")):
        found = run("backends", "check", "--namespace", module, "--json")
        said = json.loads(found.stdout)
        assert found.exit_code == 1 and said["error"] == "BackendError"
        assert why in said["message"] and f"import {module}" in said["fix"]


def test_the_profile_is_what_the_maker_of_the_kernels_knows_of_the_module(monkeypatch: pytest.MonkeyPatch):
    from tensorplay_composite.conformance import NAMESPACES

    tp.backends.from_namespace(array_api_strict, "mine")
    assert profile_of("mine") == Profile()
    monkeypatch.setitem(NAMESPACES, "array_api_strict", Profile(accuracy={"exp": 2}, flushes=True))
    result = run("backends", "check", "mine", "--op", "exp", "--quick")
    assert result.exit_code == 0, result.output
    lesser = "it declares 2 times the usual errors of exp and 0 for numbers below the smallest normal one"
    assert lesser in " ".join(result.stdout.split())
    monkeypatch.setitem(NAMESPACES, "array_api_strict", {})
    with pytest.raises(tp.ArgumentError, match=r"NAMESPACES\['array_api_strict'\] must be a Profile, not dict"):
        profile_of("mine")
