"""The public function of an overloaded operator, and the functions of its overloads that it chooses among.

Each overload has a function of its own, with its signature and its fast path. The public one looks up which the classes
of its arguments mean; see :mod:`tensorplay_core.ops.overload_set`. The functional and the in-place target share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tensorplay_core.codegen.context import constant, indent, wrapped
from tensorplay_core.codegen.signatures import Signature

Body = Callable[[Callable[[Mapping[str, str]], list[str]], Mapping[str, str]], list[str]]
"""``Module.body``: makes statements in which no local or import has the name of a parameter."""


@attrs.frozen
class Overload:
    """One overload, as the public function sees it.

    Attributes:
        label: its name, and that of the overload: ``max.dim``.
        signature: of its own function.
        names: what stands for each argument, and for the parameters that the signature does not have.
        statements: makes the statements of its function.
    """

    label: str
    signature: Signature
    names: Mapping[str, str]
    statements: Callable[[Mapping[str, str]], list[str]]

    @property
    def function(self) -> str:
        """The name of its function."""
        name, _, overload = self.label.partition(".")
        return f"_{name}__{overload or 'default'}"


def own_functions(body: Body, name: str, overloads: list[Overload], outs: list[str]) -> list[list[str]]:
    """Returns the overloads' functions and the set of them, as blocks of a module.

    Args:
        body: the module's.
        name: the public function.
        overloads: what it chooses among.
        outs: the overload names of those whose function takes ``out=``.
    """
    blocks = []
    for one in overloads:
        head = wrapped(f"def {one.function}(", list(one.signature.parameters), f") -> {one.signature.returns}:")
        doc = f'"""``{one.label}``; see :func:`{name}`."""'
        blocks.append([*head, *indent([doc, *body(one.statements, one.names)])])
    functions = wrapped("{", [f"{constant(one.label)}: {one.function}" for one in overloads], "}", 100 - len(name))
    arguments = [f'"{name}"', "\n    ".join(functions)]
    if outs:
        quoted = ", ".join(f'"{overload}"' for overload in outs)
        arguments.append(f"({quoted}{',' * (len(outs) == 1)})")
    return [*blocks, wrapped(f"{set_name(name)} = OverloadSet(", arguments, ")")]


def set_name(name: str) -> str:
    """Returns the name of the set of a function's overloads."""
    return f"_{name.upper()}_OVERLOADS"


def choosing(name: str) -> list[str]:
    """Returns the statements that call the overload which is meant."""
    return [
        f"known = {set_name(name)}.get((*map(type, args), *kwargs, *map(type, kwargs.values())))",
        f"return known(*args, **kwargs) if known is not None else {set_name(name)}.call(args, kwargs)",
    ]
