"""Nested tuples, lists and dicts of values, flattened to a list and put together again: what transforms take.

Containers are exactly those that PyTorch takes: ``tuple``, ``list``, ``dict``, ``OrderedDict``, ``defaultdict``,
``deque`` and named tuples, and what :func:`register_pytree_node` adds. Everything else is a leaf, ``None`` too.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from tensorplay_core.errors import ArgumentError, fix

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[list[Any], Any], Any]


class TreeSpec:
    """The shape of a tree: a node with its children, or a leaf.

    Attributes:
        kind: the class of the node; None for a leaf.
        context: what the node needs besides its children, such as the keys of a dict.
        children: their shapes.
    """

    __slots__ = ("children", "context", "kind")

    def __init__(self, kind: type | None = None, context: Any = None, children: tuple[TreeSpec, ...] = ()) -> None:
        self.kind, self.context, self.children = kind, context, children

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind is None else sum(child.leaves for child in self.children)

    @property
    def keys(self) -> list[Any]:
        """The keys of a dict, in the order of the children."""
        found: list[Any] = self.context[1] if self.kind is defaultdict else self.context
        return found

    def __eq__(self, other: object) -> bool:
        """Whether both are the same shape."""
        return isinstance(other, TreeSpec) and (
            (self.kind, self.context, self.children) == (other.kind, other.context, other.children)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Describes the shape: ``dict(a=*, b=tuple(*, *))``."""
        if self.kind is None:
            return "*"
        names = [f"{key}=" for key in self.keys] if self.kind in _DICTS else [""] * len(self.children)
        inside = ", ".join(f"{name}{child!r}" for name, child in zip(names, self.children, strict=True))
        return f"{self.kind.__name__}({inside})"


LEAF = TreeSpec()
_DICTS = (dict, OrderedDict, defaultdict)


def _named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


_NODES: dict[type, tuple[Flatten, Unflatten]] = {
    tuple: (lambda x: (list(x), None), lambda children, _: tuple(children)),
    list: (lambda x: (list(x), None), lambda children, _: list(children)),
    dict: (lambda x: (list(x.values()), list(x)), lambda children, keys: dict(zip(keys, children, strict=True))),
    OrderedDict: (
        lambda x: (list(x.values()), list(x)),
        lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
    ),
    defaultdict: (
        lambda x: (list(x.values()), (x.default_factory, list(x))),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: (lambda x: (list(x), x.maxlen), lambda children, maxlen: deque(children, maxlen)),
}


def register_pytree_node(kind: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Makes a class a container.

    Args:
        kind: the class; objects of subclasses stay leaves.
        flatten: returns an object's children and what else it needs.
        unflatten: makes an object of both.

    Raises:
        ArgumentError: it is a container already.

    Example:
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
        >>> tree_flatten(Pair(1, (2, 3)))[0]
        [1, 2, 3]
    """
    if kind in _NODES or _named(kind):
        raise ArgumentError(f"{kind.__name__} is a container already" + fix("register each class once."))
    _NODES[kind] = (flatten, unflatten)


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """Returns the leaves of a tree, from left to right, and its shape.

    Example:
        >>> tree_flatten({"a": 1, "b": (2, None)})
        ([1, 2, None], dict(a=*, b=tuple(*, *)))
    """
    leaves: list[Any] = []

    def visit(value: Any) -> TreeSpec:
        kind = value.__class__
        if kind in _NODES:
            children, context = _NODES[kind][0](value)
        elif _named(kind):
            children, context = list(value), None
        else:
            leaves.append(value)
            return LEAF
        return TreeSpec(kind, context, tuple(map(visit, children)))

    return leaves, visit(tree)


def tree_unflatten(leaves: Iterable[Any], spec: TreeSpec) -> Any:
    """Returns the tree of a shape with these leaves.

    Example:
        >>> leaves, spec = tree_flatten([1, {"a": 2}])
        >>> tree_unflatten([10 * leaf for leaf in leaves], spec)
        [10, {'a': 20}]
    """
    rest = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.kind is None:
            return next(rest)
        children = list(map(build, spec.children))
        if spec.kind in _NODES:
            return _NODES[spec.kind][1](children, spec.context)
        return spec.kind(*children)

    return build(spec)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Returns a tree with a function applied to every leaf.

    Example:
        >>> tree_map(lambda n: n + 1, [1, (2, 3)])
        [2, (3, 4)]
    """
    leaves, spec = tree_flatten(tree)
    return tree_unflatten(map(function, leaves), spec)


def broadcast_prefix(prefix: Any, spec: TreeSpec) -> list[Any] | None:
    """Returns a value for each leaf of a tree, from a tree that may end where the other goes on.

    Args:
        prefix: such as ``(0, {"a": None})``; a leaf of it holds for everything beneath.
        spec: the shape of the other tree.

    Returns:
        None where the two do not go together.

    Example:
        >>> broadcast_prefix((0, None), tree_flatten((1, [2, 3]))[1])
        [0, None, None]
    """
    return _matched(prefix, spec, whole=False)


def leaves_as(tree: Any, spec: TreeSpec) -> list[Any] | None:
    """Returns the leaves of a tree in the order of a shape, whose dicts may have their keys in another order.

    Returns:
        None where the tree is not of the shape.

    Example:
        >>> leaves_as({"b": (2, 3), "a": 1}, tree_flatten({"a": 0, "b": (0, 0)})[1])
        [1, 2, 3]
    """
    return _matched(tree, spec, whole=True)


def _matched(tree: Any, spec: TreeSpec, *, whole: bool) -> list[Any] | None:
    """Returns a value for each leaf of a shape; ``whole`` says whether the tree must go on to the leaves as it does."""
    kind = tree.__class__
    if kind not in _NODES and not _named(kind):
        return None if whole and spec.kind is not None else [tree] * spec.leaves
    if spec.kind is None:
        return None
    alike = not whole and ({kind, spec.kind} <= {tuple, list} or (kind is tuple and _named(spec.kind)))
    children, context = _NODES[kind][0](tree) if kind in _NODES else (list(tree), None)
    if (kind is not spec.kind and not alike) or len(children) != len(spec.children):
        return None
    if kind in _DICTS:
        if tree.keys() != set(spec.keys):
            return None
        children = [tree[key] for key in spec.keys]
    elif whole and context != spec.context:
        return None
    parts = [_matched(child, own, whole=whole) for child, own in zip(children, spec.children, strict=True)]
    return None if any(part is None for part in parts) else [value for part in parts for value in part or ()]
