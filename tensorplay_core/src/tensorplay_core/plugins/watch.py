"""Time limits of a load: how long a probe may take, and the notice about a step that takes long.

A driver that hangs must not hang the program that named its device. Only the probe runs in a thread that can be given
up: it is the step that talks to hardware, while an import holds Python's own locks, and a thread that was given up in
the middle of one would keep them for ever.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tensorplay_core.plugins.locks import Holder, LoadLock
    from tensorplay_core.plugins.records import BackendRecord

T = TypeVar("T")

NOTICE = 5.0
"""Seconds at one step after which the user is told what the program waits for."""
_SLICE = 0.5
"""Seconds that one wait lasts: where an interrupt cannot wake a wait, it is seen between two of them."""


class TookTooLong(Exception):
    """A step did not end within its limit."""


class Attempt:
    """One try to load a backend: which step it is at, and whether what it does still counts.

    Args:
        record: of the backend.
        lock: the load lock.
        holder: what the loading thread holds it by.
        limit: seconds that the probe may take; None for no limit.
    """

    def __init__(self, record: BackendRecord, lock: LoadLock, holder: Holder, limit: float | None) -> None:
        """See the class."""
        self.record = record
        self.limit = limit
        self.stage = ""
        self.since = time.monotonic()
        self._lock = lock
        self._holder = holder
        self._ended = threading.Event()

    @property
    def counts(self) -> bool:
        """Whether the thread still holds the lock; it may have been given up meanwhile."""
        return self._lock.mine is self._holder

    def enter(self, stage: str) -> None:
        """Begins a step.

        Raises:
            TookTooLong: the thread was given up, so that no further step must run.
        """
        if not self.counts:
            raise TookTooLong(stage)
        self.stage = self.record.stage = stage
        self.since = time.monotonic()

    def in_time(self, step: Callable[[], T]) -> T:
        """Runs a step in a thread of its own, as a part of this load, and returns what it returns.

        Raises:
            TookTooLong: it did not end within the limit; the thread is left alone, and changes nothing any more.
            KeyboardInterrupt: the user interrupted the wait.
        """
        answer: list[T] = []
        failure: list[BaseException] = []
        context = contextvars.copy_context()
        with self._lock.lend(self._holder) as borrower:

            def work() -> None:
                borrower.ident = threading.get_ident()
                borrower.thread = threading.current_thread().name
                try:
                    answer.append(context.run(step))
                except BaseException as error:
                    failure.append(error)

            worker = threading.Thread(target=work, name=f"tensorplay-{self.stage}-{self.record.name}", daemon=True)
            if not started(worker):
                return step()
            end = None if self.limit is None else time.monotonic() + self.limit
            while worker.is_alive() and (end is None or time.monotonic() < end):
                worker.join(_SLICE if end is None else max(0.0, min(_SLICE, end - time.monotonic())))
        if failure:
            raise failure.pop()
        if not answer:
            raise TookTooLong(self.stage)
        return answer.pop()

    @contextmanager
    def told(self) -> Iterator[None]:
        """While open, a step that takes long is told once on stderr."""
        watch = threading.Thread(target=self._tell, name=f"tensorplay-watch-{self.record.name}", daemon=True)
        try:  # from here on: starting a thread waits for it, and the user may interrupt that
            started(watch)
            yield
        finally:
            self._ended.set()
            if watch.is_alive():  # Python warns of a fork that finds a second thread
                watch.join(_SLICE)

    def _tell(self) -> None:
        while not self._ended.wait(max(0.01, self.since + NOTICE - time.monotonic())):
            at = time.monotonic() - self.since
            if at < NOTICE:
                continue
            if self._lock.loading != self.record.name:  # one that it needs takes long, and is told instead
                self.since += NOTICE
                continue
            name, info = self.record.name, self.record.info
            text = (
                f"tensorplay: still loading backend {name!r} ({info.label}), {at:.0f} s at its {self.stage} step;"
                f" Ctrl-C interrupts, TENSORPLAY_BACKENDS_BLOCK={name} skips it\n"
            )
            with suppress(Exception):  # a stream that is closed or absent: nobody wants to know
                sys.stderr.write(text)
            return


def started(worker: threading.Thread) -> bool:
    """Starts a thread; returns whether that was possible."""
    try:
        worker.start()
    except RuntimeError:  # the interpreter is ending, or the platform has no threads
        return False
    return True
