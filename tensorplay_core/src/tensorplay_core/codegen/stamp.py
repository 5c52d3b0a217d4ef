"""Knows a run again in which nothing can have changed, so that a build that asks every time is answered at once.

A stamp is the digest of everything that a run reads (the contract, the generator, the modules written by hand) and of
every generated file as it should be. It is looked up by the digest of what lies on disk now: one changed byte anywhere,
in a generated file too, and there is no such stamp. Stamps lie in the user's cache folder, never in the sources, and
losing them costs one run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from tensorplay_core.codegen import files
from tensorplay_core.codegen.context import PACKAGE
from tensorplay_core.codegen.plugin import files_of

MOST = 100
"""How many stamps are kept."""


def cache_folder() -> Path:
    """Returns where stamps lie: ``$XDG_CACHE_HOME/tensorplay/codegen``, by default below ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "tensorplay" / "codegen"


def digest_of(texts: Iterable[tuple[str, bytes]]) -> str:
    """Returns one digest of named texts, whatever their order."""
    total = sha256()
    for name, text in sorted(texts):
        total.update(f"{len(name)} {len(text)} {name}".encode())
        total.update(text)
    return total.hexdigest()


class Stamp:
    """A run that may have been made before.

    Args:
        contracts: a plugin's contract files and folders; none for our own.
        folders: name of a folder to where it is.
        options: whatever else decides what is generated.
    """

    def __init__(
        self, contracts: Collection[Path], folders: Mapping[str, Path | None], options: Collection[object] = ()
    ) -> None:
        """Reads what the run would read."""
        self._contracts = contracts
        self._folders = folders
        self._options = repr((sys.version, sorted((n, str(f and f.resolve())) for n, f in folders.items()), options))
        self._inputs = self._digest_of_inputs()

    def _digest_of_inputs(self) -> str:
        sources = [p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".yaml")]
        out = self._folders["ops"]
        own = [*files_of(self._contracts), *(out.glob("*.py") if out is not None else ())] if self._contracts else []
        read = {p for p in (*sources, *own) if not p.name.startswith(files.PREFIX)}
        return digest_of([("options", self._options.encode()), *((str(p.resolve()), p.read_bytes()) for p in read)])

    def on_disk(self) -> tuple[str, int]:
        """Returns the digest of the generated files as they are, and how many there are."""
        found: dict[str, str] = {}
        for name, folder in self._folders.items():
            if folder is not None:
                texts = files.on_disk(folder, docs=name == "docs").items()
                found |= {str((folder / inside).resolve()): text for inside, text in texts}
        return digest_of((name, text.encode()) for name, text in found.items()), len(found)

    def is_known(self) -> int | None:
        """Returns how many files are as they should be, if such a run found all of them so; else None."""
        outputs, count = self.on_disk()
        return count if (cache_folder() / self._name(outputs)).exists() else None

    def keep(self, outputs: str) -> None:
        """Remembers that the generated files should be what ``outputs`` is the digest of.

        Nothing is remembered when what the run has read was changed meanwhile; a cache that cannot be written is none.
        """
        if self._digest_of_inputs() != self._inputs:
            return
        try:
            cache_folder().mkdir(parents=True, exist_ok=True)
            (cache_folder() / self._name(outputs)).touch()
            kept = sorted(cache_folder().iterdir(), key=lambda path: path.stat().st_mtime_ns)
            for old in kept[:-MOST]:
                old.unlink()
        except OSError:
            return

    def _name(self, outputs: str) -> str:
        return digest_of([("inputs", self._inputs.encode()), ("outputs", outputs.encode())])
