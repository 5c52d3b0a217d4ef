"""Computes pointwise formulas at points, in Python's own floats: so a derivative is tried before it is trusted.

A formula can be right as algebra and still be useless as arithmetic. Whether it loses its digits, or gives NaN where
there is a value, is found by trying: once in double precision, once with every step rounded to single, and once
differentiated as the engine would do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from ctypes import c_float
from functools import lru_cache

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math import algebra
from tensorplay_core.codegen.math.differentiate import NoRule, Rules, substituted

Point = Mapping[str, float]


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a != a or a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
    except ValueError:  # zero to a negative power, a negative number to a fraction
        return math.nan if a else math.copysign(math.inf, a) if b % 2 == 1 else math.inf


def _sigmoid(x: float) -> float:
    e = math.exp(-abs(x))
    return (1 if x >= 0 else e) / (1 + e)


def _log(x: float) -> float:
    return -math.inf if x == 0 else math.log(x) if x > 0 else math.nan


def _sign(x: float) -> float:
    return x if x != x else float((x > 0) - (x < 0))


def _larger(a: float, b: float) -> float:
    return a if a != a or (a >= b) else b


Functions = Mapping[str, Callable[..., float]]
FUNCTIONS: Functions = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "pow": _power,
    "neg": lambda a: -a,
    "abs": abs,
    "sgn": _sign,
    "conj": lambda a: a,
    "real": lambda a: a,
    "clone": lambda a: a,
    "exp": math.exp,
    "expm1": math.expm1,
    "log": _log,
    "log1p": lambda a: _log(1 + a) if a <= -1 else math.log1p(a),
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda a: a if a > 0 or a != a else 0.0,
    "maximum": _larger,
    "minimum": lambda a, b: -_larger(-a, -b),
    "eq": lambda a, b: float(a == b),
    "ne": lambda a, b: float(a != b),
    "lt": lambda a, b: float(a < b),
    "le": lambda a, b: float(a <= b),
    "gt": lambda a, b: float(a > b),
    "ge": lambda a, b: float(a >= b),
    "where": lambda c, a, b: a if c else b,
}
"""Operators of the contract, for one element in double precision."""


def evaluate(expr: Expr, point: Point, functions: Functions = FUNCTIONS, *, single: bool = False) -> float:
    """Returns a formula's value at a point.

    Args:
        expr: the formula.
        point: name to value.
        functions: the operators that it calls.
        single: round the value of every step to single precision, as an array of float32 would.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> evaluate(parse_formula("x / x"), {"x": 0.0}), evaluate(parse_formula("exp(x)"), {"x": 1000.0})
        (nan, inf)
    """
    return values(expr, point, functions, single=single)[expr]


def values(expr: Expr, point: Point, functions: Functions = FUNCTIONS, *, single: bool = False) -> dict[Expr, float]:
    """Returns the value of every subexpression; see :func:`evaluate`."""
    known: dict[Expr, float] = {}

    def visit(expr: Expr) -> float:
        if expr in known:
            return known[expr]
        value = algebra.value_of(expr)
        if value is not None:
            result = float(value)
        elif isinstance(expr, ast.Name):
            result = point[expr.name]
        else:
            found = algebra.as_call(expr)
            assert found is not None, expr
            result = _applied(functions[found[0]], [visit(a) for a in found[1]])
        known[expr] = result = c_float(result).value if single else result
        return result

    visit(expr)
    return known


def _applied(function: Callable[..., float], args: list[float]) -> float:
    try:
        return function(*args)
    except OverflowError:
        return math.inf
    except ValueError:  # the square root of a negative number, the sine of infinity
        return math.nan


def slope(expr: Expr, name: str, point: Point, rules: Rules, functions: Functions = FUNCTIONS) -> float:
    """Returns a formula's derivative at a point as the engine computes it: every record's formula, step by step.

    Where the engine would meet ``0 * inf``, so does this, and the answer is NaN.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> from tensorplay_core.codegen.math.differentiate import Rule
        >>> formulas = {"self": parse_formula("grad * other"), "other": parse_formula("grad * self")}
        >>> rules = {"mul": Rule(("self", "other"), formulas)}
        >>> slope(parse_formula("x * x"), "x", {"x": 3.0}, rules.get)
        6.0
    """
    known = values(expr, point, functions)
    adjoints: dict[Expr, float] = {expr: 1.0}
    for node in reversed(known):  # a subexpression was computed before whatever uses it
        found = algebra.as_call(node)
        adjoint = adjoints.get(node)
        if found is None or adjoint is None:
            continue
        rule = rules(found[0])
        if rule is None:
            raise NoRule(found[0], "has no derivative record")
        given = dict(zip(rule.arguments, found[1], strict=False))
        local = {**{n: known[a] for n, a in given.items()}, "grad": adjoint, "result": known[node]}
        for argument, child in given.items():
            if argument in rule.formulas and algebra.value_of(child) is None:
                formula = _local_formula(rule.formulas[argument], tuple(local), tuple(rule.defaults.items()), found[0])
                adjoints[child] = adjoints.get(child, 0.0) + evaluate(formula, local, functions)
    return adjoints.get(ast.Name(name), 0.0)


@lru_cache(maxsize=1024)
def _local_formula(
    formula: Expr, names: tuple[str, ...], defaults: tuple[tuple[str, Expr], ...], operator: str
) -> Expr:
    """Returns a record's formula in the language of :func:`evaluate`; the same for every point."""
    return substituted(formula, {**dict(defaults), **{name: ast.Name(name) for name in names}}, operator)
