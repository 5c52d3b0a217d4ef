"""How long the generator takes for a contract of thousands of records.

The records are PyTorch's operators with PyTorch's derivatives (``pytorch_records.py``), repeated under further names
until there are enough, in a contract of a package of its own: files by family, all targets. Measured are processes
from start to end: a first run, which writes every file; a second one, which finds nothing to do by its stamp, as
``tensorplay codegen`` does (``codegen/stamp.py``); and one that makes every text again to find the same. Then another
process imports what was generated, operators and nodes, and compares one family's signatures with the contract's.

``--check`` exits with 1 when a run takes longer than its limit; ``--json`` prints the figures for a program;
``--keep DIR`` leaves contract and files to look at; ``--native FILE --derivatives FILE`` reads the records from
PyTorch's own files, and ``--save`` then renews the committed list of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytorch_records
from pytorch_records import Operator

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import METADATA_METHODS
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.types.schema import parse_schema

LIMITS = {"first run": 10.0, "second run": 4.0}  # seconds
PACKAGE = "peer"
FAMILY_SIZE = 250
NOT_FORMULAS = ("not_differentiable", "output_differentiability")


# the contract


def drawn(operators: list[Operator], count: int) -> list[Operator]:
    """Returns as many operators, those behind PyTorch's own under names of their own: ``abs``, ``abs_b``, ``abs_c``.

    Names that end with an underscore mean something and are not repeated. Of fewer than PyTorch has, those whose
    formulas call a method that is not among them stay without a derivative.
    """
    found = operators[:count]
    again = [operator for operator in operators if not _name(operator).endswith("_")]
    turn = 1
    while len(found) < count:
        for operator in again[: count - len(found)]:
            name = _name(operator)
            found.append(attrs.evolve(operator, signature=f"{name}_{chr(97 + turn)}{operator.signature[len(name) :]}"))
        turn += 1
    methods = {_name(operator) for operator in found if "method" in operator.flags} | {*METADATA_METHODS}
    return [o if methods_of(o) <= methods else attrs.evolve(o, formulas=()) for o in found]


def methods_of(operator: Operator) -> set[str]:
    """Returns the methods that an operator's formulas call."""
    trees = [parse_formula(text) for key, text in operator.formulas if key not in NOT_FORMULAS]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Method)}


def _name(operator: Operator) -> str:
    return operator.name.partition(".")[0]


def contract_files(operators: list[Operator]) -> Iterator[tuple[str, str]]:
    """Yields name and text of each contract file; a family holds all overloads of its names."""
    names: dict[str, list[Operator]] = {}
    for operator in operators:
        names.setdefault(_name(operator), []).append(operator)
    families: list[list[Operator]] = [[]]
    for name in sorted(names):
        if len(families[-1]) >= FAMILY_SIZE:
            families.append([])
        families[-1] += names[name]
    for number, family in enumerate(families):
        yield f"native_functions_part{number:02}.yaml", "\n".join(map(_function, family))
        yield f"derivatives_part{number:02}.yaml", "\n".join(_derivative(o) for o in family if o.formulas)


def _function(operator: Operator) -> str:
    schema = parse_schema(operator.signature)
    several = len(schema.tensor_arguments) > 1
    tags = [flag for flag in ("core", "pointwise") if flag in operator.flags]
    lines = [f"- func: {PACKAGE}::{operator.signature}"]
    lines.append(f"  variants: function{', method' if 'method' in operator.flags else ''}")
    lines += [f"  {flag}: true" for flag in ("inplace", "out") if flag in operator.flags]
    if "pointwise" in tags and len(schema.returns) == 1:
        lines += [f"  shape: {'broadcast' if several else 'same'}", "  promote: default"]
    lines += [f"  dispatch:\n    CPU, CUDA: {schema.name}", f"  autocast: {'promote' if several else 'fp32'}"]
    lines += ["  composite: explicit"] if operator.formulas else []
    lines += [f"  tags: [{', '.join(tags)}]"] if tags else []
    return "\n".join([*lines, f"  doc: What PyTorch's {schema.name} makes of {len(schema.arguments)} arguments.\n"])


def _derivative(operator: Operator) -> str:
    lines = [f"- name: {PACKAGE}::{operator.signature}"]
    lines += [f"  {key}: {text if key in NOT_FORMULAS else json.dumps(text)}" for key, text in _gradients(operator)]
    return "\n".join([*lines, ""])


def _gradients(operator: Operator) -> list[tuple[str, str]]:
    """Returns the fields of a record but for PyTorch's forward-mode rules, whose helpers take dual tensors.

    Forward rules are made of the gradients instead.
    """
    inputs = {argument.name for argument in parse_schema(operator.signature).arguments}
    return [(k, text) for k, text in operator.formulas if k in NOT_FORMULAS or inputs & {*k.split(", ")}]


def helpers(operators: list[Operator]) -> list[str]:
    """Returns the functions in the formulas that are no operators: PyTorch's own helpers of its gradients."""
    formulas = [text for operator in operators for key, text in _gradients(operator) if key not in NOT_FORMULAS]
    calls = {node.function for text in formulas for node in ast.walk(parse_formula(text)) if isinstance(node, ast.Call)}
    return sorted(calls - {_name(operator) for operator in operators} - {"len"})


def write_package(folder: Path, operators: list[Operator]) -> None:
    """Writes a package that holds the contract, and helpers that only have names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("", encoding="utf-8")
    for name, text in contract_files(operators):
        (folder / name).write_text(text, encoding="utf-8")
    functions = [
        f'def {name}(*args, **kwargs):\n    raise NotImplementedError("{name}")\n' for name in helpers(operators)
    ]
    (folder / "helpers.py").write_text("\n\n".join(functions), encoding="utf-8")


# what is measured


def run(folder: Path, *, stamped: bool) -> dict[str, Any]:
    """Generates everything; returns the seconds of each stage, and the numbers of files."""
    start = time.perf_counter()
    from tensorplay_core.codegen.context import CodegenContext, public_functions
    from tensorplay_core.codegen.contract import load_contract
    from tensorplay_core.codegen.generate import generate
    from tensorplay_core.codegen.stamp import Stamp, digest_of

    stages = {"import": time.perf_counter() - start}
    stamp = Stamp((folder,), {"ops": folder, "docs": folder / "docs"})
    if stamped and (count := stamp.is_known()) is not None:
        stages["stamp"] = time.perf_counter() - start - stages["import"]
        return {"stages": stages, "written": 0, "unchanged": count}
    marks: list[tuple[str, float]] = [("load", time.perf_counter())]
    contract = load_contract(folder, helpers=public_functions(folder / "helpers.py"))
    folders = {"ops": folder, "autocast": folder, "docs": folder / "docs"}
    context = CodegenContext(contract, folders, packages={"ops": PACKAGE, "autocast": PACKAGE})
    result = generate(context, progress=lambda target, *_: marks.append((target, time.perf_counter())))
    stamp.keep(digest_of((str(path.resolve()), text.encode()) for path, text in result.files.items()))
    marks.append(("", time.perf_counter()))
    for (stage, began), (_, ended) in pairwise(marks):
        stages[stage] = ended - began
    return {"stages": stages, "written": len(result.written), "unchanged": len(result.unchanged)}


IMPORTS = """
import importlib, json, sys
package, family = sys.argv[1:]
for kind in ("schemas", "functional", "inplace", "nodes"):
    importlib.import_module(f"{package}._generated_{kind}_{family}")
from tensorplay_core.dispatch.registry import REGISTRY
operators = REGISTRY.operators.items()
json.dump({name: str(op.schema) for name, op in operators if name.startswith(f"{package}::")}, sys.stdout)
"""
"""Imports everything of one family, and prints the operators that this defines."""


def defined(folder: Path, family: str) -> dict[str, str]:
    """Returns the operators that importing one family's generated modules defines, with their signatures."""
    command = [sys.executable, "-c", IMPORTS, folder.name, family]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def process(folder: Path, *options: str) -> dict[str, Any]:
    """Runs :func:`run` in a process of its own; adds its seconds from start to end, and the processor's."""
    start, before = time.perf_counter(), os.times()
    cache = {**os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache")}  # stamps of this measurement alone
    command = [sys.executable, __file__, "--run", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=cache)
    seconds, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise RuntimeError(done.stderr)
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return {"seconds": seconds, "processor": used, **json.loads(done.stdout)}


def measure(folder: Path, operators: list[Operator]) -> dict[str, Any]:
    """Writes the contract into a folder and measures both runs."""
    write_package(folder, operators)
    contract = sorted(folder.glob("*.yaml"))
    figures = {
        "first run": process(folder),
        "second run": process(folder, "--stamped"),
        "all texts again": process(folder),
    }
    made = [path for path in folder.rglob("*") if path.suffix in (".py", ".pyi", ".md") and path not in contract]
    return {
        "records": len(operators),
        "derivatives": sum(bool(operator.formulas) for operator in operators),
        "formulas": sum(len(operator.formulas) for operator in operators),
        "contract lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in contract),
        "files": len(made),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in made),
        "runs": figures,
    }


def main() -> int:
    """Prints the figures; returns 1 when asked to check and a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3000, help="how many records the contract has")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a run takes longer than its limit")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave contract and generated files in this folder")
    parser.add_argument("--native", type=Path, help="PyTorch's native_functions.yaml, in place of the committed list")
    parser.add_argument("--derivatives", type=Path, help="PyTorch's derivatives.yaml")
    parser.add_argument("--save", action="store_true", help="with both: renew the committed list from them")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stamped", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        print(json.dumps(run(options.run, stamped=options.stamped)))
        return 0
    if (options.native is None) != (options.derivatives is None) or (options.save and options.native is None):
        parser.error("--native and --derivatives go together, and --save needs both")
    operators = pytorch_records.read()
    if options.native is not None:
        operators, left_out = pytorch_records.extract(options.native, options.derivatives)
        print(f"{len(operators)} operators; {left_out} derivatives left out, as they use names of C++", file=sys.stderr)
        if options.save:
            pytorch_records.write(operators)
            return 0
    chosen = drawn(operators, options.records)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)) / PACKAGE
        figures = measure(folder, chosen)
        wanted = {f"{PACKAGE}::{o.name}": f"{PACKAGE}::{o.signature}" for o in chosen}
        found = defined(folder, "part00")
    figures["defined"] = sum(wanted.get(name) == signature for name, signature in found.items())
    faults = [
        f"{name} takes longer than {limit:g} s" for name, limit in LIMITS.items() if _seconds(figures, name) > limit
    ]
    faults += [f"{name} wrote files" for name in ("second run", "all texts again") if figures["runs"][name]["written"]]
    faults += ["the second run knew no stamp"] if "stamp" not in figures["runs"]["second run"]["stages"] else []
    faults += (
        [] if figures["defined"] >= min(FAMILY_SIZE, options.records) else ["a family does not define its operators"]
    )
    figures["faults"] = faults
    print(json.dumps(figures, indent=1) if options.json else table(figures))
    return 1 if options.check and faults else 0


def _seconds(figures: dict[str, Any], name: str) -> float:
    return float(figures["runs"][name]["seconds"])


def table(figures: dict[str, Any]) -> str:
    """Returns the figures as text."""
    lines = [
        "contract: {records} records, {derivatives} derivatives, {contract lines} lines".format_map(figures),
        "generated: {files} files, {lines} lines; one family defines {defined} operators".format_map(figures),
        "",
        f"{'seconds':16}" + "".join(f"{name:>17}" for name in figures["runs"]),
    ]
    runs = figures["runs"]
    for stage in dict.fromkeys(stage for run in runs.values() for stage in run["stages"]):
        lines.append(f"{stage:16}" + "".join(f"{run['stages'].get(stage, 0.0):17.2f}" for run in runs.values()))
    lines.append(f"{'processor':16}" + "".join(f"{run['processor']:17.2f}" for run in runs.values()))
    lines.append(f"{'whole process':16}" + "".join(f"{run['seconds']:17.2f}" for run in runs.values()))
    lines.append(f"{'limit':16}" + "".join(f"{limit:17.2f}" for limit in LIMITS.values()))
    return "\n".join([*lines, *(f"fault: {fault}" for fault in figures["faults"])])


if __name__ == "__main__":
    sys.exit(main())
