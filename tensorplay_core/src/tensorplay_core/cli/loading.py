"""What the commands that load backends share: how long each may take, and a word about whom they wait for.

A backend that hangs is otherwise a command that hangs; the word names it before its time is up.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from tensorplay_core.cli.common import console, readable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from tensorplay_core.plugins.records import BackendRecord

PATIENCE = 1.0
"""Seconds before a word appears: what is quicker needs none."""


timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Seconds for each backend."
)


class Loading:
    """Tells on stderr which backend is loaded, where that takes long and a person looks on; it is gone afterwards."""

    def __init__(self) -> None:
        """Waits."""
        self._lock = threading.Lock()
        self._what = "backends"
        self._timer: threading.Timer | None = None
        self._progress: Progress | None = None
        self._task: Any = None

    def __enter__(self) -> Loading:
        """Begins to wait."""
        out = console(stderr=True)
        if out.is_terminal:
            self._timer = threading.Timer(PATIENCE, self._show, (out,))
            self._timer.daemon = True
            self._timer.start()
        return self

    def __call__(self, record: BackendRecord) -> None:
        """Tells which backend is tried now."""
        with self._lock:
            self._what = record.name
            self._update()

    def _show(self, out: Console) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn("line"), TextColumn("loading {task.description}", markup=False), TimeElapsedColumn())
        with self._lock:
            if self._timer is None:  # it is over
                return
            self._progress = Progress(*columns, console=out, transient=True)  # what plugins print goes above it
            self._task = self._progress.add_task("")
            self._update()
            self._progress.start()

    def _update(self) -> None:
        if self._progress is not None:
            # The time that is shown is that of this backend, not of all.
            self._progress.reset(self._task, description=readable(self._progress.console, self._what))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes the word away."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if self._progress is not None:
            self._progress.stop()
