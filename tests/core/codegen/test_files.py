"""Generated files on disk: found by their names or first lines, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tensorplay_core.codegen.context import DOCS_HEADER, HEADER
from tensorplay_core.codegen.files import difference, on_disk, refuse_installed, write
from tensorplay_core.errors import ContractError


def test_what_is_generated_is_told_from_what_is_not(tmp_path: Path) -> None:
    for name, text in {
        "_generated_a.py": HEADER,
        "_generated_b.py.x1.tmp": HEADER,  # of a run that was killed
        "generated.py": HEADER,
        "index.md": DOCS_HEADER,
        "deep/page.md": DOCS_HEADER + "text\n",
        "mine.md": "# mine\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert on_disk(tmp_path, docs=False) == {"_generated_a.py": HEADER}
    assert on_disk(tmp_path, docs=True) == {"index.md": DOCS_HEADER, "deep/page.md": DOCS_HEADER + "text\n"}
    assert on_disk(tmp_path / "nowhere", docs=False) == {} == on_disk(tmp_path / "nowhere", docs=True)


def test_a_file_that_is_not_utf_8_is_only_another_text(tmp_path: Path) -> None:
    (tmp_path / "_generated_a.py").write_bytes(b"\xff\xfe")
    assert on_disk(tmp_path, docs=False)["_generated_a.py"] != ""


def test_a_difference_is_a_unified_one() -> None:
    assert difference("a.py", "one\ntwo\nthree\n", "one\nthree\n") == (
        "--- a.py (on disk)\n+++ a.py (from the contract)\n@@ -1,3 +1,2 @@\n one\n-two\n three\n"
    )
    assert difference("a.py", "one", "one\n").endswith("-one\n\\ No newline at end of file\n+one\n")


def test_writing_keeps_permissions_and_gives_a_new_file_the_usual_ones(tmp_path: Path) -> None:
    path = tmp_path / "new" / "_generated_a.py"
    mask = os.umask(0o022)
    try:
        write(path, "x = 1\n")
        assert path.stat().st_mode & 0o777 == 0o644
        path.chmod(0o640)
        write(path, "x = 2\n")
    finally:
        os.umask(mask)
    assert path.read_bytes() == b"x = 2\n" and path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_text_that_cannot_be_encoded_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "_generated_a.py"
    path.write_text("old\n", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write(path, "\ud800")
    assert path.read_text(encoding="utf-8") == "old\n" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("listed", ["mine/__init__.py,,\n", '"mine/__init__.py",,\n'])
def test_an_installed_folder_is_named_with_what_owns_it(tmp_path: Path, listed: str) -> None:
    (tmp_path / "m-1.dist-info").mkdir()
    (tmp_path / "m-1.dist-info/RECORD").write_text(listed, encoding="utf-8")
    with pytest.raises(ContractError, match=r"m-1.dist-info lists its files"):
        refuse_installed([tmp_path / "mine" / "deep"])
    refuse_installed([tmp_path / "other", tmp_path / "mine2"])
    with pytest.raises(ContractError, match="it is in site-packages"):
        refuse_installed([tmp_path / "site-packages" / "x"])


def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ContractError, match=r"(?s)file: cannot be written to: .*\nfix: .*--out"):
        write(tmp_path / "file" / "_generated_x.py", "")
