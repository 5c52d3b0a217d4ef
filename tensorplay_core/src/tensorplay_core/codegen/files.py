"""Where generated files lie and how they get there: what is on disk, what differs, and writes that are whole or not.

A file whose text is the same is not touched, so its time stamp stays. A new text is written beside its place and moved
there, so that whoever reads sees the old file or the new one, whatever happens to the run.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tensorplay_core.codegen.context import DOCS_HEADER
from tensorplay_core.errors import ContractError, fix

PREFIX = "_generated_"
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages."""


def on_disk(folder: Path, *, docs: bool) -> dict[str, str]:
    """Returns the generated files of a folder, by their path in it.

    Args:
        folder: it need not exist.
        docs: whether it holds pages, which are known by their first line, rather than modules, known by their names.
    """
    found = {}
    for path in folder.rglob("*") if docs else folder.glob(f"{PREFIX}*"):
        if not path.is_file() or path.name.endswith(".tmp"):
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        if not docs or text.startswith(DOCS_HEADER):
            found[path.relative_to(folder).as_posix()] = text
    return found


def difference(name: str, old: str, new: str) -> str:
    """Returns a unified difference between a file on disk and what the contract says."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"{name} (on disk)",
        f"{name} (from the contract)",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def write(path: Path, text: str) -> None:
    """Puts a text in a file's place, whole or not at all; the folder is made where it is missing.

    Raises:
        ContractError: the folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    except OSError as error:
        raise ContractError(
            f"{path.parent}: cannot be written to: {error.strerror or error}"
            + fix("give a folder that you may write to, with --out, or --docs for pages.")
        ) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _mode(path: Path) -> int:
    """Returns the permissions of a file, or those that a new one gets; ``mkstemp`` makes it private."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def refuse_installed(folders: Iterable[Path]) -> None:
    """Refuses folders of an installed package, which no generator changes.

    Raises:
        ContractError: one is in ``site-packages``, or belongs to a distribution that pip put beside it.
    """
    for folder in folders:
        place = folder.resolve()
        owner = next((f"it is in {part}" for part in place.parts if part in INSTALLED), None) or _distribution(place)
        if owner is not None:
            raise ContractError(
                f"{folder} is an installed package; the generator writes to source folders only ({owner})"
                + fix("run it in the sources, and install them with pip install -e to use them as they are.")
            )


def _distribution(place: Path) -> str | None:
    """Names the distribution that put a package where it is; an editable one lists no file of its package."""
    for parent in place.parents:
        package = place.relative_to(parent).parts[0]
        for record in parent.glob("*.dist-info/RECORD"):
            lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
            if any(line.startswith((f"{package}/", f'"{package}/')) for line in lines):
                return f"{record.parent.name} lists its files"
    return None
