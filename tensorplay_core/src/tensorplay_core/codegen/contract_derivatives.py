"""Turns a record of ``derivatives*.yaml`` into a :class:`Derivative`, or says where it is wrong.

A wrong gradient is the most expensive mistake that a contract can hold, so nothing is taken on trust: every tensor
input needs a formula or a declared reason, and every name in a formula must exist when the code is generated, not when
somebody trains.

A record links by name (``max.dim``) or by the whole signature. A signature must match the operator's: the names, types
and defaults of its arguments in order, and its results. Whether an argument is keyword-only may differ, so that records
written for PyTorch (``add(Tensor self, Tensor other, Scalar alpha=1)``) can be brought along; alias annotations may be
left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

import attrs

from tensorplay_core.codegen import contract_forward
from tensorplay_core.codegen.contract_functions import (
    list_of,
    refuse_repeated,
    refuse_unknown,
    schema_of,
    split,
    text_of,
)
from tensorplay_core.codegen.contract_model import Contract, Derivative, Formula, NativeFunction
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import (
    METADATA_ATTRIBUTES,
    METADATA_METHODS,
    PYTHON_FUNCTIONS,
    Analysis,
    Scope,
    Uses,
    combined,
    uses_of,
)
from tensorplay_core.codegen.formula.parser import parse_formula
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.codegen.yaml_loader import Location, Mapping, Scalar, Sequence
from tensorplay_core.errors import ContractError, did_you_mean
from tensorplay_core.types.schema import Argument, OpSchema

NAME, NOT_DIFFERENTIABLE, OUTPUT_DIFFERENTIABILITY = "name", "not_differentiable", "output_differentiability"
TAKES_NONE = "takes_none"
FIELDS = (NAME, NOT_DIFFERENTIABLE, OUTPUT_DIFFERENTIABILITY, TAKES_NONE)
_DECLARED = frozenset({"not_differentiable", "non_differentiable"})  # as a formula; the second is PyTorch's spelling
_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "input": "self"}


@attrs.frozen
class Vocabulary:
    """What formulas may call.

    Attributes:
        contract: the operators.
        helpers: functions that are no operators; None when any unknown name may be one.
        members: attributes and methods of Tensor that are written by hand.
    """

    contract: Contract
    helpers: frozenset[str] | None
    members: frozenset[str]

    def functions(self) -> list[str]:
        """Every name that a call may use."""
        return sorted({*self.contract.overloads, *(self.helpers or ()), *PYTHON_FUNCTIONS})

    def methods(self) -> list[str]:
        """Every name that a method call may use."""
        generated = {name for name, found in self.contract.overloads.items() if any(f.is_method for f in found)}
        return sorted({*generated, *self.members, *METADATA_METHODS})

    def attributes(self) -> list[str]:
        """Every attribute that may be read."""
        return sorted({*METADATA_ATTRIBUTES, *self.members})


def read_derivative(record: Mapping, functions: dict[str, NativeFunction], vocabulary: Vocabulary) -> Derivative:
    """Checks one record.

    Args:
        record: the YAML.
        functions: the operators that a record may link to, by qualified name.
        vocabulary: what its formulas may call.

    Raises:
        ContractError: for the first thing that is wrong with it.
    """
    function = _linked(record, functions)
    schema = function.schema
    _check_keys(record, schema)
    flags = _output_differentiability(record, schema)
    declared = _not_differentiable(record, schema)
    formulas, also_declared, analysis = _formulas(record, schema, vocabulary, flags)
    _check_complete(record, schema, formulas, (*declared, *also_declared), flags)
    forward = _forward(record, schema, vocabulary, flags)
    contract_forward.check(schema, forward, formulas, analysis, flags)
    return Derivative(
        function=function,
        formulas=formulas,
        not_differentiable=(*declared, *also_declared),
        output_differentiability=flags,
        forward=forward,
        takes_none=_takes_none(record),
        analysis=analysis,
        location=record.location,
    )


def _takes_none(record: Mapping) -> bool:
    value = record.get(TAKES_NONE)
    if value is None:
        return False
    flag = value.truth if isinstance(value, Scalar) else None
    if flag is None:
        value.location.fail(f"`{TAKES_NONE}` is true or false")
    return flag


# the link to the operator


def _linked(record: Mapping, functions: dict[str, NativeFunction]) -> NativeFunction:
    value = record.get(NAME)
    if value is None:
        record.location.fail("a record without `name:`", "start it with `- name: <operator>`, by name or by signature")
    text = text_of(value, "name")
    name = text.text.partition("(")[0]
    function = functions.get(name if "::" in name else f"tp::{name}")
    if function is not None and text.text == str(function.schema):
        return function  # the usual case: nothing to parse, nothing to compare
    schema = schema_of(text) if "(" in text.text else None
    name = schema.qualified_name if schema is not None else text.text
    function = functions.get(name if "::" in name else f"tp::{name}")
    if function is None:
        _fail_unknown_operator(text, name.removeprefix("tp::"), functions)
    if schema is not None:
        _check_signature(text, schema, function)
    return function


def _fail_unknown_operator(text: Scalar, name: str, functions: dict[str, NativeFunction]) -> NoReturn:
    base = functions.get(f"tp::{name[:-1]}") if name.endswith("_") else None
    if base is not None and base.inplace:
        text.location.fail(
            f"'{name}' is generated from '{base.base_name}' and shares its derivative; it has no record of its own"
        )
    shown = [known.removeprefix("tp::") for known in functions]
    overloads = [known for known in shown if known.split(".")[0] == name]
    near = f" Its overloads are {', '.join(overloads)}." if overloads else did_you_mean(name, shown)
    text.location.fail(f"a derivative for '{name}', which is no operator of the contract.{near}")


def _check_signature(text: Scalar, record: OpSchema, function: NativeFunction) -> None:
    own = function.schema
    ours = f"the operator is {own}"
    if len(record.arguments) != len(own.arguments):
        text.location.fail(
            f"the signature has {len(record.arguments)} arguments, the operator's has {len(own.arguments)}", ours
        )
    for written, argument in zip(record.arguments, own.arguments, strict=True):
        if not _same_argument(written, argument):
            text.at(written.column).fail(f"argument `{written}` does not match the operator's `{argument}`", ours)
    if [(r.name, r.type) for r in record.returns] != [(r.name, r.type) for r in own.returns]:
        text.at(text.text.rfind("->")).fail("the results do not match the operator's", ours)


def _same_argument(a: Argument, b: Argument) -> bool:
    if a.name != b.name or a.type != b.type or (a.default is None) != (b.default is None):
        return False
    return a.default is None or b.default is None or a.default.means_same(b.default)


# the fields


def _check_keys(record: Mapping, schema: OpSchema) -> None:
    inputs = [argument.name for argument in schema.tensor_arguments]
    for key, _ in record:
        if key.text in FIELDS or key.text in schema.return_names:
            continue
        words = split(key)
        refuse_repeated(words, "input")
        for word in words:
            argument = schema.argument(word.text)
            if argument is None:
                valid = [*inputs, *FIELDS, *schema.return_names]
                near = did_you_mean(word.text, valid) or f" Its tensor inputs are {', '.join(inputs) or 'none'}."
                word.location.fail(f"a formula for '{word.text}', which is no input of '{schema.base_name}'.{near}")
            if word.text not in inputs:
                word.location.fail(f"a formula for '{word.text}', which is a {argument.type} and has no gradient")


def _output_differentiability(record: Mapping, schema: OpSchema) -> tuple[bool, ...]:
    value = record.get(OUTPUT_DIFFERENTIABILITY)
    if value is None:
        return tuple(result.type.holds_tensors for result in schema.returns)
    if not isinstance(value, Sequence):
        value.location.fail(f"{OUTPUT_DIFFERENTIABILITY} is a list with true or false for each output")
    flags: list[bool] = []
    for item in value.items:
        truth = item.truth if isinstance(item, Scalar) else None
        if truth is None:
            item.location.fail(f"an item of {OUTPUT_DIFFERENTIABILITY} is true or false")
        flags.append(truth)
    if len(flags) != len(schema.returns):
        count = len(schema.returns)
        value.location.fail(
            f"{len(flags)} flags for the {count} output{'s' if count != 1 else ''} of '{schema.base_name}'"
        )
    return tuple(flags)


def _not_differentiable(record: Mapping, schema: OpSchema) -> tuple[str, ...]:
    value = record.get(NOT_DIFFERENTIABLE)
    if value is None:
        return ()
    words = list_of(value, NOT_DIFFERENTIABLE)
    for word in words:
        refuse_unknown(
            word, [argument.name for argument in schema.tensor_arguments], f"tensor input of '{schema.base_name}'"
        )
    refuse_repeated(words, "input")
    return tuple(word.text for word in words)


def _formulas(
    record: Mapping, schema: OpSchema, vocabulary: Vocabulary, flags: tuple[bool, ...]
) -> tuple[tuple[Formula, ...], tuple[str, ...], Analysis]:
    scope = Scope.of(schema, flags)
    formulas: list[Formula] = []
    found: dict[str, Uses] = {}
    declared: list[str] = []
    seen: dict[str, Scalar] = {}
    for key, value in record:
        if key.text in FIELDS or (key.text in schema.return_names and schema.argument(key.text) is None):
            continue
        words = split(key)
        for word in words:
            if word.text in seen:
                word.location.fail(
                    f"a second formula for '{word.text}'; the first is on line {seen[word.text].location.line}"
                )
            seen[word.text] = word
        targets = tuple(word.text for word in words)
        text = text_of(value, f"the formula of '{key.text}'")
        if text.text in _DECLARED:
            declared.extend(targets)
        else:
            expr, uses = _checked(text, scope, vocabulary)
            formulas.append(Formula(targets, expr, text))
            found[formulas[-1].key] = uses
    return tuple(formulas), tuple(declared), combined(found)


def _check_complete(
    record: Mapping, schema: OpSchema, formulas: Iterable[Formula], declared: Collection[str], flags: tuple[bool, ...]
) -> None:
    key = record.key(NOT_DIFFERENTIABLE)
    given = {target for formula in formulas for target in formula.targets}
    for name in declared:
        if name in given:
            place = key.location if key is not None else record.location
            place.fail(f"'{name}' has a formula and is declared not_differentiable")
    missing = [a.name for a in schema.tensor_arguments if a.name not in given and a.name not in declared]
    if missing and any(flags):
        names = " and ".join(f"'{name}'" for name in missing)
        record.location.fail(
            f"'{schema.base_name}' has no formula for {names}",
            f"add `{missing[0]}: <formula>`, or `not_differentiable: [{', '.join(missing)}]`",
        )


def _forward(record: Mapping, schema: OpSchema, vocabulary: Vocabulary, flags: tuple[bool, ...]) -> tuple[Formula, ...]:
    scope: Scope | None = None
    formulas = []
    for name in schema.return_names:
        value = record.get(name)
        if value is None or schema.argument(name) is not None:
            continue
        text = text_of(value, f"the formula of '{name}'")
        expr: ast.Expr = ast.Name(text.text)
        if text.text not in contract_forward.RULES:
            scope = scope or Scope.of(schema, flags, tangents=True)
            expr, _ = _checked(text, scope, vocabulary)
        formulas.append(Formula((name,), expr, text))
    return tuple(formulas)


# one formula


def _checked(text: Scalar, scope: Scope, vocabulary: Vocabulary) -> tuple[ast.Expr, Uses]:
    """Parses a formula, makes sure that all its names exist, and says what it reads."""
    try:
        expr = parse_formula(text.text)
        uses = uses_of(scope, expr)
    except FormulaError as error:
        raise ContractError(text.at(error.position).describe(error.reason)) from None
    for node in ast.walk(expr):
        match node:
            case ast.Call():
                _check_function(node, text, vocabulary)
            case ast.Method():
                _check_method(node, text, vocabulary)
            case ast.Attribute(name=name) if name not in METADATA_ATTRIBUTES and name not in vocabulary.members:
                hint = f" '{name}' is a method; write .{name}()." if name in vocabulary.methods() else ""
                near = (
                    hint
                    or did_you_mean(name, vocabulary.attributes())
                    or f" There are {', '.join(vocabulary.attributes())}."
                )
                text.at(node.position).fail(f"no attribute is named '{name}'.{near}")
    return expr, uses


def _check_function(node: ast.Call, text: Scalar, vocabulary: Vocabulary) -> None:
    name = node.function
    helpers = vocabulary.helpers
    overloads = vocabulary.contract.overloads.get(name, ())
    if name in PYTHON_FUNCTIONS or (not overloads if helpers is None else name in helpers):
        return
    if not overloads:
        near = did_you_mean(name, vocabulary.functions())
        text.at(node.position).fail(f"'{name}' is neither an operator of the contract nor a helper.{near}")
    if not any(_binds(f.schema.positional, f.schema, len(node.args), node.kwargs) for f in overloads):
        _fail_binding(name, overloads, text.at(node.position))


def _check_method(node: ast.Method, text: Scalar, vocabulary: Vocabulary) -> None:
    name = node.name
    if name in METADATA_METHODS:
        most = 1 if name in ("size", "stride") else 0
        if node.kwargs or len(node.args) > most:
            text.at(node.position).fail(
                f".{name}() takes {'one positional argument at most' if most else 'no argument'}"
            )
        return
    if name in vocabulary.members:
        return
    overloads = [function for function in vocabulary.contract.overloads.get(name, ()) if function.is_method]
    if not overloads:
        functions = vocabulary.functions()
        near = (
            f" It is a function; write {name}(...)." if name in functions else did_you_mean(name, vocabulary.methods())
        )
        text.at(node.position).fail(f"no method is named '{name}'.{near}")
    for function in overloads:
        behind = tuple(argument for argument in function.schema.positional if argument.name != "self")
        if _binds(behind, function.schema, len(node.args), node.kwargs):
            return
    _fail_binding(name, overloads, text.at(node.position))


def _binds(
    positional: tuple[Argument, ...], schema: OpSchema, count: int, kwargs: tuple[tuple[str, ast.Expr], ...]
) -> bool:
    """Whether a call may mean an overload, by number and names of its arguments; ``permute(0, 1)`` fills a list."""
    given = {name for name, _ in kwargs}
    own = {argument.name for argument in schema.arguments}
    given = {name if name in own else _SPELLINGS.get(name, name) for name in given}
    if not given <= own | {"out"}:
        return False
    if count > len(positional):
        return bool(positional) and _takes_many(positional[0])
    if any(argument.name in given for argument in positional[:count]):
        return False
    rest = (*positional[count:], *schema.keyword_only)
    return all(argument.default is not None or argument.name in given for argument in rest)


def _takes_many(argument: Argument) -> bool:
    """Whether a list may be written as several arguments: ``int[] dims`` may, ``int[1]? dim=None`` may not."""
    type_ = argument.type
    return type_.is_list and not type_.is_optional and type_.list_size is None and not type_.holds_tensors


def _fail_binding(name: str, overloads: Iterable[NativeFunction], location: Location) -> None:
    signatures = " or ".join(str(function.schema) for function in overloads)
    location.fail(f"no signature of '{name}' takes these arguments", f"it is {signatures}")
