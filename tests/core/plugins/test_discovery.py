from __future__ import annotations

from typing import Any

RECORDS = "show([[r.name, r.info.label, str(r.state), r.reason, r.fix, list(r.notes)] for r in MANAGER.records()])"


def test_a_backend_is_described_without_being_imported(site: Any) -> None:
    site.add("foo", "raise SystemExit", yaml="summary: Foo\npriority: 3\n")
    result = site.run(
        """
        r = MANAGER.record("foo")
        show([r.info.summary, r.info.priority, r.info.version, str(r.state), [m for m in sys.modules if "foo" in m]])
        """
    )
    assert result == ["Foo", 3, "1.0", "discovered", []]


def test_records_are_sorted_by_priority_then_name_and_get_their_pages_so(site: Any) -> None:
    for name, priority in (("bbb", 0), ("aaa", 0), ("zzz", -1), ("pack", -5)):
        site.add(name, yaml=f"priority: {priority}" + ("\nextends: [cpu]" if name == "pack" else ""))
    result = site.run(
        """
        from tensorplay_core.dispatch.keys import pages
        show([[r.name for r in MANAGER.records()], pages()])
        """
    )
    assert result == [["pack", "zzz", "aaa", "bbb"], {"zzz": 1, "aaa": 2, "bbb": 3}]


def test_priority_from_the_environment_replaces_that_of_the_file(site: Any) -> None:
    site.add("aaa", yaml="priority: 5")
    site.add("bbb")
    script = "show([r.name for r in MANAGER.records()])"
    assert site.run(script) == ["bbb", "aaa"]
    assert site.run(script, TENSORPLAY_BACKENDS_PRIORITY="aaa=-1") == ["aaa", "bbb"]


def test_broken_metadata_does_not_hide_others(site: Any) -> None:
    site.add("good")
    site.add("nameless", metadata="Metadata-Version: 2.1\n")
    site.add("slash", value="tensorplay_slash/plugin.py")
    site.add("empty", value=" ")
    site.add("upper", entry="UPPER")
    broken = site.path / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_bytes(b"\xff\xfe\x00Name")
    (broken / "entry_points.txt").write_bytes(b"\xff[tensorplay.backends]\nbroken = x")
    (site.path / "hollow-1.0.dist-info").mkdir()
    (site.path / "garbage-1.0.dist-info").mkdir()
    (site.path / "garbage-1.0.dist-info" / "entry_points.txt").write_text("[tensorplay.backends\n= =\nnonsense\n")
    records = {name: (state, reason, fix) for name, _, state, reason, fix, _ in site.run(RECORDS)}
    assert records["good"] == ("discovered", "", "")
    assert records["nameless"][0] == "error"
    assert "tensorplay_nameless-1.0.dist-info has no Name" in records["nameless"][1]
    assert "'tensorplay_slash/plugin.py' is not a module such as 'tensorplay_slash.plugin'" in records["slash"][1]
    assert "the entry point value ''" in records["empty"][1]
    assert "'UPPER' is not a lowercase identifier" in records["UPPER"][1]
    assert site.run("show(str(MANAGER.load('good').state))") == "active"


def test_an_editable_install_listed_twice_is_one_backend(site: Any, tmp_path: Any) -> None:
    site.add("foo")
    twin = type(site)(tmp_path / "twin")
    twin.add("foo")
    assert site.run(RECORDS, sites=(twin.path,)) == [["foo", "tensorplay-foo 1.0", "discovered", "", "", []]]


def test_a_stale_second_version_is_noted_and_the_first_counts(site: Any, tmp_path: Any) -> None:
    site.add("foo", version="2.0")
    twin = type(site)(tmp_path / "twin")
    twin.add("foo", version="1.0")
    ((_, label, state, _, _, notes),) = site.run(RECORDS, sites=(twin.path,))
    assert (label, state) == ("tensorplay-foo 2.0", "discovered")
    assert notes == ["tensorplay-foo 1.0 is also on the path, after 2.0: the first counts"]


def test_a_nameless_leftover_does_not_spoil_a_good_installation(site: Any, tmp_path: Any) -> None:
    site.add("foo")
    twin = type(site)(tmp_path / "twin")
    twin.add("foo", version="0.9", metadata="")
    ((_, _, state, _, _, notes),) = site.run(RECORDS, sites=(twin.path,))
    assert state == "discovered"
    assert "has no Name" in notes[0]


def test_two_distributions_of_one_name_are_a_conflict_that_names_both(site: Any) -> None:
    site.add("foo", distribution="zeta-foo", version="2.0")
    site.add("foo", distribution="alpha-foo")
    result = site.run("show([str(MANAGER.record('foo').state), str(error(MANAGER.ensure_device, 'foo'))])")
    assert result[0] == "error"
    assert "2 distributions provide it: alpha-foo 1.0 and zeta-foo 2.0" in result[1]
    assert "fix: keep one of them: pip uninstall alpha-foo or pip uninstall zeta-foo" in result[1]


def test_api_out_of_range_is_incompatible_and_runs_nothing(site: Any) -> None:
    site.add("foo", "raise SystemExit", yaml='api: ">=2"')
    result = site.run(
        "e = error(MANAGER.ensure_device, 'foo'); show([type(e).__name__, str(e), list(MANAGER.records())])"
    )
    assert result[0] == "BackendError"
    assert "(tensorplay-foo 1.0) is incompatible: it needs plugin API >=2, and this TensorPlay has 1.0" in result[1]
    assert "fix: use a release of tensorplay-foo for plugin API 1.0" in result[1]
    assert "pip install" not in result[1]


def test_a_bad_description_is_an_error_with_its_line(site: Any) -> None:
    site.add("foo", yaml="summary: x\nprioritiy: 3\nviews: maybe\n")
    text = site.run("show(str(error(MANAGER.ensure_device, 'foo')))")
    assert "tensorplay_foo/backend.yaml:2: unknown field 'prioritiy'. Did you mean 'priority'?" in text
    assert "tensorplay_foo/backend.yaml:3: views must be true or false, got 'maybe'" in text
    assert "fix: correct that file" in text


def test_a_description_left_out_of_the_wheel_is_told(site: Any) -> None:
    (site.add("foo", yaml="") / "backend.yaml").unlink()
    text = site.run("show(MANAGER.record('foo').reason)")
    assert "tensorplay_foo/backend.yaml does not exist: it was left out of the distribution" in text


def test_a_description_outside_the_package_is_refused(site: Any) -> None:
    site.add("foo", yaml="")
    entries = site.path / "tensorplay_foo-1.0.dist-info" / "entry_points.txt"
    entries.write_text(entries.read_text().replace("tensorplay_foo:backend.yaml", "tensorplay_foo:../secret.yaml"))
    assert "must be package:file.yaml, with a file inside the package" in site.run("show(MANAGER.record('foo').reason)")


def test_a_description_in_a_subfolder_and_of_a_missing_package(site: Any) -> None:
    data = site.add("foo", yaml="") / "data"
    data.mkdir()
    (data / "b.yaml").write_text("summary: deep")
    entries = site.path / "tensorplay_foo-1.0.dist-info" / "entry_points.txt"
    entries.write_text(entries.read_text().replace(":backend.yaml", ":data/b.yaml"))
    assert site.run("show(MANAGER.record('foo').info.summary)") == "deep"
    entries.write_text(entries.read_text().replace("= tensorplay_foo:data", "= nowhere:data"))
    assert "its package 'nowhere' cannot be imported" in site.run("show(MANAGER.record('foo').reason)")


def test_names_are_whole_never_prefixes(site: Any) -> None:
    site.add("cpux")
    site.add("cudalike")
    result = site.run(
        """
        MANAGER.ensure_device("cpux"); MANAGER.ensure_device("cudalike")
        show([table(), str(error(MANAGER.ensure_device, "cpu")), sorted(devices.active_devices())])
        """
    )
    assert result[0] == {"Cpux": ["cpux"], "Cudalike": ["cudalike"]}
    assert "No installed backend provides the device 'cpu'." in result[1]
    assert result[2] == ["cpux", "cudalike"]
