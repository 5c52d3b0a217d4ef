"""The load lock: one backend loads at a time, and whoever waits too long learns for whom.

Apart from the registry's lock because foreign code runs while it is held. It can be lent to a thread that runs a part
of a load, and taken back when that thread hangs, so that one bad backend does not keep the others from loading; the
thread may then finish but change nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tensorplay_core.errors import BackendError, fix

SETTLING = 5.0
"""Seconds that whoever takes the lock back waits for a backend that is being made active just then."""


class Holder:
    """One thread's time with the lock.

    Attributes:
        loading: the backends that it is loading, outermost first, each with the modules that there were before.
        parent: the holder that has lent the lock to this one and waits for it.
    """

    __slots__ = ("ident", "loading", "parent", "settling", "since", "thread")

    def __init__(self, parent: Holder | None = None) -> None:
        self.ident = threading.get_ident() if parent is None else 0  # a borrower says who it is when it runs
        self.thread = threading.current_thread().name
        self.since: float = time.monotonic() if parent is None else parent.since
        self.loading: dict[str, set[str]] = {} if parent is None else dict(parent.loading)
        self.parent = parent
        self.settling = False

    def descends_from(self, other: Holder) -> bool:
        """Whether this holder is the other one, or has the lock from it."""
        holder: Holder | None = self
        while holder is not None and holder is not other:
            holder = holder.parent
        return holder is other


class LoadLock:
    """A re-entrant lock with a time limit that names its holder."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._holder: Holder | None = None

    @property
    def mine(self) -> Holder | None:
        """What this thread holds the lock by, or None."""
        holder = self._holder
        return holder if holder is not None and holder.ident == threading.get_ident() else None

    @property
    def loading(self) -> str:
        """The backend that is being loaded at this moment, the innermost one, or an empty string."""
        holder = self._holder
        return [*holder.loading][-1] if holder is not None and holder.loading else ""

    @contextmanager
    def hold(self, purpose: str, limit: float | None) -> Iterator[Holder]:
        """Holds the lock; nested use by the same thread gives the same :class:`Holder`.

        Raises:
            BackendError: another thread held it for longer than ``limit`` seconds.
        """
        holder = self.mine
        if holder is not None:
            yield holder
            return
        holder = Holder()
        try:  # from here on: the user may interrupt between taking it and knowing that it was taken
            self._acquire(holder, purpose, limit)
            yield holder
        finally:
            with self._condition:
                if self._holder is not None and self._holder.descends_from(holder):
                    self._holder = None
                    self._condition.notify_all()

    @contextmanager
    def lend(self, holder: Holder) -> Iterator[Holder]:
        """Lends the lock to another thread until the block ends; that thread says who it is by setting ``ident``.

        Where it still holds the lock then, it has lost it: what it settles afterwards is void.
        """
        child = Holder(holder)
        with self._condition:
            if self._holder is holder:
                self._holder = child
        try:
            yield child
        finally:
            self._take(child, holder)

    @contextmanager
    def settle(self, holder: Holder) -> Iterator[bool]:
        """Gives whether ``holder`` still has the lock; while the block runs it cannot be taken away."""
        with self._condition:
            mine = self._holder is holder
            holder.settling = mine
        try:
            yield mine
        finally:
            with self._condition:
                holder.settling = False
                self._condition.notify_all()

    def abandon(self, ident: int) -> bool:
        """Takes the lock from a thread, and from whom it was lent to; returns whether that thread had it."""
        holder = self._holder
        while holder is not None and holder.ident != ident:
            holder = holder.parent
        return holder is not None and self._take(holder, None)

    def after_fork(self) -> dict[str, set[str]]:
        """Makes the lock usable in a child of fork; returns the loads that ended with their thread."""
        mine = self.mine
        lost = {} if self._holder is None or mine is not None else self._holder.loading
        self._condition = threading.Condition(threading.Lock())
        self._holder = mine
        return lost

    def _take(self, holder: Holder, heir: Holder | None) -> bool:
        with self._condition:
            self._condition.wait_for(lambda: self._holder is None or not self._holder.settling, SETTLING)
            had = self._holder
            if had is None or had.settling or not had.descends_from(holder):
                return False
            self._holder = heir
            self._condition.notify_all()
            return True

    def _acquire(self, holder: Holder, purpose: str, limit: float | None) -> None:
        with self._condition:
            if not self._condition.wait_for(lambda: self._holder is None, limit):
                other = root = self._holder
                assert other is not None and root is not None
                while root.parent is not None:
                    root = root.parent
                busy = " → ".join(other.loading) or "a backend"
                slow = [*other.loading][-1] if other.loading else "NAME"
                raise BackendError(
                    f"{purpose} waited {limit:g} s: thread {root.thread!r} has been loading {busy} for"
                    f" {time.monotonic() - root.since:.0f} s and holds the load lock."
                    + fix(
                        f"if that backend hangs, block it with TENSORPLAY_BACKENDS_BLOCK={slow}; if it is slow, wait"
                        " longer with TENSORPLAY_BACKEND_TIMEOUT"
                    )
                )
            holder.since = time.monotonic()
            self._holder = holder
