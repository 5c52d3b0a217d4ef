"""The derivative of a pointwise formula, by the chain rule over the records of the operators that it is made of.

There is no second table of derivatives: what ``tanh`` or ``*`` passes back is what its own record says, read here as a
formula of a formula. So a symbolic derivative is as right, and as careful in the tails, as the records are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math import algebra


class Rule(NamedTuple):
    """How an operator is differentiated.

    Attributes:
        arguments: the names of its arguments, positional ones first.
        formulas: differentiable argument to the formula of its gradient.
        defaults: argument to its default, as a literal.
    """

    arguments: tuple[str, ...]
    formulas: Mapping[str, Expr]
    defaults: Mapping[str, Expr] = {}


Rules = Callable[[str], Rule | None]


class NoRule(Exception):
    """An operator's derivative cannot be used here.

    Attributes:
        operator: its name.
        reason: why, in a few words.
    """

    def __init__(self, operator: str, reason: str) -> None:
        super().__init__(operator, reason)
        self.operator, self.reason = operator, reason


def gradients(
    outputs: Mapping[Expr, Expr], inputs: tuple[str, ...], rules: Rules, result: Mapping[Expr, Expr]
) -> dict[str, Expr]:
    """Returns the gradient of each input.

    Args:
        outputs: each output's formula, and the formula of the gradient that comes in for it (``grad``).
        inputs: the inputs that are differentiated.
        rules: operator to its derivative record.
        result: what is known by another name when gradients are computed: an output's formula to ``result``.

    Raises:
        NoRule: an operator has no usable record.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> square, grad = parse_formula("x * x"), parse_formula("grad")
        >>> formulas = {"self": parse_formula("grad * other"), "other": parse_formula("grad * self")}
        >>> rules = {"mul": Rule(("self", "other"), formulas)}
        >>> str(gradients({square: grad}, ("x",), rules.get, {})["x"])
        'grad * x + grad * x'
    """
    adjoints: dict[Expr, Expr] = {}
    for expr, grad in outputs.items():
        adjoints[expr] = algebra.add(adjoints[expr], grad) if expr in adjoints else grad
    for node in _users_first(outputs, inputs):
        found = algebra.as_call(node)
        adjoint = adjoints.get(node, algebra.ZERO)
        if found is None or algebra.value_of(adjoint) == 0:
            continue
        for child, contribution in _passed_back(node, *found, adjoint, inputs, rules, result):
            adjoints[child] = algebra.add(adjoints[child], contribution) if child in adjoints else contribution
    return {name: adjoints.get(ast.Name(name), algebra.ZERO) for name in inputs}


def depends(expr: Expr, inputs: tuple[str, ...]) -> bool:
    """Whether a formula reads one of the inputs."""
    return any(isinstance(node, ast.Name) and node.name in inputs for node in ast.walk(expr))


def _users_first(outputs: Mapping[Expr, Expr], inputs: tuple[str, ...]) -> list[Expr]:
    """Every subexpression that depends on an input, each behind all that use it."""
    ordered: list[Expr] = []
    seen: set[Expr] = set()

    def visit(expr: Expr) -> None:
        if expr in seen or not depends(expr, inputs):
            return
        seen.add(expr)
        found = algebra.as_call(expr)
        for child in found[1] if found is not None else ():
            visit(child)
        ordered.append(expr)

    for output in outputs:
        visit(output)
    return ordered[::-1]


def _passed_back(
    node: Expr,
    name: str,
    args: tuple[Expr, ...],
    adjoint: Expr,
    inputs: tuple[str, ...],
    rules: Rules,
    result: Mapping[Expr, Expr],
) -> list[tuple[Expr, Expr]]:
    """What a call passes back to each of its arguments that depends on an input."""
    reached = [i for i, arg in enumerate(args) if depends(arg, inputs)]
    rule = rules(name)
    if rule is None:
        raise NoRule(name, "has no derivative record")
    given = dict(zip(rule.arguments, args, strict=False))
    known = {**rule.defaults, "result": result.get(node, node), **given}

    def back(argument: str, grad: Expr) -> Expr:
        """A formula is linear in the gradient, so each branch of a gradient goes through it alone."""
        match grad:
            case ast.Call(function="where", args=(condition, a, b)):
                return algebra.where(condition, back(argument, a), back(argument, b))
        zero = algebra.value_of(grad) == 0
        return grad if zero else substituted(rule.formulas[argument], {**known, "grad": grad}, name)

    names = [rule.arguments[i] for i in reached]
    return [(given[n], back(n, adjoint)) for n in names if n in rule.formulas]


def substituted(expr: Expr, known: Mapping[str, Expr], operator: str) -> Expr:
    """Returns a record's formula with other formulas in the place of its names.

    Raises:
        NoRule: the formula uses what pointwise formulas do not have.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> formula = parse_formula("grad if alpha == 1 else grad * alpha")
        >>> str(substituted(formula, {"grad": parse_formula("g * x"), "alpha": parse_formula("1")}, "add"))
        'g * x'
    """

    def build(expr: Expr) -> Expr:
        match expr:
            case ast.Name(name=name):
                if name not in known:
                    raise NoRule(operator, f"has a derivative that reads '{name}'")
                return known[name]
            case _ if algebra.value_of(expr) is not None:
                return expr
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                asked = build(condition)
                truth = algebra.value_of(asked)
                if truth is None:  # it depends on an argument that is a number
                    return algebra.where(asked, build(then), build(otherwise))
                return build(then if truth else otherwise)
            case ast.Method(object=receiver, name=name, args=args, kwargs=()):
                return algebra.call(name, (build(receiver), *map(build, args)))
            case ast.Call(function=name, args=args, kwargs=()):
                return algebra.call(name, tuple(map(build, args)))
        found = algebra.as_call(expr)
        if found is None:
            raise NoRule(operator, f"has a derivative that computes `{expr}`")
        return algebra.rebuilt(expr, map(build, found[1]))

    return build(expr)
