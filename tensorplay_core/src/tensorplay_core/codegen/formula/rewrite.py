"""Rewrites formulas for emission.

An emitter prints a formula as it stands; before that, metadata become the names of saved values here, and what two
formulas share is moved into a variable. Both are rewrites of trees, so that every emitter gets the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.analysis import LENGTH, METADATA_METHODS, PRESENT, Scope, metadata_at
from tensorplay_core.codegen.formula.ast import Expr


def saved_name(name: str, kind: str, scope: Scope | None = None) -> str:
    """The name under which a node keeps metadata: ``self_shape``, or ``self_shape_`` where an input has that name."""
    saved = f"{name}_{kind}"
    while scope is not None and (saved in scope.inputs or saved in scope.outputs):
        saved += "_"
    return saved


def replace_metadata(scope: Scope, expr: Expr) -> Expr:
    """Replaces every use of an input's or output's metadata by the saved value that :func:`saved_name` names.

    ``self.shape`` and ``self.size()`` become ``self_shape``, ``self.size(0)`` becomes ``self_shape[0]``,
    ``bias is not None`` becomes ``bias_present``; of a Tensor[] a list is saved, so ``tensors.size(0)`` becomes
    ``[s[0] for s in tensors_shape]``. Afterwards the inputs and outputs that are left in the formula are those whose
    values it reads.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> from tensorplay_core.types.schema import parse_schema
        >>> scope = Scope.of(parse_schema("f(Tensor self, Tensor? bias=None) -> Tensor"))
        >>> str(replace_metadata(scope, parse_formula("grad.reshape(self.shape) if bias is None else self.size(0)")))
        'grad.reshape(self_shape) if not bias_present else self_shape[0]'
    """

    def replace(node: Expr) -> Expr | None:
        found = metadata_at(scope, node)
        if found is None:
            return None
        args = tuple(replace_metadata(scope, arg) for arg in found.args)
        saved = ast.Name(saved_name(found.name, found.kind, scope), position=node.position)
        if isinstance(node, ast.IsNone) and not node.negated:
            return ast.Unary("not", saved, position=node.position)
        if found.item is not None:
            item = replace_metadata(scope, found.item)
            return _indexed(ast.Index(saved, (item,), position=node.position), args)
        if found.name in scope.lists and args:
            return ast.Each(_indexed(ast.Name("each"), args), "each", saved)
        return _indexed(saved, args)

    return ast.transform(expr, replace)


def _indexed(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    return ast.Index(expr, args) if args else expr


@attrs.frozen
class Definition:
    """A subexpression that is computed once.

    Attributes:
        name: the local variable, ``shared_0``.
        expr: what it is; refers to the definitions before it only.
        users: the keys of the formulas that read it, directly or through a later definition.
    """

    name: str
    expr: Expr
    users: frozenset[str]


@attrs.frozen
class Shared:
    """Definitions in the order in which they are computed, and the formulas that refer to them."""

    definitions: tuple[Definition, ...]
    formulas: Mapping[str, Expr] = attrs.field(hash=False)


def shared(formulas: Mapping[str, Expr], *, prefix: str = "shared") -> Shared:
    """Finds the subexpressions that formulas compute twice or more, the largest first, and names them.

    Only what a formula computes whenever it runs is moved out of it: a branch of ``a if c else b`` and the right side
    of ``and`` and ``or`` may not be safe to compute, so an occurrence there does not count; it is replaced where its
    formula also computes the same thing outside.

    Args:
        formulas: the trees by key, as given to ``analyze``.
        prefix: the names are ``<prefix>_0``, ``<prefix>_1``; one that occurs in a formula is skipped.

    Example:
        >>> from tensorplay_core.codegen.formula.parser import parse_formula
        >>> texts = {"self": "f(grad * result) * other", "other": "f(grad * result) * self"}
        >>> both = {name: parse_formula(text) for name, text in texts.items()}
        >>> found = shared(both)
        >>> [(d.name, str(d.expr)) for d in found.definitions], {key: str(e) for key, e in found.formulas.items()}
        ([('shared_0', 'f(grad * result)')], {'self': 'shared_0 * other', 'other': 'shared_0 * self'})
    """
    names = _fresh_names(formulas, prefix)
    sites = dict(formulas)
    users = {key: frozenset({key}) for key in formulas}
    defined: list[str] = []
    while (found := _largest(sites)) is not None:
        expr, keys = found
        name = next(names)
        for key in keys:
            sites[key] = _replaced(sites[key], expr, ast.Name(name, position=expr.position))
        sites[name] = expr
        users[name] = frozenset().union(*(users[key] for key in keys))
        defined.append(name)
    ordered = _in_order(defined, sites)
    return Shared(
        tuple(Definition(name, sites[name], users[name]) for name in ordered), {key: sites[key] for key in formulas}
    )


def _largest(sites: Mapping[str, Expr]) -> tuple[Expr, list[str]] | None:
    """The largest expression that is always computed twice or more, with its sites; of equal ones the first."""
    where: dict[Expr, list[str]] = {}
    for key, site in sites.items():
        for expr in _always_computed(site):
            where.setdefault(expr, []).append(key)
    best: tuple[Expr, list[str]] | None = None
    best_size = 0
    for expr, keys in where.items():
        if len(keys) > 1 and _is_work(expr):
            size = sum(1 for _ in ast.walk(expr))
            if size > best_size:
                best, best_size = (expr, [*dict.fromkeys(keys)]), size
    return best


def _always_computed(expr: Expr) -> Iterator[Expr]:
    yield expr
    match expr:
        case ast.Conditional(condition=first) | ast.Boolean(left=first):
            yield from _always_computed(first)
        case ast.Each(source=source):
            yield from _always_computed(source)
        case _:
            for child in ast.children(expr):
                yield from _always_computed(child)


def _is_work(expr: Expr) -> bool:
    """Whether computing it twice costs something: calls and operators, unless they are on literals alone."""
    match expr:
        case ast.Method(name=name):
            return name not in METADATA_METHODS
        case ast.Index(object=ast.Name()) | ast.Index(object=ast.Attribute()):
            return False
        case ast.Call() | ast.Index() | ast.Binary() | ast.Compare() | ast.Conditional() | ast.Each():
            pass
        case ast.Unary(operator="-"):
            pass
        case _:
            return False
    return any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(expr))


def _replaced(site: Expr, expr: Expr, name: Expr) -> Expr:
    return ast.transform(site, lambda node: name if node == expr else None)


def _fresh_names(formulas: Mapping[str, Expr], prefix: str) -> Iterator[str]:
    taken = {node.name for expr in formulas.values() for node in ast.walk(expr) if isinstance(node, ast.Name)}
    number = 0
    while True:
        if (name := f"{prefix}_{number}") not in taken and name not in formulas:
            yield name
        number += 1


def _in_order(defined: list[str], sites: Mapping[str, Expr]) -> list[str]:
    """Sorts definitions so that each stands behind those that it refers to."""
    ordered: list[str] = []

    def place(name: str) -> None:
        if name not in ordered:
            for node in ast.walk(sites[name]):
                if isinstance(node, ast.Name) and node.name in sites and node.name in defined:
                    place(node.name)
            ordered.append(name)

    for name in defined:
        place(name)
    return ordered


__all__ = ["LENGTH", "PRESENT", "Definition", "Shared", "replace_metadata", "saved_name", "shared"]
