"""Computes pointwise formulas at points, in Python's own floats: so a derivative is tried before it is trusted.

A formula can be right as algebra and still be useless as arithmetic. Whether it loses its digits, or gives NaN where
there is a value, is found by trying: once in double precision, once with every step rounded to single, and once
differentiated as the engine would do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from ctypes import c_float
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

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


class Tape(NamedTuple):
    """A formula as numbered steps, made once and run at every point.

    Attributes:
        exprs: every subexpression, each after its parts.
        literals: which of them are numbers: in double precision, and rounded to single.
        names: which of them are names.
        steps: which of them are calls: the operator, and where its operands are.
    """

    exprs: tuple[Expr, ...]
    literals: tuple[tuple[int, float, float], ...]
    names: tuple[tuple[int, str], ...]
    steps: tuple[tuple[int, str, tuple[int, ...]], ...]

    def run(self, point: Point, functions: Functions, *, single: bool = False) -> list[float]:
        """Returns the value of every subexpression, as :func:`evaluate` computes the last."""
        known = [0.0] * len(self.exprs)
        for i, double, rounded in self.literals:
            known[i] = rounded if single else double
        for i, name in self.names:
            known[i] = c_float(point[name]).value if single else point[name]
        for i, operator, operands in self.steps:
            result = _applied(functions[operator], [known[k] for k in operands])
            known[i] = c_float(result).value if single else result
        return known


@lru_cache(maxsize=4096)
def tape(expr: Expr) -> Tape:
    """Returns a formula's steps.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> tape(parse_formula("x + x * 2")).steps
        ((2, 'mul', (0, 1)), (3, 'add', (0, 2)))
    """
    places: dict[Expr, int] = {}
    literals, names, steps = [], [], []

    def visit(expr: Expr) -> int:
        if expr in places:
            return places[expr]
        value, found = algebra.value_of(expr), algebra.as_call(expr)
        operands = () if value is not None or found is None else tuple([visit(a) for a in found[1]])
        i = places[expr] = len(places)
        if value is not None:
            literals.append((i, as_float(value), c_float(as_float(value)).value))
        elif isinstance(expr, ast.Name):
            names.append((i, expr.name))
        else:
            assert found is not None, expr
            steps.append((i, found[0], operands))
        return i

    visit(expr)
    return Tape(tuple(places), tuple(literals), tuple(names), tuple(steps))


def as_float(value: float | Fraction) -> float:
    """Returns a number as a float; an infinity for an integer that is too long."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


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
    return tape(expr).run(point, functions, single=single)[-1]


def values(expr: Expr, point: Point, functions: Functions = FUNCTIONS, *, single: bool = False) -> dict[Expr, float]:
    """Returns the value of every subexpression; see :func:`evaluate`."""
    steps = tape(expr)
    return dict(zip(steps.exprs, steps.run(point, functions, single=single), strict=True))


def _applied(function: Callable[..., float], args: list[float]) -> float:
    try:
        return function(*args)
    except OverflowError:
        return math.inf
    except ValueError:  # the square root of a negative number, the sine of infinity
        return math.nan


def slopes(
    expr: Expr, point: Point, rules: Rules, functions: Functions = FUNCTIONS, *, single: bool = False
) -> dict[str, float]:
    """Returns a formula's derivatives at a point as the engine computes them: every record's formula, step by step.

    Where the engine would meet ``0 * inf``, so does this, and the answer is NaN.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> from tensorplay_core.codegen.math.differentiate import Rule
        >>> formulas = {"self": parse_formula("grad * other"), "other": parse_formula("grad * self")}
        >>> rules = {"mul": Rule(("self", "other"), formulas)}
        >>> slopes(parse_formula("x * x"), {"x": 3.0}, rules.get)
        {'x': 6.0}
    """
    steps = tape(expr)
    known = steps.run(point, functions, single=single)
    adjoints: list[float | None] = [None] * len(known)
    adjoints[-1] = 1.0
    for i, names, edges in _backward(expr, rules):
        adjoint = adjoints[i]
        if adjoint is None:
            continue
        local = {"result": known[i], **{name: known[k] for name, k in names}, "grad": adjoint}
        for formula, child in edges:
            contribution = formula.run(local, functions, single=single)[-1]
            adjoints[child] = contribution + (adjoints[child] or 0.0)
    return {name: adjoints[i] or 0.0 for i, name in steps.names}


Edges = tuple[tuple[Tape, int], ...]


@lru_cache(maxsize=1024)
def _backward(expr: Expr, rules: Rules) -> tuple[tuple[int, tuple[tuple[str, int], ...], Edges], ...]:
    """Returns the calls of a formula, the last first: its operands by name, and the formula of each one's gradient."""
    steps = tape(expr)
    literal = {i for i, _, _ in steps.literals}
    found = []
    for i, operator, operands in reversed(steps.steps):
        rule = rules(operator)
        if rule is None:
            raise NoRule(operator, "has no derivative record")
        names = tuple(zip(rule.arguments, operands, strict=False))
        local = {name: ast.Name(name) for name in ("result", *(name for name, _ in names), "grad")}
        edges = tuple(
            (tape(substituted(rule.formulas[name], {**rule.defaults, **local}, operator)), child)
            for name, child in names
            if name in rule.formulas and child not in literal
        )
        found.append((i, names, edges))
    return tuple(found)
