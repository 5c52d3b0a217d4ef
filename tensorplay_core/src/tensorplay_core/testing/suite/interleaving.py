"""Two threads that call one kernel, each of which the other meets in the middle of a call, however busy the machine."""

from __future__ import annotations

import random
import sys
import threading
from types import FrameType
from typing import Any

PATIENCE = 0.1
"""How many seconds a thread that stops in the middle of a call waits for the other one."""
CORE = "tensorplay_core."


class Pair:
    """Two threads that call the same kernel: while one of them stops in the middle, the other makes a call."""

    def __init__(self) -> None:
        """See the class."""
        self._changed = threading.Condition()
        self._threads, self._patience, self._stopped = 2, PATIENCE, False
        self._calls, self._gone_on = 0, 0

    def stop(self) -> None:
        """Waits for the end of a call of the other thread; does not, where that waits or has ended."""
        with self._changed:
            if self._stopped or self._threads < 2 or not self._patience:
                return
            self._stopped, until = True, self._calls + 1
            if not self._changed.wait_for(lambda: self._calls >= until or self._threads < 2, self._patience):
                self._patience = 0.0  # the other one waits for a lock that this one has
            self._stopped, self._gone_on = False, self._gone_on + 1
            self._changed.notify_all()

    def called(self) -> None:
        """Says that this thread has made a call; if the other one has waited for it, that one goes on first."""
        with self._changed:
            self._calls += 1
            self._changed.notify_all()
            gone_on = self._gone_on
            self._changed.wait_for(lambda: not self._stopped or self._gone_on > gone_on, self._patience)

    def end(self) -> None:
        """Says that this thread makes no more calls."""
        with self._changed:
            self._threads -= 1
            self._changed.notify_all()


class Stopping:
    """A scope for a call, in which its thread stops at some line of Python that is not core's own.

    A library in Python has thousands of lines in a call, so the line is picked by chance among as many as there were in
    the call before.
    """

    def __init__(self, pair: Pair) -> None:
        """See the class."""
        self._pair, self._random = pair, random.Random(threading.get_ident())
        self._count, self._line, self._stop = 4, 0, 0
        self._before: Any = None

    def __enter__(self) -> None:
        self._line, self._stop, self._before = 0, self._random.randrange(self._count), sys.gettrace()
        sys.settrace(self._of_frame)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        self._count = max(self._line, 1)
        self._pair.called()

    def _of_frame(self, frame: FrameType, event: str, argument: Any) -> Any:
        return None if str(frame.f_globals.get("__name__")).startswith(CORE) else self._at_line

    def _at_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            if self._line == self._stop:
                self._pair.stop()
            self._line += 1
        return self._at_line
