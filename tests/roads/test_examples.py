"""Every file in examples/ runs alone, as a reader would start it, and prints what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, EXAMPLES / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=EXAMPLES)
    assert done.stderr == ""
    return done.stdout


def test_train_digits() -> None:
    found = re.fullmatch(r"test accuracy (\d+\.\d+)%\n", run("train_digits.py"))
    assert found is not None and float(found[1]) >= 96


def test_train_digits_is_short() -> None:
    assert len((EXAMPLES / "train_digits.py").read_text(encoding="utf-8").splitlines()) <= 42


def test_mixed_precision_learns_what_float32_does() -> None:
    """The short form, one seed and three epochs; two test images are 0.56 points."""
    lines = re.findall(r"(\w+) +test accuracy (\d+\.\d+)%\n", run("mixed_precision.py", "--quick"))
    assert [name for name, _ in lines] == ["float32", "float16", "bfloat16"]
    single, *halves = (float(value) for _, value in lines)
    assert single >= 95 and all(abs(half - single) <= 0.6 for half in halves)


def test_every_example_has_a_test() -> None:
    """The folders' are test_custom_op_example.py and tests/examples/programs."""
    known = {"custom_op", "mixed_precision.py", "programs", "train_digits.py"}
    assert {path.name for path in EXAMPLES.iterdir()} == known
