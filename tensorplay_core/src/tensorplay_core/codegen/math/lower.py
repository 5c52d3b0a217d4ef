"""From the formula of ``math`` to a program: names checked, operators made of ``math`` written out, steps shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tensorplay_core.codegen.contract_model import NativeFunction
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.codegen.math import algebra
from tensorplay_core.codegen.math.numeric import FUNCTIONS, evaluate
from tensorplay_core.errors import did_you_mean
from tensorplay_core.types.program import Number, Operand, Program, Step
from tensorplay_core.types.schema import Argument, BaseType

NUMBERS = frozenset({BaseType.SCALAR, BaseType.INT, BaseType.SYMINT, BaseType.FLOAT})
"""Types of arguments that are Python numbers."""
_ON_NUMBERS = frozenset({"add", "sub", "mul", "div", "pow", "neg"})
Find = Callable[[str], NativeFunction | None]


def is_number(argument: Argument) -> bool:
    """Whether an argument is one Python number."""
    kind = argument.type
    return kind.base in NUMBERS and not kind.is_list and not kind.is_optional


def checked(function: NativeFunction, expr: Expr, find: Find, names: Mapping[str, object]) -> Expr:
    """Returns a formula in the few forms that ``math`` has: methods as calls, every argument in its place.

    Args:
        function: the operator whose formula it is.
        expr: the formula as it was written.
        find: gives an operator by name.
        names: the operators that there are, for suggestions.

    Raises:
        FormulaError: a name, an operator or a form that ``math`` does not have.
    """
    arguments = {a.name: a for a in function.schema.arguments}

    def fail(reason: str, node: Expr) -> FormulaError:
        return FormulaError(reason, "", node.position)

    def build(node: Expr) -> Expr:
        if algebra.value_of(node) is not None:
            return node
        match node:
            case ast.Name(name=name):
                argument = arguments.get(name)
                if argument is None:
                    near = did_you_mean(name, arguments) or f" Its inputs are {', '.join(arguments)}."
                    raise fail(f"no input is named '{name}'.{near}", node)
                if str(argument.type) != "Tensor" and not is_number(argument):
                    raise fail(f"'{name}' is a {argument.type}; `math` computes with tensors and numbers", node)
                return node
            case ast.Method(object=receiver, name=name, args=args, kwargs=kwargs):
                return called(name, (receiver, *args), kwargs, node)
            case ast.Call(function=name, args=args, kwargs=kwargs):
                return called(name, args, kwargs, node)
            case ast.Conditional():
                raise fail("`a if c else b` is for Python values; write where(c, a, b)", node)
            case ast.Boolean() | ast.Unary(operator="not"):
                raise fail("`and`, `or` and `not` are for Python values; nest where(c, a, b)", node)
        found = algebra.as_call(node)
        if found is None:
            raise fail(f"`{node}` is not pointwise; `math` has + - * / **, comparisons and pointwise operators", node)
        args = tuple(build(a) for a in found[1])
        return attrs.evolve(_computed(algebra.plain(found[0], args), find), position=node.position)

    def called(name: str, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...], node: Expr) -> Expr:
        operator = find(name)
        if operator is None:
            raise fail(f"'{name}' is no operator of the contract.{did_you_mean(name, names)}", node)
        if reason := _not_usable(operator):
            raise fail(f"'{name}' {reason}, so `math` cannot use it", node)
        full = tuple(build(a) for a in bound(operator, args, kwargs, node))
        if name == "where" and not is_condition(full[0], find):
            raise fail("the condition of where is a comparison", node)
        _refuse_tensors(operator, full, arguments)
        return attrs.evolve(_computed(algebra.plain(operator.name, full), find), position=node.position)

    return build(expr)


def _refuse_tensors(operator: NativeFunction, args: tuple[Expr, ...], inputs: Mapping[str, Argument]) -> None:
    """Refuses a call that has a tensor where a number belongs: it would have no gradient there."""
    for argument, value in zip(operator.schema.arguments, args, strict=False):
        for node in ast.walk(value) if is_number(argument) else ():
            if isinstance(node, ast.Name) and node.name in inputs and not is_number(inputs[node.name]):
                reason = f"'{operator.name}' takes a number as {argument.name}, and `{node}` is a tensor"
                raise FormulaError(reason, "", value.position)


def _computed(expr: Expr, find: Find) -> Expr:
    """Returns the value of a function of literals, and the branch of a ``where`` that is always taken."""
    found = algebra.as_call(expr)
    if found is None or algebra.value_of(expr) is not None:
        return expr
    name, args = found
    values = [algebra.value_of(arg) for arg in args]
    if name == "where" and values[0] is not None:
        return args[1] if values[0] else args[2]
    if name == "where" or any(isinstance(node, ast.Name) for node in ast.walk(expr)):
        return expr
    if name == "div" and values[1] != 0:
        return expr  # a quotient stays exact
    if not _is_computable(full := written_out(expr, find)):
        return expr
    if name in algebra.COMPARISONS.values():
        return ast.Constant(str(bool(evaluate(full, {}))))
    computed = evaluate(full, {})
    whole = name in ("pow", "abs", "sgn", "maximum", "minimum", "relu") and all(isinstance(v, int) for v in values)
    if whole and abs(computed) < 2**53 and computed == int(computed):
        return algebra.number(int(computed))
    return algebra.number(computed)


def _is_computable(expr: Expr) -> bool:
    """Whether a formula is a number that can be computed here."""
    calls = (algebra.as_call(node) for node in ast.walk(expr))
    names = any(isinstance(node, ast.Name) for node in ast.walk(expr))
    return not names and all(found is None or found[0] in FUNCTIONS for found in calls)


def _not_usable(operator: NativeFunction) -> str:
    schema = operator.schema
    if "pointwise" not in operator.tags and operator.name != "where":
        return "is not pointwise"
    if [str(r.type) for r in schema.returns] != ["Tensor"]:
        return "has not one Tensor as its result"
    if any(str(a.type) != "Tensor" and not is_number(a) for a in schema.arguments):
        return f"takes other things than tensors and numbers ({schema})"
    return ""


def bound(
    operator: NativeFunction, args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...], node: Expr
) -> tuple[Expr, ...]:
    """Returns a call's arguments in the order of the signature; what kernels may leave out must have its default."""
    schema = operator.schema
    given = dict(zip([a.name for a in schema.positional], args, strict=False)) | dict(kwargs)
    known = {a.name for a in schema.arguments}
    if len(args) > len(schema.positional) or not set(given) <= known or len(given) < len(args) + len(kwargs):
        raise FormulaError(f"'{operator.name}' does not take these arguments: it is {schema}", "", node.position)
    full = []
    for argument in schema.arguments:
        if argument.name in given and argument.kwarg_only and operator.program is None:
            raise FormulaError(f"'{operator.name}' in `math` leaves {argument.name} at its default", "", node.position)
        if argument.name not in given and argument.default is None:
            raise FormulaError(f"'{operator.name}' lacks '{argument.name}': it is {schema}", "", node.position)
        if argument.name in given:
            full.append(given[argument.name])
        elif not argument.kwarg_only or operator.program is not None:
            assert argument.default is not None
            full.append(algebra.number(argument.default.value))  # type: ignore[arg-type]
    return tuple(full)


def is_condition(expr: Expr, find: Find) -> bool:
    """Whether a formula is a comparison, whose result is bool."""
    found = algebra.as_call(expr)
    if isinstance(expr, ast.Constant) and expr.name in ("True", "False"):
        return True
    return found is not None and (operator := find(found[0])) is not None and operator.promote == "bool"


def written_out(expr: Expr, find: Find) -> Expr:
    """Returns a formula in which operators that are made of ``math`` are replaced by what they compute."""
    found = algebra.as_call(expr)
    if found is None:
        return expr
    args = tuple(written_out(arg, find) for arg in found[1])
    operator = find(found[0])
    if operator is None or not operator.formulas:
        return attrs.evolve(algebra.plain(found[0], args), position=expr.position)
    arguments = operator.schema.arguments
    values = {a.name: algebra.number(number_of(a)) for a in arguments if a.default is not None}
    values |= {a.name: arg for a, arg in zip(arguments, args, strict=False)}
    return written_out(_with(operator.formulas[0].expr, values), find)


def _with(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    return ast.transform(expr, lambda node: values.get(node.name) if isinstance(node, ast.Name) else None)


def program(function: NativeFunction, exprs: tuple[Expr, ...], find: Find) -> Program:
    """Returns the steps that compute formulas, each common subexpression once.

    Args:
        function: the operator.
        exprs: one formula for each result, checked and written out.
        find: gives an operator by name.

    Raises:
        FormulaError: a function of numbers alone, which is not computed by arrays.
    """
    schema = function.schema
    numbers = tuple(a.name for a in schema.arguments if is_number(a))
    taken = {a.name for a in schema.arguments}
    fresh = (name for i in range(10_000) if (name := f"t{i}") not in taken)
    scalar_steps: list[Step] = []
    steps: list[Step] = []
    known: dict[Expr, Operand] = {ast.Name(name): name for name in taken}
    of_numbers = {*numbers}

    def visit(expr: Expr) -> Operand:
        if expr in known:
            return known[expr]
        value = algebra.value_of(expr)
        if value is not None:
            return bool(value) if is_condition(expr, find) else value
        found = algebra.as_call(expr)
        assert found is not None, expr
        if found[0] == "where" and not isinstance(truth := visit(found[1][0]), str):
            return visit(found[1][1 if truth else 2])
        operands = [visit(a) for a in found[1]]
        if not any(isinstance(o, str) for o in operands) and _is_computable(expr):
            computed = evaluate(expr, {})  # of literals, such as 1 / 3
            return bool(computed) if is_condition(expr, find) else computed
        name = next(fresh)
        if all(not isinstance(o, str) or o in of_numbers for o in operands):
            if found[0] not in _ON_NUMBERS:
                reason = f"`{expr}` is a function of a number alone, and of numbers `math` has + - * / ** only"
                raise FormulaError(reason, "", expr.position)
            scalar_steps.append((name, found[0], *operands))
            of_numbers.add(name)
        else:
            steps.append((name, found[0], *operands))
        known[expr] = name
        return name

    results = tuple(visit(expr) for expr in exprs)
    keywords = tuple((a.name, number_of(a)) for a in schema.keyword_only)
    inputs = tuple(a.name for a in schema.positional)
    return Program(inputs, keywords, numbers, tuple(scalar_steps), tuple(steps), results)


def number_of(argument: Argument) -> Number:
    """Returns the default of an argument that is a number."""
    value = argument.default.value if argument.default is not None else None
    return value if isinstance(value, (bool, int, float)) else 0


def text_of(program: Program) -> list[str]:
    """Returns a program as the lines of Python that make it again."""
    lines = ["math=Program("]
    for field in program:
        one = f"    {_tuple([_item(item) for item in field])},"
        if field is program.steps or len(one) > 100:
            lines += ["    (", *(f"        {_item(item)}," for item in field), "    ),"] if field else ["    (),"]
        else:
            lines.append(one)
    return [*lines, ")"]


def _item(item: object) -> str:
    if isinstance(item, tuple):
        return _tuple([_item(part) for part in item])
    if isinstance(item, str):
        return f'"{item}"'
    if isinstance(item, float) and (item != item or item in (float("inf"), -float("inf"))):
        return f'float("{item}")'
    return repr(item)


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
