"""Checks of versions and of core itself: releases that do not go together, and a core that is not the one installed.

Our distributions pin each other exactly, so a mixture is never what pip made of one command; the name ``tensorplay``
belongs to somebody else on PyPI; and a folder in front of the path can hide the package that metadata speaks of.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import tensorplay_core
from tensorplay_core import __version__
from tensorplay_core.plugins.doctor.case import Case
from tensorplay_core.plugins.doctor.findings import OUR_DISTRIBUTIONS, Finding, reinstall
from tensorplay_core.plugins.doctor.installed import Installed
from tensorplay_core.plugins.records import canonical

CORE = "tensorplay-core"
UMBRELLA = "tensorplay"

CORE_FOLDER = Path(tensorplay_core.__file__).parent

_OF_A_FAMILY = (
    ("config/native_functions_*.yaml", "ops/_generated_schemas_*.py", "ops/_generated_functional_*.py"),
    ("config/derivatives_*.yaml", "ops/_generated_nodes_*.py"),
)
_NODES = "ops/_generated_nodes_"
_LISTS_NODES = "ops/_generated_autograd.py"
"""The file that imports those of the nodes, each as ``import _generated_nodes_view as view_nodes``."""
_ALWAYS = (
    *(f"ops/_generated_{name}.py" for name in ("autograd", "functional", "meta", "methods", "public")),
    "autocast/_generated_rules.py",
    "py.typed",
)


def releases(case: Case) -> Iterator[Finding]:
    """Finds distributions of ours that are of another release than core."""
    for one in case.first_copies:
        other = one.key in OUR_DISTRIBUTIONS and one.key != CORE and one.version != __version__
        if other and not _foreign(one):
            what = f"it is {one.version}, and {CORE} is {__version__}: only distributions of one release work together"
            yield Finding("error", one.name, what, reinstall(one.name))


def foreign(case: Case) -> Iterator[Finding]:
    """Finds the other project whose package has the name ``tensorplay`` on PyPI."""
    one = case.find(UMBRELLA)
    if one is not None and _foreign(one):
        what = f"{one.label} is another project's package of that name: it does not require {CORE}"
        yield Finding("error", one.name, what, f"pip uninstall {UMBRELLA}, then {reinstall(UMBRELLA)}")


def namespace(case: Case) -> Iterator[Finding]:
    """Finds a folder named ``tensorplay`` that Python takes for an empty package."""
    spec = importlib.util.find_spec(UMBRELLA)
    if spec is not None and spec.origin is None and spec.submodule_search_locations is not None:
        folder = ", ".join(spec.submodule_search_locations)
        what = f"'import tensorplay' finds the folder {folder}, which is no package: it has no __init__.py"
        yield Finding("warning", UMBRELLA, what, f"start Python from another folder, or {reinstall(UMBRELLA)}")


def core(case: Case) -> Iterator[Finding]:
    """Finds a core that runs and is not the one that is installed."""
    one = case.find(CORE)
    if one is None:
        what = f"it runs from {CORE_FOLDER} and is not installed, so nothing can depend on its release"
        yield Finding("warning", CORE, what, f"{reinstall(CORE)}, or pip install ./tensorplay_core in a checkout")
        return
    if one.version != __version__:
        what = f"{__version__} runs from {CORE_FOLDER}, and its metadata in {one.folder} says {one.version}"
        yield Finding("error", CORE, what, f"remove what is not wanted, then {reinstall(CORE, whole=True)}")
    place = Path(one.editable) if one.editable else Path(one.folder).parent / "tensorplay_core"
    there = place.exists() and CORE_FOLDER.resolve().is_relative_to(place.resolve())
    if place.exists() and not there:
        what = f"it runs from {CORE_FOLDER}, and its metadata in {one.folder} describes the copy in {place}"
        remedy = "start Python from another folder, or take the first of the two from PYTHONPATH"
        yield Finding("warning", CORE, what, remedy)


def core_files(case: Case) -> Iterator[Finding]:
    """Finds files that were left out of core's distribution: the contract, or what is generated from it."""
    gone = missing_from(CORE_FOLDER)
    if gone:
        what = f"{CORE_FOLDER} lacks {', '.join(gone)}: left out of the distribution, or removed"
        yield Finding("error", CORE, what, reinstall(CORE, whole=True))


def missing_from(folder: Path) -> list[str]:
    """Returns the files that a folder with core lacks: what one family of operators has, each has to have.

    A family whose operators all have no gradient has a file of derivatives that says so, and no nodes.
    """
    wanted = []
    for files in _OF_A_FAMILY:
        families = {family for file in files for family in _families(folder / file)}
        wanted += [file.replace("*", family) for family in sorted(families or {"*"}) for file in files]
    gone = [file for file in [*wanted, *_ALWAYS] if not (folder / file).is_file()]
    if _LISTS_NODES in gone:
        return gone
    listed = (folder / _LISTS_NODES).read_text(encoding="utf-8")
    return [file for file in gone if not file.startswith(_NODES) or f" {Path(file).stem} " in listed]


def _families(pattern: Path) -> Iterator[str]:
    before, after = pattern.name.split("*")
    for path in pattern.parent.glob(pattern.name):
        yield path.name.removeprefix(before).removesuffix(after)


def python(case: Case) -> Iterator[Finding]:
    """Finds distributions that are for other Python versions than this one."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    running = ".".join(map(str, sys.version_info[:3]))
    for one in case.first_copies:
        try:
            fits = SpecifierSet(one.requires_python).contains(running, prereleases=True)
        except InvalidSpecifier:
            what = f"its metadata requires Python {one.requires_python!r}, which is no range of versions"
            yield Finding("warning", one.name, what, f"correct Requires-Python in the metadata of {one.name}")
            continue
        if not fits:
            what = f"{one.label} requires Python {one.requires_python}, and this is {running} ({sys.executable})"
            remedy = f"use a Python {one.requires_python}, or a release of {one.name} for Python {running}"
            yield Finding("error", one.name, what, remedy)


def _foreign(one: Installed) -> bool:
    # An installation of ours, of whatever release, requires core.
    return one.key == UMBRELLA and not any(canonical(line).startswith(CORE) for line in one.requires)
