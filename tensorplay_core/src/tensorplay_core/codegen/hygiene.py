"""Keeps apart the names that an author chose and the names that generated code uses itself.

A signature may call an argument ``n``, ``call`` or ``Tensor``, and an operator may be called ``share``; the function
that is generated for it has locals and imports of these names. The parameter keeps its name, since callers use it: what
gives way is the local, or the import, which gets an underscore in front.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping

Build = Callable[[Mapping[str, str]], list[str]]
"""Makes the statements of a body from the text that stands for each argument."""


LOCALS = frozenset("actryonwvx") | {f"n{i}" for i in range(64)}
"""The locals of a fast path."""
BUILTINS = frozenset({"AttributeError", "Exception", "any", "len", "list", "map", "tuple", "type"})


def apart(
    build: Build, names: Mapping[str, str], own: Collection[str], shadowed: Collection[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Returns a function's body in which nothing but the parameters has the name of a parameter.

    Args:
        build: makes the statements; in them, an argument occurs only as the text that it is given for it.
        names: argument to parameter.
        own: the names that generated code may use itself.
        shadowed: those of them that the module defines itself, and that the body must not take for what it imports.

    Returns:
        The statements, and new name to old of what was renamed; the imported ones among them need an import.

    Example:
        >>> apart(lambda names: [f"n = f({names['n']})", "return n.n"], {"n": "n"}, {"n"})
        (['_n = f(n)', 'return _n.n'], {'_n': 'n'})
    """
    parameters = set(names.values())
    if parameters.isdisjoint(own) and not shadowed:
        return build(names), {}
    stand_ins = {argument: f"p{i}__" for i, argument in enumerate(names)}
    while parameters & set(stand_ins.values()):
        stand_ins = {argument: f"{name}_" for argument, name in stand_ins.items()}
    body = build(stand_ins)
    used = {token.string for token in _names(body)}
    to_new: dict[str, str] = {}
    for name in sorted(used & (parameters | set(shadowed))):
        new = f"_{name}"
        while new in used or new in parameters or new in shadowed:
            new = f"_{new}"
        to_new[name] = new
    back = {stand_in: names[argument] for argument, stand_in in stand_ins.items()}
    return _replaced(body, to_new | back), {new: old for old, new in to_new.items()}


def _names(body: list[str]) -> Iterator[tokenize.TokenInfo]:
    """Yields the names of variables in statements: no attributes, and no names of a call's keywords."""
    text = "\n".join(body) + "\n"
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    before, depth = "", 0
    for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
        if token.type == tokenize.NAME and before != "." and not (depth and after.string == "="):
            yield token
        before = token.string


def _replaced(body: list[str], new: Mapping[str, str]) -> list[str]:
    lines = list(body)
    for token in reversed([token for token in _names(body) if token.string in new]):
        row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
        lines[row] = lines[row][:start] + new[token.string] + lines[row][end:]
    return lines
