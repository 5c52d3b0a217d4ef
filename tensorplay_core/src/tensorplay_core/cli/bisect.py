"""``tensorplay bisect``: which kernel of a device is wrong, found by running a program on two devices at once."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorplay_core.cli.common import Command, console, json_option, plural, print_json, readable, usage_error
from tensorplay_core.errors import TensorPlayError

if TYPE_CHECKING:
    from tensorplay_core.testing.bisect.finding import Finding
    from tensorplay_core.testing.bisect.mode import Bisect


@click.command(cls=Command, context_settings={"ignore_unknown_options": False})
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1)
@click.option("--device", required=True, help="The device whose kernels are in question.")
@click.option("--against", default="cpu", show_default=True, help="The device that is trusted.")
@click.option("--report", is_flag=True, help="Go on after a finding, and list all.")
@click.option("--budget", type=float, default=1.0, show_default=True, help="What error budgets are multiplied by.")
@click.option("--output", type=click.Path(path_type=Path), help="Where the program that shows it is written.")
@json_option
def bisect(
    script: Path,
    arguments: tuple[str, ...],
    device: str,
    against: str,
    report: bool,
    budget: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the kernel of a device that is wrong.

    \b
      tensorplay bisect train.py --device vulkan
      tensorplay bisect train.py --device foo --against cuda --report
      tensorplay bisect train.py --device foo -- --epochs 3

    SCRIPT runs with its default device set to --device. Every operator, forward and backward, is computed on
    both devices from the same inputs; the first whose result leaves its error budget is named, with a program of ten
    lines that shows it. Exit code 1 where one was found, 2 where the script itself failed before.
    """  # noqa: D301  the backslash is click's mark for lines that are not to be folded, so it has to be read
    if not script.is_file():
        usage_error(f"there is no script {script}")
    if not budget > 0:
        usage_error(f"--budget is a factor above 0, not {budget:g}")
    import tensorplay_core.ops.load  # noqa: F401
    from tensorplay_core.dispatch import devices
    from tensorplay_core.testing.bisect.mode import Bisect, progress
    from tensorplay_core.testing.bisect.runner import run_script
    from tensorplay_core.types.device import Device

    try:
        one, other = (devices.normalize(Device(name)) for name in (device, against))
        for chosen in (one, other):
            devices.entry(chosen.type)
    except TensorPlayError as error:
        usage_error(str(error))
    if one.type == other.type:
        usage_error(f"--device and --against are both {one.type}: there is nothing to compare")
    mode = Bisect(one, other, goes_on=report, factor=budget, say=progress)
    try:
        run_script(script, arguments, mode)
    except BaseException as error:
        if mode.goes_on or not mode.findings:
            _failed(script, error, mode)
    _tell(mode, output, as_json)
    click.get_current_context().exit(1 if mode.findings else 0)


def _failed(script: Path, error: BaseException, mode: Bisect) -> None:
    """Says that the script has failed; where nothing was found, that is all there is to say."""
    if isinstance(error, KeyboardInterrupt) and not mode.findings:
        raise error
    traceback.print_exception(error, file=sys.stderr)
    found = f"and {plural(len(mode.findings), 'finding')}" if mode.findings else "without a finding"
    text = f"{script} raised {type(error).__name__} after {plural(mode.compared, 'compared call')} {found}"
    click.echo(text, err=True)
    if not mode.findings:
        click.get_current_context().exit(2)


def _tell(mode: Bisect, output: Path | None, as_json: bool) -> None:
    from tensorplay_core.testing.bisect.program import write

    written: dict[int, Path] = {}
    for number, finding in enumerate(mode.findings):
        if finding.reduced:
            path = _path(finding, output, number)
            write(finding, path)
            written[number] = path
    if as_json:
        found = [{**f.as_dict(), "program_file": str(written.get(i, ""))} for i, f in enumerate(mode.findings)]
        print_json({"compared": mode.compared, "skipped": dict(mode.skipped), "findings": found})
        return
    out = console()
    if mode.goes_on and mode.findings:
        _table(out, mode.findings)
    for number, finding in enumerate(mode.findings):
        lines = [] if mode.goes_on else finding.lines()
        if number in written:
            lines.append(f"  written  {written[number]}, which shows it")
        for line in lines:
            out.print(readable(out, line), markup=False, soft_wrap=True)
    skipped = sum(mode.skipped.values())
    unseen = f"; {plural(skipped, 'call')} not compared ({', '.join(sorted(+mode.skipped))})" if skipped else ""
    stopped = bool(mode.findings) and not mode.goes_on
    ends = "stopped at the first finding" if stopped else plural(len(mode.findings), "finding")
    text = f"{plural(mode.compared, 'call')} on {mode.device.type} compared with {mode.against.type}{unseen}: {ends}"
    out.print(readable(out, text), markup=False, soft_wrap=True)


def _path(finding: Finding, output: Path | None, number: int) -> Path:
    if output is not None:
        return output if number == 0 else output.with_stem(f"{output.stem}_{number + 1}")
    name = finding.op.display_name.replace("::", "_").replace(".", "_")
    return Path(f"bisect_{name}_{finding.device.type}.py")


def _table(out: Any, findings: list[Finding]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("operator", "whose kernel", "program", "what is wrong"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        kernel = finding.kernel
        whose = "none" if kernel is None else f"{kernel.distribution}\n{kernel.where}"
        during = f"\n{finding.place.node}" if finding.place.node else ""
        row = (finding.overload, whose, f"{finding.place.line}{during}", finding.difference.what)
        table.add_row(*(readable(out, cell) for cell in row))
    out.print(table)
