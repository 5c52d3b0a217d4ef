"""Sums over a profile: one row per operator, and the table that people read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tensorplay_core.errors import ArgumentError, did_you_mean
from tensorplay_core.profiler.events import Event, Shapes

_SORTS = ("self_seconds", "total_seconds", "calls", "allocated", "name")
_TORCHS = {
    "cpu_time_total": "total_seconds",
    "self_cpu_time_total": "self_seconds",
    "count": "calls",
    "cpu_memory_usage": "allocated",
    "self_cpu_memory_usage": "allocated",
}
"""What PyTorch calls them."""


class Average:
    """What one operator took.

    Attributes:
        name: the operator.
        calls: how often it was called; the steps of one call count once.
        total_seconds: with everything inside; a call within a call of the same operator is not counted twice.
        self_seconds: without the operators that it called.
        allocated: bytes of the results that are new memory, where they were measured.
        shapes: of the tensor arguments, where rows were made for each; None otherwise.
        stack: where the program called it, where rows were made for each; None otherwise.
    """

    __slots__ = ("allocated", "calls", "name", "self_seconds", "shapes", "stack", "total_seconds")

    def __init__(self, name: str, shapes: Shapes | None = None, stack: tuple[str, ...] | None = None) -> None:
        self.name = name
        self.shapes = shapes
        self.stack = stack
        self.calls = self.allocated = 0
        self.total_seconds = self.self_seconds = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain values."""
        names = ("name", "calls", "total_seconds", "self_seconds", "allocated")
        found = {name: getattr(self, name) for name in names}
        if self.shapes is not None:
            found["shapes"] = [list(shape) for shape in self.shapes]
        if self.stack is not None:
            found["stack"] = list(self.stack)
        return found

    def __repr__(self) -> str:
        return f"<Average {self.name}: {self.calls} calls, {self.self_seconds * 1e3:.3f} ms self>"


class Averages:
    """The rows of a profile, the operator with the most time of its own first; indexable by name or place.

    Args:
        events: the events.
        by_shape: make a row for each operator and shapes of its tensors.
        by_stack: make a row for each operator and that many frames of the program.
    """

    def __init__(self, events: Iterable[Event], by_shape: bool = False, by_stack: int = 0) -> None:
        rows: dict[Any, Average] = {}
        for event in events:
            shapes = event.shapes if by_shape else None
            stack = event.stack[:by_stack] if by_stack else None
            key = event.op, shapes, stack
            row = rows.get(key)
            if row is None:
                row = rows[key] = Average(*key)
            row.self_seconds += event.self_seconds
            row.calls += not event.continues
            row.allocated += event.allocated
            if not _inside_itself(event):
                row.total_seconds += event.seconds
        self._by_shape, self._by_stack = by_shape, by_stack
        self._rows = sorted(rows.values(), key=lambda row: (-row.self_seconds, row.name))

    def __iter__(self) -> Iterator[Average]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str | int) -> Average:
        if isinstance(name, int):
            return self._rows[name]
        for row in self._rows:
            if row.name == name:
                return row
        raise ArgumentError(f"the profile has no {name!r}.{did_you_mean(name, [row.name for row in self._rows])}")

    def __contains__(self, name: object) -> bool:
        return any(row.name == name for row in self._rows)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Returns the rows by operator, as plain values; of several rows of an operator the first."""
        return {row.name: row.as_dict() for row in reversed(self._rows)}

    def table(self, limit: int | None = None, sort_by: str | None = None, *, row_limit: int | None = None) -> str:
        """Returns an aligned table in plain text: operator, calls, time of its own, its share, and time in all.

        A column for memory follows where it was measured, one for shapes where there are rows for each, and the frames
        of the program stand in lines of their own.

        Args:
            limit: how many rows; the others are added up in one line. All when None.
            sort_by: ``self_seconds``, ``total_seconds``, ``calls``, ``allocated`` (most first) or ``name``; PyTorch's
                names of these are taken too, such as ``cpu_time_total``. By ``self_seconds`` when None.
            row_limit: as ``limit``, which PyTorch calls so; -1 is all.

        Raises:
            ArgumentError: there is no such column.
        """
        sort_by = "self_seconds" if sort_by is None else sort_by
        column = _TORCHS.get(sort_by, sort_by)
        if column not in _SORTS:
            near = did_you_mean(sort_by, (*_SORTS, *_TORCHS))
            raise ArgumentError(f"sort_by is one of {', '.join(_SORTS)}, not {sort_by!r}.{near}")
        rows = sorted(self._rows, key=lambda row: getattr(row, column), reverse=column != "name")
        limit = row_limit if limit is None else limit
        shown = rows if limit is None or limit == -1 else rows[: max(limit, 0)]
        return self._lines(rows, shown)

    def _lines(self, rows: list[Average], shown: list[Average]) -> str:
        whole = sum(row.self_seconds for row in rows)
        memory = any(row.allocated for row in rows)
        more = ["memory"] * memory + ["shapes"] * self._by_shape
        cells: list[tuple[str, ...]] = [("operator", "calls", "self", "self %", "total", "self/call", *more)]
        cells += [(*_cells(row, whole), *self._more(row, memory)) for row in shown]
        if rest := rows[len(shown) :]:
            cells.append(self._sum(f"{len(rest)} more", rest, whole, memory))
        cells.append(self._sum("all", rows, whole, memory))
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        rule = "  ".join("-" * width for width in widths)
        lines = [aligned(row, widths, left=(0, len(widths) - 1) if self._by_shape else (0,)) for row in cells]
        if self._by_stack:
            for i, row in reversed([*enumerate(shown, 1)]):
                lines[i + 1 : i + 1] = [f"    {frame}" for frame in row.stack or ()]
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])

    def _more(self, row: Average, memory: bool) -> tuple[str, ...]:
        shapes = ", ".join(str(list(shape)) for shape in row.shapes or ())
        return (*(_bytes(row.allocated),) * memory, *(shapes,) * self._by_shape)

    def _sum(self, name: str, rows: list[Average], whole: float, memory: bool) -> tuple[str, ...]:
        own, calls = sum(row.self_seconds for row in rows), str(sum(row.calls for row in rows))
        taken = (_bytes(sum(row.allocated for row in rows)),) * memory
        return (name, calls, _time(own), _share(own, whole), "", "", *taken, *("",) * self._by_shape)

    def __str__(self) -> str:
        return self.table()


def _inside_itself(event: Event) -> bool:
    parent = event.parent
    while parent is not None:
        if parent.op == event.op:
            return True
        parent = parent.parent
    return False


def aligned(cells: tuple[str, ...], widths: list[int], left: tuple[int, ...]) -> str:
    """Returns a line of a table; cells are on the right of their columns, but for those in ``left``."""
    pairs = enumerate(zip(cells, widths, strict=True))
    return "  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in pairs).rstrip()


def _bytes(size: int) -> str:
    if size >= 1 << 20:
        return f"{size / (1 << 20):.1f} MiB"
    return f"{size / 1024:.1f} KiB" if size >= 1024 else f"{size} B"


def _cells(row: Average, whole: float) -> tuple[str, ...]:
    each = row.self_seconds / max(row.calls, 1)
    own = _time(row.self_seconds)
    return (row.name, str(row.calls), own, _share(row.self_seconds, whole), _time(row.total_seconds), _time(each))


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}" if whole else "0.0"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
