"""Target ``schemas``: the operator objects, one per record and per in-place variant.

A signature stays text until somebody asks for it, so defining all operators at import parses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tensorplay_core.codegen.context import HEADER, CodegenContext, constant, lines, wrapped
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.math.lower import text_of

NAME = "schemas"


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    for family, functions in context.families.items():
        body = lines(
            HEADER + f'"""The {family} operators: their signatures and rules, as the contract has them."""',
            "",
            "from __future__ import annotations",
            "",
            *_imports(context, functions),
            "",
        )
        for function in functions:
            body += _operator(context, function)
        yield f"_generated_schemas_{family}.py", "\n".join(body) + "\n"


def _imports(context: CodegenContext, functions: tuple[NativeFunction, ...]) -> list[str]:
    program = ["from tensorplay_core.types.program import Program"] if any(f.program for f in functions) else []
    if context.plugin is None:
        return ["from tensorplay_core.ops.define import inplace, operator", *program]
    package = context.packages["ops"]
    shapes = [f"from {package} import shapes"] if any(f.shape in context.plugin.shapes for f in functions) else []
    own = sorted(["from tensorplay_core.ops.define import definitions", *program, *shapes])
    return [*own, "", f'operator, inplace = definitions("{package}")']


def _operator(context: CodegenContext, function: NativeFunction) -> list[str]:
    fields = ["\n    ".join(_literals(_escaped(str(function.schema))))]
    for name in ("shape", "promote", "composite", "autocast"):
        value = getattr(function, name)
        if name == "shape" and context.plugin is not None and value in context.plugin.shapes:
            fields.append(f"shape=shapes.{value}")
        elif value not in (None, "none"):
            fields.append(f'{name}="{value}"')
    if function.tags:
        fields.append(f"tags={_tuple(function.tags)}")
    if function.dispatch:
        promises = [f'"{key}": "{kernel}"' for key, kernel in function.dispatch.items()]
        fields.append("\n    ".join(wrapped("promises={", promises, "}", 114)))
    if context.is_fast(function):
        fields.append("fast=True")
        passed = context.passed_keywords(function)
        fields += [f"passes={_tuple(passed)}"] if passed else []
    derivative = context.contract.derivative_of(function)
    if derivative is not None and not derivative.is_differentiable:
        fields.append("differentiable=False")
    if function.program is not None:
        fields.append("\n    ".join(text_of(function.program)))
    name = constant(function.base_name)
    result = wrapped(f"{name} = operator(", fields, ")", 0 if function.program is not None else 120)
    if function.inplace:
        slow = context.is_fast(function) and not context.writes_fast(function)
        result += [f"{constant(inplace_name(function))} = inplace({name}{', fast=False' * slow})"]
    return result


def inplace_name(function: NativeFunction) -> str:
    """Returns the name of an operator's in-place variant."""
    overload = f".{function.schema.overload}" if function.schema.overload else ""
    return f"{function.name}_{overload}"


def _literals(text: str) -> list[str]:
    """Returns a string's literal, or several side by side where one line would be too long."""
    parts = [""]
    for piece in re.split("(?<=, )", text):
        if len(parts[-1]) + len(piece) > 100 and parts[-1]:
            parts.append("")
        parts[-1] += piece
    return [f'"{part}"' for part in parts]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _tuple(items: tuple[str, ...]) -> str:
    return "(" + ", ".join(f'"{item}"' for item in items) + ("," if len(items) == 1 else "") + ")"
