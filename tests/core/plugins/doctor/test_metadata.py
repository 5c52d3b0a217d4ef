"""What is wrong with metadata, or would be if anything read it."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

from tensorplay_core.plugins.doctor import metadata

GROUPS = "[tensorplay.backends]\nfoo = tensorplay_foo.plugin\n"


def test_metadata_without_a_fault_has_no_finding(patient: Any) -> None:
    patient.plant("tensorplay-foo", entries=GROUPS + "[tensorplay.backend_info]\nfoo = tensorplay_foo:backend.yaml\n")
    patient.plant("numpy", entries="[numpy.things]\nx = y\n[array_api]\nnumpy = numpy\n")
    checks = (metadata.leftovers, metadata.unreadable, metadata.copies, metadata.groups, metadata.descriptions)
    assert [finding for check in (*checks, metadata.files) for finding in patient.check(check)] == []


def test_what_an_interrupted_pip_left_is_found_by_its_folder(patient: Any) -> None:
    folders = [
        patient.plant("tensorplay-foo", folder="~ensorplay_foo", entries=GROUPS),
        patient.plant("tensorplay-bar", folder="~-nsorplay_bar"),
    ]
    nameless = patient.plant("x", folder="~~~sorplay_baz")
    (nameless / "METADATA").unlink()
    patient.plant("rich", folder="~ich")  # pip's leftover too, and none of our business
    found = patient.check(metadata.leftovers)
    assert {f.what.partition(" is what")[0] for f in found} == {str(folder) for folder in [*folders, nameless]}
    assert all(f.severity == "warning" and f.fix.startswith("remove that folder") for f in found)
    assert patient.check(metadata.unreadable) == [], "said once"


def test_metadata_that_cannot_be_read_or_names_nobody(patient: Any) -> None:
    nameless = patient.plant("tensorplay-foo", entries=GROUPS)
    (nameless / "METADATA").write_text("Metadata-Version: 2.1\n")
    binary = patient.plant("tensorplay-bar")
    (binary / "METADATA").write_bytes(b"\xff\xfe\x00Name")
    points = patient.plant("tensorplay-baz")
    (points / "entry_points.txt").write_bytes(b"[tensorplay.backends]\nbaz = \xff\n")
    (patient.folder / "hollow-1.0.dist-info").mkdir()  # of somebody else
    by_subject = {f.subject: f for f in patient.check(metadata.unreadable)}
    assert set(by_subject) == {nameless.name, binary.name, "tensorplay-baz"}
    assert "has no Name, so its backend 'foo' cannot be used" in by_subject[nameless.name].what
    assert "cannot be read (UnicodeDecodeError" in by_subject[binary.name].what
    assert "entry_points.txt in tensorplay_baz-1.0.dist-info cannot be read" in by_subject["tensorplay-baz"].what
    for found in by_subject.values():
        assert found.severity == "error" and str(patient.folder) in found.what and "remove that folder" in found.fix


def test_a_second_version_counts_and_a_second_copy_does_not(patient: Any, tmp_path: Path) -> None:
    first = patient.plant("tensorplay-foo", "2.0", entries=GROUPS)
    older = patient.plant("TensorPlay_Foo", "1.0", entries=GROUPS, where=tmp_path / "older")
    twin = patient.plant("tensorplay-foo", "2.0", entries=GROUPS, where=tmp_path / "twin")
    found = patient.check(
        metadata.copies, older.parent, twin.parent, patient.folder
    )  # a folder that is twice on the path
    assert [f.severity for f in found] == ["warning", "note"]
    assert (
        f"TensorPlay_Foo 1.0 is also on the path, after 2.0: the first counts ({first}, then {older})" == found[0].what
    )
    assert "is listed twice, as an editable install may be" in found[1].what and str(twin) in found[1].fix


def test_a_group_that_is_nearly_ours_is_found(patient: Any) -> None:
    meant = {
        "tensorplay.backend": "tensorplay.backends",
        "tensorplay_backends": "tensorplay.backends",
        "tensorplay.backend-info": "tensorplay.backend_info",
        "Tensorplay.Backends": "tensorplay.backends",
        "tensorplay.plugins": "tensorplay.backend_info",  # like neither: both are named
    }
    for i, group in enumerate(meant):
        patient.plant(f"tensorplay-foo{i}", entries=f"[{group}]\nfoo = m\n")
    patient.plant("tensorplay-own", entries="[tensorplay_own.kernels]\nfoo = m\n[pytest11]\nx = y\n")
    found = {f.subject: f for f in patient.check(metadata.groups)}
    assert set(found) == {f"tensorplay-foo{i}" for i in range(len(meant))}
    for i, (group, right) in enumerate(meant.items()):
        assert f"nothing reads the entry point group {group!r}. " in found[f"tensorplay-foo{i}"].what
        assert repr(right) in found[f"tensorplay-foo{i}"].what


def test_a_description_of_no_backend_is_found(patient: Any) -> None:
    entries = GROUPS + "[tensorplay.backend_info]\nfooo = tensorplay_foo:backend.yaml\n"
    patient.plant("tensorplay-foo", entries=entries)
    (found,) = patient.check(metadata.descriptions)
    assert "describes 'fooo' (tensorplay_foo:backend.yaml)" in found.what and "Did you mean 'foo'?" in found.what
    assert (found.severity, found.subject) == ("warning", "tensorplay-foo")


def test_files_that_are_gone_are_named(patient: Any) -> None:
    record = "".join(
        f"tensorplay_foo/{name},,\n" for name in ("plugin.py", "a.py", "__pycache__/a.pyc", "backend.yaml")
    )
    patient.plant("tensorplay-foo", record=record + "../../bin/foo,,\n", home_page="https://foo.example")
    (patient.folder / "tensorplay_foo").mkdir()
    (patient.folder / "tensorplay_foo" / "plugin.py").write_text("")
    (found,) = patient.check(metadata.files)
    assert "2 of its files are gone: tensorplay_foo/a.py, tensorplay_foo/backend.yaml" in found.what
    assert found.fix == "reinstall tensorplay-foo with its dependencies, as its authors say (https://foo.example)"
    assert found.severity == "error"
    patient.plant("tensorplay-cpu", record="tensorplay_cpu/__init__.py,,\n")
    ours = next(f for f in patient.check(metadata.files) if f.subject == "tensorplay-cpu")
    assert ours.fix.startswith("pip install --force-reinstall tensorplay-cpu==")


def test_files_in_an_archive_are_not_taken_for_gone(patient: Any) -> None:
    record = "tensorplay_foo/plugin.py,,\ntensorplay_foo/gone.py,,\n"
    folder = patient.plant("tensorplay-foo", record=record, entries=GROUPS)
    archive = patient.folder / "foo.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("tensorplay_foo/plugin.py", "")
        for path in folder.iterdir():
            file.write(path, f"{folder.name}/{path.name}")
    shutil.rmtree(folder)
    (found,) = patient.check(metadata.files, archive)
    assert "one of its files is gone: tensorplay_foo/gone.py (" in found.what
