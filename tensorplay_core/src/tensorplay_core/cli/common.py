"""What the commands share: errors without tracebacks, JSON that is nothing but JSON, and text that folds.

Output is plain where it does not go to a terminal. rich is imported when something is printed, not at start.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tensorplay_core.errors import TensorPlayError

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

STDOUT = "tensorplay.stdout"
"""Where a command's context keeps the stream that JSON goes to."""
MEASURE = 20
"""Cells that text gets at least, however narrow the terminal is."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


class Command(click.Command):
    """A command whose TensorPlayError is a message and exit code 1, as JSON where ``--json`` was given."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; under ``--json`` what plugins print goes to stderr, so that JSON is all there is."""
        try:
            if not ctx.params.get("as_json"):
                return super().invoke(ctx)
            ctx.meta[STDOUT] = sys.stdout
            with contextlib.redirect_stdout(sys.stderr):
                return super().invoke(ctx)
        except TensorPlayError as error:
            message, _, remedy = str(error).partition("\nfix: ")
            if ctx.params.get("as_json"):
                print_json({"error": type(error).__name__, "message": message, "fix": remedy})
            else:
                print_error(type(error).__name__, message, remedy)
            ctx.exit(1)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise
            print_error(
                "OSError", f"the output cannot be written: {error.strerror}", "free some space, or write elsewhere."
            )
            ctx.exit(1)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type


def usage_error(message: str) -> NoReturn:
    """Ends the command with exit code 2: what was typed means nothing."""
    raise click.UsageError(message, click.get_current_context(silent=True))


def print_json(value: Any) -> None:
    """Prints plain values as JSON."""
    context = click.get_current_context(silent=True)
    stream = context.meta.get(STDOUT) if context is not None else None
    click.echo(json.dumps(value, indent=2, ensure_ascii=False), file=stream)


def print_error(kind: str, message: str, remedy: str) -> None:
    """Prints an error to stderr."""
    out = console(stderr=True)
    out.print(readable(out, f"{kind}: {message}"), style="red", markup=False, soft_wrap=True)
    if remedy:
        out.print(readable(out, f"fix: {remedy}"), markup=False, soft_wrap=True)


def console(*, stderr: bool = False) -> Console:
    """Returns where people read: 80 columns wide when it is not a terminal, coloured only when it is."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False, file=sys.stderr if stderr else sys.stdout)


def paragraph(out: Console, text: str, left: int = 0, style: str = "") -> None:
    """Prints text that folds between a left margin and the right edge: at spaces where it can, never cut.

    A line goes on below where it began, behind its own indentation and the dash of a list.
    """
    for line in readable(out, text).split("\n"):
        for part in fold(line, max(out.width - left, MEASURE)):
            out.print((" " * left + part).rstrip(), style=style or None, markup=False, soft_wrap=True)


def readable(out: Console, text: str) -> str:
    """Returns text as the stream can print it: what plugins say must neither steer the terminal nor fail to encode."""
    text = text.replace("\r\n", "\n")
    plain = "".join(char if char.isprintable() or char in "\n\t\xa0\u3000" else _escaped(char) for char in text)
    encoding = getattr(out.file, "encoding", None) or "utf-8"
    return plain.expandtabs(4).encode(encoding, "backslashreplace").decode(encoding)


def fold(line: str, width: int) -> list[str]:
    """Folds one line to a width in terminal cells; a word that is too long is broken where it has a slash or a mark.

    Example:
        >>> fold("- see /usr/lib/python3/site-packages", 20)
        ['- see', '  /usr/lib/python3/', '  site-packages']
    """
    from rich.cells import cell_len

    words = line.split(" ")
    margin = re.match(r" *(?:- )?", line)
    indent = " " * min(len(margin[0]) if margin is not None else 0, width // 2)
    lines, current, empty = [], "", True
    for i, word in enumerate(words):
        current, word = (current + " ", word) if i else (current, word)
        if not empty and cell_len(current + word) > width:
            lines.append(current.rstrip())
            current = indent
        while cell_len(current + word) > width:
            head = _break(word, width - cell_len(current))
            lines.append(current + head)
            current, word = indent, word[len(head) :]
        current, empty = current + word, empty and word in ("", "-")
    return [*lines, current.rstrip()]


def _break(word: str, width: int) -> str:
    """Returns the beginning of a long word that fits: up to a slash or a mark that is not too early."""
    from rich.cells import cell_len

    size = len(word)
    while size > 1 and cell_len(word[:size]) > width:
        size -= 1
    for marks in ("/\\", ".,:;=()[]-_"):
        end = max(word.rfind(mark, 0, size) for mark in marks) + 1
        if end > size // 2:
            return word[:end]
    return word[:size]


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def plural(count: int, noun: str) -> str:
    """Returns ``1 device``, ``2 devices``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
