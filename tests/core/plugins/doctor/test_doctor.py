"""The doctor as a whole: it never raises, whatever it reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

from tensorplay_core.plugins import doctor
from tensorplay_core.plugins.doctor import Case, Report, examine
from tensorplay_core.plugins.doctor.findings import Finding
from tensorplay_core.plugins.doctor.installed import index, read


class Hostile(metadata.Distribution):
    """A distribution every part of which raises something else."""

    def read_text(self, filename: str) -> str:
        raise RecursionError(filename)

    def locate_file(self, path: Any) -> Any:
        raise OSError(path)

    @property
    def metadata(self) -> Any:
        raise ZeroDivisionError

    _path = "/somewhere/tensorplay_hostile-1.0.dist-info"


def test_a_distribution_that_raises_everywhere_is_one_finding(patient: Any) -> None:
    patient.plant("tensorplay-foo", requires_dist="no-such-lib", entries="[tensorplay.backends]\nfoo = m\n")
    hostile = Hostile()
    found = [hostile, *metadata.distributions(path=[str(patient.folder)]), hostile]
    case = Case(read(found), index(found))
    assert [one.name for one in case.installed] == ["tensorplay_hostile-1.0.dist-info", "tensorplay-foo"]
    findings = [finding for check in doctor.CHECKS for finding in doctor._made(check, case)]
    (bad,) = [finding for finding in findings if "hostile" in finding.subject]
    assert "cannot be read (ZeroDivisionError" in bad.what
    assert any("no-such-lib" in finding.what for finding in findings), "it hides no other"
    assert not any("could not be made" in finding.what for finding in findings), "every check was made"


def test_a_check_that_fails_is_a_finding_and_the_others_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Case) -> Any:
        raise KeyError("x")

    def incomplete(case: Case) -> Any:
        raise ModuleNotFoundError("No module named 'packaging'", name="packaging")

    monkeypatch.setattr(doctor, "CHECKS", (broken, incomplete, lambda case: iter([Finding("note", "a", "seen", "c")])))
    report = examine(load=False)
    assert [finding.severity for finding in report.findings] == ["error", "warning", "note"]
    assert "the module 'packaging' is missing" in report.findings[0].what
    assert report.findings[0].fix.startswith("pip install tensorplay-core==")
    assert "the check of broken could not be made: KeyError: 'x'" in report.findings[1].what
    assert not report.ok and report.count("note") == 1
    assert "tensorplay-core" in report.distributions


def test_notes_leave_it_healthy_and_warnings_do_not() -> None:
    note, warning = Finding("note", "a", "b", "c"), Finding("warning", "a", "b", "c")
    assert Report((), (), ()).ok and Report((note,), (), ()).ok and not Report((warning,), (), ()).ok
    assert Report((note,), (), ()).with_findings([warning]).findings == (warning, note)


def test_this_installation_is_healthy() -> None:
    code = "import json, tensorplay as tp; print(json.dumps([f.as_dict() for f in tp.backends.doctor()]))"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("TENSORPLAY_", "TP_", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=env, check=True
    )
    found = [Finding(**one) for one in json.loads(done.stdout)]
    worse = {(finding.severity, finding.subject) for finding in found if finding.severity != "note"}
    assert worse <= {("warning", "cuda"), ("warning", "vulkan")}, [str(f) for f in found]
