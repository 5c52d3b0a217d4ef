"""The other half of the runner: what it makes of reports, those of programs that fail too."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

OPTIONS = {"quick": True, "no_pictures": True, "out": Path(), "device": "cpu", "dtype": "float64", "json": False}


def options(**changed: object) -> argparse.Namespace:
    return argparse.Namespace(**OPTIONS | {"names": ["springs"], "lib": "tensorplay"} | changed)


def report(value: float, tolerance: float = 1e-8, seconds: float = 1.0) -> dict[str, object]:
    values = {"loss": {"value": value, "tolerance": tolerance}}
    return {
        "program": "springs",
        "library": "it",
        "device": "cpu",
        "dtype": "float64",
        "seconds": seconds,
        "values": values,
        "said": ["a word"],
        "pictures": [],
    }


@pytest.fixture
def compare(load, monkeypatch: pytest.MonkeyPatch):
    module = load("compare")
    module.found = {"torch": report(2.0, seconds=2.0), "tensorplay": report(2.0 + 5e-9, seconds=1.0)}
    monkeypatch.setattr(module, "start", lambda name, library, *rest, **more: module.found[library])
    return module


def test_values_that_agree(compare, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.compare(options()) == 0
    printed = capsys.readouterr().out
    assert "5.0e-09" in printed
    assert "1 of 1 agree" in printed
    assert "median 0.50, largest 0.50" in printed


@pytest.mark.parametrize("value", [2.1, float("nan")])
def test_values_that_differ(compare, capsys: pytest.CaptureFixture[str], value: float) -> None:
    compare.found["tensorplay"] = report(value)
    assert compare.compare(options()) == 1
    printed = capsys.readouterr().out
    assert "differs" in printed
    assert "0 of 1 agree; not springs" in printed


def test_a_program_that_fails_does_not_stop_the_next(compare, capsys: pytest.CaptureFixture[str]) -> None:
    def start(name: str, library: str, *rest: object, **more: object) -> dict[str, object]:
        return {"error": "no [such] operator"} if (name, library) == ("springs", "tensorplay") else report(1.0)

    compare.start = start
    assert compare.compare(options(names=["springs", "style"])) == 1
    printed = capsys.readouterr().out
    assert "springs on tensorplay: no [such] operator" in printed
    assert "1 of 2 agree; not springs" in printed
    assert compare.each(options(names=["springs", "style"])) == 1
    printed = capsys.readouterr()
    assert "springs: no [such] operator" in printed.out
    assert "springs: 1.0 s on it, cpu, float64" in printed.out
    assert printed.err == "1 of 2 failed: springs\n"


def test_json(compare, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.compare(options(json=True)) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["ratio"] == 0.5
    assert found["values"][0]["ok"] is True


def test_the_tolerance_is_the_one_that_torch_states(compare) -> None:
    compare.found = {"torch": report(2.0, tolerance=0.5), "tensorplay": report(2.4, tolerance=0.0)}
    assert compare.compare(options()) == 0


def test_last_words(load) -> None:
    text = 'Traceback (most recent call last):\n  File "x.py", line 1\n    f()\nShapeError: no\nfix: yes\n'
    assert load("compare").last_words(text) == "ShapeError: no\nfix: yes"
    assert load("compare").last_words("error: this\nfix: that\n") == "error: this\nfix: that"


def test_a_process_that_fails_reports_its_error(load) -> None:
    assert load("compare").process(["-c", "raise ValueError('so')"]) == {"error": "ValueError: so"}
    assert load("compare").process(["-c", "print('{\"a\": 1}')"]) == {"a": 1}
    assert load("compare").process(["-c", "raise SystemExit(3)"]) == {"error": "exit code 3"}
