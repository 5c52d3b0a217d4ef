"""``benchmarks/suite_mutations.py``, which plants mutations in kernels and counts those that the suite notices."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"
SOURCE = b"""\
def kernel(self, dim: int = 0, flag: "bool" = False):
    \"\"\"Adds half of it.\"\"\"
    if dim < 0:
        dim = dim + 1
    return xp.sum(self,
                  axis=dim, keepdims=True)  # a comment
"""


@pytest.fixture(scope="module")
def sites() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sites", BENCHMARKS / "suite_mutations_sites.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mutations_change_one_place_and_keep_the_lines(sites: ModuleType) -> None:
    found = sites.Sites("a.py", SOURCE).found
    changes = {(one.line, one.before, one.after) for one in found}
    assert {
        (3, "dim < 0", "dim <= 0"), (3, "dim < 0", "not dim < 0"), (3, "0", "1"), (4, "dim + 1", "dim - 1"),
        (4, "dim = dim + 1", "pass"), (5, "xp.sum(self, axis=dim, keepdims=True)",
        "xp.sum(self, axis=-dim, keepdims=True)"), (6, "True", "False"),
    } <= changes  # fmt: skip
    assert not any("half" in one.before or one.before == "'bool'" for one in found)
    whole = ast.unparse(ast.parse(SOURCE))
    for one in found:
        changed = one.applied(SOURCE)
        assert changed.count(b"\n") == SOURCE.count(b"\n") and ast.unparse(ast.parse(changed)) != whole


def test_a_draw_repeats_and_spreads(sites: ModuleType) -> None:
    import random

    found = [one._replace(file=f"{n}.py") for n in range(5) for one in sites.Sites("", SOURCE).found]
    one, other = (sites.drawn(found, 10, random.Random(3)) for _ in range(2))
    assert one == other and len({*one}) == 10
    assert {mutation.file for mutation in one} == {f"{n}.py" for n in range(5)}


def test_the_suite_kills_mutations_of_a_kernel_and_the_script_counts_them() -> None:
    command = [sys.executable, BENCHMARKS / "suite_mutations.py", "--count=3", "--seed=4", "--op=relu", "--json"]
    done = subprocess.run([*command, "--least=0"], capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    assert found["mutations"] == 3 == found["killed"] + found["survived"] + found["changing_nothing"]
    killed = [one for one in found["verdicts"] if one["killed"]]
    assert killed and all("relu" in one["killed"] or "device" in one["killed"] for one in killed)
