from __future__ import annotations

import importlib.util
import time

import pytest


def test_tolerance_is_relative_above_one(load) -> None:
    value = load("support").Value
    assert value(0.25).tolerance == 1e-8
    assert value(-300.0).tolerance == pytest.approx(3e-6)
    assert value(300.0, within=0.0).tolerance == 0.0


def test_only_the_loop_is_timed(load) -> None:
    settings = load("support").Settings()
    for step in settings.track([0.02, 0.03], "sleeping"):
        time.sleep(step)
    before = settings.seconds
    assert 0.05 <= before < 1
    time.sleep(0.02)
    assert settings.seconds == before


def test_a_quick_run_is_smaller(load) -> None:
    settings = load("support").Settings
    assert settings(quick=True).size(100, 3) == 3
    assert settings().size(100, 3) == 100


def test_a_missing_package_is_an_error_that_says_how_to_get_it(load, monkeypatch: pytest.MonkeyPatch) -> None:
    support = load("support")
    monkeypatch.setitem(support.PACKAGES, "not_there", "--no-deps not-there")
    with pytest.raises(support.MissingPackage, match=r"needs not_there\nfix: .*-m pip install --no-deps not-there"):
        support.package("not_there.part")


def test_a_package_that_is_broken_is_another_error(load, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "broken_here.py").write_text("import missing_below\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="missing_below"):
        load("support").package("broken_here")


def test_help_text_is_printable(load) -> None:
    text = load("support").help_text()
    assert len(text) > 300_000
    assert set(text) <= {"\n", *map(chr, range(32, 127))}


def test_no_pictures(load) -> None:
    settings = load("support").Settings(pictures=None)
    settings.picture("never.png", pytest.fail, (1, 1))
    assert settings.saved == []


@pytest.mark.peers
@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="no matplotlib: pip install --group programs")
def test_a_picture(load, tmp_path) -> None:
    settings = load("support").Settings(pictures=tmp_path / "new")
    settings.picture("line.png", lambda axes: [ax.plot([1, 2]) for ax in axes], (2, 1), 1, 2)
    assert settings.saved == [tmp_path / "new" / "line.png"]
    assert settings.saved[0].read_bytes().startswith(b"\x89PNG")
