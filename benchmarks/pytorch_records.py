"""PyTorch's operators as records of our contract: material of real size and real shapes for ``codegen_scale.py``.

The records come from PyTorch's own two YAML files, where these are at hand, or from ``data/pytorch_operators.txt``,
which was made from them and is committed, so that the benchmark needs no PyTorch. A record that PyTorch generates from
another (``add_``, ``add.out``) becomes that one's ``inplace: true`` or ``out: true``. Derivatives are PyTorch's
formulas after the change of ``pytorch_spelling.py``, and after what concerns names: a gradient that goes by its
output's name becomes ``grads[i]``, ``grad_input_mask`` the list of ``needs[...]``, a method that writes is its
functional form, and what C++ gives to a keyword-only argument by position goes by its name. An operator with a formula
that uses any other name from PyTorch's C++ stays without a derivative; how many these are is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
from pytorch_contract import text
from pytorch_spelling import change

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import METADATA_ATTRIBUTES, METADATA_METHODS, Scope, uses_of
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.codegen.yaml_loader import Mapping, Scalar, Sequence, Source, load_records
from tensorplay_core.types.schema import OpSchema, parse_schema
from tensorplay_core.types.schema_parser import SchemaSyntaxError

DATA = Path(__file__).parent / "data" / "pytorch_operators.txt"
HEADER = """\
# PyTorch's operators: signature, what there is besides the function, and the derivative in our contract's spelling.
# Made by `python benchmarks/codegen_scale.py --native FILE --derivatives FILE --save` from native_functions.yaml and
# derivatives.yaml of PyTorch 2.13.0 (https://github.com/pytorch/pytorch), which is
# Copyright (c) 2016- Facebook, Inc. and the PyTorch contributors, under the 3-clause BSD license.
"""
FLAGS = ("method", "inplace", "out", "pointwise", "core")
NOT_FORMULAS = ("name", "dispatch", "output_differentiability")


@attrs.frozen
class Operator:
    """One operator.

    Attributes:
        signature: in the spelling of both contracts.
        flags: of ``FLAGS``.
        formulas: input, inputs, output, or a field of a derivative's record, to its text; empty without a derivative.
    """

    signature: str
    flags: tuple[str, ...]
    formulas: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Name and overload."""
        return self.signature.partition("(")[0]


def read(path: Path = DATA) -> list[Operator]:
    """Reads the committed file."""
    found: list[Operator] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            key, _, formula = line.strip().partition(": ")
            found[-1] = attrs.evolve(found[-1], formulas=(*found[-1].formulas, (key, formula)))
        elif line and not line.startswith("#"):
            signature, _, flags = line.partition("  # ")
            found.append(Operator(signature, tuple(flags.split())))
    return found


def write(operators: Iterable[Operator], path: Path = DATA) -> None:
    """Writes that file."""
    lines = []
    for operator in operators:
        lines.append(operator.signature + (f"  # {' '.join(operator.flags)}" if operator.flags else ""))
        lines += [f"  {key}: {formula}" for key, formula in operator.formulas]
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def extract(native: Path, derivatives: Path) -> tuple[list[Operator], int]:
    """Reads PyTorch's files.

    Returns:
        The operators, and how many derivatives were left out.
    """
    records: dict[str, tuple[OpSchema, Mapping]] = {}
    for record in load_records(Source.read(native), "an operator"):
        try:
            schema = parse_schema(text(record, "func"))
        except SchemaSyntaxError:
            continue
        records[schema.base_name] = (schema, record)
    formulas = {text(r, "name").partition("(")[0]: r for r in load_records(Source.read(derivatives), "a derivative")}
    names = {name.partition(".")[0] for name in records}
    with_out = {schema.name for schema, _ in records.values() if schema.is_out}
    schemas: dict[str, list[OpSchema]] = {}
    for schema, _ in records.values():
        if not schema.is_out:
            schemas.setdefault(schema.name, []).append(schema)
    methods = {schema.name for schema, record in records.values() if _is_method(schema, record)} | {*METADATA_METHODS}
    found, left_out = [], 0
    for name, (schema, record) in records.items():
        if schema.is_out or (schema.is_inplace and schema.name[:-1] in names):
            continue
        given: tuple[tuple[str, str], ...] = ()
        if name in formulas:
            given = tuple(_derivative(schema, formulas[name], schemas, methods))
            left_out += not given
        found.append(Operator(str(schema), tuple(_flags(schema, record, names, with_out)), given))
    return found, left_out


def _is_method(schema: OpSchema, record: Mapping) -> bool:
    variants = record.get("variants")
    return isinstance(variants, Scalar) and "method" in variants.text and schema.self_argument is not None


def _flags(schema: OpSchema, record: Mapping, names: set[str], with_out: set[str]) -> Iterator[str]:
    tags = record.get("tags")
    if _is_method(schema, record):
        yield "method"
    first = schema.arguments[0] if schema.arguments else None
    plain = not schema.mutates and not schema.is_view
    one = len(schema.returns) == 1 and schema.returns[0].type.is_tensor
    if f"{schema.name}_" in names and plain and one and first is not None and first.type.is_tensor:
        yield "inplace"
    if schema.name in with_out and plain and schema.returns and all(r.type.is_tensor for r in schema.returns):
        yield "out"
    words = [tags.text] if isinstance(tags, Scalar) else []
    words += [item.text for item in tags.items if isinstance(item, Scalar)] if isinstance(tags, Sequence) else []
    yield from (word for word in ("pointwise", "core") if word in words)


def _derivative(
    schema: OpSchema, record: Mapping, schemas: dict[str, list[OpSchema]], methods: set[str]
) -> Iterator[tuple[str, str]]:
    """The fields of a derivative's record; nothing where a formula cannot be taken."""
    dispatch = record.get("dispatch")
    part = dispatch.get("Default") if isinstance(dispatch, Mapping) else record
    if not isinstance(part, Mapping):
        return
    flags = [r.type.holds_tensors for r in schema.returns]
    given = record.get("output_differentiability")
    if isinstance(given, Sequence):
        flags = [item.truth is True for item in given.items if isinstance(item, Scalar)]
        if len(flags) != len(schema.returns):
            return
    fields: list[tuple[str, str]] = []
    inputs: set[str] = set()
    for key, value in part:
        if key.text in NOT_FORMULAS or not isinstance(value, Scalar):
            continue
        targets = [word.strip() for word in key.text.split(",")]
        if any((a := schema.argument(target)) is not None and not a.type.holds_tensors for target in targets):
            continue
        if value.text in ("auto_linear", "auto_element_wise", "non_differentiable"):
            fields.append((key.text, value.text))
        elif (formula := _formula(schema, flags, targets, value.text, methods)) is not None:
            taken = _by_keyword(formula, schemas)
            if any(isinstance(node, ast.Method) and node.name == "options" for node in ast.walk(taken)):
                return
            fields.append((key.text, str(taken)))
        elif all(schema.argument(target) is not None for target in targets):
            return
        inputs.update(targets)
    missing = [a.name for a in schema.tensor_arguments if a.name not in inputs]
    if missing and any(flags):
        fields.append(("not_differentiable", f"[{', '.join(missing)}]"))
    if isinstance(given, Sequence):
        fields.append(("output_differentiability", f"[{', '.join('true' if flag else 'false' for flag in flags)}]"))
    yield from fields


def _formula(
    schema: OpSchema, flags: list[bool], targets: list[str], formula: str, methods: set[str]
) -> ast.Expr | None:
    """One formula in our names, or None where it has others."""
    forward = schema.argument(targets[0]) is None
    if forward and len(targets) > 1:
        return None
    outputs = [i for i, flag in enumerate(flags) if flag]
    named = {f"grad_{name}": i for i, name in enumerate(schema.return_names) if schema.argument(f"grad_{name}") is None}

    def rename(node: ast.Expr) -> ast.Expr | None:
        match node:
            case ast.Name(name="grad") if len(outputs) > 1 and not forward:
                return ast.Index(ast.Name("grads"), (ast.Number("0"),))
            case ast.Name(name="retain_variables"):
                return ast.Constant("True")
            case ast.Index(object=ast.Name(name="grad_input_mask"), items=(ast.Number(value=int(index)),)):
                return ast.Index(ast.Name("needs"), (ast.Name(targets[index]),))
            case ast.Name(name="grad_input_mask"):
                return ast.List(tuple(ast.Index(ast.Name("needs"), (ast.Name(target),)) for target in targets))
            case ast.Name(name=name) if name in named:
                return ast.Index(ast.Name("grads"), (ast.Number(str(named[name])),))
        return None

    try:
        tree = ast.transform(parse_formula(change(formula)), rename)
        tree = _functional(tree)
        uses = uses_of(Scope.of(schema, flags, tangents=forward), tree)
    except FormulaError:
        return None
    attributes = {node.name for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return tree if uses.methods <= {*methods, "options"} and attributes <= {*METADATA_ATTRIBUTES} else None


def _functional(expr: ast.Expr) -> ast.Expr:
    """Calls the functional form of a method that writes."""

    def replace(node: ast.Expr) -> ast.Expr | None:
        match node:
            case ast.Method(object=receiver, name="zero_", args=()):
                return ast.Call("zeros_like", (_functional(receiver),))
            case ast.Method(object=receiver, name=name, args=args) if name.endswith("_") and name[-2:] != "__":
                return ast.Method(_functional(receiver), name[:-1], tuple(map(_functional, args)))
        return None

    return ast.transform(expr, replace)


def _by_keyword(expr: ast.Expr, schemas: dict[str, list[OpSchema]]) -> ast.Expr:
    """Gives keyword-only arguments by name; of ``x.options()`` what a contract knows, dtype and device.

    A function that is no operator is a helper, which is public: it goes by its name without an underscore in front.
    """

    def replace(node: ast.Expr) -> ast.Expr | None:
        match node:
            case ast.Call(function=name, args=args, kwargs=()):
                args, kwargs = arguments(name, args, 0)
                return ast.Call(name if name in schemas else name.lstrip("_"), args, kwargs)
            case ast.Method(object=receiver, name=name, args=args, kwargs=()):
                args, kwargs = arguments(name, args, 1)
                return ast.Method(_by_keyword(receiver, schemas), name, args, kwargs)
        return None

    def arguments(
        name: str, given: tuple[ast.Expr, ...], receiver: int
    ) -> tuple[tuple[ast.Expr, ...], tuple[tuple[str, ast.Expr], ...]]:
        args = tuple(_by_keyword(arg, schemas) for arg in given)
        overloads = schemas.get(name, [])
        count = len(args) + receiver
        if not overloads or any(count <= len(schema.positional) for schema in overloads):
            return args, ()
        schema = next((s for s in overloads if count <= len(s.arguments)), overloads[0])
        first = len(schema.positional) - receiver
        kwargs: list[tuple[str, ast.Expr]] = []
        for argument, value in zip(schema.keyword_only, args[first:], strict=False):
            if isinstance(value, ast.Method) and value.name == "options":
                kwargs += [(key, ast.Attribute(value.object, key)) for key in ("dtype", "device")]
            else:
                kwargs.append((argument.name, value))
        return args[:first], tuple(kwargs)

    return ast.transform(expr, replace)
