"""``tensorplay codegen``: the generated files of a source tree, brought up to date or compared with the contract."""

from __future__ import annotations

import click

from tensorplay_core.cli.common import Command, json_option, plural, print_json, usage_error


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Write nothing; print the differences, and exit with 1 if there are any.")
@click.option("--targets", help="Only these targets, with commas between. Without it, all of them.")
@click.option("--report", is_flag=True, help="Also list the files, and the functions that are written by hand.")
@json_option
def codegen(check: bool, targets: str | None, report: bool, as_json: bool) -> None:
    """Bring the generated files up to date.

    They are made from the contract, in tensorplay_core/config, and lie in tensorplay_core/ops of the source tree.
    """
    from tensorplay_core.codegen.context import CodegenContext
    from tensorplay_core.codegen.generate import TARGETS, generate
    from tensorplay_core.errors import did_you_mean

    chosen = tuple(name.strip() for name in targets.split(",") if name.strip()) if targets is not None else TARGETS
    for name in chosen or ("",):
        if name not in TARGETS:
            usage_error(f"there is no target {name!r}.{did_you_mean(name, TARGETS)} Targets: {', '.join(TARGETS)}.")
    context = CodegenContext.load()
    result = generate(context, chosen, check=check)
    finding = check and not result.clean
    if as_json:
        print_json({
            "clean": result.clean, "checked_only": check, "out": str(context.out), "targets": list(chosen),
            "written": list(result.written), "removed": list(result.removed), "unchanged": list(result.unchanged),
            "diffs": list(result.diffs), "handwritten": list(result.handwritten),
        })  # fmt: skip
    else:
        for diff in result.diffs:
            click.echo(diff, nl=not diff.endswith("\n"))
        if report:
            for kind, names in (
                ("to write" if check else "wrote", result.written),
                ("to remove" if check else "removed", result.removed),
                ("as it should be", result.unchanged),
                ("written by hand", result.handwritten),
            ):
                for name in names:
                    click.echo(f"{kind}: {name}")
        click.echo(_said(check, len(result.written), len(result.removed), len(result.unchanged)))
    if finding:
        click.get_current_context().exit(1)


def _said(check: bool, written: int, removed: int, unchanged: int) -> str:
    if not written and not removed:
        return f"codegen: {plural(unchanged, 'file')} as the contract says, nothing to do"
    parts = [f"{plural(written, 'file')} to write" if check else f"wrote {plural(written, 'file')}"] if written else []
    parts += [f"{plural(removed, 'file')} to remove" if check else f"removed {removed}"] if removed else []
    hint = ". Bring them up to date: tensorplay codegen" if check else ""
    return f"codegen: {', '.join(parts)}, {unchanged} unchanged{hint}"
