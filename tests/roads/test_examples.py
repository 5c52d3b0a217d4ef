"""Every file in examples/ runs alone, as a reader would start it, and prints what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True, cwd=EXAMPLES)
    assert done.stderr == ""
    return done.stdout


def test_train_digits() -> None:
    found = re.fullmatch(r"test accuracy (\d+\.\d+)%\n", run("train_digits.py"))
    assert found is not None and float(found[1]) >= 96


def test_train_digits_is_short() -> None:
    assert len((EXAMPLES / "train_digits.py").read_text(encoding="utf-8").splitlines()) <= 42


def test_every_example_has_a_test() -> None:
    """The folders' are test_custom_op_example.py and tests/examples/programs."""
    assert {path.name for path in EXAMPLES.iterdir()} == {"custom_op", "programs", "train_digits.py"}
