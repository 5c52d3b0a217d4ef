"""The garbage collector stands still while the generator works, and only then."""

from __future__ import annotations

import gc

import pytest

from tensorplay_core.codegen.collector import without_collector


def test_the_collector_runs_again_whatever_happens() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="x"), without_collector():
        assert not gc.isenabled()
        raise ValueError("x")
    assert gc.isenabled()


def test_one_that_was_stopped_before_stays_so() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
