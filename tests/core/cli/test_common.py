"""Text that folds: to the width, at good places, and without losing a character."""

from __future__ import annotations

import io
import random

import pytest
from rich.cells import cell_len
from rich.console import Console

from tensorplay_core.cli.common import fold, paragraph, readable


def test_whatever_is_folded_fits_and_is_whole() -> None:
    chosen = random.Random(4)
    for _ in range(3000):
        line = "".join(chosen.choice("ab/._ -日") for _ in range(chosen.randrange(90)))
        width = chosen.randrange(20, 50)
        parts = fold(line, width)
        assert all(cell_len(part) <= width for part in parts), (line, width, parts)
        assert "".join("".join(parts).split()) == "".join(line.split()), (line, width, parts)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("", [""]),
        ("one two three four five", ["one two three four", "five"]),
        ("/usr/lib/python3.11/site-packages", ["/usr/lib/python3.11/", "site-packages"]),
        ("    deep in a listing of code", ["    deep in a", "    listing of code"]),
        ("  - a point that goes on", ["  - a point that", "    goes on"]),
        ("a.module.of_a_package:attribute", ["a.module.of_a_", "package:attribute"]),
        ("x" * 25, ["x" * 20, "x" * 5]),
    ],
)
def test_where_a_line_is_folded(line: str, parts: list[str]) -> None:
    assert fold(line, 20) == parts


def test_text_of_strangers_is_printed_as_text() -> None:
    out = Console(file=io.StringIO(), width=40, force_terminal=True, highlight=False)
    paragraph(out, "[red]no markup[/red]\x1b[2J\r\n\ttab\u202e", 2)
    assert out.file.getvalue() == "  [red]no markup[/red]\\x1b[2J\n      tab\\u202e\n"  # type: ignore[attr-defined]
    assert readable(out, "a\xa0b") == "a\xa0b"
