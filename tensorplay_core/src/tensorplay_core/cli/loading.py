"""What the commands that load backends share: how long each may take, and a word about whom they wait for.

A backend that hangs is otherwise a command that hangs; the word names it before its time is up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorplay_core.cli.common import readable
from tensorplay_core.cli.waiting import Waiting

if TYPE_CHECKING:
    from rich.progress import Progress

    from tensorplay_core.plugins.records import BackendRecord

timeout_option = click.option(
    "--timeout", type=click.FloatRange(0.1, 1_000_000), default=20.0, show_default=True,
    help="Seconds for each backend.",
)  # fmt: skip


class Loading(Waiting):
    """Tells which backend is loaded."""

    def __init__(self) -> None:
        """Waits."""
        super().__init__()
        self._what = "backends"

    def __call__(self, record: BackendRecord) -> None:
        """Tells which backend is tried now."""
        self._what = record.name
        self.changed()

    def columns(self) -> tuple[Any, ...]:
        """A sign of life, the backend, and how long it has taken."""
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        return SpinnerColumn("line"), TextColumn("loading {task.description}", markup=False), TimeElapsedColumn()

    def update(self, progress: Progress, task: Any) -> None:
        """Names the backend; the time that is shown is its own, not that of all."""
        progress.reset(task, description=readable(progress.console, self._what))
