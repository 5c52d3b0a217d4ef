"""Plugins whose installation is untidy: told with the folder to remove or the name to correct, never in others' way."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

BAD = "tp.ones(2, device='bad')"
HEAD = "Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is broken: "
WORKS = "give([tp.ones(2, device='bad').tolist(), tp.backends.info('bad').info.label, tp.backends.info('bad').notes])"


def test_a_stale_entry_point_says_that_only_metadata_is_left(environment: Any) -> None:
    environment.install("bad", yaml="summary: x")
    package = environment.site / "tensorplay_bad"
    package.rename(environment.folder / "removed")
    seen = environment.sees(BAD, "bad")
    stale = "its metadata is stale or its files are incomplete"
    assert seen.message.startswith(f"{HEAD}its package 'tensorplay_bad' cannot be imported: {stale}\nfix: ")
    assert seen.fix == "reinstall tensorplay-bad, or pip uninstall tensorplay-bad"
    assert (seen.record["state"], seen.record["stage"]) == ("error", "describe")

    info = environment.site / "tensorplay_bad-1.0.dist-info" / "entry_points.txt"
    info.write_text(
        "[tensorplay.backends]\nbad = tensorplay_bad.plugin\n", encoding="utf-8"
    )  # one without a description
    seen = environment.sees(BAD, "bad")
    assert (
        "ModuleNotFoundError: No module named 'tensorplay_bad' (at the import of tensorplay_bad.plugin)" in seen.message
    )
    assert seen.fix == f"{stale}: reinstall tensorplay-bad, or pip uninstall tensorplay-bad"

    environment.pip("uninstall", "tensorplay-bad")  # which is what the remedy says
    seen = environment.sees(BAD)
    assert seen.message.startswith("No installed backend provides the device 'bad'.")
    assert "pip install" not in seen.fix


def test_metadata_without_a_name_or_that_cannot_be_read_is_told_with_its_folder(environment: Any) -> None:
    info = environment.install("bad")
    metadata = info / "METADATA"
    folder = "tensorplay_bad-1.0.dist-info"
    nameless = f"the metadata in {folder} has no Name: its METADATA is missing or incomplete"
    for content, told in (
        (b"Metadata-Version: 2.1\nVersion: 1.0\n", nameless),
        (b"", nameless),
        (None, nameless),
        (b"\xff\xfe\x80" * 40, f"the metadata in {folder} cannot be read (UnicodeDecodeError: "),
    ):
        metadata.unlink(missing_ok=True)
        if content is not None:
            metadata.write_bytes(content)
        seen = environment.sees(BAD, "bad")
        assert seen.message.startswith(f"Device 'bad' cannot be used: its backend ({folder}) is broken: {told}"), (
            seen.message
        )
        assert seen.fix == f"remove the folder {info}"
    listed = json.loads(environment.tensorplay("backends", "list", "--json").out)
    assert {row["name"]: row["state"] for row in listed}["bad"] == "error"

    other = environment.folder / "other"
    wheel = environment.build("bad", version="2.0")
    environment.pip("install", "--no-deps", "--target", other, wheel)
    ones, label, notes = environment.gives(WORKS, path=(other,))
    assert (ones, label) == ([1.0, 1.0], "tensorplay-bad 2.0")  # the leftover is not in its way
    assert notes[0].startswith(f"the metadata in {folder} cannot be read")


def test_what_an_interrupted_uninstallation_left_is_told_and_in_nobodys_way(environment: Any) -> None:
    info = environment.install("bad")
    left = info.with_name("~ensorplay_bad-1.0.dist-info")  # pip renames before it removes
    info.rename(left)
    seen = environment.sees(BAD, "bad")
    told = "~ensorplay_bad-1.0.dist-info is what an interrupted uninstallation left"
    assert seen.message == (
        f"Device 'bad' cannot be used: its backend (~ensorplay_bad-1.0.dist-info) is broken: {told}"
        f"\nfix: remove the folder {left}"
    )
    environment.pip("install", "--no-deps", environment.build("bad", version="1.1"))
    ones, label, notes = environment.gives(WORKS)
    assert (ones, label, notes) == ([1.0, 1.0], "tensorplay-bad 1.1", [told])


def test_an_entry_point_that_names_no_module_is_told_with_the_right_spelling(environment: Any) -> None:
    info = environment.install("bad", value="tensorplay_bad/plugin.py")
    seen = environment.sees(BAD, "bad")
    told = "the entry point value 'tensorplay_bad/plugin.py' is not a module such as 'tensorplay_bad.plugin'"
    remedy = "correct the value in the metadata of tensorplay-bad and reinstall it"
    assert seen.message == f"{HEAD}{told}\nfix: {remedy}"
    assert (seen.record["state"], seen.record["stage"]) == ("error", "describe")

    entries = info / "entry_points.txt"
    for value, told in (
        ("tensorplay-bad.plugin", "is not a module such as 'tensorplay_bad.plugin'"),
        ("", "the entry point value '' is not a module such as 'tensorplay_bad.plugin'"),
        ("tensorplay_bad.plugin:DEVICES", "tensorplay_bad.plugin has no attribute 'DEVICES'. Did you mean 'DEVICE'?"),
    ):
        entries.write_text(f"[tensorplay.backends]\nbad = {value}\n", encoding="utf-8")
        seen = environment.sees(BAD, "bad")
        assert seen.message.startswith(HEAD) and told in seen.message, seen.message
        assert seen.fix == remedy
    entries.write_bytes(b"# \xff\xfe\n[tensorplay.backends]\nbad = tensorplay_bad.plugin [extra]\n")
    assert environment.gives(WORKS) == [[1.0, 1.0], "tensorplay-bad 1.0", []]


def test_a_name_that_is_no_identifier_is_told_where_it_is_listed(environment: Any) -> None:
    environment.install("Bad", distribution="acme-upper")
    environment.install("my-dev", distribution="acme-dash")
    for name, distribution in (("Bad", "acme-upper"), ("my-dev", "acme-dash")):
        seen = environment.sees(f"tp.backends.load({name!r})", name)
        told = f"the entry point name {name!r} is not a lowercase identifier such as 'foo' or 'foo2'"
        assert f"its backend ({distribution} 1.0) is broken: {told}\nfix: " in seen.message
        assert seen.fix == f"rename it in the metadata of {distribution}"
    shown = environment.tensorplay("backends", "list")
    assert shown.code == 0 and "acme-upper 1.0" in shown.out and "acme-dash 1.0" in shown.out


def test_one_name_from_two_distributions_is_a_conflict_that_names_both(environment: Any) -> None:
    environment.install("bad", distribution="acme-bad")
    environment.install("bad", version="2.0")
    seen = environment.sees(BAD, "bad")
    assert "is broken: 2 distributions provide it: acme-bad 1.0 and tensorplay-bad 2.0\nfix: " in seen.message
    assert seen.fix == "keep one of them: pip uninstall acme-bad or pip uninstall tensorplay-bad"
    environment.pip("uninstall", "acme-bad")
    assert environment.gives(WORKS) == [[1.0, 1.0], "tensorplay-bad 2.0", []]


def test_a_second_version_is_noted_and_the_first_on_the_path_counts(environment: Any) -> None:
    environment.install("bad")
    newer = environment.folder / "newer"
    environment.pip("install", "--no-deps", "--target", newer, environment.build("bad", version="2.0"))
    note = "tensorplay-bad {} is also on the path, after {}: the first counts"
    ones, label, notes = environment.gives(WORKS, path=(newer,))
    assert (ones, label, notes) == ([1.0, 1.0], "tensorplay-bad 2.0", [note.format("1.0", "2.0")])
    shown = environment.tensorplay("backends", "info", "bad", PYTHONPATH=str(newer))
    assert shown.code == 0 and "tensorplay-bad 1.0 is also on the path" in " ".join(shown.out.split())


def test_an_editable_install_that_is_listed_twice_is_one_backend(environment: Any) -> None:
    folder: Path = environment.project("bad", yaml="summary: x")
    environment.pip("install", "--no-deps", "-e", folder)
    (info,) = environment.site.glob("tensorplay_bad-1.0.dist-info")
    egg = folder / "src" / "tensorplay_bad.egg-info"  # as setuptools leaves one beside the sources
    egg.mkdir()
    shutil.copy(info / "METADATA", egg / "PKG-INFO")
    shutil.copy(info / "entry_points.txt", egg / "entry_points.txt")
    for path in ((folder / "src",), (folder / "src", environment.site), ()):
        ones, label, notes = environment.gives(WORKS, path=path)
        assert (ones, label, notes) == ([1.0, 1.0], "tensorplay-bad 1.0", []), path
    listed = json.loads(environment.tensorplay("backends", "list", "--json", PYTHONPATH=os.fspath(folder / "src")).out)
    assert [row["name"] for row in listed].count("bad") == 1
