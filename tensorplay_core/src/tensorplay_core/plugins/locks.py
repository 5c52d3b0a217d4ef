"""The load lock: one backend loads at a time, and whoever waits too long learns for whom.

Apart from the registry's lock because foreign code runs while it is held. It can be taken away from a thread that
hangs in a plugin, so that one bad backend does not keep the others from loading; that thread may then finish but
change nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tensorplay_core.errors import BackendError, fix


class Holder:
    """One thread's time with the lock, and the backends that it is loading, outermost first."""

    __slots__ = ("ident", "loading", "settling", "since", "thread")

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        self.thread = threading.current_thread().name
        self.since = time.monotonic()
        self.loading: list[str] = []
        self.settling = False


class LoadLock:
    """A re-entrant lock with a time limit that names its holder."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._holder: Holder | None = None

    @contextmanager
    def hold(self, purpose: str, limit: float) -> Iterator[Holder]:
        """Holds the lock; nested use by the same thread gives the same :class:`Holder`.

        Raises:
            BackendError: another thread held it for longer than ``limit`` seconds.
        """
        holder = self._holder
        if holder is not None and holder.ident == threading.get_ident():
            yield holder
            return
        holder = self._acquire(purpose, limit)
        try:
            yield holder
        finally:
            with self._condition:
                if self._holder is holder:
                    self._holder = None
                    self._condition.notify()

    @contextmanager
    def settle(self, holder: Holder) -> Iterator[bool]:
        """Gives whether ``holder`` still has the lock; while the block runs it cannot be taken away."""
        with self._condition:
            mine = self._holder is holder
            holder.settling = mine
        try:
            yield mine
        finally:
            holder.settling = False

    def abandon(self, ident: int) -> bool:
        """Takes the lock from a thread; returns whether that thread had it."""
        with self._condition:
            if self._holder is None or self._holder.ident != ident or self._holder.settling:
                return False
            self._holder = None
            self._condition.notify()
            return True

    def _acquire(self, purpose: str, limit: float) -> Holder:
        with self._condition:
            if not self._condition.wait_for(lambda: self._holder is None, limit):
                other = self._holder
                assert other is not None
                busy = " → ".join(other.loading) or "a backend"
                slow = other.loading[-1] if other.loading else "NAME"
                raise BackendError(
                    f"{purpose} waited {limit:g} s: thread {other.thread!r} has been loading {busy} for"
                    f" {time.monotonic() - other.since:.0f} s and holds the load lock."
                    + fix(f"if that backend hangs, block it: TENSORPLAY_BACKENDS_BLOCK={slow}")
                )
            self._holder = Holder()
            return self._holder
