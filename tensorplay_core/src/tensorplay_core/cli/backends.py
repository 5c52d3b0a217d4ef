"""``tensorplay backends``: which backends are installed, whether they work here, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tensorplay_core.cli.check import check
from tensorplay_core.cli.common import Group, console, json_option, paragraph, plural, print_json, readable, usage_error
from tensorplay_core.cli.doctor import doctor
from tensorplay_core.cli.loading import Loading, timeout_option
from tensorplay_core.cli.namespace import backend_of, namespace_option
from tensorplay_core.cli.new import new

if TYPE_CHECKING:
    from rich.console import Console

    from tensorplay_core.plugins.records import BackendRecord

STYLES = {"active": "green", "error": "red", "incompatible": "red", "unavailable": "yellow", "blocked": "yellow"}
STATE = max(map(len, STYLES))
NAME = 10
"""Cells for the names of backends; longer ones widen the column up to ``WIDEST_NAME``, and beyond that stand alone."""
WIDEST_NAME = 20
WIDEST_LABEL = 40
MISSING = 8
"""How many operators without a kernel the list names."""


@click.group(cls=Group)
def backends() -> None:
    """See the installed backends."""


@backends.command("list")
@json_option
@click.option("--no-load", is_flag=True, help="Only describe them: run no backend's code.")
@timeout_option
def list_(as_json: bool, no_load: bool, timeout: float) -> None:
    """List every installed backend: state, reason, operators.

    A backend that cannot be used is a fact about the machine and not a fault of the list: the exit code is 0.
    """
    rows = [described(record) for record in tried(not no_load, timeout)]
    if as_json:
        print_json(rows)
        return
    out = console()
    columns = Columns.of(out, rows)
    for i, row in enumerate(rows):
        if i:
            out.print()
        print_row(out, row, columns)
    if not rows:
        from tensorplay_core.plugins.records import install_hint

        paragraph(out, f"No backend is installed.\nfix: {install_hint('cpu')}")


@backends.command("info")
@click.argument("name", required=False)
@namespace_option
@json_option
@click.option("--no-load", is_flag=True, help="Only describe it: run no backend's code.")
@timeout_option
def info(name: str | None, namespace: str | None, as_json: bool, no_load: bool, timeout: float) -> None:
    """Say everything about one backend, or about a module's device."""
    from tensorplay_core.errors import BackendError, DeviceUnavailable
    from tensorplay_core.plugins import public

    name = backend_of(name, namespace)
    try:
        public.info(name)
    except (BackendError, DeviceUnavailable) as error:  # no such backend; a bad variable is another matter
        usage_error(str(error))
    record = next(known for known in tried(not no_load, timeout) if known.name == name)
    row = described(record)
    if as_json:
        print_json(row)
        return
    out = console()
    columns = Columns.of(out, [row])
    print_row(out, row, columns, whole=True)
    lines = [
        ("summary", row["summary"]), ("module", row["module"]), ("url", row["url"]), ("plugin API", row["api"]),
        ("priority", str(row["priority"])), ("extends", ", ".join(row["extends"])),
        ("requires", "; ".join(row["requirements"])), ("in place", "yes" if row["mutable"] else "no"),
        ("views", "yes" if row["views"] else "no"), ("failed at", row["stage"]),
    ]  # fmt: skip
    for what, text in lines:
        if text:
            paragraph(out, f"{what}: {text}", columns.state)
    if row["traceback"]:
        out.print()
        paragraph(out, row["traceback"].rstrip(), 0, "dim")


backends.add_command(doctor)
backends.add_command(check)
backends.add_command(new)


def tried(load: bool, timeout: float) -> list[BackendRecord]:
    """Returns every backend, tried unless that is not wanted; says on stderr what takes long."""
    import tensorplay_core.ops.load  # noqa: F401  the operators that kernels are counted against
    from tensorplay_core.plugins import public

    with Loading() as loading:
        return public.list(load=load, timeout=timeout, started=loading)


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
    opted_out = {}
    for op in REGISTRY.operators.values():
        if op.functional is None:
            if key in op.without_composite:
                opted_out[op.display_name] = op.opted_out_by(key)
            slot = at_key(op, key).slot
            kind = "missing" if slot is None else "composite" if slot == DispatchKey.Composite else "specialised"
            counted[kind].append(op.display_name)
    counts = {kind: len(names) for kind, names in counted.items()}
    return {**counts, "missing_names": counted["missing"], "opted_out_of_composite": opted_out}


class Columns(NamedTuple):
    """Where the columns of a list begin: the state, the distribution, and the facts (0: below, on their own line)."""

    state: int
    label: int
    facts: int

    @classmethod
    def of(cls, out: Console, rows: list[dict[str, Any]]) -> Columns:
        """Returns columns in which all rows have room, but for names and labels that are too long for any."""
        names = [len(row["name"]) for row in rows if len(row["name"]) <= WIDEST_NAME]
        labels = [len(label(row)) for row in rows if len(label(row)) <= WIDEST_LABEL]
        state = max([*names, NAME]) + 2
        second = state + STATE + 1
        third = second + max([*labels, 0]) + 3
        fits = third + max([len(facts(row)) for row in rows], default=0) <= out.width
        return cls(state, second, third if fits else 0)


def print_row(out: Console, row: dict[str, Any], columns: Columns, *, whole: bool = False) -> None:
    """Prints a backend for a person; ``whole`` names all operators without a kernel."""
    beside = columns.facts and len(label(row)) < columns.facts - columns.label
    head(out, row, columns, facts(row) if beside else "")
    lines = [row["reason"], row["fix"] and f"fix: {row['fix']}", *(f"note: {note}" for note in row["notes"])]
    lines.append("" if beside else facts(row))
    if row["operators"] is not None:
        lines.append(served(row["operators"], None if whole else MISSING))
    for text in filter(None, lines):
        paragraph(out, text, columns.state)


def head(out: Console, row: dict[str, Any], columns: Columns, last: str) -> None:
    """Prints name, state, distribution and what comes last on one line; what is too long for it stands alone."""
    from rich.text import Text

    name, second = readable(out, row["name"]), readable(out, label(row))
    if len(name) > columns.state - 2:  # alone, so that the states below each other stay there
        paragraph(out, name, 0, "bold")
        name = ""
    line = Text(name.ljust(columns.state), "bold")
    line.append(row["state"].ljust(columns.label - columns.state), f"not bold {STYLES.get(row['state'], '')}")
    if columns.label + len(second) <= out.width:
        line.append(second.ljust(columns.facts - columns.label), "not bold").append(last, "not bold")
        second = ""
    line.rstrip()
    out.print(line, soft_wrap=True)
    if second:
        paragraph(out, second, columns.state)


def served(found: dict[str, Any], shown: int | None) -> str:
    """Returns how operators are served on a device, and the names of those that are not: all, or the first ones."""
    names = found["missing_names"][:shown]
    more = f" and {found['missing'] - len(names)} more" if len(names) < found["missing"] else ""
    listed = f": {', '.join(names)}{more}" if names else ""
    served = f"operators: {found['specialised']} specialised, {found['composite']} through Composite"
    out = ", ".join(f"{name} by {who}" for name, who in found["opted_out_of_composite"].items())
    return f"{served}, {found['missing']} missing{listed}" + f"; opted out of Composite: {out}" * bool(out)


def label(row: dict[str, Any]) -> str:
    """Returns the distribution with its version."""
    return f"{row['distribution']} {row['version']}"


def facts(row: dict[str, Any]) -> str:
    """Returns device count, page, kernels and load time in one line."""
    parts = []
    if row["devices"]:
        if row["state"] == "active":
            parts.append(plural(row["device_count"], "device"))
        if row["page"] is not None:
            parts.append(f"keys on page {row['page']}")
    else:
        devices = "every device" if "*" in row["extends"] or not row["extends"] else ", ".join(row["extends"])
        parts.append(f"extends {devices}")
    if row["state"] == "active":
        parts.append(plural(row["registrations"], "kernel"))
    seconds = row["load_seconds"]
    parts.append(
        "not loaded" if seconds is None else f"{'loaded' * (row['state'] == 'active') or 'tried'} in {seconds:.2f} s"
    )
    return ", ".join(parts)
