"""Sending every call through the slow path, to compare the two."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tensorplay_core.dispatch import active


class force_slow_path:
    """A scope in which no call takes its fast path.

    Example:
        >>> import tensorplay as tp
        >>> from tensorplay_core.testing import force_slow_path
        >>> with force_slow_path():
        ...     tp.ones(2) + 1
        tensor([2., 2.])
    """

    def __enter__(self) -> Self:
        """Counts as something special, in every thread."""
        active.add((True, False, False), 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Counts down again."""
        active.add((True, False, False), -1)
