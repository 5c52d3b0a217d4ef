"""The edges of a node in its backward: one local for each input, and how they are asked whether a gradient is wanted.

An input that is a list of tensors has as many edges as it has items, so where the edges of one input begin depends on
the lists before it; with more than one list the node keeps their lengths.
"""

from __future__ import annotations

from tensorplay_core.codegen.contract import Derivative
from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import LENGTH
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.rewrite import saved_name


def local(derivative: Derivative, word: str) -> str:
    """Returns how the locals of a backward begin, ``grad`` as in ``grad_self``, where no input is called like one."""
    names = {a.name for a in derivative.schema.arguments} | set(derivative.schema.return_names)
    while any(f"{word}_{name}" in names for name in names):
        word += "_"
    return word


def lists_of(derivative: Derivative) -> tuple[str, ...]:
    """Returns the inputs that are lists."""
    return tuple(a.name for a in derivative.inputs if a.type.is_tensor_list)


def kept_lengths(derivative: Derivative) -> tuple[str, ...]:
    """Returns the inputs whose length the node keeps, to find their edges: all lists, where there are two or more."""
    found = lists_of(derivative)
    return found if len(found) > 1 else ()


def unpacked(derivative: Derivative) -> list[str]:
    """Returns the statements that give each input's edges a local."""
    edge, lists, lengths = local(derivative, "edge"), lists_of(derivative), kept_lengths(derivative)
    if not lengths:
        locals_ = [f"*{edge}_{a.name}" if a.name in lists else f"{edge}_{a.name}" for a in derivative.inputs]
        return [f"{', '.join(locals_)} = node.edges"]
    statements = ["edges = iter(node.edges)"]
    for argument in derivative.inputs:
        one = "next(edges)"
        if argument.name in lists:
            one = f"[next(edges) for _ in range({saved_name(argument.name, LENGTH, derivative.scope)})]"
        statements.append(f"{edge}_{argument.name} = {one}")
    return statements


def present(derivative: Derivative, name: str) -> Expr:
    """Returns the question whether the gradient of an input is wanted."""
    edges = ast.Name(f"{local(derivative, 'edge')}_{name}")
    if name not in lists_of(derivative):
        return ast.IsNone(edges, negated=True)
    return ast.Call("any", (ast.Each(ast.IsNone(ast.Name("each"), negated=True), "each", edges),))


def any_present(derivative: Derivative, names: list[str]) -> Expr:
    """Returns the question whether any of them is."""
    found = present(derivative, names[0])
    for name in names[1:]:
        found = ast.Boolean("or", found, present(derivative, name))
    return found


def needed(derivative: Derivative, name: str) -> Expr:
    """Returns what ``needs[name]`` is in a backward, which runs because some gradient is wanted."""
    inputs = [argument.name for argument in derivative.inputs]
    if name not in inputs:
        return ast.Constant("False")
    return ast.Constant("True") if len(inputs) == 1 else present(derivative, name)


def nothing(derivative: Derivative) -> list[str]:
    """Returns the statements that start each gradient as absent."""
    grad, edge, lists = local(derivative, "grad"), local(derivative, "edge"), lists_of(derivative)
    single = [f"{grad}_{a.name}" for a in derivative.inputs if a.name not in lists]
    return [
        *([f"{' = '.join(single)} = None"] if single else []),
        *(f"{grad}_{name} = [None] * len({edge}_{name})" for name in lists),
    ]
