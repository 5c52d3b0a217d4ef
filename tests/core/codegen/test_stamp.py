"""A run is known again only where not one byte of what it reads or makes has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tensorplay_core.codegen import stamp as module
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.generate import generate
from tensorplay_core.codegen.plugin import folders_of, load_plugin
from tensorplay_core.codegen.stamp import Stamp, cache_folder, digest_of

FUNCTIONS = "- func: st::f(Tensor self) -> Tensor\n"
DERIVATIVES = "- name: st::f\n  self: helped(grad)\n"


@pytest.fixture
def made(tmp_path: Path, ours: CodegenContext, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that is up to date, and known to be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(CodegenContext, "load", classmethod(lambda cls: ours))
    folder = tmp_path / "pack"
    folder.mkdir()
    for name, text in {
        "__init__.py": "",
        "native_functions.yaml": FUNCTIONS,
        "derivatives.yaml": DERIVATIVES,
        "helpers.py": "def helped(grad):\n    return grad\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    keep(folder)
    return folder


def stamp_of(folder: Path, *options: object) -> Stamp:
    return Stamp([folder], folders_of(folder), options)


def keep(folder: Path) -> None:
    stamp = stamp_of(folder)
    result = generate(load_plugin([folder], folder))
    stamp.keep(digest_of((str(path.resolve()), text.encode()) for path, text in result.files.items()))


def test_a_run_that_was_made_is_known(made: Path) -> None:
    assert stamp_of(made).is_known() == len(list(made.glob("_generated_*"))) > 5


def append(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    return change


CHANGES: dict[str, Callable[[Path], object]] = {
    "a record": append("native_functions.yaml"),
    "a derivative": append("derivatives.yaml"),
    "a module by hand": append("helpers.py"),
    "a generated file": append("_generated_autograd.py"),
    "a generated file less": lambda folder: (folder / "_generated_autograd.py").unlink(),
    "a generated file more": lambda folder: (folder / "_generated_left.py").touch(),
    "a module more": lambda folder: (folder / "shapes.py").touch(),
    "a contract file more": lambda folder: (folder / "native_functions_more.yaml").touch(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_makes_it_unknown(made: Path, change: str) -> None:
    CHANGES[change](made)
    assert stamp_of(made).is_known() is None


def test_other_options_are_another_run(made: Path) -> None:
    assert stamp_of(made, "package").is_known() is None
    assert Stamp([made], folders_of(made, made / "docs")).is_known() is None


def test_the_generator_itself_is_read_too(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "core"
    other.mkdir()
    (other / "generator.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(module, "PACKAGE", other)
    assert stamp_of(made).is_known() is None
    keep(made)
    assert stamp_of(made).is_known() is not None
    (other / "generator.py").write_text("x = 2\n", encoding="utf-8")
    assert stamp_of(made).is_known() is None


def test_what_changed_during_a_run_is_not_taken_for_what_was_read(made: Path) -> None:
    stamp = stamp_of(made)
    for path in cache_folder().iterdir():
        path.unlink()
    append("helpers.py")(made)
    stamp.keep(stamp.on_disk()[0])
    assert list(cache_folder().iterdir()) == [] and stamp_of(made).is_known() is None


def test_stamps_do_not_heap_up_and_a_cache_that_cannot_be_written_is_none(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    for i in range(5):
        stamp_of(made, i).keep("outputs")
    assert len(list(cache_folder().iterdir())) == 3
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    keep(made)
    assert stamp_of(made).is_known() is None
