"""Environment variables: a value that means nothing is a finding, and does not hide the next."""

from __future__ import annotations

from typing import Any

import pytest

from tensorplay_core.plugins.doctor.variables import of


def test_every_bad_value_is_found_and_good_ones_are_not() -> None:
    bad = {
        "TENSORPLAY_BACKENDS": "CPU", "TENSORPLAY_BACKENDS_BLOCK": "cuda;vulkan", "TENSORPLAY_FALLBACK": "maybe",
        "TENSORPLAY_BACKENDS_PRIORITY": "cpu=high", "TENSORPLAY_BACKEND_AUTOLOAD": "no", "TENSORPLAY_TRACE": "yes",
        "TP_TRACE_KERNEL_MISS": "2", "TENSORPLAY_BACKEND_TIMEOUT": "soon",
    }  # fmt: skip
    found = {f.subject: f for f in of({**bad, "HOME": "/root", "TENSORPLAY_HOME": "x"}, ["cpu"])}
    assert set(found) == set(bad)
    for name, finding in found.items():
        assert finding.severity == "error" and repr(bad[name]) in finding.what and "Valid values are" in finding.what
        assert finding.fix == f"correct or unset {name}"
    good = {
        "TENSORPLAY_BACKENDS": "cpu, composite", "TENSORPLAY_BACKENDS_BLOCK": "", "TENSORPLAY_FALLBACK": "warn",
        "TENSORPLAY_BACKENDS_PRIORITY": "cpu=-3", "TENSORPLAY_BACKEND_AUTOLOAD": "0", "TENSORPLAY_TRACE": "1",
        "TP_TRACE_KERNEL_MISS": "1", "TENSORPLAY_BACKEND_TIMEOUT": "0",
    }  # fmt: skip
    assert of(good, ["cpu", "composite"]) == []


def test_unknown_variables_and_backends_are_found_with_the_nearest_names() -> None:
    environ = {
        "TENSORPLAY_BACKENDS_BLOK": "cuda", "TENSORPLAY_BACKENDS": "cpu,lopback", "TENSORPLAY_FALLBACK": "maybe",
        "TENSORPLAY_BACKENDS_BLOCK": "loopbak",
    }  # fmt: skip
    found = {f.subject: f for f in of(environ, ["cpu", "loopback"])}
    assert set(found) == set(environ)
    assert found["TENSORPLAY_BACKENDS_BLOK"].severity == "warning"
    assert "Did you mean 'TENSORPLAY_BACKENDS_BLOCK'?" in found["TENSORPLAY_BACKENDS_BLOK"].what
    assert "Did you mean 'loopback'?" in found["TENSORPLAY_BACKENDS"].what
    assert "Did you mean 'loopback'?" in found["TENSORPLAY_BACKENDS_BLOCK"].what


@pytest.mark.parametrize("name", ["TENSORPLAY_BACKENDS_BLOCK", "TP_TRACE_KERNEL_MISS"])
def test_a_bad_value_crashes_nothing_and_runs_nothing(patient: Any, name: str) -> None:
    patient.site.add("foo", "import os\nos._exit(7)\n")  # was to be blocked, perhaps
    (found,) = patient.examine(**{name: "N;O", "TENSORPLAY_BACKENDS_BLOCK": "cuda,vulkan,foo"} | {name: "N;O"})
    assert (found.severity, found.subject) == ("error", name) and "'N;O'" in found.what


def test_backends_that_wait_for_a_call_are_not_tried(patient: Any) -> None:
    patient.site.add("foo", "import os\nos._exit(7)\n")
    (found,) = patient.examine(TENSORPLAY_BACKEND_AUTOLOAD="0")
    assert found.severity == "note" and found.subject == "TENSORPLAY_BACKEND_AUTOLOAD"
    assert "these were not tried: " in found.what and "foo" in found.what
