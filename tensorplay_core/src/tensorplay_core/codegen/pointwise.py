"""Which operators' gradients provably have the shape of the result: pointwise formulas of pointwise operators.

The engine asks every other gradient for its shape, which costs as much as a small kernel.
"""

from __future__ import annotations

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.contract import Derivative
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr


def is_pointwise(context: CodegenContext, derivative: Derivative) -> bool:
    """Whether every gradient provably has the result's shape: pointwise formulas of ``grad`` for a pointwise operator.

    The inputs of a pointwise operator broadcast to its result, so whatever pointwise operators make of them and of a
    gradient of the result's shape has that shape again. The engine then need not ask each gradient for its own.
    """
    if "pointwise" not in derivative.function.tags or len(derivative.schema.returns) != 1:
        return False
    return all(_keeps_shape(context, derivative, f.expr) for f in derivative.formulas)


def _keeps_shape(context: CodegenContext, derivative: Derivative, expr: Expr) -> bool:
    """Whether an expression is made of pointwise operators, and ``grad`` takes part whatever branch is taken."""
    if isinstance(expr, ast.Conditional):
        branches = (expr.then, expr.otherwise)
        return derivative.scope.tensors.isdisjoint(_names(expr.condition)) and all(
            _keeps_shape(context, derivative, branch) for branch in branches
        )
    return "grad" in _names(expr) and all(_is_pointwise_step(context, node) for node in ast.walk(expr))


def _names(expr: Expr) -> set[str]:
    return {node.name for node in ast.walk(expr) if isinstance(node, ast.Name)}


def _is_pointwise_step(context: CodegenContext, node: Expr) -> bool:
    match node:
        case ast.Name() | ast.Number() | ast.Constant() | ast.Unary(operator="-") | ast.Compare():
            return True
        case ast.Binary(operator=operator):
            return operator != "@"
        case ast.Call(function=name) | ast.Method(name=name):
            found = [f for f in context.contract.overloads.get(name, ()) if f.name == name]
            return bool(found) and all("pointwise" in f.tags for f in found)
    return False
