"""Decides how an operator's tangents come about, from its derivative record.

The record may say it (``result:``). Otherwise it is derived where the gradients show it: of an elementwise operator
each gradient is the gradient of the result times a factor, and the tangent is the tangent of the input times the same
factor, conjugated where numbers are complex. Whatever is left has no rule here;
:mod:`tensorplay_core.ops.forward_rules` transposes its gradient when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.contract import Derivative
from tensorplay_core.codegen.contract_forward import AUTO_ELEMENT_WISE, AUTO_LINEAR, summands, tangents_in
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.transpose import transposed
from tensorplay_core.codegen.pointwise import is_pointwise

Kind = Literal["result", "linear", "elementwise"]


@attrs.frozen
class Term:
    """A summand of a tangent.

    Attributes:
        inputs: the inputs whose tangents it reads; it is left out where it reads one, and that input has none.
        expr: what it is, in terms of ``self_t`` and the like.
    """

    inputs: tuple[str, ...]
    expr: Expr


@attrs.frozen
class Forward:
    """An operator's rule.

    Attributes:
        kind: where it is from: what the record says, the operator itself (it is linear), or the gradients.
        outputs: for each result its terms; None for one without a gradient. Of a linear operator there is none: it is
            called with the tangents.
    """

    kind: Kind
    outputs: tuple[tuple[Term, ...] | None, ...] = ()


def forward(context: CodegenContext, derivative: Derivative) -> Forward | None:
    """Returns the rule of an operator, or None where its gradient must be transposed."""
    if derivative.schema.is_view:
        return None  # the tangent of a view is the view of the tangent: nothing to generate
    if not derivative.forward:
        terms = elementwise(derivative) if is_pointwise(context, derivative) else None
        return None if terms is None else Forward("elementwise", (terms,))
    said = {f.targets[0]: f.expr for f in derivative.forward}
    first = next(iter(said.values()))
    if first == ast.Name(AUTO_LINEAR):
        return Forward("linear")
    if first == ast.Name(AUTO_ELEMENT_WISE):
        terms = elementwise(derivative)
        assert terms is not None  # the contract was checked
        return Forward("elementwise", (terms,))
    schema = derivative.schema
    terms_of = {name: tuple(Term(tangents_in(schema, t), t) for t in summands(expr)) for name, expr in said.items()}
    return Forward("result", tuple(terms_of.get(name) for name in schema.return_names))


def elementwise(derivative: Derivative) -> tuple[Term, ...] | None:
    """Returns the tangent of an elementwise operator, from its gradients; None where they do not show it."""
    lists = {a.name for a in derivative.inputs if a.type.is_tensor_list}
    terms: list[Term] = []
    for argument in derivative.inputs:
        formula = next(f for f in derivative.formulas if argument.name in f.targets)
        if len(formula.targets) > 1 or argument.name in lists:
            return None
        # A derivative that was found from `math` says where it conjugates; elsewhere it is of real numbers.
        real = derivative.symbolic and not _conjugates(formula.expr)
        expr = transposed(derivative.scope, formula.expr, f"{argument.name}_t", real=real)
        if expr is None:
            return None
        terms.append(Term((argument.name,), expr))
    return tuple(terms)


def _conjugates(expr: Expr) -> bool:
    return any(isinstance(node, ast.Method) and node.name == "conj" for node in ast.walk(expr))


def described(derivative: Derivative, rule: Forward) -> Iterable[str]:
    """Yields the rule for a reader: a line for each result."""
    names = derivative.schema.return_names
    if rule.kind == "linear":
        yield f"{names[0]}: {derivative.function.name}({', '.join(f'{a.name}_t' for a in derivative.inputs)}, ...)"
    for name, terms in zip(names, rule.outputs, strict=False):
        if terms is not None:
            yield f"{name}: {joined(terms)}"


def joined(terms: tuple[Term, ...]) -> Expr:
    """Returns the sum of terms as one expression."""
    total = terms[0].expr
    for term in terms[1:]:
        positive = _without_minus(term.expr)
        total = ast.Binary("+", total, term.expr) if positive is None else ast.Binary("-", total, positive)
    return total


def _without_minus(expr: Expr) -> Expr | None:
    """Returns a product without the minus that it begins with; None where it begins with none."""
    match expr:
        case ast.Unary(operator="-", operand=operand):
            return operand
        case ast.Binary(operator="*" | "/" as operator, left=left, right=right):
            positive = _without_minus(left)
            return None if positive is None else ast.Binary(operator, positive, right)
    return None
