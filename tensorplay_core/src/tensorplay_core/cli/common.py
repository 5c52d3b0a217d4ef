"""What the commands share: errors without tracebacks, JSON that is nothing but JSON, and text that folds.

Output is plain where it does not go to a terminal. rich is imported when something is printed, not at start.
"""

from __future__ import annotations

import errno
import json
import sys
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tensorplay_core.errors import TensorPlayError

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


class Command(click.Command):
    """A command whose TensorPlayError is a message and exit code 1, as JSON where ``--json`` was given."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
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
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_error(kind: str, message: str, remedy: str) -> None:
    """Prints an error to stderr."""
    out = console(stderr=True)
    out.print(f"{kind}: {message}", style="red", markup=False, soft_wrap=True)
    if remedy:
        out.print(f"fix: {remedy}", markup=False, soft_wrap=True)


def console(*, stderr: bool = False) -> Console:
    """Returns where people read: 80 columns wide when it is not a terminal, coloured only when it is."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False, file=sys.stderr if stderr else sys.stdout)


def paragraph(out: Console, text: str, left: int = 0, style: str = "") -> None:
    """Prints text that folds between a left margin and the right edge: at spaces where it can, never cut."""
    width = max(out.width - left, 20)
    for line in text.split("\n"):
        for part in textwrap.wrap(line, width, break_on_hyphens=False) or [""]:
            out.print((" " * left + part).rstrip(), style=style or None, markup=False, soft_wrap=True)


def plural(count: int, noun: str) -> str:
    """Returns ``1 device``, ``2 devices``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
