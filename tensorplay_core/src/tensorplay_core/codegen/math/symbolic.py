"""The derivatives that nobody wrote: found from ``math``, tried, and refused with a reason where they are not safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

import attrs

from tensorplay_core.codegen.contract_model import Contract, Derivative, Formula, NativeFunction
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import RESERVED, Scope, analyze
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.math import algebra
from tensorplay_core.codegen.math.differentiate import NoRule, Rule, gradients
from tensorplay_core.codegen.math.guards import guarded
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
            except _Told:
                continue
            except ContractError as error:
                problem(str(error))
    return found


class _Told(Exception):
    """An operator has no derivative, and the reason has been told."""


class _Search:
    """Differentiates operators, those that others are made of first."""

    def __init__(self, contract: Contract, known: Contract) -> None:
        self._operators = Operators((), (*known.functions, *contract.functions))
        self._written = (contract, known)
        self._found: dict[str, Derivative] = {}
        self._rules: dict[str, Rule | None] = {}
        self._refused: set[str] = set()
        self._functions = _Functions(self._operators)

    def derivative(self, function: NativeFunction) -> Derivative:
        """Returns an operator's derivative, written or found."""
        for contract in self._written:
            if (derivative := contract.derivative_of(function)) is not None:
                return derivative
        name = function.qualified_name
        if name in self._refused:
            raise _Told
        if name not in self._found:
            self._refused.add(name)
            self._found[name] = self._differentiated(function)
            self._refused.remove(name)
        return self._found[name]

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
        for argument in function.schema.arguments if all(flags) else ():
            if argument.name in RESERVED:
                reason = f"its argument '{argument.name}' has the name that formulas have for a gradient"
                _refuse(function, Refusal(reason), remedy=f"give the argument another name than {', '.join(RESERVED)}")
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
        outputs: dict[Expr, Expr] = {}
        for formula, grad in zip(function.formulas, incoming, strict=True):
            refusal = choice_in(formula.expr, inputs, not real)
            if refusal is not None:
                _refuse(function, refusal, formula)
            outputs[formula.expr] = algebra.add(outputs[formula.expr], grad) if formula.expr in outputs else grad
        found = gradients(outputs, inputs, self.rule, {expr: ast.Name(n) for n, expr in _results(function).items()})
        # Of the two the shorter one that computes well: to take factors together can make an infinity of finite parts.
        forms = [
            {name: self._short(expr, real) for name, expr in found.items()},
            {name: _without_conjugates(expr) if real else expr for name, expr in found.items()},
        ]
        refusals = [self._refused_form(function, form) for form in forms]
        if refusals[0] is not None and refusals[1] is not None:
            _refuse(function, attrs.evolve(refusals[0][0], position=0), refusals[0][1])
        form = forms[refusals.index(None)]
        return {name: self._as_written(function, self._guarded(function, form, name)) for name in inputs}

    def _short(self, expr: Expr, real: bool) -> Expr:
        short = simplified(expr, real=real)
        computed = self._computed(short)
        return short if computed == short else simplified(computed, real=real)

    def _computed(self, expr: Expr) -> Expr:
        """Returns a formula with the values of functions of literals: operators take no numbers alone."""
        found = algebra.as_call(expr)
        if found is None or algebra.value_of(expr) is not None:
            return expr
        name, args = found[0], tuple(self._computed(arg) for arg in found[1])
        known = all(algebra.value_of(arg) is not None for arg in args) and name in self._functions
        if known and name in algebra.COMPARISONS.values():
            return ast.Constant(str(bool(evaluate(expr, {}, self._functions))))
        if known and (name not in algebra.OPERATORS.values() or (name == "div" and algebra.value_of(args[1]) == 0)):
            return algebra.number(evaluate(expr, {}, self._functions))
        return expr if args == found[1] else algebra.call(name, args)

    def _refused_form(self, function: NativeFunction, found: dict[str, Expr]) -> tuple[Refusal, Formula] | None:
        """Returns the first thing that is wrong with the gradients as they are written; None where nothing is."""
        for i, formula in enumerate(function.formulas):
            refusal = self._trial(function, formula, found, i).refusal()
            if refusal is not None:
                return refusal, formula
        return None

    def _trial(
        self, function: NativeFunction, formula: Formula, found: dict[str, Expr], alone: int | None = None
    ) -> Trial:
        """Results in full; of several outputs, the gradients of one ``alone``, since they come in independently."""
        incoming = [ast.Name(str(grad)) for grad in _incoming(len(function.formulas))]
        known: dict[Expr, Expr] = dict(zip(_incoming(len(incoming)), incoming, strict=True))
        if absorbs := alone is not None and len(incoming) > 1:
            known = {grad: name if i == alone else algebra.ZERO for i, (grad, name) in enumerate(known.items())}
        results: dict[Expr, Expr] = {ast.Name(name): expr for name, expr in _results(function).items()}
        values: dict[Expr, Expr] = {**known, **results}
        gradients = {
            name: _with(values, expr) if absorbs else ast.transform(expr, values.get) for name, expr in found.items()
        }
        constants = {}
        for argument in function.schema.arguments:
            if is_number(argument):
                default = argument.default.value if argument.default is not None else None
                constants[argument.name] = float(default) if isinstance(default, (int, float)) else _DEFAULT_NUMBER
        names = tuple(name.name for name in incoming)
        return Trial(formula.expr, gradients, constants, self.rule, self._functions, names)

    def _guarded(self, function: NativeFunction, found: dict[str, Expr], name: str) -> Expr:
        """Returns an input's gradient as it stands, or with guards where it must be differentiable again."""
        trial = self._trial(function, function.formulas[0], found)
        safe, refusal = guarded(trial, name)
        if refusal is not None:
            _refuse(function, refusal)
        if safe == trial.gradients[name]:
            return found[name]
        back: dict[Expr, Expr] = {ast.Name(str(grad)): grad for grad in _incoming(len(function.formulas))}
        back |= {expr: ast.Name(n) for n, expr in _results(function).items() if algebra.as_call(expr) is not None}
        return ast.transform(safe, lambda node: back.get(node))

    def _as_written(self, function: NativeFunction, expr: Expr) -> Expr:
        """Writes a derivative as people do: conjugates as methods, defaults left out, zeros where it is 0."""
        numbers = {a.name for a in function.schema.arguments if is_number(a)}
        grad = _incoming(len(function.formulas))[0]

        def conjugated(node: Expr) -> Expr | None:
            return ast.Method(node, "conj") if isinstance(node, ast.Name) else None

        def of_numbers(node: Expr) -> bool:
            return all(n.name in numbers for n in ast.walk(node) if isinstance(n, ast.Name))

        def replace(node: Expr) -> Expr | None:
            match node:
                case ast.Call(function="conj", args=(inner,)):
                    inner = ast.transform(inner, replace)
                    # `node.conj()` of a number is the one of Python's, which its operations do not have.
                    return ast.transform(inner, conjugated) if of_numbers(inner) else ast.Method(inner, "conj")
                case ast.Call(function="where", args=(condition, a, b)) if of_numbers(condition):
                    a, b = _where_known(a, condition, 1), _where_known(b, condition, 2)
                    return ast.Conditional(ast.transform(a, replace), condition, ast.transform(b, replace))
                case ast.Call(function=name, args=args):
                    operator = self._operators.find(name)
                    kept = tuple(ast.transform(arg, replace) for arg in args)
                    if of_numbers(node):  # operators take no numbers alone
                        kept = (ast.Binary("+", ast.Call("zeros_like", (grad,)), kept[0]), *kept[1:])
                    return ast.Call(name, kept if operator is None else _without_defaults(operator, kept))
            return None

        def whole(expr: Expr) -> Expr:
            """A gradient is a tensor, whatever the numbers are."""
            match expr:
                case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                    return ast.Conditional(whole(then), condition, whole(otherwise))
            return ast.Call("zeros_like", (grad,)) if algebra.value_of(expr) == 0 else expr

        return whole(ast.transform(expr, replace))


def _where_known(expr: Expr, condition: Expr, branch: int) -> Expr:
    """Returns a formula in which every ``where`` with that condition is one of its branches."""

    def replace(node: Expr) -> Expr | None:
        match node:
            case ast.Call(function="where", args=args) if args[0] == condition:
                return ast.transform(args[branch], replace)
        return None

    return ast.transform(expr, replace)


def _results(function: NativeFunction) -> dict[str, Expr]:
    """The names that formulas have for results, but for those that are an argument's, and what they are."""
    arguments = {a.name for a in function.schema.arguments}
    named = zip(function.schema.return_names, function.formulas, strict=True)
    return {name: formula.expr for name, formula in named if name not in arguments}


def _without_conjugates(expr: Expr) -> Expr:
    def replace(node: Expr) -> Expr | None:
        match node:
            case ast.Call(function="conj", args=(inner,)):
                return ast.transform(inner, replace)
        return None

    return ast.transform(expr, replace)


def _with(values: Mapping[Expr, Expr], expr: Expr) -> Expr:
    """Returns a formula with others in the place of parts of it; where that is a literal zero, it absorbs."""
    if expr in values:
        return values[expr]
    found = algebra.as_call(expr)
    if found is None:
        return expr
    args = tuple(_with(values, arg) for arg in found[1])
    return expr if args == found[1] else algebra.call(found[0], args)


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


def _refuse(
    function: NativeFunction, refusal: Refusal, formula: Formula | None = None, *, remedy: str = ""
) -> NoReturn:
    text = (formula or function.formulas[0]).text
    raise ContractError(
        text.at(refusal.position).describe(
            f"'{function.display_name}' has no derivative record, and its `math` gives none: {refusal.reason}",
            remedy or f"write it by hand, as `- name: {function.display_name}` in derivatives*.yaml",
        )
    )


__all__ = ["REAL_TAGS", "symbolic_derivatives"]
