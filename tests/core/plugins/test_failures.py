"""What a plugin's exception becomes for its user: the class, the text, the place and a remedy, whatever was raised."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tensorplay_core.errors import BackendError
from tensorplay_core.plugins import failures
from tensorplay_core.plugins.info import BackendInfo
from tensorplay_core.plugins.records import BackendRecord

GENERIC = (
    "report it to the authors of tensorplay-foo (https://example.com), with the text of"
    " tensorplay.backends.info('foo').traceback; when it is mended, call tensorplay.backends.refresh()"
)


def record(name: str = "foo") -> BackendRecord:
    info = BackendInfo(
        name, f"tensorplay-{name}", "1.0", f"tensorplay_{name}.plugin:Plugin", url="https://example.com"
    )  # fmt: skip
    return BackendRecord(info)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Fatal(BaseException):
    def __str__(self) -> str:
        raise SystemExit(3)


GROUP = ExceptionGroup("two", [OSError("a\nb"), Mute()])
MUTE = "Mute: (no text: its __str__ raised RuntimeError)"


@pytest.mark.parametrize(
    ("error", "told", "remedy"),
    [
        (ValueError("one"), "ValueError: one", GENERIC),
        (ValueError(""), "ValueError", GENERIC),
        (ValueError("one\n\n two"), "ValueError: one\n   two", GENERIC),
        (Mute(), MUTE, GENERIC),
        (Fatal(), "Fatal: (no text: its __str__ raised SystemExit)", GENERIC),
        (BackendError("low\nfix: buy more"), "BackendError: low", "buy more"),
        (BackendError("x" * 5000), f"BackendError: {'x' * 5000}", GENERIC),
        (GROUP, f"ExceptionGroup: two (2 sub-exceptions)\n  - OSError: a\n  - {MUTE}", GENERIC),
    ],
)  # fmt: skip
def test_every_exception_has_a_text_and_a_remedy(error: BaseException, told: str, remedy: str) -> None:
    reason, fix = failures.explain(record(), "probe", error)
    assert reason == f"it failed at its probe step: {told}"
    assert fix == remedy


def test_a_wall_of_text_is_cut_and_its_length_told() -> None:
    text = failures.what(record(), ValueError("word " * 1000))
    assert text.endswith("word … (5,000 characters, whole in its traceback)")
    assert len(text) < failures.LONGEST + 100


def test_the_place_is_the_last_line_of_the_plugins_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tensorplay_foo"
    package.mkdir()
    (package / "plugin.py").write_text("import json\n\ndef read():\n    json.loads('{')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace: dict[str, object] = {}
    exec(compile((package / "plugin.py").read_text(encoding="utf-8"), str(package / "plugin.py"), "exec"), namespace)
    with pytest.raises(ValueError) as caught:
        namespace["read"]()  # type: ignore[operator]
    assert failures.what(record(), caught.value).endswith(" (tensorplay_foo/plugin.py:4)")
    broken = SyntaxError("invalid syntax", (str(package / "kernels.py"), 7, 1, "x = ="))
    assert failures.what(record(), broken) == "SyntaxError: invalid syntax (tensorplay_foo/kernels.py:7)"
    nowhere = failures.what(record(), SyntaxError("null bytes"), "import")
    assert nowhere == "SyntaxError: null bytes (at the import of tensorplay_foo.plugin:Plugin)"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ModuleNotFoundError("m", name="tensorplay_foo"), "its metadata is stale or its files are"),
        (ModuleNotFoundError("m", name="tensorplay_foo.plugin"), "its metadata is stale or its files are incomplete"),
        (ModuleNotFoundError("m", name="tensorplay_foo.kernels"), "its files are incomplete: reinstall tensorplay-foo"),
        (ModuleNotFoundError("m", name="no_such"), "install the package with the module 'no_such', as tensorplay-foo"),
        (ModuleNotFoundError("m", name="json.no_such"), "use a release of 'json' that has the module 'json.no_such'"),
        (ImportError("m", name="json"), "use a release of 'json' that works, as tensorplay-foo documents"),
        (ImportError("m", name="tensorplay_foo"), "report it to the authors of"),
        (OSError("libtoy.so.3: cannot open shared object file: No"), "install the system library 'libtoy.so"),
        (OSError("dlopen(libtoy.dylib, 0x0006): tried: '/usr/lib'"), "install the system library 'libtoy.dylib'"),
        (OSError("Could not find module 'toy.dll' (or one of its"), "install the system library 'toy.dll'"),
        (ImportError("Library not loaded: @rpath/libtoy.1.dylib"), "install the system library '@rpath/libtoy"),
        (OSError("disk full"), "report it to the authors of"),
        (ValueError("libtoy.so.3: cannot open shared object file"), "report it to the authors of"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(error: BaseException, remedy: str) -> None:
    fix = failures.remedy(record(), error)
    assert fix.startswith(remedy)
    assert "pip install" not in fix


def test_a_package_that_hides_the_installed_one_is_told_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    hiding = ModuleType("tensorplay_foo")
    hiding.__path__ = ["/home/me/tensorplay_foo"]
    monkeypatch.setitem(sys.modules, "tensorplay_foo", hiding)
    for name in ("tensorplay_foo.plugin", "tensorplay_foo.kernels"):
        assert failures.remedy(record(), ModuleNotFoundError("m", name=name)).endswith(
            "; Python found 'tensorplay_foo' in /home/me/tensorplay_foo: if that is another package, start Python from"
            " another folder"
        )


def test_only_a_backend_of_ours_is_offered_for_installation() -> None:
    assert failures.remedy(record("cuda"), ModuleNotFoundError("m", name="no_cupy")).startswith(
        "pip install 'tensorplay["
    )
    assert "pip install" not in failures.remedy(record("foo"), ModuleNotFoundError("m", name="no_cupy"))
