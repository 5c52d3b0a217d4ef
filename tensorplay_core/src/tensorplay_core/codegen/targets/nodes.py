"""Target ``nodes``: the autograd node of each derivative record.

What a node saves, what its backward reads and where it is attached all come from one analysis of the formulas
(``node_plan.py``); the fast path of the functional target inlines the same statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap

import attrs

from tensorplay_core.codegen import contract_names
from tensorplay_core.codegen.context import (
    HEADER,
    CodegenContext,
    constant,
    docstring,
    import_order,
    indent,
    lines,
    tuple_lines,
    wrapped,
)
from tensorplay_core.codegen.contract import Derivative
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.layout import layout
from tensorplay_core.codegen.formula.rewrite import Definition, replace_metadata
from tensorplay_core.codegen.pointwise import is_pointwise
from tensorplay_core.codegen.signatures import default_text
from tensorplay_core.codegen.targets.node_edges import any_present, local, needed, nothing, present, unpacked
from tensorplay_core.codegen.targets.node_names import apart
from tensorplay_core.codegen.targets.node_plan import Plan, Saved, plan
from tensorplay_core.types.schema import Argument

NAME = "nodes"
_CONSTANT = re.compile(r"(?<![\w.\"'])(inf|nan|pi)\b(?!=)")
_MODULE = re.compile(r"(?<![\w.])([A-Z_]+)\.")


def node_name(derivative: Derivative) -> str:
    """Returns the name of a record's node class, such as ``MaxDimBackward``."""
    return contract_names.node_name(derivative.function.base_name)


def emitted(context: CodegenContext, derivative: Derivative, expr: Expr) -> Expr:
    """Returns a formula as the backward runs it: metadata from what was saved, functions from their modules."""
    expr = replace_metadata(derivative.scope, expr)
    several = len(derivative.schema.returns) > 1

    def replace(node: Expr) -> Expr | None:
        match node:
            case ast.Call(function=function, args=args, kwargs=kwargs) if "." not in function and function != "len":
                module = context.formula_module(function)
                args = tuple(ast.transform(a, replace) for a in args)
                kwargs = tuple((k, ast.transform(v, replace)) for k, v in kwargs)
                return ast.Call(f"{module}.{function}", args, kwargs, position=node.position)
            case ast.Method(object=ast.Name(name=name) as operand, name="conj") if name in derivative.scope.others:
                return ast.Method(operand, "conjugate", position=node.position)  # a number of Python's
            case ast.Method(object=ast.Name(name=name) as operand, name="conj", args=()) if name != "grad":
                # Asked inline: the call would cost a tenth of the multiplication that it stands in.
                is_complex = ast.Attribute(ast.Attribute(operand, "_type"), "is_complex")
                return ast.Conditional(node, is_complex, operand, position=node.position)
            case ast.Binary(operator="/" | "**" as operator, left=left, right=right) if _raise(derivative, left, right):
                function = "H.quotient" if operator == "/" else "H.power"
                numbers = ast.transform(left, replace), ast.transform(right, replace)
                return ast.Call(function, numbers, position=node.position)
            case ast.Name(name="grad") if several:  # the only one of several outputs that has a gradient
                index = ast.Number(str(derivative.scope.gradients[0]))
                return ast.Index(ast.Name("grads"), (index,), position=node.position)
            case ast.Index(object=ast.Name(name="grads")) if not several and not derivative.scope.listed:
                return ast.Name("grad", position=node.position)
            case ast.Index(object=ast.Name(name="needs"), items=(ast.Name(name=name) | ast.String(value=name),)):
                return needed(derivative, name)
        return None

    return ast.transform(expr, replace)


def _raise(derivative: Derivative, left: Expr, right: Expr) -> bool:
    """Whether Python may raise for two operands: both are numbers, where a tensor's elements become infinite or NaN."""
    return _is_number(derivative, left) and _is_number(derivative, right) and not isinstance(right, ast.Number)


def _is_number(derivative: Derivative, expr: Expr) -> bool:
    match expr:
        case ast.Number() | ast.Constant():
            return True
        case ast.Name(name=name):
            return name in derivative.scope.others
        case ast.Unary(operator="-", operand=operand) | ast.Method(object=operand, name="conj"):
            return _is_number(derivative, operand)
        case ast.Binary(left=left, right=right) | ast.Conditional(then=left, otherwise=right):
            return _is_number(derivative, left) and _is_number(derivative, right)
    return False


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    for family, functions in context.families.items():
        derivatives = [d for f in functions if (d := context.derivative(f)) is not None]
        if not derivatives:
            continue
        taken = {*context.formula_imports, *map(node_name, derivatives)}
        classes = [_node(context, d, *apart(d, taken)) for d in derivatives]
        text = "\n".join("\n".join(c) for c in classes)
        used = [kind for kind in ("MULTIPLE", "PLAIN_MULTIPLE", "SAVING") if f"kind = {kind}" in text]
        used += [name for name in ("record", "save", "unpack") if f"{name}(" in text.replace(".record(", "")]
        used += ["Gradients", "Node"]
        constants = sorted(set(_CONSTANT.findall(text)))
        modules = set(_MODULE.findall(text))
        head = lines(
            HEADER + f'"""The gradients of the {family} operators: one node class per derivative record."""',
            "",
            "from __future__ import annotations",
            "",
            *([f"from math import {', '.join(constants)}"] if constants else []),
            "from typing import Any",
            "",
            f"from tensorplay_core.autograd.node import {', '.join(sorted(used, key=import_order))}",
            *(line for name, line in context.formula_imports.items() if name in modules),
            *(["from tensorplay_core.types import dtype as dtypes"] if "= dtypes." in text else []),
            *wrapped(
                f"from {context.module(f'_generated_schemas_{family}')} import (",
                sorted(constant(d.function.base_name) for d in derivatives),
                ")",
                0,
            ),
        )
        yield (
            f"_generated_nodes_{family}.py",
            "\n".join(head) + "\n\n\n" + "\n\n\n".join("\n".join(c) for c in classes) + "\n",
        )


def _node(context: CodegenContext, derivative: Derivative, own: Derivative, given: Mapping[str, str]) -> list[str]:
    """Returns a node's class; ``own`` is the record with names that a node can use."""
    plan_ = attrs.evolve(plan(own), given=given)
    name = node_name(derivative)
    doc = [
        f"The gradient of ``{derivative.function.base_name}``{', found from its formula' * derivative.symbolic}.",
        "",
        *(line for f in derivative.formulas for line in _filled(f"{f.key}: {f.expr}")),
        "",
    ]
    body = lines(docstring(doc), "", "__slots__ = ()", f"op = {constant(derivative.function.base_name)}")
    if (kind := plan_.kind) is not None:
        body.append(f"kind = {kind}")
    if derivative.takes_none:
        body.append("takes_none = True")
    if is_pointwise(context, derivative):
        body.append("pointwise = True")
    if plan_.saves_input:
        body.append(f"saves_input = {plan_.saves_input!r}".replace("'", '"'))
    if plan_.saved:
        body += tuple_lines("saved_names = ", [f'"{given.get(e.name, e.name)}"' for e in plan_.saved], 112)
    body += ["", "@staticmethod", *_record(plan_, name), "", *_backward(context, plan_)]
    return [f"class {name}(Node):", *indent(body)]


def _filled(text: str) -> list[str]:
    return [text] if len(text) <= 112 else wrap(text, 112, subsequent_indent="    ", break_long_words=False)


def _record(plan: Plan, name: str) -> list[str]:
    schema = plan.derivative.schema
    result = "result" if schema.argument("result") is None else "result_"
    parameters = [f"{result}: Any"]
    parameters += [f"{a.name}: Any" for a in schema.positional]
    keywords = [
        f"{a.name}: Any" + (f" = {default_text(a)}" if a.default is not None else "")
        for a in schema.keyword_only
        if a.name not in plan.given
    ]
    others = [a for a in schema.keyword_only if a.name in plan.given]  # callers use the names of the signature
    parameters += (["*", *keywords] if keywords else []) + (["**others: Any"] if others else [])
    inputs = ", ".join(f"*{i}" if i in plan.lists else i for i in plan.inputs)
    comma = "," if len(plan.inputs) == 1 else ""
    differentiable = plan.derivative.output_differentiability
    flags = "" if len(differentiable) == 1 else f", {differentiable!r}"
    edges = {i: f"node.edges[{k}]" for k, i in enumerate(plan.inputs)} if not plan.lists & set(plan.inputs) else {}
    items = plan.saved_items(result, "node", edges)
    return [
        *wrapped("def record(", parameters, ") -> None:", 112),
        *indent(
            [
                '"""Attaches a node to the result of a call."""',
                *(f"{a.name} = {_other(plan.given[a.name], a)}" for a in others),
                f"node = {name}()",
                f"record(node, ({inputs}{comma}), {result}{flags})",
                *tuple_lines("node.saved = ", items, 108),
            ]
        ),
    ]


def _other(name: str, argument: Argument) -> str:
    return f'others["{name}"]' if argument.default is None else f'others.get("{name}", {default_text(argument)})'


def _assignment(name: str, expr: Expr) -> list[str]:
    one = f"{name} = {expr}"
    return [one] if len(one) <= 108 else [f"{name} = (", *indent(layout(expr, 104)), ")"]


def _if_any(derivative: Derivative, names: list[str]) -> list[str]:
    one = f"if {any_present(derivative, names)}:"
    first, *others = [str(present(derivative, name)) for name in names]
    return [one] if len(one) <= 112 else ["if (", *indent([first, *(f"or {each}" for each in others)]), "):"]


def _backward(context: CodegenContext, plan: Plan) -> list[str]:
    derivative = plan.derivative
    gradient = "grads" if len(derivative.schema.returns) > 1 or derivative.scope.listed else "grad"
    body: list[str] = ['"""See the class."""']
    names = [f"{local(derivative, 'saved')}_{e.name}" if e.kind != "value" else e.name for e in plan.saved]
    if names:
        one = f"{', '.join(names)}{',' if len(names) == 1 else ''} = node.saved"
        body += [one] if len(one) <= 112 else ["(", *(f"    {name}," for name in names), ") = node.saved"]
    body += _one_input(context, plan) if len(plan.inputs) == 1 else _several_inputs(context, plan)
    return [f"def backward(node, {gradient}: Any, graph: bool) -> Gradients:", *indent(body)]


def _one_input(context: CodegenContext, plan: Plan) -> list[str]:
    (formula,) = plan.derivative.formulas
    shared = plan.derivative.shared()
    body = [_unpacked(plan, entry, always=True) for entry in plan.saved if entry.kind != "value"]
    for definition in shared.definitions:
        body += _assignment(definition.name, emitted(context, plan.derivative, definition.expr))
    expr = emitted(context, plan.derivative, shared.formulas[formula.key])
    answer = str(expr)
    if formula.targets[0] in plan.lists:
        answer = f"*({answer})" if expr.level <= ast.COMPARISON else f"*{answer}"
    one = f"return ({answer},)"
    if len(one) <= 112 or answer.startswith("*"):
        return [*body, one]
    *first, last = layout(expr, 107)
    return [*body, "return (", *indent([*first, f"{last},"]), ")"]


def _several_inputs(context: CodegenContext, plan: Plan) -> list[str]:
    """Each gradient is computed where its edge exists; what only one formula reads is unpacked there."""
    derivative, shared = plan.derivative, plan.derivative.shared()
    grad = local(derivative, "grad")
    body = unpacked(derivative)
    own: dict[str, list[Saved]] = {}
    for entry in plan.saved:
        readers = {f.key for f in derivative.formulas if set(f.targets) & set(entry.readers)}
        if entry.kind == "value":
            continue
        if len(readers) == 1:
            own.setdefault(readers.pop(), []).append(entry)
        else:
            body.append(_unpacked(plan, entry, always=False))
    alone: dict[str, list[Definition]] = {}
    for definition in shared.definitions:
        if len(definition.users) == 1:
            alone.setdefault(next(iter(definition.users)), []).append(definition)
            continue
        users = [t for f in derivative.formulas if f.key in definition.users for t in f.targets]
        expr = emitted(context, derivative, definition.expr)
        if set(users) != set(plan.inputs):
            expr = ast.Conditional(expr, any_present(derivative, users), ast.Constant("None"))
        body += _assignment(definition.name, expr)
    body += nothing(derivative)
    for formula in derivative.formulas:
        expr = emitted(context, derivative, shared.formulas[formula.key])
        answers = ", ".join(f"{grad}_{t}" for t in formula.targets)
        body += _if_any(derivative, list(formula.targets))
        block = [_unpacked(plan, entry, always=True) for entry in own.get(formula.key, ())]
        for definition in alone.get(formula.key, ()):
            block += _assignment(definition.name, emitted(context, derivative, definition.expr))
        body += indent([*block, *_assignment(answers, expr)])
    returned = [f"*{grad}_{i}" if i in plan.lists else f"{grad}_{i}" for i in plan.inputs]
    return [*body, f"return {', '.join(returned)}"]


def _unpacked(plan: Plan, entry: Saved, *, always: bool) -> str:
    """Returns the statement that unpacks a saved tensor; ``always`` when it was saved unless the argument was None."""
    saved, shown = f"{local(plan.derivative, 'saved')}_{entry.name}", plan.given.get(entry.name, entry.name)
    if entry.kind == "tensors":
        return f'{entry.name} = [x and unpack(x, node, "{shown}", graph) for x in {saved}]'
    argument = plan.derivative.schema.argument(entry.name)
    optional = argument is not None and argument.type.is_optional and entry.kind == "tensor"
    prefix = "" if always and not optional else f"{saved} and "
    own = ""
    if entry.kind == "result":
        index = plan.result_index(entry)
        if index is None:
            own = ", own=True"
        elif plan.derivative.output_differentiability[index]:
            own = f", own=True, index={index}"
    return f'{entry.name} = {prefix}unpack({saved}, node, "{shown}", graph{own})'
