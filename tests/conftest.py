"""What all tests share: counts of what was checked, over all workers, and what the collector does not look at."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

TALLY = pytest.StashKey[dict]()


def pytest_collection_finish() -> None:
    """Takes the tests themselves out of the collector's sight: they are many, and some collect hundreds of times."""
    gc.collect()
    gc.freeze()


def _tally(config) -> dict:
    return config.stash.setdefault(TALLY, {"counts": Counter(), "exceptions": {}})


@pytest.fixture(scope="session")
def tally(request):
    """What was checked, ``counts``, and what was declared an exception with its reason, ``exceptions``."""
    return _tally(request.config)


def pytest_sessionfinish(session) -> None:
    if hasattr(session.config, "workeroutput"):  # a worker of pytest-xdist, which speaks to the main process so
        found = _tally(session.config)
        session.config.workeroutput["tally"] = {**found, "counts": dict(found["counts"])}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    found = getattr(node, "workeroutput", {}).get("tally")
    if found:
        known = _tally(node.config)
        known["counts"].update(found["counts"])
        known["exceptions"].update(found["exceptions"])


def pytest_terminal_summary(terminalreporter, config) -> None:
    found = _tally(config)
    counts, exceptions = found["counts"], found["exceptions"]
    if not counts:
        return
    here = [r for r in terminalreporter.stats.get("skipped", ()) if "core/autograd" in getattr(r, "nodeid", "")]
    terminalreporter.section("checked for every operator")
    for name in sorted(counts):
        terminalreporter.write_line(f"{name}: {counts[name]}")
    terminalreporter.write_line(f"skipped: {len(here)}")
    terminalreporter.write_line(f"exceptions, each declared with a reason: {len(exceptions)}")
    for name in sorted(exceptions):
        terminalreporter.write_line(f"  {name}: {exceptions[name]}")
