"""A third party's test file, run by a pytest of its own in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BROKEN = """
import tensorplay as tp
tp.zeros(1, device="loopback")
library = tp.library.Library("tp", "IMPL", "loopback")
library.impl("exp", lambda x: x, override=True)
"""


def ran(folder: Path, test: str, *arguments: str, conftest: str = "") -> tuple[int, str]:
    (folder / "test_conformance.py").write_text(test)
    (folder / "conftest.py").write_text(conftest)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfs", "--no-header", *arguments, str(folder)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return result.returncode, result.stdout + result.stderr


HEAD = "from tensorplay_core.testing.suite import *\n"


def test_three_lines_are_a_whole_test_file(tmp_path):
    code, said = ran(tmp_path, f'{HEAD}BACKEND = "loopback"\nPROFILE = Profile()\n', "--collect-only", "-q")
    assert code == 0, said
    for name in ("test_device[transfers]", "test_operator[add-inplace]", "test_operator[max.dim-second]"):
        assert f"test_conformance.py::{name}\n" in said
    assert "test_operator[eq-gradient]" not in said


def test_failures_are_named_and_come_with_a_program_and_the_seed(tmp_path):
    test = f'{HEAD}BACKEND = "loopback"\nOPERATORS = ("exp", "neg")\nQUICK = True\nSEED = 3\n'
    code, said = ran(tmp_path, test, "-k", "forward or plugin", conftest=BROKEN)
    assert code == 1
    assert "FAILED test_conformance.py::test_operator[exp-forward]" in said
    assert "FAILED test_conformance.py::test_operator[neg-forward]" not in said
    assert "    y = tp.exp(x0)" in said and 'device="loopback"' in said
    assert "SEED = 3 in the test file repeats this run" in said


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (HEAD, 'BACKEND must name the device to be checked, as in BACKEND = "foo"'),
        (f'{HEAD}BACKEND = "loopbak"\n', "Did you mean 'loopback'"),
        (f'{HEAD}BACKEND = "loopback"\nPROFILE = Profile(never={{"ex": "no"}})\n', "Did you mean 'exp'"),
    ],
)
def test_a_file_that_means_nothing_says_so(tmp_path, test: str, says: str) -> Any:
    code, said = ran(tmp_path, test, "-k", "exp-errors")
    assert code != 0
    assert says in said


def test_a_declared_gap_is_skipped_visibly(tmp_path):
    test = f'{HEAD}BACKEND = "loopback"\nOPERATORS = ("exp",)\nPROFILE = Profile(never={{"exp": "no exp unit"}})\n'
    broken = BROKEN.replace("lambda x: x", "lambda x: 1 / 0")
    code, said = ran(tmp_path, test, "-k", "exp", conftest=broken)
    assert code == 0, said
    assert "declared gap: never: no exp unit" in said


def test_pytest_is_imported_only_by_its_face():
    code = (
        "import sys, tensorplay_core.testing.suite.checks, tensorplay_core.testing.suite as s; s.Profile; "
        "print('pytest' in sys.modules, 'numpy' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]
