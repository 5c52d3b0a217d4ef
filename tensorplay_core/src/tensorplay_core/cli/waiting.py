"""A line on stderr while a person waits: what is at work, shown where it takes long, and gone afterwards.

What is quick needs no word, and a pipe or a log wants none, so the commands share when it appears and how it leaves.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tensorplay_core.cli.common import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class Waiting:
    """Shows what is at work once ``patience`` seconds are over, on a terminal only; subclasses say what.

    Attributes:
        patience: seconds before it appears.
    """

    patience = 1.0

    def __init__(self) -> None:
        """Waits."""
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._progress: Progress | None = None
        self._task: Any = None

    def columns(self) -> tuple[Any, ...]:
        """Returns the columns of rich's progress display."""
        raise NotImplementedError

    def update(self, progress: Progress, task: Any) -> None:
        """Writes what is at work into the display."""
        raise NotImplementedError

    def changed(self) -> None:
        """Shows what is at work now, where the display is there already."""
        with self._lock:
            if self._progress is not None:
                self.update(self._progress, self._task)

    def __enter__(self) -> Self:
        """Begins to wait."""
        out = console(stderr=True)
        if out.is_terminal:
            self._timer = threading.Timer(self.patience, self._show, (out,))
            self._timer.daemon = True
            self._timer.start()
        return self

    def _show(self, out: Console) -> None:
        from rich.progress import Progress

        with self._lock:
            if self._timer is None:  # it is over
                return
            self._progress = Progress(*self.columns(), console=out, transient=True)  # what is printed goes above it
            self._task = self._progress.add_task("")
            self.update(self._progress, self._task)
            self._progress.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes the line away."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if self._progress is not None:
            self._progress.stop()
