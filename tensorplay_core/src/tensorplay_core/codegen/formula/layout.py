"""Breaks a long formula into lines, the way a formatter of Python breaks an expression.

Generated code is read by people, and some formulas are longer than a line. A sum or a product is broken before its
operators, a call after its bracket, one argument a line.
"""

from __future__ import annotations

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr


def layout(expr: Expr, width: int) -> list[str]:
    """Returns a formula as lines that fit, as far as they can be broken; it must stand in brackets then.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> layout(parse_formula("grad * where(x > 0, 1, sigmoid(x)) + 1"), width=20)
        ['grad', '* where(', '    x > 0,', '    1,', '    sigmoid(x),', ')', '+ 1']
    """
    text = str(expr)
    if len(text) <= width:
        return [text]
    match expr:
        case ast.Binary(operator=operator) if operator != "**":
            return _chain(expr, width)
        case ast.Call(function=name, args=args, kwargs=kwargs) if args or kwargs:
            return _call(name, args, kwargs, width)
        case ast.Method(object=receiver, name=name, args=args, kwargs=kwargs) if args or kwargs:
            return _call(f"{ast.Method(receiver, name)}"[:-2], args, kwargs, width)
        case ast.Method(object=receiver, name=name) if receiver.level < ast.POSTFIX:
            return ["(", *_indented(layout(receiver, width - 4)), f").{name}()"]
        case ast.Conditional(then=then, condition=condition, otherwise=otherwise):
            rest = _prefixed("if ", _operand(condition, ast.OR, width - 3))
            rest += _prefixed("else ", layout(otherwise, width - 5))
            return [*_operand(then, ast.OR, width), *rest]
    return [text]


def _chain(expr: Expr, width: int) -> list[str]:
    """A sum or a product, broken before each of its operators."""
    level, parts = expr.level, list[tuple[str, Expr]]()
    while isinstance(expr, ast.Binary) and expr.level == level:
        parts.append((f"{expr.operator} ", expr.right))
        expr = expr.left
    lines = _operand(expr, level, width)
    for operator, part in reversed(parts):
        lines += _prefixed(operator, _operand(part, level + 1, width - len(operator)))
    return lines


def _operand(expr: Expr, level: int, width: int) -> list[str]:
    if expr.level >= level:
        return layout(expr, width)
    one = f"({expr})"
    return [one] if len(one) <= width else ["(", *_indented(layout(expr, width - 4)), ")"]


def _call(head: str, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...], width: int) -> list[str]:
    items = [layout(arg, width - 5) for arg in args]
    items += [_prefixed(f"{name}=", layout(value, width - 5 - len(name))) for name, value in kwargs]
    inner = [line for item in items for line in (*item[:-1], f"{item[-1]},")]
    return [f"{head}(", *_indented(inner), ")"]


def _prefixed(prefix: str, lines: list[str]) -> list[str]:
    return [prefix + lines[0], *lines[1:]]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
