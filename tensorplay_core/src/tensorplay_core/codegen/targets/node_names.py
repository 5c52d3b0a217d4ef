"""Gives the inputs and results of a derivative other names where a node's methods use theirs themselves.

A backward has a local for every input that it reads, beside ``node``, ``graph`` and what it imports, and Python keeps
words such as ``from`` to itself. What a signature calls an argument must not decide whether its gradient is right, so
the names are changed before anything is emitted: in the signature and in the formulas alike.
"""

from __future__ import annotations

import keyword
from collections.abc import Collection, Mapping

import attrs

from tensorplay_core.codegen.contract import Derivative
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import RESERVED, Scope, analyze, needed_name
from tensorplay_core.codegen.formula.ast import Expr

LOCALS = frozenset(
    {
        "node",
        "graph",
        "record",
        "save",
        "unpack",
        "tuple",
        "len",
        "each",
        "inf",
        "nan",
        "pi",
        "others",
        "any",
        "edges",
        "iter",
        "next",
        "range",
    }
)


def apart(derivative: Derivative, imported: Collection[str]) -> tuple[Derivative, dict[str, str]]:
    """Renames what must be renamed.

    Args:
        derivative: the record.
        imported: the names that the node's module imports or defines.

    Returns:
        The record, and for each new name the one in the signature; usually the record itself and nothing.
    """
    schema = derivative.schema
    names = [*(a.name for a in schema.arguments), *(r.name for r in schema.returns if r.name is not None)]
    taken = {*LOCALS, *imported}
    renamed: dict[str, str] = {}
    for name in dict.fromkeys(names):
        new = name
        while keyword.iskeyword(new) or new in taken or (new != name and new in names):
            new += "_"
        if new != name and name not in RESERVED:
            renamed[name] = new
    if not renamed:
        return derivative, {}
    return _renamed(derivative, renamed), {new: name for name, new in renamed.items()}


def _renamed(derivative: Derivative, new: Mapping[str, str]) -> Derivative:
    schema = attrs.evolve(
        derivative.schema,
        arguments=tuple(attrs.evolve(a, name=new.get(a.name, a.name)) for a in derivative.schema.arguments),
        returns=tuple(attrs.evolve(r, name=r.name and new.get(r.name, r.name)) for r in derivative.schema.returns),
    )
    formulas = tuple(
        attrs.evolve(f, targets=tuple(new.get(t, t) for t in f.targets), expr=_rewritten(f.expr, new))
        for f in derivative.formulas
    )
    tangents = {f"{name}{end}": f"{other}{end}" for name, other in new.items() for end in ("_t", "_p")}
    forward = tuple(
        attrs.evolve(f, targets=tuple(new.get(t, t) for t in f.targets), expr=_rewritten(f.expr, {**tangents, **new}))
        for f in derivative.forward
    )
    scope = Scope.of(schema, derivative.output_differentiability)
    return attrs.evolve(
        derivative,
        function=attrs.evolve(derivative.function, schema=schema),
        formulas=formulas,
        forward=forward,
        not_differentiable=tuple(new.get(name, name) for name in derivative.not_differentiable),
        analysis=analyze(scope, {f.key: f.expr for f in formulas}),
    )


def _rewritten(expr: Expr, new: Mapping[str, str]) -> Expr:
    def replace(node: Expr) -> Expr | None:
        match node:
            case ast.Index(object=ast.Name(name="needs") as needs, items=items) if name := needed_name(items):
                return ast.Index(needs, (ast.Name(new.get(name, name)),), position=node.position)
            case ast.Name(name=name) if name in new:
                return ast.Name(new[name], position=node.position)
        return None

    return ast.transform(expr, replace)
