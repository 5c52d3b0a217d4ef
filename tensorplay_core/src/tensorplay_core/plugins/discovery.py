"""Finds the installed backends and reads their descriptions, without importing any of them.

Metadata on a real machine is untidy (nameless or half-removed ``.dist-info`` folders, editable installs listed twice,
values that are no module), and one bad distribution must never hide the others: each is read under its own ``try``,
and what is wrong with it becomes part of its record.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import attrs

from tensorplay_core.errors import BackendError
from tensorplay_core.plugins.environment import Settings
from tensorplay_core.plugins.hookspecs import API_VERSION
from tensorplay_core.plugins.info import NAME, BackendInfo, api_problem, parse
from tensorplay_core.plugins.records import BackendRecord, State

GROUP = "tensorplay.backends"
INFO_GROUP = "tensorplay.backend_info"

_VALUE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\s*:\s*[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?")


@attrs.frozen
class Found:
    """One entry point of the group ``tensorplay.backends``, as metadata gave it.

    Attributes:
        name: the backend's name.
        distribution: the distribution's name, and its ``version``.
        module: the entry point's value.
        info: the value of the same name in ``tensorplay.backend_info``, or empty.
        problem: what makes it unusable, or empty.
        fix: the remedy for the problem.
        notes: findings that do not prevent use.
    """

    name: str
    distribution: str
    version: str
    module: str
    info: str = ""
    problem: str = ""
    fix: str = ""
    notes: tuple[str, ...] = ()


def discover() -> tuple[Found, ...]:
    """Returns every installed backend once, by name; imports none of them and never raises for a bad distribution.

    Where distributions of two names provide one backend, a single entry with a ``problem`` that names both is returned.
    """
    by_name: dict[str, list[Found]] = {}
    for distribution in _distributions():
        try:
            entries = list(_entries(distribution))
        except Exception:  # foreign metadata can fail in any way; without a readable entry point it is no backend
            continue
        for found in entries:
            by_name.setdefault(found.name, []).append(found)
    return tuple(_choose(name, by_name[name]) for name in sorted(by_name))


def describe(found: Found, settings: Settings) -> BackendRecord:
    """Returns the record of a found backend, already blocked, incompatible or broken where that is known."""
    info = BackendInfo(name=found.name, distribution=found.distribution, version=found.version, module=found.module)
    problem, remedy = found.problem, found.fix
    if not problem and found.info:
        try:
            info = read_info(info, found.info)
        except Exception as error:
            problem = f"its description cannot be used: {error}"
            remedy = f"correct that file if you wrote it; otherwise report it to the authors of {found.distribution}"
    if found.name in settings.priority:
        info = attrs.evolve(info, priority=settings.priority[found.name])
    record = BackendRecord(info)
    record.notes = found.notes
    blocked = settings.blocked(found.name)
    if blocked:
        variable = blocked.split("=")[0].split()[0]
        _set(record, State.BLOCKED, blocked, f"change or unset {variable}, then call tensorplay.backends.refresh()")
    elif problem:
        _set(record, State.ERROR, problem, remedy)
        record.stage = "describe"
    elif api_problem(info.api, API_VERSION):
        remedy = f"use a release of {info.distribution} for plugin API {API_VERSION}, or another release of TensorPlay"
        _set(record, State.INCOMPATIBLE, api_problem(info.api, API_VERSION), remedy)
    return record


def read_info(info: BackendInfo, value: str) -> BackendInfo:
    """Reads the description that an entry point ``package:file.yaml`` names, without importing the package.

    Raises:
        BackendError: the value, the package or the file is missing or wrong.
    """
    package, _, file = (part.strip() for part in value.partition(":"))
    parts = file.replace("\\", "/").split("/")
    if not re.fullmatch(r"\w+(\.\w+)*", package) or not file or ".." in parts or file.startswith(("/", "\\")):
        raise BackendError(f"the entry point value {value!r} must be package:file.yaml, with a file inside the package")
    top, *inner = package.split(".")
    spec = importlib.util.find_spec(top)  # of the top level alone: finding a submodule would import its parents
    if spec is None:
        raise BackendError(f"the package {top!r} is not importable, so {file} was not found")
    for folder in spec.submodule_search_locations or ():
        path = os.path.join(folder, *inner, *parts)
        try:
            text = _bytes(spec.loader, path)
        except OSError:
            continue
        return parse(info, text, "/".join((top, *inner, *parts)))
    raise BackendError(f"{'/'.join((top, *inner, *parts))} does not exist: it was left out of the distribution")


def _bytes(loader: object, path: str) -> bytes:
    get_data = getattr(loader, "get_data", None)  # also reads from a zip file on sys.path
    if get_data is not None:
        return bytes(get_data(path))
    with open(path, "rb") as file:
        return file.read()


def _distributions() -> Iterator[metadata.Distribution]:
    iterator = iter(metadata.distributions())
    while True:
        try:
            yield next(iterator)
        except StopIteration:
            return
        except Exception:  # a generator that raised is exhausted, so this ends at the next step
            continue


def _entries(distribution: metadata.Distribution) -> Iterator[Found]:
    # The file is read here and not through ``entry_points``: that parses the metadata of everything installed, and some
    # Python versions reject a whole file for one bad value.
    text = distribution.read_text("entry_points.txt") or ""
    if GROUP not in text:
        return
    sections = _sections(text)
    described = dict(reversed(sections.get(INFO_GROUP, [])))
    name, version, problem = _identity(distribution)
    for backend, value in sections.get(GROUP, []):
        wrong, remedy = problem, f"remove that folder, or reinstall {name}" if problem else ""
        if not wrong and not NAME.fullmatch(backend):
            wrong = f"the entry point name {backend!r} is not a lowercase identifier such as 'foo' or 'foo2'"
            remedy = f"rename it in the metadata of {name}"
        if not wrong and not _VALUE.fullmatch(value):
            wrong = f"the entry point value {value!r} is not a module such as {_as_module(value)!r}"
            remedy = f"correct the value in the metadata of {name} and reinstall it"
        yield Found(backend, name, version, value, described.get(backend, ""), wrong, remedy)


def _sections(text: str) -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            current = sections.setdefault(line[1:-1].strip(), [])
        elif line and not line.startswith(("#", ";")):
            name, equals, value = line.partition("=")
            current.append((name.strip(), value.strip() if equals else ""))
    return sections


def _identity(distribution: metadata.Distribution) -> tuple[str, str, str]:
    folder = os.path.basename(str(getattr(distribution, "_path", ""))) or "a distribution"
    name: Any
    version: Any
    try:
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    except Exception as error:
        return folder, "unknown", f"the metadata in {folder} cannot be read ({type(error).__name__}: {error})"
    if not isinstance(name, str) or not name.strip():
        return folder, str(version or "unknown"), f"the metadata in {folder} has no Name"
    return name.strip(), str(version or "unknown"), ""


def _choose(name: str, entries: list[Found]) -> Found:
    firsts: dict[str, Found] = {}
    notes = []
    for found in entries:
        key = re.sub(r"[-_.]+", "-", found.distribution).lower()
        first = firsts.setdefault(key, found)
        if first is not found and (first.version, first.module) != (found.version, found.module):
            again = f"{found.distribution} {found.version} is also on the path"
            notes.append(f"{again}, after {first.version}: the first counts")
    good = [found for found in firsts.values() if not found.problem]
    notes += [f"{found.distribution}: {found.problem}" for found in firsts.values() if found.problem and good]
    chosen = good or list(firsts.values())
    if len(good) > 1:
        good.sort(key=lambda found: found.distribution.lower())
        labels = [f"{found.distribution} {found.version}" for found in good]
        return attrs.evolve(
            good[0], distribution=" and ".join(found.distribution for found in good),
            version="/".join(found.version for found in good), info="", notes=tuple(notes),
            problem=f"{len(good)} distributions provide it: {' and '.join(labels)}",
            fix="keep one of them: " + " or ".join(f"pip uninstall {found.distribution}" for found in good),
        )  # fmt: skip
    return attrs.evolve(chosen[0], notes=tuple(notes))


def _as_module(value: str) -> str:
    guess = re.sub(r"\.py$", "", value.strip()).replace("/", ".").replace("-", "_").strip(".")
    return guess if _VALUE.fullmatch(guess) else "tensorplay_foo.plugin"


def _set(record: BackendRecord, state: State, reason: str, remedy: str) -> None:
    record.state, record.reason, record.fix = state, reason, remedy
