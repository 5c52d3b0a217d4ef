"""Every file in examples/ runs alone, as a reader would start it, and prints what it promises."""

from __future__ import annotations

import re
import shutil
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


def test_modes_count_what_paper_says() -> None:
    """The operations of a training step, counted, on paper and without data, are one number."""
    said = run("modes.py")
    batch, first, second, last = 50, 8 * 8 * 16 * 9, 4 * 4 * 32 * 16 * 9, 128 * 10
    forward, backward = 2 * batch * (first + second + last), 2 * batch * (first + 2 * second + 2 * last)
    row = re.search(r"^all +(\d+) +(\d+) +(\d+)$", said, re.MULTILINE)
    assert row is not None
    assert tuple(map(int, row.groups())) == (forward, backward, forward + backward)
    assert f"operations counted there: {forward + backward}\n" in said
    assert "convolution.default(float32[50,1,8,8] cpu, float32[16,1,3,3] cpu" in said
    assert "tensor(..., device='cuda:0', size=(16, 1, 3, 3))" in said


def rounded(text: str) -> str:
    """A text whose long decimal numbers have five digits after the point."""
    return re.sub(r"\d+\.\d{6,}", lambda number: f"{float(number[0]):.5f}", text)


def test_bisect_says_what_its_page_shows(tmp_path: Path) -> None:
    """The page's command, in a copy of the folder: the same words, and a program that shows the fault.

    The last digits of a trained network's numbers are the machine's own.
    """
    folder = shutil.copytree(EXAMPLES / "bisect", tmp_path / "bisect", ignore=shutil.ignore_patterns("__pycache__"))
    page = (EXAMPLES.parent / "docs" / "bisect.md").read_text(encoding="utf-8")
    found = re.search(r"\$ tensorplay (bisect train.py --device loopback)\n(.*?)```", page, re.S)
    assert found is not None
    command = [sys.executable, "-m", "tensorplay", *found[1].split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert rounded(done.stdout) == rounded(found[2].replace("examples/bisect/", f"{folder}/"))
    shows = subprocess.run([sys.executable, "bisect_gelu_loopback.py"], capture_output=True, text=True, cwd=folder)
    assert "AssertionError: Tensor-likes are not close!" in shows.stderr


def test_every_example_has_a_test() -> None:
    """The folders' are test_custom_op_example.py and tests/examples/programs."""
    known = {"bisect", "custom_op", "mixed_precision.py", "modes.py", "programs", "train_digits.py"}
    assert {path.name for path in EXAMPLES.iterdir()} == known
