"""What the generator's tests share: contracts of a few lines, and copies of the sources where anything may break."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import TENSOR_MEMBERS, CodegenContext
from tensorplay_core.codegen.contract import Contract, Source, load_contract
from tensorplay_core.codegen.generate import generate
from tensorplay_core.codegen.plugin import load_plugin
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ContractError
from tensorplay_core.ops import define

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
        known = Contract(
            tuple(f for f in ours.contract.functions if f.name not in mine),
            tuple(d for d in ours.contract.derivatives if d.function.name not in mine),
        )
        contract = load_contract(sources, helpers=ours.helpers, members=TENSOR_MEMBERS, known=known)
        return attrs.evolve(ours, contract=contract).into(tmp_path / "out")

    return make


@pytest.fixture
def package(ours: CodegenContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Makes the package of a contract of a few lines, and imports it."""
    made: list[str] = []
    monkeypatch.setattr(CodegenContext, "load", classmethod(lambda cls: ours))

    def make(functions: str, derivatives: str = "", **modules: str) -> Any:
        name = f"generated_{len(made)}_{tmp_path.name[-8:]}".replace("-", "_")
        made.append(name)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "native_functions.yaml").write_text(functions, encoding="utf-8")
        (folder / "derivatives.yaml").write_text(derivatives, encoding="utf-8")
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text, encoding="utf-8")
        generate(load_plugin([folder], folder))
        monkeypatch.syspath_prepend(tmp_path)
        importlib.import_module(f"{name}._generated_install")
        importlib.import_module(f"{name}._generated_functional")
        return sys.modules[f"{name}._generated_functional"]

    yield make
    for op in list(REGISTRY.operators.values()):
        if op.owner in made:
            REGISTRY.remove(op)
    for method, owner in list(define._methods.items()):
        if owner in made:
            delattr(tp.Tensor, method)
            del define._methods[method]
    for module in [m for m in sys.modules if m.partition(".")[0] in made]:
        del sys.modules[module]


@pytest.fixture
def load() -> Callable[..., Contract]:
    """Loads records of operators, and of derivatives, given as text."""

    def load(*records: str, derivatives: str = "", **options: Any) -> Contract:
        files = [
            Source("native_functions_test.yaml", "\n".join(records)),
            Source("derivatives_test.yaml", derivatives),
        ]
        return load_contract(files, **options)

    return load


@pytest.fixture
def error(load: Callable[..., Contract]) -> Callable[..., str]:
    """Loads records that are wrong; returns what is said about them."""

    def error(*records: str, derivatives: str = "", **options: Any) -> str:
        with pytest.raises(ContractError) as caught:
            load(*records, derivatives=derivatives, **options)
        return str(caught.value)

    return error
