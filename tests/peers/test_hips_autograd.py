"""HIPS autograd's own tests, fetched when this runs, over our tensors: first and second order, forward and reverse.

``hips/hips_adapter.py`` stands between: it says which functions of NumPy are which operators here. A test whose
function has no operator is skipped there by its name; of the rest, those that fail are listed below with the reason,
and explained in docs/conformance.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers

VERSION = "1.9.1"
SHA256 = "7818c5c69ddf9efb7da74097bd741a4c7920133f41966f68537223a15ef798bc"
HERE = Path(__file__).parent

STEP = "a slice with a negative step is refused, as PyTorch does; flip is the operator for it"
OTHERWISE = {
    "test_numpy::test_index_slice": STEP,
    "test_numpy::test_index_slice_fanout": STEP,
    "test_numpy::test_index_mixed": "in x[3, 2:, [1, 3]] PyTorch takes the number as a select, NumPy as an index array",
    "test_wrappers::test_dtypes": "no tensor has NumPy's longdouble",
    "test_numpy::test_cast_to_int": "numpy.int64(x) of a traced value: HIPS's scalar types know its tracer",
    "test_misc::test_flatten_nodes_in_containers": "flattens by the nodes of HIPS's own tracer",
}
"""Tests that fail, and why; docs/conformance.md says the same in sentences."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """The folder of the fetched source distribution."""
    for module in ("pip", "scipy"):
        pytest.importorskip(module, reason=f"{module} is not installed: install the peers group, and these tests run")
    folder = tmp_path_factory.mktemp("hips")
    (folder / "wanted.txt").write_text(f"autograd=={VERSION} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    done = subprocess.run([*command, "-r", "wanted.txt"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"HIPS autograd {VERSION} could not be fetched: {done.stderr.strip().splitlines()[-1:]}")
    with tarfile.open(next(folder.glob("autograd-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"autograd-{VERSION}"


@pytest.fixture(scope="module")
def outcomes(sources) -> dict[str, tuple[str, str]]:
    """Test by test, ``passed``, ``failed`` or ``skipped``, and what was said."""
    report = sources / "report.xml"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE / "hips"), str(sources)])}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(sources), "tests"]
    options = ["-p", "hips_adapter", "-p", "no:cacheprovider", f"--junitxml={report}"]
    options.append("--ignore=tests/test_scipy.py")  # SciPy's functions as primitives of HIPS's own tracer
    done = subprocess.run(
        [*command, *options], cwd=sources, env=environment, capture_output=True, text=True, check=False
    )
    assert report.exists(), done.stdout + done.stderr
    found = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        what = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        state = (
            {"failure": "failed", "error": "failed", "skipped": "skipped"}[what.tag] if what is not None else "passed"
        )
        found[name] = (state, "" if what is None else what.get("message", ""))
    return found


def test_four_of_five_pass_of_those_whose_operators_exist(outcomes):
    counts = Counter(state for state, _ in outcomes.values())
    missing = Counter(said for state, said in outcomes.values() if state == "skipped")
    print(
        f"\nHIPS autograd {VERSION}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    )
    for said, number in missing.most_common():
        print(f"  {number:3d}  {said}")
    assert counts["passed"] >= 200
    assert counts["passed"] >= 0.8 * (counts["passed"] + counts["failed"])


def test_every_failure_is_explained_and_every_explanation_needed(outcomes):
    failed = {name: said for name, (state, said) in outcomes.items() if state == "failed"}
    assert set(failed) == set(OTHERWISE), "\n".join(
        f"{n}: {failed.get(n, 'passes')}" for n in set(failed) ^ set(OTHERWISE)
    )
    page = (HERE.parents[1] / "docs" / "conformance.md").read_text()
    assert [name for name in OTHERWISE if name.partition("::")[2] not in page] == []
