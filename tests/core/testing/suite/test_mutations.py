"""``benchmarks/suite_mutations.py``, which plants mutations in kernels and counts those that the suite notices."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"
SOURCE = b"""\
def kernel(self, dim: int = 0, flag: "bool" = False):
    \"\"\"Adds half of it.\"\"\"
    if dim < 0:
        dim = dim + 1
    return xp.sum(self,
                  axis=dim, keepdims=True)  # a comment
"""


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("suite_mutations_sites")


@pytest.fixture
def judged(sites: ModuleType) -> ModuleType:
    return importlib.import_module("suite_mutations_judged")


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


def identities(sites: ModuleType, source: bytes, before: str = "0", after: str = "1") -> list[Any]:
    found = sites.Sites("a.py", source).found
    return [one.identity for one in found if (one.before, one.after) == (before, after)]


def test_an_identity_does_not_depend_on_where_the_function_is(sites: ModuleType) -> None:
    [one] = identities(sites, SOURCE)
    assert identities(sites, b"import os\n\n\ndef other():\n    return 0\n\n\n" + SOURCE)[1:] == [one]
    indented = b"class A:\n" + b"".join(b"    " + line for line in SOURCE.splitlines(keepends=True))
    [inside] = identities(sites, indented)
    assert inside.source == one.source and inside.function == "A.kernel"


def test_an_identity_changes_with_its_function_and_with_no_other(sites: ModuleType) -> None:
    outer = b"def outer():\n    x = 0\n    def inner():\n        return 0\n    return x, inner\n"
    first, second = identities(sites, outer)
    assert (first.function, second.function) == ("outer", "outer.inner")
    changed, same = identities(sites, outer.replace(b"x, inner", b"inner, x"))
    assert changed.source != first.source and same == second
    assert {one.source for one in identities(sites, outer.replace(b"return 0", b"return 0 + x"))}.isdisjoint(
        {first.source, second.source}
    )


def test_the_same_change_twice_in_one_function_is_two_mutations(sites: ModuleType) -> None:
    found = identities(sites, b"def f(a):\n    if a < 0:\n        return 0\n    return max(0, a)\n")
    assert [one.nth for one in found] == [0, 1, 2]
    assert len({one.source for one in found}) == 1 and len({*found}) == 3


def test_every_mutation_of_a_package_has_an_identity_of_its_own(sites: ModuleType) -> None:
    import tensorplay_composite

    found = sites.sites(Path(tensorplay_composite.__file__).parent, "arrays/*.py")
    assert len(found) > 500 and len({one.identity for one in found}) == len(found)


def test_what_changes_nothing_by_its_form_is_no_mutation(sites: ModuleType) -> None:
    source = b"""\
def f(xp, values):
    for value in values:
        if value:
            continue
        try:
            xp.sum(value, axis=0)
            xp.maximum(value, values)
            xp.dot(value, values)
        except ValueError:
            continue
"""
    found = {(one.line, one.kind) for one in sites.Sites("a.py", source).found}
    assert (4, "statement dropped") in found
    assert (8, "arguments swapped") in found
    assert not {(10, "statement dropped"), (6, "sign of axis changed"), (7, "arguments swapped")} & found


def test_an_entry_is_written_read_and_expires(judged: ModuleType, sites: ModuleType, tmp_path: Path) -> None:
    found = sites.Sites("a.py", SOURCE).found
    one = next(one for one in found if one.before == "0")
    path = tmp_path / "judged.yaml"
    path.write_text(judged.entry_text(one, judged.EQUIVALENT, "dim is never 0"))
    assert judged.judged(path) == {one.identity: (judged.EQUIVALENT, "dim is never 0")}
    assert judged.expired(judged.judged(path), found) == []
    changed = sites.Sites("a.py", SOURCE.replace(b"dim + 1", b"dim + 2")).found
    assert judged.expired(judged.judged(path), changed) == [one.identity]
    assert judged.expired(judged.judged(path), sites.Sites("b.py", SOURCE).found) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reason": " "}, "needs a reason"),
        ({"verdict": "fine"}, "one of equivalent, cost only, survives"),
        ({"line": 3}, "is no entry"),
    ],
)
def test_an_entry_that_says_too_little_is_refused(
    judged: ModuleType, sites: ModuleType, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    entry = yaml.safe_load(judged.entry_text(sites.Sites("a.py", SOURCE).found[0], judged.COST, "a cache"))[0]
    path = tmp_path / "judged.yaml"
    path.write_text(yaml.safe_dump([{**entry, **change}]))
    with pytest.raises(ValueError, match=message):
        judged.judged(path)
    path.write_text(yaml.safe_dump([entry, entry]))
    with pytest.raises(ValueError, match="twice"):
        judged.judged(path)


def test_the_entries_can_be_read(judged: ModuleType) -> None:
    assert all(entry.reason for entry in judged.judged(BENCHMARKS / "data" / "suite_mutations.yaml").values())


def test_the_suite_kills_mutations_of_a_kernel_and_the_script_counts_them() -> None:
    command = [sys.executable, BENCHMARKS / "suite_mutations.py", "--count=3", "--seed=14", "--op=relu", "--json"]
    done = subprocess.run([*command, "--least=0"], capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    lived = found["survived"] + found["equivalent"] + found["cost_only"]
    assert found["mutations"] == 3 == found["killed"] + lived
    killed = [one for one in found["verdicts"] if one["killed"]]
    assert killed and {one["how"] for one in killed} <= {"quick", "whole"}
    assert all(one["device"] in ("loopback", "strict", "narrow") for one in killed)


def test_a_file_that_is_not_there_is_named_before_anything_runs() -> None:
    command = [sys.executable, BENCHMARKS / "suite_mutations.py", "--file=arrays/vew.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1 and "arrays/vew.py; one of" in done.stderr and "arrays/view.py" in done.stderr
