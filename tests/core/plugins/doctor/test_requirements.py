"""What a backend's distribution requires, by name and version."""

from __future__ import annotations

from typing import Any

import pytest

from tensorplay_core import __version__
from tensorplay_core.plugins.doctor.requirements import requirements

ENTRY = "[tensorplay.backends]\nfoo = tensorplay_foo.plugin\n"


def test_a_missing_requirement_is_named_and_the_authors_page_is_the_fix(patient: Any) -> None:
    lines = ["no-such_lib>=2,<3", "there", 'windows-only; sys_platform == "never"', 'optional; extra == "all"']
    urls = ["Changelog, https://a.example", "Documentation, https://foo.example/docs"]
    patient.plant("tensorplay-foo", entries=ENTRY, requires_dist=lines, project_url=urls)
    patient.plant("There", "0.1")
    (found,) = patient.check(requirements)
    assert found.what == "tensorplay-foo 1.0 requires no-such_lib<3,>=2, which is not installed"
    assert found.severity == "error" and found.subject == "tensorplay-foo"
    assert "https://foo.example/docs" in found.fix and "pip install" not in found.fix


@pytest.mark.parametrize(
    ("line", "version", "severity"),
    [
        ("lib>=2", "1.9", "warning"), ("lib>=2", "2.0", ""), ("lib>=2", "3.0rc1", ""), ("lib==1.*", "1.4", ""),
        ("lib", "whatever", ""), ("lib>=1", "no-version", "warning"), ("lib @ https://lib.example/a.whl", "1", ""),
        ("lib >== 1", "1", "warning"), ('lib; nonsense == "x"', "1", "warning"),
        ("tensorplay-core>=2099", "2026.1", "error"),
    ],
)  # fmt: skip
def test_versions_are_compared_as_pip_does(patient: Any, line: str, version: str, severity: str) -> None:
    patient.plant("tensorplay-foo", entries=ENTRY, requires_dist=line)
    folder = patient.plant("tensorplay-core" if "tensorplay" in line else "lib", version.replace("-", "_"))
    (folder / "METADATA").write_text((folder / "METADATA").read_text().replace("_", "-"))
    found = patient.check(requirements)
    assert [f.severity for f in found] == ([severity] if severity else []), found
    if severity:
        assert "pip install" not in found[0].fix and "tensorplay-foo" in found[0].fix + found[0].what


def test_what_an_extra_of_a_requirement_needs_is_required(patient: Any) -> None:
    patient.plant("tensorplay-foo", entries=ENTRY, requires_dist="lib[fast]")
    extras = ['speed>=1; extra == "fast"', 'lint; extra == "dev"', 'lib[fast]; extra == "fast"']
    patient.plant("lib", requires_dist=extras, provides_extra=["fast", "dev"])
    (found,) = patient.check(requirements)
    assert found.what == "lib[fast] requires speed>=1, which is not installed" and found.subject == "tensorplay-foo"


def test_our_distributions_are_named_with_pip_and_pinned(patient: Any) -> None:
    patient.plant("tensorplay-core", __version__)
    patient.plant("tensorplay-cpu", "2025.1.0", requires_dist=["tensorplay-core==2025.1.0", "no-such-lib"])
    patient.plant("unrelated", requires_dist="missing-too")
    (found,) = patient.check(requirements)  # that the releases differ is told once, elsewhere
    assert "no-such-lib" in found.what and found.fix == f"pip install tensorplay-cpu=={__version__}"
