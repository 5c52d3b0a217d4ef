"""``tensorplay backends``: which backends are installed, whether they work here, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorplay_core.cli.common import Group, console, json_option, paragraph, plural, print_json, usage_error

if TYPE_CHECKING:
    from tensorplay_core.plugins.records import BackendRecord

STYLES = {"active": "green", "error": "red", "incompatible": "red", "unavailable": "yellow", "blocked": "yellow"}
MARGIN = 12


@click.group(cls=Group)
def backends() -> None:
    """See the installed backends."""


@backends.command("list")
@json_option
@click.option("--no-load", is_flag=True, help="Only describe them: run no backend's code.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Seconds for each.")
def list_(as_json: bool, no_load: bool, timeout: float) -> None:
    """List every installed backend: state, reason, operators.

    A backend that cannot be used is a fact about the machine and not a fault of the list: the exit code is 0.
    """
    import tensorplay_core.ops.load  # noqa: F401  the operators that kernels are counted against
    from tensorplay_core.plugins import public

    records = public.list(load=not no_load, timeout=timeout)
    rows = [described(record) for record in records]
    if as_json:
        print_json(rows)
        return
    out = console()
    for i, row in enumerate(rows):
        if i:
            out.print()
        print_row(out, row)
    if not rows:
        out.print("No backend is installed. fix: pip install tensorplay-cpu", markup=False)


@backends.command("info")
@click.argument("name")
@json_option
@click.option("--no-load", is_flag=True, help="Only describe it: run none of its code.")
def info(name: str, as_json: bool, no_load: bool) -> None:
    """Say everything about one backend."""
    import tensorplay_core.ops.load  # noqa: F401
    from tensorplay_core.errors import TensorPlayError
    from tensorplay_core.plugins import public

    try:
        record = public.info(name)
    except TensorPlayError as error:
        if any(known.name == name for known in public.list(load=False)):
            raise
        usage_error(str(error))
    if not no_load:
        record = next(known for known in public.list() if known.name == name)
    row = described(record)
    if as_json:
        print_json(row)
        return
    out = console()
    print_row(out, row)
    lines = [
        ("summary", row["summary"]), ("module", row["module"]), ("url", row["url"]), ("plugin API", row["api"]),
        ("priority", str(row["priority"])), ("extends", ", ".join(row["extends"])),
        ("requires", "; ".join(row["requirements"])), ("in place", "yes" if row["mutable"] else "no"),
        ("views", "yes" if row["views"] else "no"), ("failed at", row["stage"]),
        *(("note", note) for note in row["notes"]),
    ]  # fmt: skip
    for label, text in lines:
        if text:
            paragraph(out, f"{label}: {text}", MARGIN)
    if row["traceback"]:
        out.print()
        paragraph(out, row["traceback"].rstrip(), 0, "dim")


def described(record: BackendRecord) -> dict[str, Any]:
    """Returns a record as plain values, with its page and how operators are served on its device."""
    from tensorplay_core.dispatch.keys import PAGE, backend_key

    row = record.as_dict()
    row["page"] = row["operators"] = None
    if record.owns_device and record.stage != "describe":
        key = backend_key(record.name)
        row["page"] = key // PAGE
        row["operators"] = coverage(key) if record.active else None
    return row


def coverage(key: int) -> dict[str, Any]:
    """Counts how operators are served at a backend key; in-place variants go with the operator they are a form of."""
    from tensorplay_core.dispatch.keys import DispatchKey
    from tensorplay_core.dispatch.registry import REGISTRY
    from tensorplay_core.dispatch.resolution import at_key

    counted: dict[str, list[str]] = {"specialised": [], "composite": [], "missing": []}
    for op in REGISTRY.operators.values():
        if op.functional is None:
            slot = at_key(op, key).slot
            kind = "missing" if slot is None else "composite" if slot == DispatchKey.Composite else "specialised"
            counted[kind].append(op.display_name)
    return {**{kind: len(names) for kind, names in counted.items()}, "missing_names": counted["missing"]}


def print_row(out: Any, row: dict[str, Any]) -> None:
    """Prints a backend for a person."""
    from rich.text import Text

    label = f"{row['distribution']} {row['version']}"
    head = Text(overflow="fold")
    head.append(f"{row['name']:<{MARGIN - 1}} ", "bold").append(f"{row['state']:<12} ", STYLES.get(row["state"], ""))
    out.print(head.append(label))
    for text in filter(None, (row["reason"], row["fix"] and f"fix: {row['fix']}")):
        paragraph(out, text, MARGIN)
    paragraph(out, facts(row), MARGIN)
    if row["operators"] is not None:
        found = row["operators"]
        text = f"operators: {found['specialised']} specialised, {found['composite']} through Composite"
        missing = found["missing_names"]
        names = f": {', '.join(missing[:8])}{' …' * (len(missing) > 8)}" if missing else ""
        paragraph(out, f"{text}, {found['missing']} missing{names}", MARGIN)


def facts(row: dict[str, Any]) -> str:
    """Returns device count, page, kernels and load time in one line."""
    parts = []
    if row["devices"]:
        if row["state"] == "active":
            parts.append(plural(row["device_count"], "device"))
        if row["page"] is not None:
            parts.append(f"keys on page {row['page']}")
    else:
        devices = "every device" if "*" in row["extends"] else ", ".join(row["extends"])
        parts.append(f"extends {devices}")
    if row["state"] == "active":
        parts.append(plural(row["registrations"], "kernel"))
    seconds = row["load_seconds"]
    parts.append(
        "not loaded" if seconds is None else f"{'loaded' * (row['state'] == 'active') or 'tried'} in {seconds:.2f} s"
    )
    return ", ".join(parts)
