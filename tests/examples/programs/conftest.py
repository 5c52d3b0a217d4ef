"""The programs as modules over TensorPlay, and what torch found when it ran them.

A program imports ``torch``; here that is TensorPlay for the length of a test, as the runner does it for a process.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[3] / "examples" / "programs"
SWAPPED = ("torch", "torch.nn", "torch.nn.functional", "safetensors.torch")
TORCH = json.loads(Path(__file__).with_name("torch.json").read_text(encoding="utf-8"))
"""What ``run.py --all --lib torch --quick --no-pictures --json`` printed: torch 2.13.0, Python 3.11.7."""
HELP = "b61d082f373f608306b71e4b69c64ac24b650139c6f185e038e420244affbc70"
"""The SHA-256 of the help texts at that time; another Python has others, and other values."""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a file of the programs' folder, in which ``torch`` is TensorPlay."""
    names = [path.stem for path in PROGRAMS.glob("*.py")]
    monkeypatch.syspath_prepend(str(PROGRAMS))
    for name in (*SWAPPED, *names):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.import_module("run").swap("tensorplay")
    yield importlib.import_module
    for name in (*SWAPPED, *names):
        sys.modules.pop(name, None)


@pytest.fixture
def finds_what_torch_found(load: Callable[[str], ModuleType]) -> Callable[..., dict[str, float]]:
    """Runs a program at its quick size with one thread; its values have to be torch's within their tolerances."""

    def check(name: str, text: bool = False) -> dict[str, float]:
        if text and hashlib.sha256(load("support").help_text().encode()).hexdigest() != HELP:
            pytest.skip("this Python has other help texts than the one whose values are recorded")
        report = load("compare").process([str(PROGRAMS / "run.py"), name, "--quick", "--no-pictures", "--json"])
        assert "error" not in report, report["error"]
        recorded: dict[str, Any] = next(known for known in TORCH if known["program"] == name)["values"]
        assert report["values"].keys() == recorded.keys()
        found = {key: value["value"] for key, value in report["values"].items()}
        for key, value in found.items():
            assert value == pytest.approx(recorded[key]["value"], rel=0, abs=recorded[key]["tolerance"]), key
        return found

    return check
