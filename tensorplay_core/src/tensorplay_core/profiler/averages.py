"""Sums over a profile: one row per operator, and the table that people read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tensorplay_core.errors import ArgumentError, did_you_mean
from tensorplay_core.profiler.events import Event

_SORTS = ("self_seconds", "total_seconds", "calls", "name")


class Average:
    """What one operator took.

    Attributes:
        name: the operator.
        calls: how often it was called; the steps of one call count once.
        total_seconds: with everything inside; a call within a call of the same operator is not counted twice.
        self_seconds: without the operators that it called.
    """

    __slots__ = ("calls", "name", "self_seconds", "total_seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.total_seconds = self.self_seconds = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain values."""
        return {name: getattr(self, name) for name in ("name", "calls", "total_seconds", "self_seconds")}

    def __repr__(self) -> str:
        return f"<Average {self.name}: {self.calls} calls, {self.self_seconds * 1e3:.3f} ms self>"


class Averages:
    """The rows of a profile, the operator with the most time of its own first; iterable and indexable by name."""

    def __init__(self, events: Iterable[Event]) -> None:
        rows: dict[str, Average] = {}
        for event in events:
            row = rows.setdefault(event.op, Average(event.op))
            row.self_seconds += event.self_seconds
            row.calls += not event.continues
            if not _inside_itself(event):
                row.total_seconds += event.seconds
        self._rows = sorted(rows.values(), key=lambda row: (-row.self_seconds, row.name))

    def __iter__(self) -> Iterator[Average]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str) -> Average:
        for row in self._rows:
            if row.name == name:
                return row
        raise ArgumentError(f"the profile has no {name!r}.{did_you_mean(name, [row.name for row in self._rows])}")

    def __contains__(self, name: object) -> bool:
        return any(row.name == name for row in self._rows)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Returns the rows by operator, as plain values."""
        return {row.name: row.as_dict() for row in self._rows}

    def table(self, limit: int | None = None, sort_by: str = "self_seconds") -> str:
        """Returns an aligned table in plain text: operator, calls, time of its own, its share, and time in all.

        Args:
            limit: how many rows; the others are added up in one line. All when None.
            sort_by: ``self_seconds``, ``total_seconds``, ``calls`` (most first) or ``name``.

        Raises:
            ArgumentError: there is no such column.
        """
        if sort_by not in _SORTS:
            near = did_you_mean(sort_by, _SORTS)
            raise ArgumentError(f"sort_by is one of {', '.join(_SORTS)}, not {sort_by!r}.{near}")
        rows = sorted(self._rows, key=lambda row: getattr(row, sort_by), reverse=sort_by != "name")
        shown = rows if limit is None else rows[: max(limit, 0)]
        whole = sum(row.self_seconds for row in rows)
        cells: list[tuple[str, ...]] = [("operator", "calls", "self", "self %", "total", "self/call")]
        cells += [_cells(row, whole) for row in shown]
        if rest := rows[len(shown) :]:
            own = sum(row.self_seconds for row in rest)
            calls = str(sum(row.calls for row in rest))
            cells.append((f"{len(rest)} more", calls, _time(own), _share(own, whole), "", ""))
        cells.append(("all", str(sum(row.calls for row in rows)), _time(whole), _share(whole, whole), "", ""))
        widths = [max(len(row[i]) for row in cells) for i in range(6)]
        rule = "  ".join("-" * width for width in widths)
        lines = [
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        lines = [line.rstrip() for line in lines]
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])

    def __str__(self) -> str:
        return self.table()


def _inside_itself(event: Event) -> bool:
    parent = event.parent
    while parent is not None:
        if parent.op == event.op:
            return True
        parent = parent.parent
    return False


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
