"""Threads that meet in the middle of calls: ``tensorplay_core.testing.suite.interleaving``."""

from __future__ import annotations

import sys
import threading

import pytest

from tensorplay_core.testing.suite import interleaving
from tensorplay_core.testing.suite.interleaving import Pair, Stopping


@pytest.fixture
def stopped():
    """A pair of threads, the other of which stops in the middle; and an event that says that it has gone on."""
    pair, gone_on = Pair(), threading.Event()

    def other():
        pair.stop()
        gone_on.set()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    while not pair._stopped:
        thread.join(0.001)
    yield pair, gone_on
    thread.join(10)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(interleaving, "PATIENCE", 30)


def test_a_thread_that_stops_goes_on_once_the_other_has_made_a_call(stopped):
    pair, gone_on = stopped
    assert not gone_on.is_set()
    pair.called()  # and this one waits until it has
    assert not pair._stopped
    assert gone_on.wait(10)


def test_only_one_of_two_stops_at_a_time(stopped):
    pair, gone_on = stopped
    pair.stop()
    assert not gone_on.is_set()
    pair.called()


def test_the_end_of_one_thread_lets_the_other_go_on_and_never_stop_again(stopped):
    pair, gone_on = stopped
    pair.end()
    assert gone_on.wait(10)
    pair.stop()


def test_who_holds_a_lock_that_the_other_waits_for_stops_once_and_no_more(monkeypatch):
    monkeypatch.setattr(interleaving, "PATIENCE", 0.01)
    pair = Pair()
    pair.stop()
    assert pair._patience == 0
    pair.stop()


def test_a_call_is_stopped_at_lines_that_are_not_cores_own_and_tracing_is_as_before():
    lines = []

    class Seen(Pair):
        def stop(self):
            lines.append(sys._getframe(2).f_lineno)

    def kernel():
        first = 1
        second = 2
        return first + second

    def trace(frame, event, argument):
        return None

    begin, before = kernel.__code__.co_firstlineno, sys.gettrace()
    sys.settrace(trace)
    try:
        stopping = Stopping(Seen())
        for _ in range(40):
            with stopping:
                kernel()
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert {begin + 1, begin + 2, begin + 3} <= {*lines}
