"""What ``tensorplay backends new`` writes, as its author meets it: built, installed, used, and held to the suite."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

KINDS = ("array-module", "custom")
GAPS = {
    "not yet: the device has no random numbers yet",
    "not yet: the device has no factorizations of matrices yet",
    "not yet: views with strides of any kind are not written yet",
}
"""All that the one with arrays of its own may leave out."""
SESSION = """
import pickle

def session(device):
    x = tp.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]], device=device, requires_grad=True)
    w = tp.tensor([[0.5, 1.5], [-1.0, 0.25], [2.0, -0.75]], device=device, requires_grad=True)
    y = tp.softmax(tp.silu(x @ w), 1) + tp.relu(x[:, :2]) ** 2
    loss = tp.cat([y, y.exp() / 4]).sum(0).mean() + tp.where(x > 0, x, x * 0.1).max()
    loss.backward()
    z = tp.zeros(2, 3, device=device, dtype=tp.int64)
    z[0] += 2
    z[:, 1:].mul_(3)
    back = pickle.loads(pickle.dumps(z))
    assert {t.device.type for t in (y, x.grad, z, back)} == {device}
    return [t.reshape((-1,)).tolist() for t in (loss.detach(), y.detach(), x.grad, w.grad, z, back)]

give([session("foo"), session("cpu"), sorted(tp.backends.info("foo").notes)])
"""


@pytest.fixture(params=KINDS)
def scaffold(environment: Any, request: pytest.FixtureRequest) -> Path:
    """The folder of a new backend ``foo``, written by the command; its wheel is installed."""
    folder = environment.folder / "tensorplay-foo"
    done = environment.tensorplay("backends", "new", "foo", "--kind", request.param, "--path", str(folder))
    assert done.code == 0 and done.err == "", done.err
    environment.pip("install", "--no-deps", environment.wheel(folder))
    return folder


def test_a_new_backend_computes_with_gradients(environment: Any, scaffold: Path) -> None:
    mine, cpu, notes = environment.gives(SESSION)
    for found, expected in zip(mine, cpu, strict=True):
        assert found == pytest.approx(expected, rel=1e-5)
    assert notes == []
    (wheel,) = (scaffold / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/") and ".dist-info/" not in name}
    source = scaffold / "src"
    assert names == {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}

    again = environment.tensorplay("backends", "new", "foo", "--path", str(environment.folder / "again"))
    assert again.code == 1 and "a backend 'foo' is installed already: tensorplay-foo 0.1.0" in again.err
    assert not (environment.folder / "again").exists()


@pytest.mark.parametrize("scaffold", ["array-module"], indirect=True)
def test_the_demo_learns_on_a_new_backend(environment: Any, scaffold: Path) -> None:
    done = environment.module("tensorplay", "demo", "--device", "foo", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["accuracy"] > 0.9


def test_what_a_new_backend_lacks_is_what_it_declares(environment: Any, scaffold: Path) -> None:
    (row,) = [json.loads(environment.tensorplay("backends", "info", "foo", "--json").out)]
    assert row["state"] == "active" and row["fix"] == "" and row["notes"] == []
    declared = environment.gives("from tensorplay_foo.conformance import PROFILE\ngive(list(PROFILE.gaps))")
    assert set(row["operators"]["missing_names"]) <= set(declared)
    healthy = environment.tensorplay("backends", "doctor", TENSORPLAY_BACKENDS_BLOCK="cuda")
    assert healthy.code == 0, healthy.out


def test_its_test_file_is_the_suite(environment: Any, scaffold: Path) -> None:
    """The author's three lines run the suite under pytest; the whole of it runs in the test after this one."""
    text = (scaffold / "tests" / "test_conformance.py").read_text(encoding="utf-8")
    assert len([line for line in text.split("\n")[1:] if line.strip()]) == 3
    some = "test_device or [neg- or [matmul- or [sum- or [randperm-"
    done = environment.module("pytest", "-q", "-p", "no:cacheprovider", scaffold / "tests", "-k", some)
    assert done.code == 0, done.out
    passed = int(re.search(r"(\d+) passed", done.out)[1])
    assert passed > 20, done.out

    (scaffold / "src" / "tensorplay_foo" / "conformance.py").write_text(
        "from tensorplay_core.testing.suite import Profile\nPROFILE = Profile(never={'neg': 'it is not'})\n"
    )
    environment.pip("install", "--no-deps", "--reinstall", environment.wheel(scaffold))
    lied = environment.module("pytest", "-q", "-p", "no:cacheprovider", scaffold / "tests", "-k", "[neg-forward")
    assert lied.code == 1 and "take it out of the profile" in lied.out, lied.out


@pytest.mark.parametrize("scaffold", ["custom"], indirect=True)
def test_a_new_backend_with_arrays_of_its_own_passes_check(environment: Any, scaffold: Path) -> None:
    """The one over an array module passes in ``tests/roads/test_readme.py``, where the page about it is followed."""
    done = environment.module("tensorplay", "backends", "check", "foo", "--quick", "--seed", "1", "--json")
    report = json.loads(done.out)
    assert done.code == 0 and report["ok"], report["failures"]
    assert {gap["what"] for gap in report["gaps"]} <= GAPS
