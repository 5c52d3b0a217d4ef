"""The command line ``tensorplay``.

Starting it imports click and nothing of TensorPlay but its version; each command imports what it needs, so that help,
completion and a mistyped option answer at once, and a broken backend breaks no command.
"""

from __future__ import annotations

import click

from tensorplay_core import __version__
from tensorplay_core.cli.backends import backends
from tensorplay_core.cli.bisect import bisect
from tensorplay_core.cli.codegen import codegen
from tensorplay_core.cli.common import Group
from tensorplay_core.cli.demo import demo
from tensorplay_core.cli.explain import explain
from tensorplay_core.cli.ops import ops


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="tensorplay", message="%(prog)s %(version)s")
def main() -> None:
    """Tensors whose backends are pip packages: see what is installed, what would run, and why.

    Exit codes: 0 well, 1 a finding, 2 wrong usage.
    """


for _command in (backends, ops, explain, bisect, codegen, demo):
    main.add_command(_command)

__all__ = ["main"]
