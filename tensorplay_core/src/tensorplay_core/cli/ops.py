"""``tensorplay ops``: the operators, their tables, and the keys that tables are indexed by."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import click

from tensorplay_core.cli.common import Group, console, json_option, paragraph, plural, print_json, usage_error

if TYPE_CHECKING:
    from rich.console import Console

    from tensorplay_core.dispatch.operator import Operator


@click.group(cls=Group)
def ops() -> None:
    """See the operators and the dispatch keys."""


@ops.command("list")
@json_option
@click.option("--tag", help="Only operators with this tag, such as core or pointwise.")
def list_(as_json: bool, tag: str | None) -> None:
    """List every operator with its signature."""
    from tensorplay_core.errors import did_you_mean

    operators = _operators()
    tags = sorted({one for op in operators for one in op.tags})
    if tag is not None and tag not in tags:
        usage_error(f"there is no tag {tag!r}.{did_you_mean(tag, tags)} Tags: {', '.join(tags)}.")
    chosen = [op for op in operators if tag is None or tag in op.tags]
    if as_json:
        print_json([summary(op) for op in chosen])
        return
    out = console()
    for op in chosen:
        if op.functional is None:
            variant = "  in place: " + op.display_name.replace(op.name, f"{op.name}_", 1) if _has_inplace(op) else ""
            paragraph(out, f"{op.schema}{variant}", 0)
    forms = sum(op.functional is not None for op in chosen)
    counts = f"{plural(len(chosen) - forms, 'operator')}, {plural(forms, 'in-place form')}"
    paragraph(out, f"{counts}; one in full: tensorplay ops show NAME")


@ops.command("show")
@click.argument("name")
@json_option
@click.option("--no-load", is_flag=True, help="Load no backend: show only what is registered already.")
def show(name: str, as_json: bool, no_load: bool) -> None:
    """Show one operator in full.

    Its signature and rules, its gradients, and who registered which kernel, with file and line.

    NAME is such as add, max.dim, add_, tp::add or mine::op; without an overload, all overloads are shown.
    """
    from tensorplay_core.errors import did_you_mean
    from tensorplay_core.plugins import public

    found = [op for op in _operators() if _is_called(op, name)]
    if not found:
        names = [op.display_name for op in _operators()]
        usage_error(f"there is no operator {name!r}.{did_you_mean(name, names)} All of them: tensorplay ops list.")
    if not no_load:
        public.list()
    shown = [in_full(op) for op in found]
    if as_json:
        print_json(shown[0] if len(shown) == 1 else shown)
        return
    for i, op in enumerate(shown):
        if i:
            console().print()
        _print(op)


@ops.command("keys")
@json_option
def keys(as_json: bool) -> None:
    """Print the dispatch keys, and the pages in use."""
    from tensorplay_core.dispatch.keys import PAGE, pages
    from tensorplay_core.plugins import public

    public.list(load=False)  # a device has its page from discovery on
    rows = key_table()
    found: list[dict[str, Any]] = [
        {"device": device, "page": page, "keys": {name: PAGE * page + step for name, step in page_keys(device)}}
        for device, page in pages().items()
    ]
    if as_json:
        print_json({"keys": all_keys(), "table": [{"keys": k, "values": v} for k, v in rows], "pages": found})
        return
    out = console()
    width = max(len(names) for names, _ in rows)
    for names, values in (("keys", "values"), ("-" * width, "------"), *rows):
        out.print(f"{names:<{width}}  {values}", markup=False)
    out.print()
    paragraph(out, f"Any other device has a page: on page p the key of step s is {PAGE} * p + s.", 0)
    for row in found:
        listed = ", ".join(f"{name} {number}" for name, number in row["keys"].items())
        paragraph(out, f"page {row['page']}, {row['device']}: {listed}", 0)
    if not found:
        out.print("No page is in use.")


# ------------------------------------------------------------------------------------------------------------- the keys


def key_table() -> list[tuple[str, str]]:
    """Returns the keys of page 0 in groups, with their numbers."""
    from tensorplay_core.dispatch.keys import BACKENDS, OFFSETS, DispatchKey

    by_number = {int(key): key.name for key in DispatchKey}
    end = int(DispatchKey.EndOfKeys)
    rows = [(", ".join(by_number[i] for i in range(BACKENDS)), f"0–{BACKENDS - 1}")]
    rows += [(by_number[key], str(key)) for key in (DispatchKey.Python, DispatchKey.DynamicLayerBackMode)]
    for offset in OFFSETS.values():
        last = offset + BACKENDS - 1
        rows.append((f"{by_number[offset]} … {by_number[last]}", f"{offset}–{last} (backend + {offset})"))
    rows.append(("Composite", f"{int(DispatchKey.Composite)} (a table slot, never a member of a key set)"))
    modes = (DispatchKey.VmapMode, DispatchKey.DynamicLayerFrontMode)
    rows.append((", ".join(by_number[key] for key in modes), ", ".join(str(int(key)) for key in modes)))
    rows.append((by_number[end], str(end)))
    return rows


def all_keys() -> list[dict[str, Any]]:
    """Returns every key of page 0 with its number and family."""
    from tensorplay_core.dispatch.keys import DispatchKey, family_of

    return [{"name": key.name, "value": int(key), "family": family_of(int(key))} for key in DispatchKey]


def page_keys(device: str) -> list[tuple[str, int]]:
    """Returns the names and steps of a page's keys."""
    from tensorplay_core.dispatch.keys import OFFSETS, PAGE, DispatchKey, backend_key, key_name

    base = backend_key(device)
    steps = [0, int(DispatchKey.Sparse), *OFFSETS.values()]
    return [(key_name(PAGE * (base // PAGE) + step), step) for step in steps]


# -------------------------------------------------------------------------------------------------------- the operators


def _operators() -> list[Operator]:
    import tensorplay_core.autocast  # the operators, and what autocast
    import tensorplay_core.vmap  # noqa: F401  and vmap do to them
    from tensorplay_core.dispatch.registry import REGISTRY

    return sorted(
        REGISTRY.operators.values(), key=lambda op: (op.namespace != "tp", op.namespace, op.name, op.overload)
    )


def _is_called(op: Operator, name: str) -> bool:
    qualified = name.removeprefix("tp.") if "::" in name else f"tp::{name.removeprefix('tp.')}"
    return qualified in (op.qualified_name, f"{op.namespace}::{op.name}")


def _has_inplace(op: Operator) -> bool:
    from tensorplay_core.dispatch.registry import REGISTRY

    overload = f".{op.overload}" if op.overload else ""
    other = REGISTRY.operators.get(f"{op.namespace}::{op.name}_{overload}")
    return other is not None and other.functional is op


def summary(op: Operator) -> dict[str, Any]:
    """Returns what the list says of an operator."""
    return {
        "name": op.display_name, "qualified_name": op.qualified_name, "schema": str(op.schema), "tags": list(op.tags),
        "composite": op.composite, "promote": op.promote, "shape": op.shape, "autocast": op.autocast,
        "in_place_form_of": op.functional.display_name if op.functional is not None else None,
    }  # fmt: skip


def in_full(op: Operator) -> dict[str, Any]:
    """Returns everything that is known of an operator, as plain values."""
    from tensorplay_core.dispatch.keys import slot_name

    code = getattr(op.function, "__code__", None)
    return {
        **summary(op),
        "doc": _doc(op),
        "formula": _formula(op),
        "gradients": _gradients(op),
        "symbolic": _is_symbolic(op),
        "forward": _forward(op),
        "promises": {key: list(kernels) for key, kernels in op.promises.items()},
        "defined_at": op.where or None,
        "function": f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None,
        "fast_path": op.fast,
        "generation": op.generation,
        "slots": [slot for key in sorted(op.table, key=_slot_order) for slot in _slot(op, key)],
        "opted_out_of_composite": [
            {
                "slot": slot_name(one.key), "key": one.key, "owner": one.owner, "distribution": one.distribution,
                "version": _version(one.distribution), "where": one.where,
            }
            for key in sorted(op.without_composite) for one in op.without_composite[key]
        ],
    }  # fmt: skip


def _slot_order(key: int | str) -> tuple[int, int | str]:
    """Sorts slots as a call meets them: the layers, then the backends, then Composite."""
    from tensorplay_core.dispatch.keys import BACKENDS, PAGE, DispatchKey

    if isinstance(key, str):
        return 0, key
    return (3 if key == DispatchKey.Composite else 2 if key % PAGE < BACKENDS else 1), key


def _slot(op: Operator, key: int | str) -> list[dict[str, Any]]:
    from tensorplay_core.dispatch.keys import slot_name
    from tensorplay_core.ops.explain_road import kernel_label

    return [
        {
            "slot": slot_name(key), "key": key if isinstance(key, int) else None, "active": place == 0, "place": place,
            "kernel": r.kernel_name, "label": kernel_label(r), "owner": r.owner, "distribution": r.distribution,
            "version": None if r.run_time else _version(r.distribution), "where": r.where, "level": r.level,
            "override": r.override, "run_time": r.run_time, "priority": r.priority, "unchecked": r.unchecked,
            "number": r.number,
        }
        for place, r in enumerate(op.table[key])
    ]  # fmt: skip


def _version(distribution: str) -> str | None:
    """Returns the version of an installed distribution; None where it has no metadata, or names none."""
    from importlib import metadata

    from tensorplay_core.plugins.lifecycle import MANAGER

    for record in MANAGER.records():
        if record.info.distribution == distribution:
            return None if record.info.version == "unknown" else record.info.version
    try:
        return metadata.version(distribution) or None
    except Exception:  # somebody else's broken installation must not hide the table
        return None


def _doc(op: Operator) -> str:
    """Returns the contract's sentence from the function's docstring, whose first line is the signature."""
    text = inspect.getdoc(op.function) or ""
    paragraphs = text.split("\n\n")
    start = 1 if re.match(r"[\w.]+\(", paragraphs[0]) else 0
    return " ".join(paragraphs[start].split()) if len(paragraphs) > start else ""


def _formula(op: Operator) -> str | None:
    """Returns what a pointwise operator computes: as its docstring has it, or else step by step."""
    source = op.functional if op.functional is not None else op
    if source.math is None:
        return None
    written = re.search(r"^Formula:\n((?:    .*\n?)+)", inspect.getdoc(source.function) or "", re.M)
    return " ".join(written[1].split()) if written else "; ".join(str(source.math).splitlines())


def _is_symbolic(op: Operator) -> bool:
    """Whether nobody wrote the gradients: the generator found them from the operator's formula."""
    node = (op.functional or op).node
    return node is not None and ", found from its formula" in (node.__doc__ or "").partition("\n")[0]


def _gradients(op: Operator) -> list[str]:
    """Returns the derivative formulas, which the generator wrote into the docstring of the node class."""
    source = op.functional if op.functional is not None else op
    registered = op.kernel_at("Autograd")
    node = source.node or getattr(registered.function if registered is not None else None, "node", None)
    if node is None:
        return []
    found: list[str] = []
    for line in (inspect.getdoc(node) or "").splitlines()[1:]:
        if re.match(r"[\w, ]+: ", line):
            found.append(line)
        elif found and line.startswith("    "):  # a long formula goes on
            found[-1] += f" {line.strip()}"
    if source.node is None:  # registered at run time: each line ends with its file and line
        from tensorplay_core.ops.explain_road import short_location

        found = [re.sub(r"\(([^()]+:\d+)\)$", lambda m: f"({short_location(m[1])})", line) for line in found]
    return found


def _forward(op: Operator) -> dict[str, str] | None:
    """Returns where the operator's tangents come from in forward mode."""
    from tensorplay_core.ops.forward_rules import described

    found = described(op)
    return {"kind": found[0], "rule": found[1]} if found is not None else None


def _print(op: dict[str, Any]) -> None:
    from tensorplay_core.ops.explain_road import short_location

    out = console()
    paragraph(out, op["schema"], 0, "bold")
    if op["doc"]:
        paragraph(out, op["doc"], 0)
    out.print()
    rules = [
        ("namespace", op["qualified_name"].partition("::")[0]), ("formula", op["formula"]),
        ("shape", op["shape"]), ("promote", op["promote"]),
        ("autocast", op["autocast"]), ("composite", op["composite"]), ("tags", ", ".join(op["tags"])),
        ("in place of", op["in_place_form_of"]), ("defined", op["defined_at"] and short_location(op["defined_at"])),
        ("function", op["function"] and short_location(op["function"])),
        ("fast path", "yes" if op["fast_path"] else "no"),
        ("promised", ", ".join(f"{key}: {', '.join(kernels)}" for key, kernels in op["promises"].items())),
    ]  # fmt: skip
    for label, text in rules:
        if text:
            paragraph(out, f"{label + ':':<13}{text}", 2)
    out.print()
    found = ", found from the formula" * op["symbolic"]
    out.print(f"gradients{found}" if op["gradients"] else "gradients: none recorded by a formula", style="bold")
    for line in op["gradients"]:
        paragraph(out, line, 2)
    if op["forward"]:
        paragraph(out, f"tangents, {op['forward']['kind']}: {op['forward']['rule']}", 2)
    out.print()
    out.print("kernels", style="bold")
    for slot in op["slots"]:
        _print_slot(out, slot, several=slot["place"] > 0 or _is_overriding(op["slots"], slot))
    for one in op["opted_out_of_composite"]:
        paragraph(out, f"{one['slot']} ({one['key']}): opted out of Composite by {_from(one)}", 2)
        paragraph(out, short_location(one["where"]), 6, "dim")
    if not op["slots"] and not op["opted_out_of_composite"]:
        paragraph(out, "none is registered", 2)


def _is_overriding(slots: list[dict[str, Any]], slot: dict[str, Any]) -> bool:
    """Whether there is a kernel beneath the one on top of a slot."""
    return any(other["slot"] == slot["slot"] and other["place"] for other in slots)


def _print_slot(out: Console, slot: dict[str, Any], *, several: bool) -> None:
    """Prints a kernel: the one on top of a slot at the margin, what lies beneath it one step in, in their order."""
    from tensorplay_core.ops.explain_road import short_location

    beneath = slot["place"] > 0
    marks = ["wins"] * (several and not beneath) + ["override"] * slot["override"]
    marks += ["registered at run time"] * slot["run_time"] + [f"priority {slot['priority']}"] * bool(slot["priority"])
    marks += ["signature unchecked"] * slot["unchecked"] + ["takes tensors"] * _takes_tensors(slot)
    number = f" ({slot['key']})" if slot["key"] is not None else ""
    head = "beneath it: " if beneath else f"{slot['slot']}{number}: "
    extra = f" [{', '.join(marks)}]" if marks else ""
    paragraph(out, f"{head}{slot['label']} from {_from(slot)}{extra}", 6 if beneath else 2)
    paragraph(out, short_location(slot["where"]), 10 if beneath else 6, "dim")


def _from(row: dict[str, Any]) -> str:
    return f"{row['distribution']} {row['version']}" if row["version"] else str(row["distribution"])


def _takes_tensors(slot: dict[str, Any]) -> bool:
    """Whether a backend kernel takes tensors, which is worth a word: others take arrays."""
    from tensorplay_core.dispatch.keys import BACKENDS, PAGE

    return slot["level"] == "tensor" and slot["key"] is not None and slot["key"] % PAGE < BACKENDS
