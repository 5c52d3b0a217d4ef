"""What the generator's tests share: contracts of a few lines, and copies of the sources where anything may break."""

from __future__ import annotations

import builtins
import importlib
import os
import re
import shutil
import subprocess
import symtable
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, settings

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


# what the fuzz tests share

FUZZ_FILES = ("native_functions_fuzz.yaml", "derivatives_fuzz.yaml")
HELPERS = ("a_helper", "several")
PLACE = re.compile(rf"(?m)^.*({'|'.join(map(re.escape, FUZZ_FILES))})(:\d+: |: not UTF-8 at byte \d+)")

settings.register_profile(
    "fuzz",
    max_examples=max(1, int(40 * float(os.environ.get("TENSORPLAY_FUZZ", "1")))),
    deadline=5000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture
def outcome(ours: CodegenContext, tmp_path: Path) -> Callable[[str | bytes, str | bytes], str | None]:
    """Runs the generator on two files; returns None, or the error, after making sure that it is a clean one."""
    (tmp_path / "contract").mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "_generated_old.py").write_text("# from an earlier run\n")

    def run(functions: str | bytes, derivatives: str | bytes) -> str | None:
        files = []
        for name, text in zip(FUZZ_FILES, (functions, derivatives), strict=True):
            files.append(tmp_path / "contract" / name)
            files[-1].write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        try:
            contract = load_contract(files, helpers=HELPERS, members=TENSOR_MEMBERS, known=_known(ours, files[0]))
            context = CodegenContext(contract, {"ops": out, "autocast": out / "autocast", "docs": out / "docs"})
            context.__dict__.update({name: getattr(ours, name) for name in ("helpers", "handwritten")})
            generate(context)
        except ContractError as error:
            message = str(error)
            assert PLACE.search(message), message
            assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before, "a partial file"
            return message
        for path in out.rglob("*.py"):
            assert undefined(path.read_text(encoding="utf-8")) == set(), path.name
        return None

    return run


def undefined(text: str) -> set[str]:
    """The global names that a module's functions read and that it neither defines nor imports."""
    module = symtable.symtable(text, "generated", "exec")
    known = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    found, tables = set(), [module]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if isinstance(table, symtable.Function):
            found |= {name for name in table.get_globals() if table.lookup(name).is_referenced()}
    return found - known - set(dir(builtins))


def _known(ours: CodegenContext, path: Path) -> Contract:
    """Our operators, less those that the file declares itself."""
    own = set(re.findall(r"func:\s*['\"]?(\w+)", path.read_text(encoding="utf-8", errors="replace")))
    return Contract(tuple(f for f in ours.contract.functions if f.name not in own))
