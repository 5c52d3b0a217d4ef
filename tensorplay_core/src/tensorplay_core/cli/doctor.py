"""``tensorplay backends doctor``: what is wrong with the installation, and what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tensorplay_core.cli.common import Command, console, json_option, paragraph, plural, print_json, readable
from tensorplay_core.cli.loading import Loading, timeout_option

if TYPE_CHECKING:
    from rich.console import Console

    from tensorplay_core.plugins.doctor import Finding, Report

STYLES = {"error": "red", "warning": "yellow", "note": "cyan"}
MARGIN = 2


@click.command(cls=Command)
@json_option
@click.option("--no-load", is_flag=True, help="Look at metadata alone: run no backend's code.")
@timeout_option
def doctor(as_json: bool, no_load: bool, timeout: float) -> None:
    """Find what is wrong with the installation, each with its fix.

    Looks at metadata, versions, requirements, files and environment variables, and tries every backend. Exit code 1
    where there is an error or a warning.
    """
    report = examined(not no_load, timeout)
    if as_json:
        from tensorplay_core.cli.backends import described

        print_json({
            "ok": report.ok,
            "findings": [finding.as_dict() for finding in report.findings],
            "backends": [described(record) for record in report.records],
        })  # fmt: skip
    else:
        show(report)
    if not report.ok:
        click.get_current_context().exit(1)


def examined(load: bool, timeout: float) -> Report:
    """Returns what the doctor found; operators that cannot be loaded are a finding too."""
    from tensorplay_core.plugins.doctor import Finding, examine
    from tensorplay_core.plugins.doctor.findings import reinstall

    broken = []
    try:
        import tensorplay_core.ops.load  # noqa: F401  the operators that kernels are checked against
    except Exception as error:
        what = f"its operators cannot be loaded, so no backend was tried: {type(error).__name__}: {error}"
        broken.append(Finding("error", "tensorplay-core", what, reinstall("tensorplay-core", whole=True)))
    with Loading() as loading:
        report = examine(timeout, loading, load=load and not broken)
    return report.with_findings(broken)


def show(report: Report) -> None:
    """Prints what was found for a person: the findings, the worst first, and a line that sums them up."""
    from tensorplay_core.plugins.doctor.findings import SEVERITIES

    out = console()
    labels = {record.name: record.info.label for record in report.records}
    for finding in report.findings:
        head(out, finding, labels.get(finding.subject, ""))
        paragraph(out, finding.what, MARGIN)
        paragraph(out, f"fix: {finding.fix}", MARGIN)
        out.print()
    looked = f"{plural(len(report.records), 'backend')}, {plural(len(report.distributions), 'distribution')}"
    counts = [plural(count, severity) for severity in SEVERITIES if (count := report.count(severity))]
    paragraph(out, f"{looked}: {', '.join(counts) or 'nothing is wrong'}")


def head(out: Console, finding: Finding, label: str) -> None:
    """Prints how grave a finding is, what it is about, and the distribution where that is a backend."""
    from rich.cells import cell_len
    from rich.text import Text

    line = Text().append(finding.severity, f"bold {STYLES[finding.severity]}").append(": ")
    line.append(readable(out, finding.subject), "bold")
    beside = f" ({readable(out, label)})" if label else ""
    fits = cell_len(line.plain + beside) <= out.width
    if cell_len(line.plain) <= out.width:
        out.print(line.append(beside if fits else ""), soft_wrap=True)
    else:
        paragraph(out, line.plain, 0, "bold")
    if not fits and beside:
        paragraph(out, beside.strip(), MARGIN)
