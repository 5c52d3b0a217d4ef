"""``tensorplay backends check``: exit codes, the table, JSON, the profile of a backend's package."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tensorplay as tp
from tensorplay_core.cli import main
from tensorplay_core.cli.check import Checking
from tensorplay_core.testing.suite import Profile


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["backends", "check", *arguments])


@pytest.fixture
def broken() -> Any:
    tp.zeros(1, device="loopback")
    library = tp.library.Library("tp", "IMPL", "loopback")
    library.impl("exp", lambda x: x, override=True)
    yield
    library.close()


def declare(monkeypatch: pytest.MonkeyPatch, profile: Any) -> None:
    module = types.ModuleType("tensorplay_loopback.conformance")
    module.PROFILE = profile  # type: ignore[attr-defined]
    module.__spec__ = types.SimpleNamespace(name=module.__name__)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_a_right_operator_prints_a_row_and_a_line_that_sums_up():
    result = check("loopback", "--op", "exp", "--op", "max", "--quick", "--seed", "5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["result", "layout", "large", "grad", "op_", "out=", "errors", "thread"]
    assert lines[1].split() == ["exp", *["ok"] * 8]
    assert [line.split()[0] for line in lines[1:4]] == ["exp", "max", "max.dim"]
    assert all(len(line) <= 80 for line in lines)
    assert "nothing failed, 0 declared gaps" in " ".join(result.stdout.split())
    assert "tensorplay backends check loopback --seed 5 --quick" in result.stdout


def test_a_failure_comes_with_its_program_and_exit_code_1(broken):
    result = check("loopback", "--op", "exp", "--quick")
    assert result.exit_code == 1
    assert "failed: exp, result, float32" in result.stdout
    assert "    import tensorplay as tp\n" in result.stdout
    assert "    y = tp.exp(x0)\n" in result.stdout


def test_json_is_all_there_is(broken):
    result = check("loopback", "--op", "exp", "--op", "neg", "--quick", "--seed", "9", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (found["backend"], found["distribution"], found["ok"], found["seed"]) == (
        "loopback", "tensorplay-loopback", False, 9,
    )  # fmt: skip
    assert found["table"]["exp"]["forward"] == "failed" and found["table"]["neg"]["forward"] == "ok"
    assert {one["operator"] for one in found["failures"]} == {"exp"}
    assert all(one["what"] and "program" in one for one in found["failures"])


def test_the_gaps_are_those_that_the_backends_package_declares(monkeypatch):
    library = tp.library.Library("tp", "IMPL", "loopback")
    library.impl("exp", lambda x: 1 / 0, "loopback", override=True)
    try:
        declare(monkeypatch, Profile(never={"exp": "no exp unit"}))
        result = check("loopback", "--op", "exp", "--quick")
        assert result.exit_code == 0, result.output
        assert "gap: exp" in result.stdout and "never: no exp unit" in result.stdout
    finally:
        library.close()
    assert check("loopback", "--op", "exp", "--quick").exit_code == 1  # it works, and is declared
    declare(monkeypatch, {"exp": "no"})
    result = check("loopback", "--op", "exp")
    assert result.exit_code == 1
    assert "tensorplay_loopback.conformance.PROFILE must be a Profile, not dict" in result.output.replace("\n", " ")


def test_a_run_that_checked_nothing_says_so_and_is_exit_code_1(monkeypatch):
    only = property(lambda self: ("int32", "bool"), lambda self, value: None)
    monkeypatch.setattr("tensorplay_core.testing.suite.subject.Subject.dtypes", only, raising=False)
    result = check("loopback", "--op", "softmax", "--quick")
    assert result.exit_code == 1, result.output
    assert "nothing was checked of softmax" in result.stdout
    assert json.loads(check("loopback", "--op", "softmax", "--quick", "--json").stdout)["ok"] is False
    result = check("loopback", "--op", "softmax", "--op", "add", "--quick", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["ok"], found["unchecked"]) == (0, True, ["softmax"])


def test_a_backend_that_this_machine_cannot_run_is_exit_code_1_with_the_reason(monkeypatch):
    from tensorplay_core.errors import DeviceUnavailable
    from tensorplay_core.plugins import public

    def load(name: str) -> Any:
        raise DeviceUnavailable(f"Device {name!r} cannot be used: no such card")

    monkeypatch.setattr(public, "load", load)
    result = check("loopback", "--op", "exp")
    assert result.exit_code == 1
    assert "no such card" in result.output + repr(result.exception)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["loopbak"], "Did you mean 'loopback'"),
        (["loopback", "--op", "ex"], "Did you mean 'exp'"),
        (["composite"], "brings no device"),
        (["loopback", "--seed", "x"], "not a valid integer"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2(arguments, says):
    result = check(*arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())


def test_the_bar_knows_how_far_the_run_is():
    seen: list[Any] = []
    bar = types.SimpleNamespace(update=lambda task, **fields: seen.append(fields))
    checking = Checking(3)
    for step in (("plugin", ""), ("exp", "second")):
        checking(*step)
    checking.update(bar, 0)  # type: ignore[arg-type]
    assert seen == [{"total": 3, "completed": 1, "description": "exp grad 2"}]
