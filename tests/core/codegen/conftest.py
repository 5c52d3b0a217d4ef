"""What the generator's tests share: contracts of a few lines, and copies of the sources where anything may break."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorplay_core.codegen.context import TENSOR_MEMBERS, CodegenContext
from tensorplay_core.codegen.contract import Contract, Source, load_contract

ROOT = Path(__file__).parents[3]
SOURCES = (
    "tensorplay_core/src",
    "tensorplay_composite/src",
    "tensorplay_cpu/src",
    "tensorplay_cuda/src",
    "backends/tensorplay_loopback/src",
    "src",
)


class Tree:
    """A copy of the sources whose packages come before the installed ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for source in SOURCES:
            shutil.copytree(ROOT / source, root / source, ignore=shutil.ignore_patterns("__pycache__", "demo"))
        paths = os.pathsep.join(str(root / source) for source in SOURCES)
        self.env = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        self.core = root / "tensorplay_core/src/tensorplay_core"
        self.ops = self.core / "ops"

    def python(self, *arguments: str, code: int | None = 0) -> str:
        """Runs Python in the copy; returns what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=self.env, capture_output=True, text=True, timeout=120
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def generated(self) -> dict[str, str]:
        """The generated files, by name."""
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(self.ops.glob("_generated_*.py"))}

    def append(self, name: str, text: str) -> None:
        """Writes to the end of a contract file."""
        path = self.core / "config" / name
        path.write_text(path.read_text(encoding="utf-8") + "\n" + text, encoding="utf-8")

    def replace(self, path: Path, old: str, new: str) -> None:
        """Replaces a text that stands once in a file."""
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
        path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


@pytest.fixture(scope="session")
def ours() -> CodegenContext:
    """Our own contract."""
    return CodegenContext.load()


@pytest.fixture
def small(ours: CodegenContext, tmp_path: Path) -> Callable[..., CodegenContext]:
    """Makes the context of a contract of a few lines, whose formulas may call our operators."""

    def make(functions: str, derivatives: str = "") -> CodegenContext:
        sources = [Source("native_functions_small.yaml", functions), Source("derivatives_small.yaml", derivatives)]
        mine = set(re.findall(r"func: (\w+)", functions))
        known = Contract(tuple(f for f in ours.contract.functions if f.name not in mine))
        contract = load_contract(sources, helpers=ours.helpers, members=TENSOR_MEMBERS, known=known)
        return CodegenContext(contract, tmp_path / "out", ours.ops)

    return make
