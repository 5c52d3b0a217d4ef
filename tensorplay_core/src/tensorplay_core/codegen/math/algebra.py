"""Algebra on pointwise formulas: the constructors that a derivative is built with.

A formula here is made of names, numbers, ``+ - * / **``, comparisons and calls of operators. A few laws hold from the
start: numbers are computed, a literal zero absorbs, and a product goes into a ``where`` that has a zero, so that a
branch that is not taken cannot put a NaN into one that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr

ZERO, ONE = ast.Number("0"), ast.Number("1")
OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow"}
"""What the signs of the language call."""
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_SIGNS = {name: sign for sign, name in OPERATORS.items()}
_ORDER = {name: sign for sign, name in COMPARISONS.items()}


# ------------------------------------------------------------------------------------------------------------- numbers


def number(value: int | float | Fraction) -> Expr:
    """Returns a number as a formula; a fraction that is no integer is a quotient.

    Example:
        >>> str(number(-2)), str(number(Fraction(1, 6))), str(number(1e-5))
        ('-2', '1 / 6', '1e-05')
    """
    if value != value:
        return ast.Constant("nan")
    if value < 0 or (isinstance(value, float) and math.copysign(1, value) < 0):
        return ast.Unary("-", number(-value))
    if isinstance(value, Fraction):
        top = ast.Number(str(value.numerator))
        return top if value.denominator == 1 else ast.Binary("/", top, ast.Number(str(value.denominator)))
    return ast.Constant("inf") if value == float("inf") else ast.Number(repr(value))


def value_of(expr: Expr) -> int | float | None:
    """Returns the value of a literal, with its sign; None for anything else.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> value_of(parse_formula("-2")), value_of(parse_formula("x")), value_of(parse_formula("pi"))
        (-2, None, 3.141592653589793)
    """
    match expr:
        case ast.Number():
            return expr.value
        case ast.Constant(name="inf" | "nan" as name):
            return float(name)
        case ast.Constant(name="pi"):
            return 3.141592653589793
        case ast.Constant(name="True" | "False" as name):
            return int(name == "True")
        case ast.Unary(operator="-", operand=operand):
            inner = value_of(operand)
            return None if inner is None else -inner
    return None


# -------------------------------------------------------------------------------------------------------- constructors


def neg(a: Expr) -> Expr:
    """``-a``."""
    if isinstance(a, ast.Unary) and a.operator == "-":
        return a.operand
    return _into_where(a, neg) or (ZERO if value_of(a) == 0 else ast.Unary("-", a))


def add(a: Expr, b: Expr) -> Expr:
    """``a + b``; two ``where`` of one condition become one."""
    if value_of(a) == 0 or value_of(b) == 0:
        return b if value_of(a) == 0 else a
    if (folded := _folded(a, b, lambda x, y: x + y)) is not None:
        return folded
    match a, b:
        case ast.Call(function="where", args=(c, x, y)), ast.Call(function="where", args=(d, u, v)) if c == d:
            return where(c, add(x, u), add(y, v))
        case _, ast.Unary(operator="-", operand=operand):
            return ast.Binary("-", a, operand)
    return ast.Binary("+", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """``a - b``."""
    return add(a, neg(b))


def mul(a: Expr, b: Expr) -> Expr:
    """``a * b``; a literal zero absorbs whatever the other is, and a ``where`` takes the factor in."""
    if value_of(a) == 0 or value_of(b) == 0:
        return ZERO
    if value_of(a) == 1 or value_of(b) == 1:
        return b if value_of(a) == 1 else a
    folded = _folded(a, b, lambda x, y: x * y)
    taken_in = folded or _into_where(a, lambda x: mul(x, b)) or _into_where(b, lambda y: mul(a, y))
    return taken_in or ast.Binary("*", a, b)


def div(a: Expr, b: Expr) -> Expr:
    """``a / b``; a literal zero on top absorbs."""
    if value_of(a) == 0 or value_of(b) == 1:
        return a
    return _into_where(a, lambda x: div(x, b)) or ast.Binary("/", a, b)


def power(a: Expr, b: Expr) -> Expr:
    """``a ** b``."""
    exponent = value_of(b)
    return ONE if exponent == 0 else a if exponent == 1 else ast.Binary("**", a, b)


def where(condition: Expr, a: Expr, b: Expr) -> Expr:
    """``where(condition, a, b)``, or the branch that is always taken."""
    known = value_of(condition)
    if known is not None:
        return a if known else b
    match a, b:  # what both branches ask is asked once, outside
        case ast.Call(function="where", args=(c, x, y)), ast.Call(function="where", args=(d, u, v)) if c == d:
            if x == u or y == v:
                return where(c, where(condition, x, u), where(condition, y, v))
    return a if a == b else ast.Call("where", (condition, a, b))


def compare(operator: str, a: Expr, b: Expr) -> Expr:
    """A comparison; of two literals, or quotients of literals, its truth."""
    x, y = _quotient(a), _quotient(b)
    if x is None or y is None:
        return ast.Compare(operator, a, b)
    truth = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[operator]
    return ast.Constant(str(truth))


def _quotient(expr: Expr) -> float | None:
    match expr:
        case ast.Binary(operator="/", left=a, right=b) if (y := value_of(b)) and (x := value_of(a)) is not None:
            return x / y
    return value_of(expr)


def call(name: str, args: tuple[Expr, ...]) -> Expr:
    """A call of an operator, written as a sign where it has one."""
    binary: dict[str, Callable[[Expr, Expr], Expr]] = {"add": add, "sub": sub, "mul": mul, "div": div, "pow": power}
    if name in binary and len(args) == 2:
        return binary[name](*args)
    if name in _ORDER and len(args) == 2:
        return compare(_ORDER[name], *args)
    if name == "neg" and len(args) == 1:
        return neg(*args)
    if name == "where" and len(args) == 3:
        return where(*args)
    if name == "conj" and len(args) == 1:
        inner = args[0]
        if value_of(inner) is not None:
            return inner
        if isinstance(inner, ast.Call) and inner.function == "conj":
            return inner.args[0]
    return ast.Call(name, args)


def plain(name: str, args: tuple[Expr, ...]) -> Expr:
    """A call of an operator as it stands: only numbers are computed, and factors of 1 left out, which change nothing.

    Example:
        >>> x = ast.Name("x")
        >>> str(plain("mul", (x, ONE))), str(plain("mul", (x, ZERO))), str(plain("add", (ONE, ONE)))
        ('x', 'x * 0', '2')
    """
    values = [value_of(arg) for arg in args]
    if name in (*_SIGNS, "neg") and args and all(value is not None for value in values):
        return call(name, args)
    if name in ("mul", "div", "pow") and values[1] == 1:
        return args[0]
    if name == "mul" and values[0] == 1:
        return args[1]
    if name in _SIGNS:
        return ast.Binary(_SIGNS[name], *args)
    if name in _ORDER:
        return ast.Compare(_ORDER[name], *args)
    return ast.Unary("-", *args) if name == "neg" else ast.Call(name, args)


def _folded(a: Expr, b: Expr, function: Callable[[float, float], float]) -> Expr | None:
    x, y = value_of(a), value_of(b)
    return None if x is None or y is None else number(function(x, y))


def _into_where(expr: Expr, function: Callable[[Expr], Expr]) -> Expr | None:
    """Applies a linear function to the branches, where one of them is a literal zero, which absorbs it."""
    match expr:
        case ast.Call(function="where", args=(condition, a, b)) if value_of(a) == 0 or value_of(b) == 0:
            return where(condition, function(a), function(b))
    return None


def as_call(expr: Expr) -> tuple[str, tuple[Expr, ...]] | None:
    """Returns the operator that a formula calls at its root, and with what; None for names and literals.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> name, args = as_call(parse_formula("x / 2"))
        >>> name, [str(a) for a in args]
        ('div', ['x', '2'])
    """
    match expr:
        case ast.Binary(operator=operator, left=a, right=b) if operator in OPERATORS:
            return OPERATORS[operator], (a, b)
        case ast.Compare(operator=operator, left=a, right=b):
            return COMPARISONS[operator], (a, b)
        case ast.Unary(operator="-", operand=a) if value_of(expr) is None:
            return "neg", (a,)
        case ast.Call(function=name, args=args):
            return name, args
    return None


def rebuilt(expr: Expr, args: Iterable[Expr]) -> Expr:
    """Returns the call at a formula's root with other arguments."""
    found = as_call(expr)
    assert found is not None
    return call(found[0], tuple(args))
