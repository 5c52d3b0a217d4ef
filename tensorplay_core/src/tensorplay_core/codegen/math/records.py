"""What a contract's records gain from ``math``: their programs, and the rules that the formula implies.

A record is complete when its ``func`` and ``math`` are there: shape, dtype rule, tags and the Composite kernel follow
from the formula, unless the record says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

import attrs

from tensorplay_core.codegen.contract_model import NativeFunction
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.tokens import FormulaError
from tensorplay_core.codegen.math import algebra
from tensorplay_core.codegen.math.lower import Find, checked, is_condition, is_number, program, written_out
from tensorplay_core.codegen.yaml_loader import Scalar
from tensorplay_core.errors import ContractError


class Operators:
    """Finds operators by name, and completes the records whose ``math`` needs each other in that order.

    Args:
        functions: the records of a contract.
        known: records, complete already, that their formulas may use.
    """

    def __init__(self, functions: Iterable[NativeFunction], known: Iterable[NativeFunction] = ()) -> None:
        self._all = {f.qualified_name: f for f in (*known, *functions)}
        self._open: list[str] = []
        self._done = {f.qualified_name for f in known}
        self.names: Mapping[str, str] = _by_name(self._all.values())

    def find(self, name: str) -> NativeFunction | None:
        """Returns the operator that a formula means by a name or alias, complete; None when there is none."""
        found = self.names.get(name)
        return None if found is None else self.complete(found)

    def complete(self, qualified_name: str) -> NativeFunction:
        """Returns a record with what follows from its ``math``.

        Raises:
            ContractError: its formula is wrong, or it is defined by itself.
        """
        function = self._all[qualified_name]
        if qualified_name in self._done or not function.formulas:
            return function
        if qualified_name in self._open:
            circle = [*self._open[self._open.index(qualified_name) :], qualified_name]
            names = " -> ".join(name.removeprefix("tp::") for name in circle)
            what = f"these operators are defined by each other: {names}"
            _fail(
                function.formulas[0].text,
                what if len(circle) > 2 else f"'{function.display_name}' is defined by itself",
            )
        self._open.append(qualified_name)
        try:
            self._all[qualified_name] = function = _completed(function, self)
        finally:
            self._open.pop()
            self._done.add(qualified_name)
        return function


def completed(
    functions: list[NativeFunction], known: Iterable[NativeFunction], problem: Callable[[str], None]
) -> list[NativeFunction]:
    """Returns records with what follows from their ``math``; ``problem`` is told what is wrong."""
    operators = Operators(functions, known)
    result = []
    for function in functions:
        try:
            result.append(operators.complete(function.qualified_name))
        except ContractError as error:
            problem(str(error))
            result.append(function)
    return result


def _by_name(functions: Iterable[NativeFunction]) -> dict[str, str]:
    """Name and aliases to qualified name; of overloads, the one without an overload name comes first."""
    found: dict[str, str] = {}
    for function in sorted(functions, key=lambda f: bool(f.schema.overload)):
        for name in (function.name, *function.aliases):
            found.setdefault(name, function.qualified_name)
    return found


def _completed(function: NativeFunction, operators: Operators) -> NativeFunction:
    formulas = []
    for formula in function.formulas:
        try:
            expr = checked(function, formula.expr, operators.find, operators.names)
            formulas.append(attrs.evolve(formula, expr=expr))
            written = tuple(written_out(f.expr, operators.find) for f in formulas)
            steps = program(function, written, operators.find)
        except FormulaError as error:
            _fail(formula.text, error.reason, error.position)
    return _with_implied_rules(attrs.evolve(function, formulas=tuple(formulas), program=steps), operators.find)


def _with_implied_rules(function: NativeFunction, find: Find) -> NativeFunction:
    """Fills in what a record leaves out, and refuses what its formula contradicts."""
    text = function.formulas[0].text
    if function.composite not in ("none", "explicit"):
        _fail(
            text, f"'{function.display_name}' has `math`, so its Composite kernel is explicit, not {function.composite}"
        )
    for argument in function.schema.arguments:
        if str(argument.type) != "Tensor" and not is_number(argument):
            _fail(text, f"'{argument.name}' is a {argument.type}; `math` computes with tensors and numbers")
    tensors = [a for a in function.schema.arguments if a.type.is_tensor]
    if not tensors:
        _fail(text, f"'{function.display_name}' has no tensor; `math` is computed element by element")
    implied = _promotion(function, len(tensors), find)
    said = f"the record says `promote: {function.promote}`"
    if implied == "float" and function.promote not in ("none", "float"):
        why = f"`{_float_step(function, find)}` computes in floats, so integers must become floats; {said}"
        _fail(text, why, remedy="write `promote: float`, or leave it out")
    if (function.promote == "bool") != (implied == "bool") and function.promote != "none":
        _fail(text, f"`math` gives {'bool' if implied == 'bool' else 'numbers'}; {said}")
    return attrs.evolve(
        function,
        shape=function.shape or ("broadcast" if len(tensors) > 1 else "same"),
        promote=implied if function.promote == "none" else function.promote,
        composite="explicit",
        tags=function.tags if "pointwise" in function.tags else (*function.tags, "pointwise"),
    )


def _promotion(function: NativeFunction, tensors: int, find: Find) -> str:
    conditions = [is_condition(formula.expr, find) for formula in function.formulas]
    if any(conditions):
        if not all(conditions):
            _fail(function.formulas[0].text, "some results are comparisons and some are not; make them two operators")
        return "bool"
    if _float_step(function, find) is not None:
        return "float"
    return "default" if tensors > 1 else "keep"


def _float_step(function: NativeFunction, find: Find) -> Expr | None:
    """Returns the first part of a formula that has no integer result, or None."""
    floats = {a.name for a in function.schema.arguments if is_number(a) and _is_float(a.default and a.default.value)}
    for formula in function.formulas:
        for node in ast.walk(formula.expr):
            found = algebra.as_call(node)
            operator = find(found[0]) if found is not None else None
            if operator is not None and operator.promote == "float":
                return node
            if isinstance(algebra.value_of(node), float) or (isinstance(node, ast.Name) and node.name in floats):
                return node
    return None


def _is_float(value: object) -> bool:
    return isinstance(value, float)


def _fail(text: Scalar, reason: str, position: int = 0, *, remedy: str = "") -> NoReturn:
    raise ContractError(text.at(position).describe(reason, remedy) if remedy else text.at(position).describe(reason))
