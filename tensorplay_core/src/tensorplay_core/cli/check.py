"""``tensorplay backends check``: the conformance suite on the command line, for whoever writes kernels.

The table says at a glance what works; each failure comes with a program that shows it, so the next step is to run that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tensorplay_core.cli.common import Command, console, json_option, paragraph, plural, print_json, usage_error
from tensorplay_core.cli.namespace import backend_of, default_name, namespace_option
from tensorplay_core.cli.waiting import Waiting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from tensorplay_core.testing.suite.outcome import Outcome

STYLES = {"ok": "green", "part": "yellow", "failed": "bold red", "gap": "yellow", "-": "dim"}
TITLES = {
    "forward": "result", "layouts": "layout", "gradient": "grad", "second": "grad 2", "inplace": "op_", "out": "out=",
    "threads": "thread",
}  # fmt: skip
"""Areas as the table has them, so that it is 80 cells wide."""
WIDTH = 7
"""Cells of a column of the table."""
NAMES = 16
MARGIN = 2


@click.command(cls=Command)
@click.argument("name", required=False)
@namespace_option
@click.option(
    "--op", "names", multiple=True, metavar="OP", help="Check only this operator; may be given several times."
)
@click.option("--quick", is_flag=True, help="Fewer dtypes and samples, no second gradients.")
@click.option("--seed", type=int, help="Repeat the run that printed this seed.")
@click.option("--jobs", type=click.IntRange(1), help="How many processes; by default one a processor, and 1 with --op.")
@json_option
def check(
    name: str | None,
    namespace: str | None,
    names: tuple[str, ...],
    quick: bool,
    seed: int | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Check a backend or an array module, operator by operator.

    \b
      tensorplay backends check cpu --quick
      tensorplay backends check loopback --op exp --op matmul
      tensorplay backends check --namespace array_api_strict

    Results are compared with references in Python's own arithmetic, on fresh random inputs. Exit code 1 where something
    fails that the backend does not declare as a gap, or nothing was checked.
    """  # noqa: D301  the backslash is click's mark for lines that are not to be folded, so it has to be read
    from tensorplay_core.cli import check_jobs
    from tensorplay_core.testing.suite import checks
    from tensorplay_core.testing.suite.subject import Subject

    name = backend_of(name, namespace)
    _load(name)
    operators = _chosen(names)
    subject = Subject(name, seed=seed, quick=quick, profile=checks.profile_of(name))
    begin = time.perf_counter()
    steps = checks.steps(operators, device=not names, quick=quick)
    jobs = jobs or (1 if names else check_jobs.default_jobs())
    with Checking(len(steps)) as checking:
        if jobs > 1:
            run = check_jobs.Run(name, namespace, subject.seed, quick)
            found = list(check_jobs.outcomes(run, [*operators], steps, jobs, checking))
        else:
            found = list(checks.run(subject, operators, device=not names, started=checking))
    report = Report(name, subject, found, time.perf_counter() - begin, namespace)
    if as_json:
        print_json(report.as_dict())
    else:
        report.show(console())
    if not report.ok:
        click.get_current_context().exit(1)


def _load(name: str) -> None:
    """Loads the backend; one that is broken raises its error, and what cannot be checked ends the command."""
    from tensorplay_core.errors import BackendError, DeviceUnavailable
    from tensorplay_core.plugins import public

    try:
        record = public.info(name)
    except (BackendError, DeviceUnavailable) as error:
        usage_error(str(error))
    if not record.owns_device:
        usage_error(f"{name!r} brings no device: it extends those of others, and is checked with them")
    public.load(name)


def _chosen(names: tuple[str, ...]) -> dict[str, Any]:
    from tensorplay_core.errors import ArgumentError
    from tensorplay_core.testing.suite.subject import chosen

    try:
        return chosen(names)
    except ArgumentError as error:
        usage_error(str(error))


class Checking(Waiting):
    """A bar that shows how far the run is, and at what.

    Args:
        total: how many steps there are.
    """

    patience = 0.3

    def __init__(self, total: int) -> None:
        """Waits."""
        super().__init__()
        self._total, self._done, self._what = total, -1, ""

    def __call__(self, name: str, area: str) -> None:
        """Tells what is checked now."""
        self._done += 1
        self._what = f"{name} {TITLES.get(area, area)}"
        self.changed()

    def columns(self) -> tuple[Any, ...]:
        """The bar, the part that is done, the time, and what is checked."""
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.description}", markup=False)
        return BarColumn(24), TaskProgressColumn(), TimeElapsedColumn(), text

    def update(self, progress: Progress, task: Any) -> None:
        """Moves the bar."""
        progress.update(task, total=self._total, completed=max(self._done, 0), description=self._what)


class Report:
    """What a run found.

    Args:
        name: the backend.
        subject: the device.
        outcomes: all of them.
        seconds: how long it took.
        namespace: the module that the device was made of, where the command made it.
    """

    def __init__(
        self, name: str, subject: Any, outcomes: list[Outcome], seconds: float, namespace: str | None = None
    ) -> None:
        """Sorts them."""
        from tensorplay_core.plugins import public

        self.name, self.subject, self.seconds, self.namespace = name, subject, seconds, namespace
        self.record = public.info(name)
        self.profile = subject.profile
        self.failures = [one for one in outcomes if one.status == "failed"]
        self.gaps = {(one.operator, one.dtype, one.what): one for one in outcomes if one.status == "gap"}
        self.calls = sum(one.calls for one in outcomes)
        self.table: dict[str, dict[str, str]] = {}
        grouped: dict[tuple[str, str], list[str]] = {}
        for one in outcomes:
            grouped.setdefault((one.operator, one.area), []).append(one.status)
        for (operator, area), statuses in grouped.items():
            self.table.setdefault(operator, {})[area] = cell(statuses)
        of_operators = [name for name, row in self.table.items() if "device" not in row]
        told = {name: {word for area, word in self.table[name].items() if area != "errors"} for name in of_operators}
        self.unchecked = [name for name, words in told.items() if words <= {"-"}]
        self.ok = not self.failures and len(self.unchecked) < len(self.table)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for ``--json``."""
        return {
            "backend": self.name, "namespace": self.namespace, "distribution": self.record.info.distribution,
            "version": self.record.info.version, "ok": self.ok, "seed": self.subject.seed,
            "quick": self.subject.quick, "accuracy": self.profile.accuracy, "flushes": self.profile.flushes,
            "dtypes": [*self.subject.dtypes], "seconds": round(self.seconds, 2), "calls": self.calls,
            "table": self.table, "failures": [one.as_dict() for one in self.failures],
            "gaps": [one.as_dict() for one in self.gaps.values()], "unchecked": self.unchecked,
        }  # fmt: skip

    def show(self, out: Console) -> None:
        """Prints the table, the gaps, each failure with its program, and a line that sums it up."""
        operators = {name: row for name, row in self.table.items() if "device" not in row}
        device = {name: row["device"] for name, row in self.table.items() if "device" in row}
        print_table(out, operators)
        if device:
            out.print()
            print_device(out, device)
        self._show_gaps(out)
        for one in self.failures:
            self._show_failure(out, one)
        out.print()
        counts = f"{plural(len(operators), 'operator')}, {plural(self.calls, 'call')} compared in {self.seconds:.0f} s"
        failed = plural(len(self.failures), "failure") if self.failures else "nothing failed"
        gaps = plural(len(self.gaps), "declared gap")
        lesser = f"; it declares {self.profile.lesser}" if self.profile.lesser else ""
        if self.unchecked:
            what = f"nothing was checked of {', '.join(self.unchecked)}: the device has no dtype or input for it"
            paragraph(out, what, style="yellow" if self.ok else "bold red")
        paragraph(out, f"{self._label}: {counts}; {failed}, {gaps}{lesser}")
        paragraph(out, f"to repeat it: {self._again}", style="dim")

    @property
    def _label(self) -> str:
        """What was checked: the distribution, or the array module and the distribution with its kernels."""
        label: str = self.record.info.label
        if self.record.made is None:
            return label
        return f"{self.subject.api.device_name(0)} ({label})"

    @property
    def _again(self) -> str:
        """The command that repeats the run."""
        words = ["tensorplay backends check"]
        if self.namespace is None or self.name != default_name(self.namespace):
            words.append(self.name)
        if self.namespace is not None:
            words.append(f"--namespace {self.namespace}")
        words += [f"--seed {self.subject.seed}", *(["--quick"] if self.subject.quick else [])]
        return " ".join(words)

    def _show_gaps(self, out: Console) -> None:
        for one in self.gaps.values():
            dtype = f"[{one.dtype}]" if one.dtype else ""
            paragraph(out, f"gap: {one.operator}{dtype}: {one.what}", style="yellow")

    def _show_failure(self, out: Console, one: Outcome) -> None:
        out.print()
        where = ", ".join(part for part in (one.operator, TITLES.get(one.area, one.area), one.dtype) if part)
        paragraph(out, f"failed: {where}", style="bold red")
        paragraph(out, one.what, MARGIN)
        if one.program:
            out.print()
            for line in one.program.split("\n"):  # not folded: it is to be copied
                out.print(" " * 2 * MARGIN + line, markup=False, soft_wrap=True, style="cyan")


def cell(statuses: Iterable[str]) -> str:
    """Returns one word for the outcomes of an operator in an area.

    Example:
        >>> cell(["ok", "n/a", "ok"]), cell(["ok", "gap"]), cell(["n/a"])
        ('ok', 'part', '-')
    """
    seen = {*statuses} - {"n/a"}
    if "failed" in seen:
        return "failed"
    return {(): "-", ("ok",): "ok", ("gap",): "gap"}.get(tuple(sorted(seen)), "part")


def print_table(out: Console, table: dict[str, dict[str, str]]) -> None:
    """Prints operators below each other and areas beside each other."""
    from rich.text import Text

    from tensorplay_core.testing.suite.outcome import AREAS

    areas = [area for area in AREAS if any(area in row for row in table.values())]
    width = max([NAMES, *(len(name) + 1 for name in table)])
    if table:
        head = "".join(TITLES.get(area, area).ljust(WIDTH) for area in areas).rstrip()
        out.print(Text(" " * width + head, "bold"), soft_wrap=True)
    for name, row in table.items():
        line = Text(name.ljust(width))
        for area in areas:
            word = row.get(area, "-")
            line.append(word.ljust(WIDTH), STYLES[word])
        line.rstrip()
        out.print(line, soft_wrap=True)


def print_device(out: Console, checks: dict[str, str]) -> None:
    """Prints what was checked of the device besides its operators."""
    from rich.text import Text

    line = Text("the device".ljust(NAMES))
    for name, word in checks.items():
        line.append(f"{name} ").append(word, STYLES[word]).append("  ")
    line.rstrip()
    out.print(line, soft_wrap=True)
