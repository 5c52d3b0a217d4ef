"""What is installed, as metadata says it: read once for all checks, each distribution under its own ``try``.

Discovery reads only what makes a backend. The doctor also wants what discovery has to pass over in silence: folders
that cannot be read, second copies, groups of entry points that nothing reads.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlparse

import attrs

from tensorplay_core.plugins.discovery import sections
from tensorplay_core.plugins.records import canonical

T = TypeVar("T")

Entries = Mapping[str, Sequence[tuple[str, str]]]
"""Group of entry points to its (name, value) pairs."""


@attrs.frozen
class Installed:
    """One ``.dist-info`` (or ``.egg-info``) on the path, of a distribution that has to do with TensorPlay.

    Attributes:
        name: the distribution's name, or its folder's where metadata has none.
        version: its version, or ``unknown``.
        folder: where its metadata lies.
        entries: its entry points.
        requires: its requirements, as written.
        requires_python: the Python versions that it is for, as written; empty where it does not say.
        url: where its authors want people to read on; may be empty.
        editable: the project's folder that it was installed from in place; empty for an ordinary installation.
        problem: why its metadata is no good, or empty.
        missing: files that were installed with it and are gone.
    """

    name: str
    version: str
    folder: str
    entries: Entries
    requires: tuple[str, ...] = ()
    requires_python: str = ""
    url: str = ""
    editable: str = ""
    problem: str = ""
    missing: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The canonical name, by which distributions are compared."""
        return canonical(self.name)

    @property
    def label(self) -> str:
        """The name with the version."""
        return f"{self.name} {self.version}"

    @property
    def leftover(self) -> bool:
        """Whether pip put the folder aside (it renames ``tensorplay_x`` to ``~ensorplay_x``) and did not come back."""
        return os.path.basename(self.folder).startswith("~")


def index(found: Sequence[metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """Returns the distributions by canonical name; of several copies the first, which is the one that Python takes."""
    by_name: dict[str, metadata.Distribution] = {}
    for distribution in found:
        name = attempt(partial(_field, distribution, "Name"), "")
        if name and not os.path.basename(_folder(distribution)).startswith("~"):
            by_name.setdefault(canonical(name), distribution)
    return by_name


def read(found: Sequence[metadata.Distribution]) -> tuple[Installed, ...]:
    """Returns those distributions that are ours, or that have an entry point of ours, or that look as if."""
    seen: set[str] = set()
    ours = []
    for distribution in found:
        folder = attempt(partial(_folder, distribution), "")
        place = os.path.realpath(folder) if folder else str(id(distribution))
        if place not in seen and (one := attempt(partial(_read, distribution, folder), None)) is not None:
            ours.append(one)
        seen.add(place)
    return tuple(ours)


def attempt(step: Callable[[], T], default: T) -> T:
    """Returns what a step gives, or the default: foreign metadata can fail in any way."""
    try:
        return step()
    except Exception:
        return default


def version_of(distribution: metadata.Distribution) -> str:
    """Returns a distribution's version, or ``unknown``."""
    return attempt(partial(_field, distribution, "Version"), "") or "unknown"


def _read(distribution: metadata.Distribution, folder: str) -> Installed | None:
    base = os.path.basename(folder)
    raw = _entry_points(distribution, folder)
    name = attempt(partial(_field, distribution, "Name"), "")
    entries = sections(raw.decode("utf-8", "replace"))
    if not (canonical(name).startswith("tensorplay") or _looks_ours(base) or any(map(_ours, entries))):
        return None
    return Installed(
        name=name or base or "a distribution",
        version=version_of(distribution),
        folder=folder,
        entries=entries,
        requires=attempt(lambda: tuple(distribution.requires or ()), ()),
        requires_python=attempt(partial(_field, distribution, "Requires-Python"), ""),
        url=attempt(partial(_url, distribution), ""),
        editable=attempt(lambda: _editable(distribution), ""),
        problem=_problem(distribution, base, name, raw),
        missing=attempt(lambda: _missing(distribution), ()),
    )


def _field(distribution: metadata.Distribution, field: str) -> str:
    said: Any = distribution.metadata
    value = said.get(field)  # None where there is none, and later versions of Python raise for ``said[field]``
    return value.strip() if isinstance(value, str) else ""


def _ours(group: str) -> bool:
    return re.sub(r"[-_. ]+", ".", group.lower()).startswith("tensorplay.")


def _looks_ours(base: str) -> bool:
    # pip's name for what it puts aside: "~", perhaps some more of the characters below, and the end of the old name.
    if not base.startswith("~"):
        return canonical(base).startswith("tensorplay")
    rest = re.match(r"[a-z]*", base.lstrip("~-.=%0123456789").lower())
    return rest is not None and len(rest[0]) >= 4 and "tensorplay".endswith(rest[0])


def _folder(distribution: metadata.Distribution) -> str:
    path = str(getattr(distribution, "_path", ""))
    return os.path.abspath(path) if path else ""  # relative where an entry of the path is, such as the empty one


def _entry_points(distribution: metadata.Distribution, folder: str) -> bytes:
    try:
        return Path(folder, "entry_points.txt").read_bytes()
    except OSError:  # none, or it is in an archive
        return attempt(lambda: (distribution.read_text("entry_points.txt") or "").encode(), b"")


def _problem(distribution: metadata.Distribution, base: str, name: str, raw: bytes) -> str:
    try:
        _field(distribution, "Name")
    except Exception as error:
        return f"the metadata in {base} cannot be read ({type(error).__name__}: {error})"
    if not name:
        return f"the metadata in {base} has no Name"
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"entry_points.txt in {base} cannot be read ({error}), so its backends are not seen"
    return ""


def _url(distribution: metadata.Distribution) -> str:
    labelled = [str(line).partition(",") for line in distribution.metadata.get_all("Project-URL") or ()]
    links = {label.strip().lower(): link.strip() for label, _, link in labelled}
    for label in ("documentation", "docs", "homepage", "home", "repository", "source"):
        if label in links:
            return links[label]
    return _field(distribution, "Home-page")


def _editable(distribution: metadata.Distribution) -> str:
    said = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not said.get("dir_info", {}).get("editable"):
        return ""
    return unquote(urlparse(said["url"]).path)


def _missing(distribution: metadata.Distribution) -> tuple[str, ...]:
    # Not through ``distribution.files``: newer versions of Python leave out of it what is gone.
    gone = []
    for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        file = row[0] if row else ""
        inside = file and not file.startswith(("..", "/")) and "__pycache__" not in file
        place: Any = distribution.locate_file(file)  # in an archive no path of the file system
        if inside and not place.exists():
            gone.append(file)
    return tuple(gone)
