"""Reads PyTorch's own contract: how much of it the grammar of signatures and the formula language take.

A contract that people can bring their records to must take the largest collection of records that there is. Of
``native_functions.yaml`` a record counts when its signature parses into the closed set of types and prints back to the
same text; of ``derivatives.yaml`` a formula counts when, after the mechanical change of C++ spellings in
``pytorch_spelling.py``, it parses and prints back to an equal tree. The rest is counted by reason, with an example.

The files are in PyTorch's wheel: torchgen/packaged/ATen/native/native_functions.yaml and
torchgen/packaged/autograd/derivatives.yaml. ``--check`` exits with 1 below the limits; ``--json`` prints for a program.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pytorch_spelling import change

from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.codegen.yaml_loader import Mapping, Scalar, Source, load_records
from tensorplay_core.types.schema import parse_schema
from tensorplay_core.types.schema_parser import SchemaSyntaxError

SIGNATURES_LIMIT, FORMULAS_LIMIT = 0.99, 0.90
NO_FORMULA = ("name", "dispatch", "output_differentiability")


def signatures(path: Path) -> Iterator[str]:
    """The signature of every record of ``native_functions.yaml``."""
    for record in load_records(Source.read(path), "an operator"):
        yield text(record, "func")


def formulas(path: Path) -> Iterator[tuple[str, str, str]]:
    """Operator, inputs and formula of every formula of ``derivatives.yaml``, those of single dispatch keys too."""
    for record in load_records(Source.read(path), "a derivative"):
        dispatch = record.get("dispatch")
        parts = [value for _, value in dispatch] if isinstance(dispatch, Mapping) else [record]
        for part in parts:
            assert isinstance(part, Mapping)
            for key, value in part:
                if key.text not in NO_FORMULA:
                    assert isinstance(value, Scalar)
                    yield text(record, "name"), key.text, value.text


def text(record: Mapping, key: str) -> str:
    """The text of a field that every record has."""
    value = record.get(key)
    assert isinstance(value, Scalar), record.location
    return value.text


def signature_fault(signature: str) -> str | None:
    """Why a signature does not count, or None."""
    try:
        printed = str(parse_schema(signature))
    except SchemaSyntaxError as error:
        return error.reason
    return None if printed == signature else f"prints back as {printed}"


def formula_fault(formula: str) -> str | None:
    """Why a formula does not count, or None."""
    try:
        tree = parse_formula(change(formula))
        return None if parse_formula(str(tree)) == tree else "prints back to another tree"
    except FormulaError as error:
        return error.reason


def measured(
    name: str, limit: float, items: Iterable[tuple[str, str]], fault: Callable[[str], str | None]
) -> dict[str, Any]:
    """Counts what is taken; the rest by reason, names and places in it left out.

    Args:
        name: what is counted.
        limit: the share that must be taken.
        items: where each stands, and its text.
        fault: why a text does not count, or None.
    """
    total, reasons = 0, {}
    for where, item in items:
        total += 1
        reason = fault(item)
        if reason is not None:
            kind = re.sub(r"'[^']*'", "'…'", re.sub(r"(?s)^(prints back as).*", r"\1 something else", reason))
            found = reasons.setdefault(kind, {"count": 0, "reason": reason, "example": f"{where}: {item}"})
            found["count"] += 1
    taken = total - sum(found["count"] for found in reasons.values())
    left = sorted(reasons.values(), key=lambda found: -found["count"])
    return {"name": name, "taken": taken, "of": total, "share": taken / total, "limit": limit, "left": left}


def main(arguments: list[str] | None = None) -> int:
    """Prints the counts; returns 1 when asked to check and a share is below its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("native", type=Path, help="PyTorch's native_functions.yaml")
    parser.add_argument("derivatives", type=Path, help="PyTorch's derivatives.yaml")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a share is below its limit")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    options = parser.parse_args(arguments)
    rows = [
        measured(
            "signatures", SIGNATURES_LIMIT, ((s.split("(")[0], s) for s in signatures(options.native)), signature_fault
        ),
        measured(
            "formulas",
            FORMULAS_LIMIT,
            ((f"{name.split('(')[0]}, {key}", formula) for name, key, formula in formulas(options.derivatives)),
            formula_fault,
        ),
    ]
    failed = [row for row in rows if row["share"] < row["limit"]]
    if options.json:
        print(json.dumps({"rows": rows, "failed": len(failed)}, indent=1))
    else:
        for row in rows:
            mark = "  below the limit" if row in failed else ""
            print(f"{row['name']}: {row['taken']} of {row['of']}, {row['share']:.2%}; limit {row['limit']:.0%}{mark}")
            for left in row["left"]:
                print(f"  {left['count']} not taken: {left['reason']}\n    {left['example']}")
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
