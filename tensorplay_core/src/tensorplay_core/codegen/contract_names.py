"""The names that operators have in generated code, and which operators would share one.

A signature may use any word, and two operators may differ in a dot alone: ``max.dim`` and ``max_dim`` would be one
constant, and the second would silently take the place of the first. So that is refused where the records are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensorplay_core.codegen.contract_model import NativeFunction

_IMPORTED_AS = ("F", "H", "OWN", "OWN_HELPERS", "STATE", "MULTIPLE", "PLAIN_MULTIPLE", "SAVING")


def constant(name: str) -> str:
    """Returns the name of an operator's object in generated code.

    Example:
        >>> constant("max.dim"), constant("add_"), constant("f"), constant("__and__.x")
        ('MAX_DIM', 'ADD_', 'F_OP', '_AND___X')
    """
    upper = _one_underscore(name.replace(".", "_").upper())
    return f"{upper}_OP" if upper in _IMPORTED_AS else upper


def _one_underscore(name: str) -> str:
    """Two in front would make Python change the name inside a class."""
    return f"_{name.lstrip('_')}" if name.startswith("__") else name


def node_name(name: str) -> str:
    """Returns the name of the node class of an operator's gradient.

    Example:
        >>> node_name("max.dim"), node_name("_to_copy")
        ('MaxDimBackward', '_ToCopyBackward')
    """
    words = name.replace(".", "_").split("_")
    private = "_" if name.startswith("_") else ""
    return private + "".join(word[:1].upper() + word[1:] for word in words if word) + "Backward"


def colliding(functions: Iterable[NativeFunction]) -> Iterator[str]:
    """Yields an error for each operator whose object has the name of one before it."""
    first: dict[str, tuple[str, NativeFunction]] = {}
    for function in functions:
        schema = function.schema
        inplace = f"{schema.namespace}::{function.name}_{f'.{schema.overload}' if schema.overload else ''}"
        for name in (function.qualified_name, *([inplace] if function.inplace else [])):
            taken = constant(name.partition("::")[2])
            other, owner = first.setdefault(taken, (name, function))
            if other != name and owner is not function:  # a second record of one name is told by itself
                assert function.location is not None
                names = " and ".join(f"'{each.removeprefix('tp::')}'" for each in (name, other))
                yield function.location.describe(
                    f"{names} are both {taken} in generated code; rename one (the other is at {owner.location})"
                )
