"""Target ``meta``: which kernel of the meta device serves which operator, as one table that can be read at a glance.

An operator's shape rule and its promote rule say all that a meta kernel must know. Every record of the contract is in
the file: with its rules, with a function written by hand in ``ops/meta_kernels.py``, among those that a Composite
kernel serves, or among those without a kernel, which a test of our contract keeps empty. Operators of a plugin's
contract need no table: they get the kernel of their rules when they are defined.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorplay_core.codegen.context import (
    HEADER,
    PACKAGES,
    CodegenContext,
    constant,
    import_order,
    public_functions,
)
from tensorplay_core.codegen.contract import NativeFunction

NAME = "meta"
KERNELS = "meta_kernels"
"""The module of the kernels that are written by hand."""


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of the file."""
    if context.packages["ops"] != PACKAGES["ops"]:
        return
    written = public_functions(context.ops / f"{KERNELS}.py")
    rows: dict[str, list[str]] = {"rule": [], "handwritten": [], "composite": [], "none": []}
    used = []
    for family, functions in context.families.items():
        for function in functions:
            kind, text = _row(function, written)
            name = f"{family}.{constant(function.base_name)}"
            rows[kind].append(text.format(name))
            if kind != "none":
                used.append(family)
    schemas = [f"from tensorplay_core.ops import _generated_schemas_{f} as {f}" for f in dict.fromkeys(used)]
    kernels = [f"from tensorplay_core.ops import {KERNELS} as kernels"] if rows["handwritten"] else []
    body = [
        HEADER + '"""Which kernel of the meta device serves which operator; see ops/meta.py."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any",
        "",
        "from tensorplay_core.dispatch.operator import Operator",
        *sorted([*schemas, *kernels], key=import_order),
        "",
        *_table("BY_RULE", "tuple[tuple[Operator, str, str], ...]", rows["rule"]),
        '"""Operator, shape rule, rule of the result\'s dtype."""',
        *_table("HANDWRITTEN", "tuple[tuple[Operator, Any], ...]", rows["handwritten"]),
        *_table("LEFT_TO_COMPOSITE", "tuple[Operator, ...]", rows["composite"]),
        '"""Operators that are written in others, and those that cross devices."""',
        *_table("WITHOUT", "tuple[str, ...]", rows["none"]),
        '"""Operators whose rules do not say what they return: a call is KernelMissing."""',
    ]
    yield "_generated_meta.py", "\n".join(body) + "\n"


def _row(function: NativeFunction, written: tuple[str, ...]) -> tuple[str, str]:
    """Returns the table that an operator is in, and its row, with ``{}`` for its object."""
    if (kernel := function.base_name.replace(".", "_")) in written:
        return "handwritten", f"({{}}, kernels.{kernel})"
    result = _result(function)
    crosses = "device" in function.tags and result is None
    if function.composite == "explicit" and any(a.default is None for a in function.schema.keyword_only):
        return "composite", "{}"  # which serves every call that gives a keyword, and so every call
    if function.shape is not None and result is not None:
        return "rule", f'({{}}, "{function.shape}", "{result}")'
    if crosses or (function.shape is None and function.composite != "none"):
        return "composite", "{}"
    return "none", f'"{function.qualified_name}"'


def _result(function: NativeFunction) -> str | None:
    """Returns what decides the dtype of a result; None where no rule does, nor the strides of a view."""
    if function.schema.is_inplace:
        return "self"
    if "creation" in function.tags:
        return "created"
    return None if function.promote == "none" or function.schema.is_view else function.promote


def _table(name: str, type: str, rows: list[str]) -> list[str]:
    if not rows:
        return [f"{name}: {type} = ()"]
    return [f"{name}: {type} = (", *(f"    {row}," for row in rows), ")"]


__all__ = ["KERNELS", "NAME", "generate"]
