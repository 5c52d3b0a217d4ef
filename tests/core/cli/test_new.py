"""``tensorplay backends new``: what it writes, what it tells, and what it refuses without a trace.

That the project installs and passes the conformance suite is shown in ``tests/plugins/test_scaffold.py``.
"""

from __future__ import annotations

import ast
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorplay_core import __version__
from tensorplay_core.cli.new import KINDS, NAME, PURPOSE, _gaps, project, write
from tensorplay_core.plugins.info import NAME as PLUGIN_NAME
from tensorplay_core.plugins.info import BackendInfo, parse

Run = Callable[..., Any]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_what_they_are_named(kind: str) -> None:
    files = project("my_toy", kind)
    assert {path.rpartition("/")[2] for path in files} <= set(PURPOSE)
    assert not [path for path, text in files.items() if "PACKAGE" in path or "$name" in text or "$package" in text]
    for path, text in files.items():
        assert text.endswith("\n") and not text.endswith("\n\n"), path
        assert max(map(len, text.split("\n"))) <= 140, path
        if path.endswith(".py"):
            assert ast.get_docstring(ast.parse(text)), path
    table = tomllib.loads(files["pyproject.toml"])["project"]
    assert table["name"] == "tensorplay-my-toy"
    assert {f"tensorplay-core>={__version__}", f"tensorplay-composite>={__version__}"} < set(table["dependencies"])
    points = table["entry-points"]
    assert points["tensorplay.backends"] == {"my_toy": "tensorplay_my_toy.plugin"}
    assert points["tensorplay.backend_info"] == {"my_toy": "tensorplay_my_toy:backend.yaml"}
    info = parse(BackendInfo("my_toy", "d"), files["src/tensorplay_my_toy/backend.yaml"], "backend.yaml")
    assert info.api == ">=1,<2" and "my_toy" in info.summary
    assert "${{ matrix.python }}" in files[".github/workflows/ci.yml"]


def test_the_authors_part_of_an_array_module_is_about_thirty_lines() -> None:
    text = project("toy", "array-module")["src/tensorplay_toy/plugin.py"]
    lines = [line for line in text.split("\n") if line.strip()]
    assert len(lines) <= 30


def test_operators_that_nothing_serves_are_declared() -> None:
    """A later operator without a Composite kernel is a gap of a new backend at once, and not a failure of its suite."""
    kernels = '"""Kernels of $name."""\nKERNELS = {"add": None, "max.dim": None}\n'
    conformance = 'PROFILE = {\n    "randn": "a reason",\n$gaps}\n'
    missing = _gaps({"src/PACKAGE/kernels.py": kernels, "src/PACKAGE/conformance.py": conformance})
    assert {"cat", "max", "matmul", "rand"} < set(missing)
    assert not {"add", "max.dim", "randn", "softmax", "silu", "add_"} & set(missing)
    assert '"no kernel yet"' not in project("toy", "custom")["src/tensorplay_toy/conformance.py"]


def test_a_module_brings_the_distribution_that_it_is_from() -> None:
    def dependencies(module: str) -> list[str]:
        files = project("toy", "array-module", module)
        assert f"import {module} as xp\n" in files["src/tensorplay_toy/plugin.py"]
        return tomllib.loads(files["pyproject.toml"])["project"]["dependencies"][2:]

    assert dependencies("numpy") == ["numpy>=2.1"]
    assert dependencies("no_such_module.numpy") == [], "a name that nobody installed is nobody's distribution"
    assert (
        "  # and the distribution that no_such_module is from"
        in project("t", KINDS[0], "no_such_module")["pyproject.toml"]
    )
    (found,) = dependencies("yaml.nodes")
    assert found.startswith("PyYAML>="), "the distribution's name, not the module's"


def test_a_new_project_is_told_and_written_as_a_whole(pipe: Run, tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two" / "toy project"
    shown = pipe("backends", "new", "toy", "--path", str(folder))
    assert shown.code == 0
    head, *lines = shown.text.rstrip("\n").split("\n")
    assert head == f"{folder}: 8 files"
    told = [line.split("  ")[1] for line in lines[:8]]
    assert set(told) == set(tree(folder)) == set(project("toy", "array-module"))
    assert {path: text.decode() for path, text in tree(folder).items()} == project("toy", "array-module")
    assert lines[8:] == [
        "", "next:", f"  pip install -e '{folder}' pytest", "  tensorplay backends check toy", f"  pytest '{folder}'",
    ]  # fmt: skip
    assert os.listdir(tmp_path) == ["one"] and os.listdir(tmp_path / "one" / "two") == ["toy project"]
    assert folder.stat().st_mode & 0o777 == (tmp_path / "one").stat().st_mode & 0o777

    found = json.loads(pipe("backends", "new", "toy2", "--kind", "custom", "--path", f"{tmp_path}/2", "--json").text)
    assert (found["name"], found["kind"], found["module"]) == ("toy2", "custom", None)
    assert set(found["files"]) == set(tree(tmp_path / "2")) and len(found["next"]) == 3
    assert found["folder"] == str(tmp_path / "2")


def test_the_folder_is_named_after_the_distribution(pipe: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert pipe("backends", "new", "my_toy").text.startswith("tensorplay-my-toy: 8 files\n  pyproject.toml  ")
    assert os.listdir(tmp_path) == ["tensorplay-my-toy"]


def test_what_exists_is_never_overwritten(pipe: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "folder", "link"):
        shown = pipe("backends", "new", "toy", "--path", str(tmp_path / name), "--json")
        found = json.loads(shown.text)
        assert shown.code == 1 and "exists, and nothing is overwritten" in found["message"] and found["fix"]
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "link"] and os.listdir(tmp_path / "folder") == []
    assert (tmp_path / "file").read_text() == "mine"


def test_nothing_is_left_of_a_project_that_could_not_be_written(
    pipe: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    found = json.loads(pipe("backends", "new", "toy", "--path", str(tmp_path / "file" / "x"), "--json").text)
    assert "cannot be written: Not a directory" in found["message"] and "--path" in found["fix"]

    real = Path.write_text

    def full_disk(self: Path, text: str, **options: Any) -> int:
        if self.name == "plugin.py":
            raise OSError(28, "No space left on device")
        return real(self, text, **options)

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "above" / "toy", project("toy", "array-module"))
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["file"]
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "came between").touch()
    with pytest.raises(OSError, match="not empty"):
        write(tmp_path / "toy", project("toy", "array-module"))
    assert sorted(os.listdir(tmp_path)) == ["file", "toy"] and os.listdir(tmp_path / "toy") == ["came between"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Foo", "foo"),
        ("foo-bar", "foo_bar"),
        ("tensorplay-foo", "foo"),
        ("2foo", "foo"),
        ("foo__bar_", "foo_bar"),
        ("föö bar", "f_bar"),
        ("a/b", "a_b"),
        ("f" * 61, "f" * 60),
        ("", ""),
        ("€", ""),
    ],
)
def test_a_bad_name_is_told_with_the_nearest_that_is_good(
    pipe: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, near: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = pipe("backends", "new", name)
    assert shown.code == 2 and "cannot be the name of a device" in shown.text
    assert (f"Did you mean {near!r}?" in shown.text) if near else ("Did you mean" not in shown.text)
    assert not near or (NAME.fullmatch(near) and PLUGIN_NAME.fullmatch(near))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("meta", "dispatch key of TensorPlay's own"),
        ("cpu", "dispatch key of TensorPlay's own"),
        ("vulkan", "dispatch key of TensorPlay's own"),
        ("sparse", "Sparse is a dispatch key"),
        ("python", "Python is a dispatch key"),
        ("autograd", "Autograd is a dispatch key"),
        ("composite", "no device can be called 'composite'"),
        ("core", "tensorplay-core is a distribution of TensorPlay itself"),
        ("loopback", "a distribution of TensorPlay itself"),
        ("toy", "a backend 'toy' is installed already: tensorplay-toy 1.0"),
        ("wreck", "is installed already"),
    ],
)
def test_a_name_that_is_taken_is_refused(
    pipe: Run, broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = pipe("backends", "new", name, "--json", PYTHONPATH=str(broken))
    found = json.loads(shown.text)
    assert shown.code == 1 and found["error"] == "ValueRangeError"
    assert says in found["message"] and "choose another name" in found["fix"]
    assert os.listdir(tmp_path) == []


def test_a_bad_module_and_one_where_there_is_none(pipe: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = pipe("backends", "new", "toy", "--module", "jax/numpy")
    assert shown.code == 2 and "Did you mean 'jax.numpy'?" in shown.text
    for bad in ("; import os", "jax.import", "", "."):
        shown = pipe("backends", "new", "toy", "--module", bad)
        assert shown.code == 2 and "is not the name of a module" in shown.text
    shown = pipe("backends", "new", "toy", "--kind", "custom", "--module", "numpy")
    assert shown.code == 2 and "--module is for --kind array-module" in shown.text
    assert os.listdir(tmp_path) == []
