"""Turns the gradient of an elementwise operator into its tangent.

Such a gradient ``g(u)`` is the gradient ``u`` of the result times a factor, and where that shows in the formula the
tangent is the input's tangent times the same factor. For complex numbers the factor of a gradient is the conjugate of
the derivative, so the tangent has the conjugate of that again: ``grad * other.conj()`` becomes ``self_t * other``.
"""

from __future__ import annotations

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import Scope
from tensorplay_core.codegen.formula.ast import Expr

CONJUGATE = "conjugate"
"""What the emitted code calls where a conjugation stays."""


def transposed(scope: Scope, expr: Expr, tangent: str, *, real: bool = False) -> Expr | None:
    """Returns the tangent that one input gives the result, or None where a gradient is not seen to be such a product.

    Args:
        scope: the names that the formula may use.
        expr: the formula of the gradient.
        tangent: the name of the input's tangent.
        real: whether nothing here is ever complex.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> from tensorplay_core.types.schema import parse_schema
        >>> scope = Scope.of(parse_schema("div(Tensor self, Tensor other) -> Tensor"))
        >>> gradient = parse_formula("-grad * (self / other / other).conj()")
        >>> str(transposed(scope, gradient, "other_t")), transposed(scope, parse_formula("grad.real()"), "self_t")
        ('-other_t * (self / other / other)', None)
    """
    if real or any(isinstance(n, ast.Compare) and n.operator not in ("==", "!=") for n in ast.walk(expr)):
        real = True  # complex numbers have no order
    return _Transposed(scope, ast.Name(tangent), real).of(expr)


class _Transposed:
    def __init__(self, scope: Scope, tangent: Expr, real: bool) -> None:
        self.scope, self.tangent, self.real = scope, tangent, real

    def of(self, expr: Expr) -> Expr | None:
        """Returns ``conj(g(conj(t)))`` with as few conjugations as can be."""
        match expr:
            case ast.Name(name="grad"):
                return self.tangent
            case ast.Number(text="0"):
                return expr
            case ast.Call(function="zeros_like", args=(ast.Name(name="grad"),), kwargs=()):
                return ast.Call("zeros_like", (self.tangent,))
            case ast.Unary(operator="-", operand=operand):
                return _unary(self.of(operand))
            case ast.Binary(operator="+" | "-" as operator, left=left, right=right):
                return _binary(operator, self.of(left), self.of(right))
            case ast.Binary(operator="*" | "/" as operator, left=left, right=right) if not _reads(right):
                return _binary(operator, self.of(left), self.factor(right))
            case ast.Binary(operator="*", left=left, right=right) if not _reads(left):
                return _binary("*", self.factor(left), self.of(right))
            case ast.Call(function="where", args=(condition, then, otherwise), kwargs=()) if not _reads(condition):
                return _where(condition, self.of(then), self.of(otherwise))
            case ast.Conditional(then=then, condition=condition, otherwise=otherwise) if not _reads(condition):
                one, other = self.of(then), self.of(otherwise)
                return None if one is None or other is None else ast.Conditional(one, condition, other)
        return None

    def factor(self, expr: Expr) -> Expr:
        """Returns the conjugate of what the gradient is multiplied by."""
        if self.real:
            return expr
        return self.conjugated(expr) or ast.Call(CONJUGATE, (expr,))

    def conjugated(self, expr: Expr) -> Expr | None:
        """Returns the conjugate where none is written then, else None."""
        match expr:
            case ast.Number() | ast.Constant() | ast.Compare():
                return expr
            case ast.Name(name=name) if name in self.scope.others:
                return expr  # a number of the signature; a formula that minds complex ones says conj()
            case ast.Method(object=receiver, name="conj", args=()):
                return receiver
            case ast.Unary(operator="-", operand=operand):
                return _unary(self.conjugated(operand))
            case ast.Binary(operator="+" | "-" | "*" | "/" as operator, left=left, right=right):
                return _binary(operator, self.conjugated(left), self.conjugated(right))
            case ast.Call(function="where", args=(condition, then, otherwise), kwargs=()):
                return _where(condition, self.conjugated(then), self.conjugated(otherwise))
        return None


def _unary(operand: Expr | None) -> Expr | None:
    return None if operand is None else ast.Unary("-", operand)


def _binary(operator: str, left: Expr | None, right: Expr | None) -> Expr | None:
    return None if left is None or right is None else ast.Binary(operator, left, right)


def _where(condition: Expr, then: Expr | None, otherwise: Expr | None) -> Expr | None:
    return None if then is None or otherwise is None else ast.Call("where", (condition, then, otherwise))


def _reads(expr: Expr) -> bool:
    """Whether a gradient takes part."""
    return any(isinstance(node, ast.Name) and node.name in ("grad", "grads") for node in ast.walk(expr))
