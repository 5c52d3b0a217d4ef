"""Checks the forward-mode formulas of a derivative record (``result:``, or the names of the results).

A tangent depends on the tangents of the inputs linearly, and on nothing else: a term without a tangent, a product of
two, or an input whose tangent nothing reads is a derivative that is wrong. Such things show in the formula and are
refused where they stand. What does not show is caught by the comparison of forward and reverse mode that every record
is put through.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorplay_core.codegen.contract_model import Formula
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import Analysis, Scope
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.transpose import transposed
from tensorplay_core.codegen.yaml_loader import Scalar
from tensorplay_core.types.schema import OpSchema

AUTO_LINEAR, AUTO_ELEMENT_WISE = "auto_linear", "auto_element_wise"
RULES = frozenset({AUTO_LINEAR, AUTO_ELEMENT_WISE})
"""What may stand in the place of a formula, as in PyTorch."""


def tangents_in(schema: OpSchema, expr: Expr) -> tuple[str, ...]:
    """Returns the inputs whose tangents an expression reads, in the order of the signature."""
    read = {node.name for node in ast.walk(expr) if isinstance(node, ast.Name)}
    return tuple(a.name for a in schema.tensor_arguments if f"{a.name}_t" in read)


def summands(expr: Expr) -> list[Expr]:
    """Returns the terms of a sum, each with its sign.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> [str(term) for term in summands(parse_formula("a * b - (c + d)"))]
        ['a * b', '-c', '-d']
    """
    match expr:
        case ast.Binary(operator="+", left=left, right=right):
            return [*summands(left), *summands(right)]
        case ast.Binary(operator="-", left=left, right=right):
            return [*summands(left), *(_negative(term) for term in summands(right))]
    return [expr]


def _negative(expr: Expr) -> Expr:
    match expr:
        case ast.Unary(operator="-", operand=operand):
            return operand
        case ast.Binary(operator="*" | "/" as operator, left=left, right=right):
            return ast.Binary(operator, _negative(left), right, position=expr.position)
    return ast.Unary("-", expr, position=expr.position)


def check(
    schema: OpSchema,
    forward: tuple[Formula, ...],
    gradients: tuple[Formula, ...],
    analysis: Analysis,
    differentiable: tuple[bool, ...],
) -> None:
    """Checks the forward-mode formulas of one record.

    Args:
        schema: the operator's signature.
        forward: the formulas.
        gradients: the formulas of the gradients.
        analysis: what those read.
        differentiable: which results have a gradient.

    Raises:
        ContractError: for the first that cannot be right.
    """
    if not forward:
        return
    names = schema.return_names
    said = {f.targets[0]: f for f in forward}
    for name, formula in said.items():
        if not differentiable[names.index(name)]:
            formula.text.location.fail(f"a forward-mode formula for '{name}', which has no gradient, so no tangent")
    for name, flag in zip(names, differentiable, strict=True):
        if flag and name not in said:
            forward[0].text.location.fail(f"'{schema.base_name}' has no forward-mode formula for its result '{name}'")
    inputs = {target: formula for formula in gradients for target in formula.targets}
    for formula in forward:
        if isinstance(formula.expr, ast.Name) and formula.expr.name in RULES:
            _check_rule(schema, formula, inputs, analysis)
        else:
            _check_formula(schema, formula.expr, formula.text, inputs)
    if not any(isinstance(f.expr, ast.Name) and f.expr.name in RULES for f in forward):
        _check_all_read(schema, forward, inputs)


def _check_all_read(schema: OpSchema, forward: tuple[Formula, ...], inputs: Mapping[str, Formula]) -> None:
    read = {name for formula in forward for name in tangents_in(schema, formula.expr)}
    for name in inputs:
        if name not in read:
            forward[0].text.location.fail(
                f"the forward-mode formula does not read '{name}_t', and '{name}' has a gradient",
                f"add its term; for one that is zero, `zeros_like({name}_t)`",
            )


def _check_rule(schema: OpSchema, formula: Formula, inputs: Mapping[str, Formula], analysis: Analysis) -> None:
    rule = formula.text.text
    if len(schema.returns) > 1:
        formula.text.location.fail(f"{rule} is for an operator with one result; '{schema.base_name}' has several")
    if rule == AUTO_LINEAR:
        if schema.mutates:
            formula.text.location.fail(
                f"'{schema.base_name}' writes to its input, so it cannot be called with the tangent in its place"
            )
        read = [name for name in (*inputs, *schema.return_names) if analysis.value_readers(name)]
        if read:
            formula.text.location.fail(
                f"'{schema.base_name}' is not linear: the gradient of {analysis.value_readers(read[0])[0]} reads the "
                f"value of '{read[0]}'"
            )
        return
    for name, gradient in inputs.items():
        if len(gradient.targets) > 1 or transposed(Scope.of(schema), gradient.expr, f"{name}_t") is None:
            gradient.text.location.fail(
                f"the gradient of '{name}' is not seen to be `grad` times a factor, as {AUTO_ELEMENT_WISE} needs it",
                f"write the tangent as a formula: `{schema.return_names[0]}: ... {name}_t ...`",
            )


def _check_formula(schema: OpSchema, expr: Expr, text: Scalar, inputs: Mapping[str, Formula]) -> None:
    for node in ast.walk(expr):
        if not isinstance(node, ast.Name) or node.name[-2:] != "_t":
            continue
        name = node.name[:-2]
        argument = schema.argument(name)
        if schema.argument(node.name) is None and argument is not None and name not in inputs:
            has = ", ".join(f"{known}_t" for known in inputs) or "none"
            text.at(node.position).fail(f"'{name}' has no gradient, so it has no tangent. There are: {has}.")
    for term in summands(expr):
        if not tangents_in(schema, term):
            text.at(_start(term)).fail(
                f"`{term}` reads no tangent, so the tangent of a result whose inputs have none would not be zero",
                f"each term reads one of {', '.join(f'{name}_t' for name in inputs)}",
            )
        _check_linear(schema, term, text)


def _check_linear(schema: OpSchema, expr: Expr, text: Scalar) -> None:
    """Refuses what is not linear as far as arithmetic shows it; of a call only its name is known."""
    for node in ast.walk(expr):
        if not isinstance(node, ast.Binary):
            continue
        left, right = tangents_in(schema, node.left), tangents_in(schema, node.right)
        if node.operator in ("*", "@", "**", "/", "//", "%") and left and right:
            text.at(_start(node)).fail(f"`{node}` is not linear in the tangents: both sides read one")
        if node.operator in ("/", "**", "//", "%") and right:
            text.at(_start(node)).fail(f"`{node}` is not linear in the tangents: its right side reads one")
        if node.operator in ("**", "//", "%") and left:
            text.at(_start(node)).fail(f"`{node}` is not linear in the tangents: '{node.operator}' is not")
        if node.operator in ("+", "-") and bool(left) != bool(right):
            text.at(_start(node)).fail(f"`{node}` is not linear in the tangents: only one side reads one")


def _start(expr: Expr) -> int:
    """Returns the place where an expression begins."""
    return min(node.position for node in ast.walk(expr))
