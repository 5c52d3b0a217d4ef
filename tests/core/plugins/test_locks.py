from __future__ import annotations

import threading
from typing import Any

import pytest

from tensorplay_core.errors import BackendError
from tensorplay_core.plugins.locks import LoadLock


def test_the_lock_is_reentrant_and_an_abandoned_holder_cannot_settle() -> None:
    lock = LoadLock()
    with lock.hold("a", 1) as outer, lock.hold("b", 1) as inner:
        assert inner is outer
        with lock.settle(outer) as mine:
            assert mine
            assert not lock.abandon(threading.get_ident())
        assert lock.abandon(threading.get_ident())
        with lock.settle(outer) as mine:
            assert not mine
    with lock.hold("c", 1):
        caught: list[BackendError] = []

        def wait() -> None:
            try:
                with lock.hold("Waiting", 0.05):
                    raise AssertionError
            except BackendError as error:
                caught.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert "Waiting waited 0.05 s: thread 'MainThread' has been loading a backend" in str(caught[0])


def test_an_interrupt_just_when_the_lock_is_taken_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = LoadLock()
    acquire = lock._acquire

    def interrupted(*given: Any) -> None:
        acquire(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "_acquire", interrupted)
    with pytest.raises(KeyboardInterrupt), lock.hold("a", 1):
        raise AssertionError
    assert lock.mine is None, "nobody could take it any more"
