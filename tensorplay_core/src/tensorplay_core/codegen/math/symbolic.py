"""The derivatives that nobody wrote: found from ``math``, tried, and refused with a reason where they are not safe."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tensorplay_core.codegen.contract_model import Contract, Derivative, Formula, NativeFunction
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import Scope, analyze
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math import algebra
from tensorplay_core.codegen.math.differentiate import NoRule, Rule, gradients
from tensorplay_core.codegen.math.lower import is_number, number_of
from tensorplay_core.codegen.math.numeric import FUNCTIONS, evaluate
from tensorplay_core.codegen.math.records import Operators
from tensorplay_core.codegen.math.safety import Refusal, Trial, choice_in
from tensorplay_core.codegen.math.simplify import simplified
from tensorplay_core.codegen.yaml_loader import Scalar
from tensorplay_core.errors import ContractError

REAL_TAGS = frozenset({"real", "ordered"})
"""Tags of operators that take no complex tensors."""
_REAL_RULES = {"sgn": Rule(("self",), {"self": algebra.ZERO})}  # the record of sgn is for complex numbers too
_DEFAULT_NUMBER = 0.5  # what an argument without a default is tried with


def symbolic_derivatives(contract: Contract, known: Contract, problem: Callable[[str], None]) -> list[Derivative]:
    """Returns derivatives for the operators that have ``math`` and no derivative record.

    Args:
        contract: the operators, completed, and the derivatives that were written.
        known: a contract whose operators the formulas may use.
        problem: is told of each operator whose derivative must be written by hand, and why.
    """
    search = _Search(contract, known)
    found = []
    for function in contract.functions:
        if function.formulas and contract.derivative_of(function) is None:
            try:
                found.append(search.derivative(function))
            except ContractError as error:
                problem(str(error))
    return found


class _Search:
    """Differentiates operators, those that others are made of first."""

    def __init__(self, contract: Contract, known: Contract) -> None:
        self._operators = Operators((), (*known.functions, *contract.functions))
        self._written = (contract, known)
        self._found: dict[str, Derivative] = {}
        self._rules: dict[str, Rule | None] = {}

    def derivative(self, function: NativeFunction) -> Derivative:
        """Returns an operator's derivative, written or found."""
        for contract in self._written:
            if (derivative := contract.derivative_of(function)) is not None:
                return derivative
        if function.qualified_name not in self._found:
            self._found[function.qualified_name] = self._differentiated(function)
        return self._found[function.qualified_name]

    def rule(self, name: str) -> Rule | None:
        """Returns how an operator is differentiated where it is part of a formula."""
        if name in _REAL_RULES:
            return _REAL_RULES[name]
        if name not in self._rules:
            function = self._operators.find(name)
            self._rules[name] = None if function is None else self._rule(function)
        return self._rules[name]

    def _rule(self, function: NativeFunction) -> Rule | None:
        if not function.formulas and all(c.derivative_of(function) is None for c in self._written):
            return None
        derivative = self.derivative(function)
        formulas = {f.targets[0]: f.expr for f in derivative.formulas if len(f.targets) == 1}
        if len(formulas) < len(derivative.formulas):
            raise NoRule(function.name, "has one formula for several inputs")
        arguments = function.schema.arguments
        defaults = {a.name: a.default.value for a in arguments if a.default is not None}
        numbers = {name: algebra.number(v) for name, v in defaults.items() if isinstance(v, (int, float))}
        return Rule(tuple(a.name for a in arguments), formulas, numbers)

    def _differentiated(self, function: NativeFunction) -> Derivative:
        inputs = tuple(a.name for a in function.schema.arguments if a.type.is_tensor)
        flags = (function.promote != "bool",) * len(function.formulas)
        formulas: tuple[Formula, ...] = ()
        if all(flags):
            try:
                exprs = self._gradients(function, inputs)
            except NoRule as missing:
                _refuse(function, Refusal(f"'{missing.operator}' {missing.reason}"))
            text = function.formulas[0].text
            formulas = tuple(
                Formula((name,), expr, Scalar(str(expr), "str", text.location, text.end_line))
                for name, expr in exprs.items()
            )
        assert function.location is not None
        return Derivative(
            function=function,
            formulas=formulas,
            not_differentiable=(),
            output_differentiability=flags,
            forward=(),
            analysis=analyze(Scope.of(function.schema, flags), {f.key: f.expr for f in formulas}),
            location=function.location,
            symbolic=True,
        )

    def _gradients(self, function: NativeFunction, inputs: tuple[str, ...]) -> dict[str, Expr]:
        """Returns the formula of each input's gradient, tried and made safe."""
        real = bool(REAL_TAGS & set(function.tags))
        incoming = _incoming(len(function.formulas))
        names = dict(zip([f.expr for f in function.formulas], function.schema.return_names, strict=True))
        outputs: dict[Expr, Expr] = {}
        for formula, grad in zip(function.formulas, incoming, strict=True):
            refusal = choice_in(formula.expr, inputs, not real)
            if refusal is not None:
                _refuse(function, refusal, formula)
            outputs[formula.expr] = algebra.add(outputs[formula.expr], grad) if formula.expr in outputs else grad
        found = gradients(outputs, inputs, self.rule, {expr: ast.Name(name) for expr, name in names.items()})
        found = {name: simplified(expr, real=real) for name, expr in found.items()}
        for formula in function.formulas:
            self._try(function, formula, found, inputs)
        return {name: self._as_written(self._guarded(function, found, name)) for name in inputs}

    def _trial(self, function: NativeFunction, formula: Formula, found: dict[str, Expr]) -> Trial:
        """Results in full, and a gradient of 1 for each output."""
        known: dict[Expr, Expr] = {grad: ast.Name("grad") for grad in _incoming(len(function.formulas))}
        for name, one in zip(function.schema.return_names, function.formulas, strict=True):
            known[ast.Name(name)] = one.expr
        gradients = {name: ast.transform(expr, lambda node: known.get(node)) for name, expr in found.items()}
        constants = {}
        for argument in function.schema.arguments:
            if is_number(argument):
                default = argument.default.value if argument.default is not None else None
                constants[argument.name] = float(default) if isinstance(default, (int, float)) else _DEFAULT_NUMBER
        return Trial(formula.expr, gradients, constants, self.rule, _Functions(self._operators))

    def _try(self, function: NativeFunction, formula: Formula, found: dict[str, Expr], inputs: tuple[str, ...]) -> None:
        refusal = self._trial(function, formula, found).refusal()
        if refusal is not None:
            _refuse(function, attrs.evolve(refusal, position=0), formula)

    def _guarded(self, function: NativeFunction, found: dict[str, Expr], name: str) -> Expr:
        """Returns an input's gradient as it stands, or with guards where it must be differentiable again."""
        trial = self._trial(function, function.formulas[0], found)
        guarded, refusal = trial.guarded(name)
        if refusal is not None:
            _refuse(function, refusal)
        return found[name] if guarded == trial.gradients[name] else guarded

    def _as_written(self, expr: Expr) -> Expr:
        """Writes a derivative as people do: conjugates as methods, defaults left out, zeros where it is 0."""

        def replace(node: Expr) -> Expr | None:
            match node:
                case ast.Call(function="conj", args=(inner,)):
                    return ast.Method(ast.transform(inner, replace), "conj")
                case ast.Call(function=name, args=args):
                    operator = self._operators.find(name)
                    kept = tuple(ast.transform(arg, replace) for arg in args)
                    return ast.Call(name, kept if operator is None else _without_defaults(operator, kept))
            return None

        return (
            ast.Call("zeros_like", (ast.Name("grad"),)) if algebra.value_of(expr) == 0 else ast.transform(expr, replace)
        )


def _without_defaults(operator: NativeFunction, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Returns a call's arguments without those at the end that are the defaults."""
    for argument in reversed(operator.schema.arguments[: len(args)]):
        default = argument.default
        if default is None or algebra.value_of(args[-1]) != default.value:
            break
        args = args[:-1]
    return args


class _Functions(dict[str, Callable[..., float]]):
    """Operators as functions of floats: those that are made of ``math`` compute it."""

    def __init__(self, operators: Operators) -> None:
        super().__init__(FUNCTIONS)
        self._operators = operators

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        operator = self._operators.find(str(name))
        return operator is not None and bool(operator.formulas)

    def __missing__(self, name: str) -> Callable[..., float]:
        operator = self._operators.find(name)
        assert operator is not None, name
        formula = operator.formulas[0].expr
        arguments = operator.schema.arguments
        defaults = {a.name: number_of(a) for a in arguments if a.default is not None}
        names = tuple(a.name for a in arguments)

        def function(*args: float) -> float:
            return evaluate(formula, {**defaults, **dict(zip(names, args, strict=False))}, self)

        self[name] = function
        return function


def _incoming(count: int) -> list[Expr]:
    """The gradients that come in, one for each output."""
    if count == 1:
        return [ast.Name("grad")]
    return [ast.Index(ast.Name("grads"), (ast.Number(str(i)),)) for i in range(count)]


def _refuse(function: NativeFunction, refusal: Refusal, formula: Formula | None = None) -> None:
    text = (formula or function.formulas[0]).text
    raise ContractError(
        text.at(refusal.position).describe(
            f"'{function.display_name}' has no derivative record, and its `math` gives none: {refusal.reason}",
            f"write it by hand, as `- name: {function.display_name}` in derivatives*.yaml",
        )
    )


__all__ = ["REAL_TAGS", "symbolic_derivatives"]
