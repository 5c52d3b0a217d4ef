"""One finding of the doctor, and the remedies that findings share.

A remedy may send someone to a package index, where anybody can own any name. So ``pip install`` is only ever written
with the distributions of this project, pinned to the release that runs; whoever installed another one knows better
than we do where it came from.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tensorplay_core import __version__
from tensorplay_core.errors import ValueRangeError
from tensorplay_core.plugins.records import canonical, install_hint

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From what must be mended to what is only worth knowing."""

OUR_DISTRIBUTIONS = {
    "tensorplay": "",
    "tensorplay-core": "",
    "tensorplay-composite": "composite",
    "tensorplay-cpu": "cpu",
    "tensorplay-cuda": "cuda",
    "tensorplay-loopback": "loopback",
    "tensorplay-vulkan": "vulkan",
}
"""The distributions of this project, which pin each other exactly; each with the backend that it brings."""


@attrs.frozen
class Finding:
    """Something that the doctor found.

    Attributes:
        severity: ``error`` (it does not work), ``warning`` (something is wrong, or does not work on this machine) or
            ``note`` (nothing is wrong, and it may surprise).
        subject: the backend, the distribution or the environment variable that it is about.
        what: what was found, and where.
        fix: what mends it.

    Raises:
        ValueRangeError: a severity that there is not, or a text that is missing.

    Example:
        >>> finding = Finding("error", "foo", "it requires bar, which is not installed", "install it as foo documents")
        >>> finding.as_dict()["severity"]
        'error'
    """

    severity: Severity
    subject: str
    what: str
    fix: str

    def __attrs_post_init__(self) -> None:
        """Refuses a finding that nobody could act on."""
        if self.severity not in SEVERITIES:
            raise ValueRangeError(f"Finding: severity must be one of {', '.join(SEVERITIES)}, got {self.severity!r}")
        for field in ("subject", "what", "fix"):
            if not getattr(self, field).strip():
                raise ValueRangeError(f"Finding: {field} must say something")

    def __str__(self) -> str:
        return f"{self.severity}: {self.subject}: {self.what}\nfix: {self.fix}"

    def as_dict(self) -> dict[str, Any]:
        """Returns the finding as plain values, for ``--json``."""
        return {"severity": self.severity, "subject": self.subject, "what": self.what, "fix": self.fix}


def reinstall(distribution: str, url: str = "", *, whole: bool = False) -> str:
    """Returns how to put an installed distribution right, with what it requires.

    Args:
        distribution: its name, canonical or not.
        url: where its authors say how.
        whole: its own files are wrong too, which pip would leave as they are.

    Example:
        >>> reinstall("tensorplay-foo", "https://foo.example")
        'reinstall tensorplay-foo with its dependencies, as its authors say (https://foo.example)'
    """
    name = canonical(distribution)
    backend = OUR_DISTRIBUTIONS.get(name)
    if backend is None:
        return f"reinstall {distribution} with its dependencies, as its authors say{f' ({url})' if url else ''}"
    hint = install_hint(backend) if backend else f"pip install {name}=={__version__}"
    if whole:
        hint = hint.replace("pip install ", "pip install --force-reinstall ")
    return hint
