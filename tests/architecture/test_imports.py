"""Who may import whom, and what `import tensorplay` may cost.

The import is the one thing that every user waits for, and a backend that breaks must not break it; so it loads neither
an array library nor a plugin, nor what only the command line and the plugin manager need. A subprocess shows what is
really loaded; the sources show that core could not load an array library later either; import-linter shows the floors.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "tensorplay_core" / "src" / "tensorplay_core"
ARRAY_LIBRARIES = {"array_api_compat", "cupy", "jax", "ml_dtypes", "numpy", "scipy", "torch", "wgpu"}
PLUGINS = {"tensorplay_composite", "tensorplay_cpu", "tensorplay_cuda", "tensorplay_loopback", "tensorplay_vulkan"}
COSTLY = {"attr", "attrs", "click", "importlib.metadata", "pluggy", "rich", "yaml"}


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after a statement, beyond those that it starts with."""
    code = f"import sys, json; old = set(sys.modules); {statement}; print(json.dumps(sorted(set(sys.modules) - old)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("statement", ["import tensorplay", "import tensorplay_core"])
def test_import_loads_no_array_library_no_plugin_and_nothing_costly(statement: str) -> None:
    assert loaded_by(statement) & (ARRAY_LIBRARIES | PLUGINS | COSTLY) == set()


def test_import_of_core_is_lazy() -> None:
    """The generator must run when no generated file exists, so core's package imports none of its floors."""
    assert {name for name in loaded_by("import tensorplay_core") if name.startswith("tensorplay_core.")} == set()


def test_generator_loads_types_and_errors_alone() -> None:
    """Whatever generated files say, or do not say yet, the generator starts."""
    ours = {name for name in loaded_by("import tensorplay_core.codegen") if name.startswith("tensorplay_core.")}
    rooms = {name.split(".")[1] for name in ours}
    assert rooms <= {"codegen", "types", "errors"}


def imports_of(path: Path) -> set[str]:
    """The top-level names of everything that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_core_never_imports_an_array_library_nor_a_backend() -> None:
    """Not at import, not in a function, not for types: arrays reach core through a backend alone."""
    forbidden = ARRAY_LIBRARIES | PLUGINS
    faults = {path.relative_to(ROOT).as_posix(): imports_of(path) & forbidden for path in CORE.rglob("*.py")}
    assert {path: names for path, names in faults.items() if names} == {}


def test_floors_hold() -> None:
    """import-linter reads its contracts from pyproject.toml."""
    lint = Path(sysconfig.get_path("scripts")) / "lint-imports"
    if not lint.exists():
        pytest.skip("import-linter is not installed in this environment")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
