"""What is found of backends when each is tried: plugins that the real loader loads, in a process of their own."""

from __future__ import annotations

from typing import Any

import pytest

from tensorplay_core.plugins.doctor import Finding, backends

WORKS = """
import numpy
from tensorplay_composite.arrays import ArrayDevice
from tensorplay_core.plugins import Availability, hookimpl, library_impl

@library_impl({name!r}, "Blocks")
def _(m):
    m.impl("add", numpy.add)

@hookimpl
def tensorplay_probe():
    return Availability(ok=True, device_count=1)

@hookimpl
def tensorplay_device():
    return ArrayDevice(numpy)
"""
OPAQUE = """
class Opaque:
    __signature__ = 3
    def __call__(self, *arrays):
        return arrays[0]

@library_impl("opaque", "More")
def _(m):
    m.impl("exp", Opaque())
"""
EXTENDS = "from tensorplay_core.plugins import hookimpl\n@hookimpl\ndef tensorplay_register(registry):\n    pass\n"


def works(name: str, extra: str = "") -> str:
    return WORKS.format(name=name) + extra


def by_subject(found: list[Finding]) -> dict[str, Finding]:
    assert len({finding.subject for finding in found}) == len(found), [str(finding) for finding in found]
    return {finding.subject: finding for finding in found}


def test_a_healthy_installation_has_no_finding(patient: Any) -> None:
    patient.site.add("foo", works("foo"), yaml="summary: Foo\n")
    assert patient.examine() == []


def test_states_are_errors_warnings_and_notes(patient: Any) -> None:
    add = patient.site.add
    add("wreck", "import no_such_lib\n")
    add("exits", "raise SystemExit(3)\n")
    add("marked", works("marked", "@hookimpl\ndef tensorplay_prob():\n    pass\n"))
    add("bare", works("bare", "def tensorplay_devise():\n    pass\n"))
    add("future", works("future"), yaml='api: ">=9"\n')
    add("yaml", works("yaml"), yaml="prioritiy: 3\n")
    (add("left", works("left"), yaml="") / "backend.yaml").unlink()
    add("slash", value="tensorplay_slash/plugin.py")
    add("UPPER", works("upper"))
    add("gone", value="tensorplay_gone.no_such_module")
    add("toy", works("toy").replace("ok=True", "ok=False, reason='no card', fix='insert one'"))
    add("hangs", "import time\ntime.sleep(60)\n")
    add("stopped", "raise SystemExit('a blocked backend runs no code')\n")
    add("twice", works("twice"), distribution="tensorplay-one")
    add("twice", works("twice"), distribution="tensorplay-two")
    found = by_subject(patient.examine(TENSORPLAY_BACKENDS_BLOCK="cuda,vulkan,stopped"))
    said = {
        "wreck": "its module raised ModuleNotFoundError: No module named 'no_such_lib' (tensorplay_wreck/plugin.py:1)",
        "exits": "its module raised SystemExit: 3 (tensorplay_exits/plugin.py:1)",
        "marked": "Did you mean 'tensorplay_probe'? The hooks are",
        "bare": "Did you mean 'tensorplay_device'?",
        "future": "it needs plugin API >=9",
        "yaml": "unknown field 'prioritiy'. Did you mean 'priority'?",
        "left": "tensorplay_left/backend.yaml does not exist",
        "slash": "'tensorplay_slash/plugin.py' is not a module such as 'tensorplay_slash.plugin'",
        "UPPER": "'UPPER' is not a lowercase identifier",
        "gone": "No module named 'tensorplay_gone.no_such_module'",
        "hangs": "did not finish within 3 s",
        "twice": "2 distributions provide it: tensorplay-one 1.0 and tensorplay-two 1.0",
    }
    assert set(found) == {*said, "toy", "stopped"}
    for name, text in said.items():
        assert text in found[name].what and found[name].severity == "error", str(found[name])
        assert "pip install" not in found[name].fix
    assert found["toy"] == Finding("warning", "toy", "no card", "insert one")
    assert found["stopped"].severity == "note" and "TENSORPLAY_BACKENDS_BLOCK" in found["stopped"].what
    assert "reinstall tensorplay-gone" in found["gone"].fix


def test_what_works_and_will_surprise(patient: Any) -> None:
    add = patient.site.add
    add("hooked", works("hooked", "def tensorplay_own_helper():\n    pass\n"))
    add("slow", works("slow", "import time\ntime.sleep(1.2)\n"))
    add("pack", EXTENDS, yaml="extends: [cpu, sparse, slwo]\n")
    add("other", EXTENDS, yaml="extends: ['*', something_else]\n")
    add("opaque", works("opaque", OPAQUE))
    found = patient.examine()
    assert [f.severity for f in found] == sorted((f.severity for f in found), key=("error", "warning", "note").index)
    said = {(f.severity, f.subject): f for f in found}
    assert "'tensorplay_own_helper' of tensorplay_hooked.plugin is no hook" in said["note", "hooked"].what
    assert "tensorplay_probe" in said["note", "hooked"].fix
    assert "importing tensorplay_slow.plugin took 1." in said["note", "slow"].what
    assert "inside tensorplay_probe" in said["note", "slow"].fix
    assert "extends 'slwo'" in said["warning", "pack"].what and "Did you mean 'slow'?" in said["warning", "pack"].what
    assert "extends 'something_else'" in said["note", "other"].what
    assert "tp::exp (" in said["note", "opaque"].what and "cannot be inspected" in said["note", "opaque"].what
    assert len(found) == 5, [str(f) for f in found]


def test_nothing_to_compute_with(patient: Any) -> None:
    (found,) = patient.check(backends.needed)
    assert (found.severity, found.what) == ("error", "no backend is installed, so nothing can be computed")
    assert found.fix.startswith("pip install tensorplay-cpu==")

    from tensorplay_core.plugins.info import BackendInfo
    from tensorplay_core.plugins.records import BackendRecord

    records = (BackendRecord(BackendInfo("foo", "tensorplay-foo")),)
    found = [*backends.needed(patient.case(records=records))]
    assert [(f.severity, f.subject) for f in found] == [("error", "cpu"), ("warning", "composite")]


@pytest.mark.parametrize("leftover", ["~ensorplay_foo", "tensorplay_foo"])
def test_a_cause_in_metadata_is_told_once_with_its_folder(patient: Any, leftover: str) -> None:
    folder = patient.plant("tensorplay-foo", folder=leftover, entries="[tensorplay.backends]\nfoo = tensorplay_foo\n")
    (folder / "METADATA").write_text("")
    (found,) = patient.examine()
    assert str(folder.parent) in found.what and found.severity == ("warning" if "~" in leftover else "error")
