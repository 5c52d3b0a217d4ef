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

from tensorplay_core.errors import BackendError, fix
from tensorplay_core.plugins.environment import Settings
from tensorplay_core.plugins.hookspecs import API_VERSION
from tensorplay_core.plugins.info import NAME, BackendInfo, api_problem, parse
from tensorplay_core.plugins.records import OURS, BackendRecord, State, canonical

GROUP = "tensorplay.backends"
INFO_GROUP = "tensorplay.backend_info"

LIMIT = 65_536
"""How many bytes a description may have: it is read whenever backends are listed."""

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
    for distribution in distributions():
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
    first: Exception | None = None
    if not problem and found.info:
        try:
            info = read_info(info, found.info)
        except Exception as error:
            first = error
            text, _, own = str(error).partition("\nfix: ")
            problem = f"its description cannot be used: {text}"
            correct = own or "correct that file"
            remedy = f"{correct} if you wrote it; otherwise report it to the authors of {found.distribution}"
            if isinstance(error, ModuleNotFoundError):  # the usual end of files that were removed by hand
                problem, remedy = text, own
    if found.name in settings.priority:
        info = attrs.evolve(info, priority=settings.priority[found.name])
    record = BackendRecord(info)
    record.notes = found.notes
    blocked = settings.blocked(found.name)
    if blocked:
        _set(record, State.BLOCKED, blocked, settings.remedy(found.name))
    elif problem:
        _set(record, State.ERROR, problem, remedy)
        record.stage, record.error = "describe", first
    elif api_problem(info.api, API_VERSION):
        remedy = f"use a release of {info.distribution} for plugin API {API_VERSION}, or another release of TensorPlay"
        _set(record, State.INCOMPATIBLE, api_problem(info.api, API_VERSION), remedy)
    return record


def read_info(info: BackendInfo, value: str) -> BackendInfo:
    """Reads the description that an entry point ``package:file.yaml`` names, without importing the package.

    Raises:
        BackendError: the value or the file is missing or wrong.
        ModuleNotFoundError: there is no such package, only its metadata.
    """
    package, _, file = (part.strip() for part in value.partition(":"))
    parts = file.replace("\\", "/").split("/")
    if not re.fullmatch(r"\w+(\.\w+)*", package) or not file or ".." in parts or file.startswith(("/", "\\")):
        raise BackendError(f"the entry point value {value!r} must be package:file.yaml, with a file inside the package")
    top, *inner = package.split(".")
    spec = importlib.util.find_spec(top)  # of the top level alone: finding a submodule would import its parents
    if spec is None:
        stale = f"its package {top!r} cannot be imported: its metadata is stale or its files are incomplete"
        remedy = f"reinstall {info.distribution}, or pip uninstall {info.distribution}"
        raise ModuleNotFoundError(stale + fix(remedy), name=top)
    full = "/".join((top, *inner, *parts))
    for folder in spec.submodule_search_locations or ():
        path = os.path.join(folder, *inner, *parts)
        try:
            content = _bytes(spec.loader, path)
        except OSError as error:
            if os.path.lexists(path):
                raise BackendError(f"{full} cannot be read: {error.strerror or error}") from error
            continue
        if len(content) > LIMIT:
            raise BackendError(f"{full} is too large: a description has at most {LIMIT:,} bytes")
        return parse(info, content, full)
    raise BackendError(
        f"{full} does not exist: it was left out of the distribution"
        + fix("put that file into the wheel as data of the package")
    )


def _bytes(loader: object, path: str) -> bytes:
    get_data = getattr(loader, "get_data", None)
    if get_data is not None and not os.path.lexists(path):  # such as one from a zip file on sys.path
        return bytes(get_data(path))
    with open(path, "rb") as file:
        return file.read(LIMIT + 1)


def distributions() -> Iterator[metadata.Distribution]:
    """Yields every distribution on the path, in its order, as far as they can be listed."""
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
    text = _entry_points(distribution)
    if GROUP not in text:
        return
    groups = sections(text)
    described = dict(reversed(groups.get(INFO_GROUP, [])))
    name, version, problem = _identity(distribution)
    for backend, value in groups.get(GROUP, []):
        folder = getattr(distribution, "_path", name)
        wrong, remedy = problem, f"remove the folder {folder}" if problem else ""
        value = re.sub(r"\s*\[[^\]]*\]$", "", value)  # extras, which the format allows and nobody uses
        if not wrong and not NAME.fullmatch(backend):
            wrong = f"the entry point name {backend!r} is not a lowercase identifier such as 'foo' or 'foo2'"
            remedy = f"rename it in the metadata of {name}"
        if not wrong and not _VALUE.fullmatch(value):
            wrong = f"the entry point value {value!r} is not a module such as {_as_module(value, name)!r}"
            remedy = f"correct the value in the metadata of {name} and reinstall it"
        yield Found(backend, name, version, value, described.get(backend, ""), wrong, remedy)


def sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """Returns the groups of an ``entry_points.txt`` with their (name, value) pairs, also where Python refuses it."""
    groups: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            current = groups.setdefault(line[1:-1].strip(), [])
        elif line and not line.startswith(("#", ";")):
            name, equals, value = line.partition("=")
            current.append((name.strip(), value.strip() if equals else ""))
    return groups


def _entry_points(distribution: metadata.Distribution) -> str:
    try:
        return distribution.read_text("entry_points.txt") or ""
    except UnicodeDecodeError:  # a byte that is no UTF-8 spoils its own line and not the others
        path = os.path.join(str(getattr(distribution, "_path", "")), "entry_points.txt")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()


def _identity(distribution: metadata.Distribution) -> tuple[str, str, str]:
    folder = os.path.basename(str(getattr(distribution, "_path", ""))) or "a distribution"
    name: Any
    version: Any
    if folder.startswith("~"):  # pip renames what it is about to remove, and could not remove it
        return folder, "unknown", f"{folder} is what an interrupted uninstallation left"
    try:
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    except Exception as error:
        return folder, "unknown", f"the metadata in {folder} cannot be read ({type(error).__name__}: {error})"
    if not isinstance(name, str) or not name.strip():
        return folder, "unknown", f"the metadata in {folder} has no Name: its METADATA is missing or incomplete"
    return name.strip(), str(version or "unknown"), ""


def _choose(name: str, entries: list[Found]) -> Found:
    firsts: dict[str, Found] = {}
    notes: list[str] = []
    for found in entries:
        first = firsts.setdefault(canonical(found.distribution), found)
        if first is not found and (first.version, first.module) != (found.version, found.module):
            again = f"{found.distribution} {found.version} is also on the path"
            notes.append(f"{again}, after {first.version}: the first counts")
    good = [found for found in firsts.values() if not found.problem]
    for found in firsts.values() if good else ():
        if found.problem:  # which names the folder itself where that has no name
            notes.append(
                found.problem if found.distribution in found.problem else f"{found.distribution}: {found.problem}"
            )
    chosen = good or list(firsts.values())
    ours = [found for found in good if name in OURS and canonical(found.distribution) == f"tensorplay-{name}"]
    if ours:  # or whoever publishes a second "cpu" could take the CPU away from everybody
        others = [found for found in good if found is not ours[0]]
        for found in others:
            label = f"{found.distribution} {found.version}"
            notes.append(f"{label} provides {name!r} too and is not used: the name is that of {ours[0].distribution}")
        chosen = good = ours
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


def _as_module(value: str, distribution: str) -> str:
    guess = re.sub(r"\.py$", "", value.strip()).replace("/", ".").replace("-", "_").strip(".")
    return guess if _VALUE.fullmatch(guess) else f"{re.sub(r'[-.]+', '_', distribution)}.plugin"


def _set(record: BackendRecord, state: State, reason: str, remedy: str) -> None:
    record.state, record.reason, record.fix = state, reason, remedy
