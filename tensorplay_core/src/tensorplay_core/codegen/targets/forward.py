"""Target ``forward``: the forward-mode rules, beside the nodes of each family.

A rule takes the tangents of the inputs that have a gradient, the result, and the arguments of the call. Nothing imports
these modules before a tangent meets an operator of the family.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap

from tensorplay_core.codegen.context import (
    HEADER,
    CodegenContext,
    constant,
    docstring,
    import_order,
    indent,
    lines,
    wrapped,
)
from tensorplay_core.codegen.contract import Derivative
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import METADATA_ATTRIBUTES, METADATA_METHODS
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.layout import layout
from tensorplay_core.codegen.formula.rewrite import shared
from tensorplay_core.codegen.formula.transpose import CONJUGATE
from tensorplay_core.codegen.forward import Forward, Term, described, forward, joined
from tensorplay_core.codegen.signatures import default_text
from tensorplay_core.codegen.targets.node_names import apart
from tensorplay_core.types.schema import Argument

NAME = "forward"
_WHENCE = {
    "result": "The tangent",
    "linear": "The tangent, by the operator itself,",
    "elementwise": "The tangent, from the gradients,",
}
_USED = ("Generated", "conjugate", "filled", "total")
_TAKEN = frozenset({"tangents", "result", "call", *_USED})
_CONSTANT = re.compile(r"(?<![\w.\"'])(inf|nan|pi)\b(?!=)")
_MODULE = re.compile(r"(?<![\w.])([A-Z_]+)\.")


def rule_name(derivative: Derivative) -> str:
    """Returns the name of a record's function, such as ``max_dim_tangent``."""
    return f"{derivative.function.base_name.replace('.', '_')}_tangent"


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    for family, functions in context.families.items():
        derivatives = [d for f in functions if (d := context.derivative(f)) is not None]
        if not derivatives:
            continue
        rules = [(d, rule) for d in derivatives if (rule := forward(context, d)) is not None]
        taken = {*context.formula_imports, *_TAKEN}
        bodies = [_function(context, rule, d, *apart(d, taken)) for d, rule in rules]
        text = "\n\n\n".join("\n".join(body) for body in bodies)
        table = [line for d, rule in rules for line in _entry(d, rule)]
        linear = sorted(constant(d.function.base_name) for d, rule in rules if rule.kind == "linear")
        modules = set(_MODULE.findall(text))
        constants = sorted(set(_CONSTANT.findall(text)))
        used = [name for name in _USED if re.search(rf"\b{name}\(", text) or name == "Generated"]
        head = lines(
            HEADER + f'"""How tangents pass through the {family} operators; see ops/forward_rules.py."""',
            "",
            "from __future__ import annotations",
            "",
            *([f"from math import {', '.join(constants)}"] if constants else []),
            "from typing import Any",
            "",
            *(line for name, line in context.formula_imports.items() if name in modules),
            *(
                wrapped(f"from {context.module(f'_generated_schemas_{family}')} import (", linear, ")", 0)
                if linear
                else []
            ),
            *(["from tensorplay_core.ops.call import call"] if linear else []),
            f"from tensorplay_core.ops.forward_rules import {', '.join(sorted(used, key=import_order))}",
        )
        body = ["RULES: dict[str, Generated] = {", *indent(table), "}"]
        if not table:
            body = ["RULES: dict[str, Generated] = {}"]
        yield (
            f"_generated_forward_{family}.py",
            "\n".join(head) + "\n\n\n" + (f"{text}\n\n\n" if text else "") + "\n".join(body) + "\n",
        )


def _entry(derivative: Derivative, rule: Forward) -> list[str]:
    inputs = ", ".join(f'"{a.name}"' for a in derivative.inputs)
    comma = "," if len(derivative.inputs) == 1 else ""
    return wrapped(
        f'"{derivative.function.base_name}": Generated(',
        [f'"{rule.kind}"', f"({inputs}{comma})", rule_name(derivative)],
        "),",
        116,
    )


def _function(
    context: CodegenContext, rule: Forward, derivative: Derivative, own: Derivative, given: Mapping[str, str]
) -> list[str]:
    """Returns the function of a rule; ``own`` is the record with names that it can use."""
    rule = forward(context, own) or rule
    schema = own.schema
    keywords = [
        f"{a.name}: Any" + (f" = {default_text(a)}" if a.default is not None else "")
        for a in schema.keyword_only
        if a.name not in given
    ]
    others = [a for a in schema.keyword_only if a.name in given]  # callers use the names of the signature
    parameters = ["tangents: Any", "result: Any", *(f"{a.name}: Any" for a in schema.positional)]
    parameters += (["*", *keywords] if keywords else []) + (["**others: Any"] if others else [])
    names = ", ".join(f"{a.name}_t" for a in own.inputs)
    doc = [line for text in described(own, rule) for line in wrap(text, 112, subsequent_indent="    ")]
    body = [
        *docstring([f"{_WHENCE[rule.kind]} of ``{derivative.function.base_name}``.", "", *doc, ""]),
        *(f"{a.name} = {_other(given[a.name], a)}" for a in others),
        f"{names}{',' if len(own.inputs) == 1 else ''} = tangents",
        *(_linear(own) if rule.kind == "linear" else _sums(context, own, rule)),
    ]
    return [*wrapped(f"def {rule_name(derivative)}(", parameters, ") -> Any:"), *indent(body)]


def _other(name: str, argument: Argument) -> str:
    return f'others["{name}"]' if argument.default is None else f'others.get("{name}", {default_text(argument)})'


def _linear(derivative: Derivative) -> list[str]:
    """The operator itself, called with the tangents in the place of the inputs."""
    inputs = {a.name for a in derivative.inputs}
    several = len(inputs) > 1 or any(a.type.is_tensor_list for a in derivative.inputs)

    def given(argument: Argument) -> str:
        if argument.name not in inputs:
            return argument.name
        return f"filled({argument.name}_t, {argument.name})" if several else f"{argument.name}_t"

    schema = derivative.schema
    args = [given(a) for a in schema.positional]
    positional = f"({', '.join(args)}{',' if len(args) == 1 else ''})"
    keywords = ", ".join(f'"{a.name}": {given(a)}' for a in schema.keyword_only)
    items = [constant(derivative.function.base_name), positional, *([f"{{{keywords}}}"] if keywords else [])]
    return wrapped("return call(", items, ")", 116)


def _sums(context: CodegenContext, derivative: Derivative, rule: Forward) -> list[str]:
    """The results' tangents as sums of terms, each left out where its input has no tangent."""
    names = derivative.schema.return_names
    text = " ".join(str(t.expr) for terms in rule.outputs if terms is not None for t in terms)
    body: list[str] = []
    if len(names) > 1 and any(re.search(rf"\b{name}\b", text) for name in names):
        body.append(f"{', '.join(names)} = result")
    elif names[0] != "result" and re.search(rf"\b{names[0]}\b", text):
        body.append(f"{names[0]} = result")
    alone = {a.name for a in derivative.inputs if not a.type.is_tensor_list}
    mixed = {n for terms in rule.outputs if terms for t in terms if len(t.inputs) > 1 for n in t.inputs}
    mixed |= {a.name for a in derivative.inputs if a.name not in alone}
    if len(derivative.inputs) > 1 or mixed:
        body += [f"{name}_t = filled({name}_t, {name})" for name in sorted(mixed)]
    if len(rule.outputs) == 1:
        assert rule.outputs[0] is not None
        definitions, value = _value(context, derivative, rule.outputs[0], mixed)
        return [*body, *definitions, *_returned(value)]
    answers = []
    for name, terms in zip(names, rule.outputs, strict=True):
        if terms is None:
            answers.append("None")
            continue
        definitions, value = _value(context, derivative, terms, mixed)
        body += [*definitions, *_assigned(f"{name}_t", value)]
        answers.append(f"{name}_t")
    return [*body, f"return {', '.join(answers)}"]


Value = Expr | list[tuple[str, Expr]]
"""An expression, or the terms of a sum, each with the input that it is left out without."""


def _value(
    context: CodegenContext, derivative: Derivative, terms: tuple[Term, ...], mixed: set[str]
) -> tuple[list[str], Value]:
    if len(derivative.inputs) == 1 or all(set(t.inputs) & mixed for t in terms):
        found = shared({"": joined(terms)})
        definitions = [
            line for d in found.definitions for line in _assigned(d.name, emitted(context, derivative, d.expr))
        ]
        return definitions, emitted(context, derivative, found.formulas[""])
    return [], [("" if set(t.inputs) & mixed else t.inputs[0], emitted(context, derivative, t.expr)) for t in terms]


def _returned(value: Value) -> list[str]:
    if isinstance(value, list):
        return ["return total(", *indent(_terms(value)), ")"]
    return _one("return", value)


def _assigned(name: str, value: Value) -> list[str]:
    if isinstance(value, list):
        return [f"{name} = total(", *indent(_terms(value)), ")"]
    return _one(f"{name} =", value)


def _one(head: str, value: Expr) -> list[str]:
    one = f"{head} {value}"
    if len(one) <= 116:
        return [one]
    if isinstance(value, ast.Call):  # its brackets are enough
        first, *rest = layout(value, 108)
        return [f"{head} {first}", *rest]
    return [f"{head} (", *indent(layout(value, 108)), ")"]


def _terms(value: list[tuple[str, Expr]]) -> list[str]:
    result = []
    for name, expr in value:
        one = f"None if {name}_t is None else {expr}," if name and str(expr) != f"{name}_t" else f"{expr},"
        if len(one) <= 108 or not name:
            result.append(one)
            continue
        *first, last = layout(expr, 100)
        brackets = expr.level <= ast.CONDITIONAL
        body = [*first, last] if not brackets else ["(", *indent([*first, last]), ")"]
        result += ["None", f"if {name}_t is None", f"else {body[0]}", *body[1:-1], *([body[-1]] if body[1:] else [])]
        result[-1] += ","
    return result


def emitted(context: CodegenContext, derivative: Derivative, expr: Expr) -> Expr:
    """Returns a formula as a rule runs it: functions from their modules, the metadata of a list item by item."""
    lists, others = derivative.scope.lists, derivative.scope.others

    def replace(node: Expr) -> Expr | None:
        match node:
            case ast.Call(function=function, args=args, kwargs=kwargs) if function not in ("len", CONJUGATE) and (
                "." not in function
            ):
                args = tuple(ast.transform(a, replace) for a in args)
                kwargs = tuple((k, ast.transform(v, replace)) for k, v in kwargs)
                return ast.Call(f"{context.formula_module(function)}.{function}", args, kwargs)
            case ast.Method(object=ast.Name(name=name) as operand, name="conj") if name in others:
                return ast.Method(operand, "conjugate")  # a number of Python's
            case ast.Method(object=receiver, name="conj", args=()):
                return ast.Call(CONJUGATE, (ast.transform(receiver, replace),))
            case ast.Attribute(object=ast.Name(name=name), name=what) if name in lists and what in METADATA_ATTRIBUTES:
                return ast.Each(ast.Attribute(ast.Name("each"), what), "each", ast.Name(name))
            case ast.Method(object=ast.Name(name=name), name=what, args=args) if (
                name in lists and what in METADATA_METHODS
            ):
                return ast.Each(ast.Method(ast.Name("each"), what, args), "each", ast.Name(name))
            case ast.Name(name=name) if name.endswith("_p") and derivative.schema.argument(name) is None:
                return ast.Name(name[:-2])  # PyTorch's word for the primal
        return None

    return ast.transform(expr, replace)
