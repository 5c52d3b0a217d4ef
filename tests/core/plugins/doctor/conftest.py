"""Faults are planted in real ``.dist-info`` folders; what reads metadata alone runs here, what loads in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tensorplay_core.plugins.doctor import Case, Finding
from tensorplay_core.plugins.doctor.case import Check
from tensorplay_core.plugins.doctor.installed import index, read

EXAMINE = """
import json, sys, tensorplay as tp
found = tp.backends.doctor(timeout=3.0)
again = tp.backends.doctor(timeout=3.0)
assert [f.as_dict() for f in found] == [f.as_dict() for f in again], "a second look says something else"
print("RESULT " + json.dumps([f.as_dict() for f in found]))
"""


class Patient:
    """An environment into which faults are planted.

    Attributes:
        site: where plugins that are loaded lie.
        folder: where metadata lies.
    """

    def __init__(self, site: Any) -> None:
        self.site = site
        self.folder: Path = site.path

    def plant(self, name: str, version: str = "1.0", *, where: Path | None = None, **said: Any) -> Path:
        """Puts a ``.dist-info`` in place: ``entries`` is the text of its entry points, other lines are of METADATA."""
        where = where or self.folder
        folder = where / f"{said.pop('folder', name.replace('-', '_'))}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "entry_points.txt").write_text(said.pop("entries", ""))
        for file in ("RECORD", "direct_url.json"):
            if (text := said.pop(file.partition(".")[0].lower(), None)) is not None:
                (folder / file).write_text(text)
        lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
        for field, values in said.items():
            label = field.replace("_", "-").title()
            lines += [f"{label}: {value}" for value in ([values] if isinstance(values, str) else values)]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
        return folder

    def case(self, *more: Path, records: tuple[Any, ...] = ()) -> Case:
        """What the checks are given."""
        found = [*metadata.distributions(path=[str(self.folder), *map(str, more)])]
        return Case(read(found), index(found), records)

    def check(self, check: Check, *more: Path) -> list[Finding]:
        """What one check finds in the metadata."""
        return [*check(self.case(*more))]

    def examine(self, **environ: str) -> list[Finding]:
        """What the doctor finds in a process whose path begins here, beyond what it finds on this machine anyway."""
        env = {key: value for key, value in os.environ.items() if not key.startswith(("TENSORPLAY_", "TP_"))}
        env["PYTHONPATH"] = str(self.folder)
        environ = {"TENSORPLAY_BACKENDS_BLOCK": "cuda,vulkan", **environ}
        done = subprocess.run(
            [sys.executable, "-c", EXAMINE], cwd=self.folder, capture_output=True, text=True, timeout=120,
            env={**env, **environ},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = [Finding(**one) for one in json.loads(done.stdout.rpartition("RESULT ")[2])]
        usual = {
            **dict.fromkeys(("cuda", "vulkan"), "it is blocked"),
            **dict.fromkeys(("cpu", "composite", "loopback"), "importing"),
        }
        return [one for one in found if not one.what.startswith(usual.get(one.subject, "nothing"))]


@pytest.fixture
def patient(site: Any) -> Patient:
    return Patient(site)
