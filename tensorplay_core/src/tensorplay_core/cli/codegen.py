"""``tensorplay codegen``: the generated files of a source tree, brought up to date or compared with the contract."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorplay_core.cli.common import Command, console, json_option, paragraph, plural, print_json, usage_error
from tensorplay_core.cli.waiting import Waiting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from tensorplay_core.codegen.context import CodegenContext
    from tensorplay_core.codegen.generate import Result
    from tensorplay_core.codegen.report import Report
    from tensorplay_core.codegen.stamp import Stamp

_Place = click.Path(path_type=Path)


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Write nothing; print the differences, and exit with 1 if there are any.")
@click.option("--targets", help="Only these targets, with commas between. Without it, all of them.")
@click.option("--report", is_flag=True, help="Also list files, skipped variants, handwritten functions, and gradients.")
@click.option(
    "--contract", "contracts", multiple=True, type=_Place,
    help="A plugin's contract: native_functions*.yaml, or a folder of such files. Give it several times for several.",
)  # fmt: skip
@click.option("--out", type=_Place, help="The plugin's package, which gets the generated files.")
@click.option("--package", help="The package's dotted name, where the __init__.py files around --out do not tell it.")
@click.option("--docs", type=_Place, help="Also write pages about the plugin's operators to this folder.")
@json_option
def codegen(
    check: bool,
    targets: str | None,
    report: bool,
    contracts: tuple[Path, ...],
    out: Path | None,
    package: str | None,
    docs: Path | None,
    as_json: bool,
) -> None:
    """Bring the generated files up to date.

    They are made from the contract, in tensorplay_core/config, and lie in tensorplay_core/ops of the source tree; or,
    with --contract and --out, from a plugin's contract, and lie in its package.
    """
    from tensorplay_core.codegen import report as reports
    from tensorplay_core.codegen.generate import TARGETS, generate
    from tensorplay_core.codegen.stamp import digest_of
    from tensorplay_core.errors import did_you_mean

    chosen = tuple(name.strip() for name in targets.split(",") if name.strip()) if targets is not None else TARGETS
    for name in chosen or ("",):
        if name not in TARGETS:
            usage_error(f"there is no target {name!r}.{did_you_mean(name, TARGETS)} Targets: {', '.join(TARGETS)}.")
    _check_options(contracts, out, package, docs)
    stamp = _stamp(contracts, out, package, docs) if targets is None else None
    if stamp is not None and not report and not as_json and (count := stamp.is_known()) is not None:
        click.echo(_said(check, (0, 0, count)))
        return
    with Bar() as bar:
        context = _context(contracts, out, package, docs)
        result = generate(context, chosen, check=check, progress=bar)
    if stamp is not None and (result.clean or not check):
        stamp.keep(digest_of((str(path.resolve()), text.encode()) for path, text in result.files.items()))
    found = reports.report(context) if report or as_json else None
    if as_json:
        print_json(_plain(context, result, found, check, chosen))
    else:
        for diff in result.diffs:
            click.echo(diff, nl=not diff.endswith("\n"))
        if found is not None:
            _print_report(result, found, check)
        counts = (len(result.written), len(result.removed), len(result.unchanged))
        click.echo(_said(check, counts, _command(contracts, out, package, docs)))
    if check and not result.clean:
        click.get_current_context().exit(1)


def _check_options(contracts: tuple[Path, ...], out: Path | None, package: str | None, docs: Path | None) -> None:
    if contracts and out is None:
        usage_error("a plugin's contract needs --out, the folder of its package")
    for option, value in (("--out", out), ("--package", package), ("--docs", docs)):
        if value is not None and not contracts:
            usage_error(f"{option} says where a plugin's files go; give its contract too, with --contract")


def _stamp(contracts: tuple[Path, ...], out: Path | None, package: str | None, docs: Path | None) -> Stamp:
    """Returns what tells whether a whole run would find everything as it should be."""
    from tensorplay_core.codegen.context import own_folders
    from tensorplay_core.codegen.plugin import folders_of
    from tensorplay_core.codegen.stamp import Stamp

    if out is None:
        return Stamp((), own_folders())
    return Stamp(contracts, folders_of(out, docs), (package, _keys()))


def _keys() -> list[str]:
    """Returns every dispatch key, those of the devices of installed backends too."""
    from tensorplay_core.dispatch.keys import valid_names
    from tensorplay_core.plugins import public

    public.list(load=False)
    return list(valid_names())


def _context(contracts: tuple[Path, ...], out: Path | None, package: str | None, docs: Path | None) -> CodegenContext:
    """Returns what to generate from and where to: our own contract, or a plugin's."""
    from tensorplay_core.codegen.context import CodegenContext
    from tensorplay_core.codegen.plugin import load_plugin

    if out is None:
        return CodegenContext.load()
    return load_plugin(contracts, out, package=package, docs=docs, dispatch_keys=_keys())


def _plain(
    context: CodegenContext, result: Result, found: Report | None, check: bool, targets: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "clean": result.clean, "checked_only": check, "out": str(context.out), "targets": list(targets),
        "written": list(result.written), "removed": list(result.removed), "unchanged": list(result.unchanged),
        "diffs": list(result.diffs), "files": {name: list(files) for name, files in result.targets.items()},
        "report": found.as_json() if found is not None else None,
    }  # fmt: skip


def _print_report(result: Result, found: Report, check: bool) -> None:
    out = console()
    _heading(out, "Targets")
    for target, files in result.targets.items():
        _entry(out, target, ", ".join(files) or "nothing to write", 16)
    for title, names in (("To write" if check else "Written", result.written), ("Removed", result.removed)):
        if names:
            _heading(out, title)
            paragraph(out, ", ".join(names), 2)
    _heading(out, f"Skipped variants: {len(found.skipped) or 'none'}")
    for skipped in found.skipped:
        _entry(out, skipped.name, f"{skipped.variant} of {skipped.operator}: {skipped.reason}", 24)
    _heading(out, f"Written by hand: {len(found.handwritten) or 'none'}")
    for file in dict.fromkeys(found.handwritten.values()):
        _entry(out, file, ", ".join(name for name, where in found.handwritten.items() if where == file), 24)
    out.print()
    _print_gradients(out, found)
    out.print()


def _print_gradients(out: Console, found: Report) -> None:
    out.print(f"Gradients of {plural(found.operators, 'operator')}", style="bold")
    counts = [("written", found.written), ("symbolic", found.symbolic), ("without", len(found.without))]
    for label, count in counts:
        _entry(out, label, str(count), 16)
    by_reason: dict[str, list[str]] = {}
    for operator in found.without:
        by_reason.setdefault(operator.reason.partition(" at ")[0], []).append(operator.operator)
    raising = {operator.reason for operator in found.without if not operator.declared}
    for reason, names in sorted(by_reason.items(), key=lambda item: item[0] in raising):
        out.print()
        paragraph(out, f"{reason}:", 2, "yellow" if reason in raising else "")
        paragraph(out, ", ".join(names), 4)


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(text, style="bold", markup=False)


def _entry(out: Console, label: str, text: str, margin: int) -> None:
    """Prints a label and a text beside it that folds; a long label has a line of its own."""
    lines = _folded(text, max(out.width - margin - 2, 20))
    first = f"  {label.ljust(margin)}" if len(label) < margin else f"  {label}\n  {' ' * margin}"
    out.print((first + lines[0]).rstrip(), markup=False, soft_wrap=True)
    for line in lines[1:]:
        out.print(" " * (margin + 2) + line, markup=False, soft_wrap=True)


def _folded(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _command(contracts: tuple[Path, ...], out: Path | None, package: str | None, docs: Path | None) -> str:
    """Returns the command that writes what was asked about."""
    options = [
        *(("--contract", place) for place in contracts),
        ("--out", out),
        ("--package", package),
        ("--docs", docs),
    ]
    return shlex.join(["tensorplay", "codegen", *(str(x) for option in options if option[1] for x in option)])


def _said(check: bool, counts: tuple[int, int, int], command: str = "tensorplay codegen") -> str:
    written, removed, unchanged = counts
    if not written and not removed:
        return f"codegen: {plural(unchanged, 'file')} as the contract says, nothing to do"
    parts = [f"{plural(written, 'file')} to write" if check else f"wrote {plural(written, 'file')}"] if written else []
    parts += [f"{plural(removed, 'file')} to remove" if check else f"removed {removed}"] if removed else []
    hint = f". Bring them up to date: {command}" if check else ""
    return f"codegen: {', '.join(parts)}, {unchanged} unchanged{hint}"


class Bar(Waiting):
    """Tells how far a run is."""

    patience = 2.0

    def __init__(self) -> None:
        """Waits."""
        super().__init__()
        self._state = ("the contract", 0, 1)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Tells which target is at work, how many are done, and how many there are."""
        self._state = (what, done, total)
        self.changed()

    def columns(self) -> tuple[Any, ...]:
        """The target, a bar, and the numbers."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

        return TextColumn("codegen: {task.description}"), BarColumn(), MofNCompleteColumn()

    def update(self, progress: Progress, task: Any) -> None:
        """Moves the bar."""
        what, done, total = self._state
        progress.update(task, description=what, completed=done, total=total)
