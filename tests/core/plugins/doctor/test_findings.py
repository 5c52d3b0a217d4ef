"""A finding can be acted on, and no remedy sends anybody to a stranger's package."""

from __future__ import annotations

import pytest

from tensorplay_core import __version__
from tensorplay_core.errors import ValueRangeError
from tensorplay_core.plugins.doctor.findings import Finding, reinstall


def test_a_finding_says_what_and_how_to_mend_it() -> None:
    finding = Finding("error", "foo", "it is broken", "mend it")
    assert str(finding) == "error: foo: it is broken\nfix: mend it"
    assert finding.as_dict() == {"severity": "error", "subject": "foo", "what": "it is broken", "fix": "mend it"}
    for wrong in (("grave", "a", "b", "c"), ("error", "", "b", "c"), ("error", "a", " ", "c"), ("note", "a", "b", "")):
        with pytest.raises(ValueRangeError):
            Finding(*wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("tensorplay_cpu", f"pip install tensorplay-cpu=={__version__}"),
        ("tensorplay-cuda", f"pip install 'tensorplay[cuda]=={__version__}'"),
        ("tensorplay-core", f"pip install tensorplay-core=={__version__}"),
        ("tensorplay-foo", "reinstall tensorplay-foo with its dependencies, as its authors say"),
        ("tensorplay-cpux", "reinstall tensorplay-cpux with its dependencies, as its authors say"),
    ],
)
def test_only_ours_are_named_with_pip(name: str, fix: str) -> None:
    assert reinstall(name) == fix
    assert ("--force-reinstall" in reinstall(name, whole=True)) == fix.startswith("pip")
