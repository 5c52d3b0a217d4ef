"""What is known of code that people write: the functions of a module and the members of Tensor, read from its text.

Nothing is imported, for two reasons: the generator runs when no generated file exists, and a module with a fault in it
must not stop the run that could mend it.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tensorplay_core.errors import ContractError

BOUND = ("tensor/tensor.py", "autograd/methods.py", "ops/methods.py")
"""Modules of core with classes whose members Tensor has."""


def public_functions(path: Path) -> tuple[str, ...]:
    """Returns the names of a module's public top-level functions, from its text; none when there is no such file."""
    return tuple(n.name for n in _body(path) if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))


def keys_of(path: Path, name: str) -> tuple[str, ...]:
    """Returns the keys of a dictionary of strings that a module defines, such as the names of the shape rules."""
    for node in _body(path):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        value = node.value if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == name and isinstance(value, ast.Dict):
            return tuple(key.value for key in value.keys if isinstance(key, ast.Constant))  # type: ignore[misc]
    return ()


def tensor_members(package: Path) -> dict[str, str]:
    """Returns the members of Tensor that are written by hand, each with the module where it is.

    Args:
        package: the folder of core.
    """
    members = dict.fromkeys(dir(object), "it belongs to every object of Python")
    for module in BOUND:
        for node in _body(package / module):
            if isinstance(node, ast.ClassDef) and (module == BOUND[0] or _is_bound(node)):
                members |= dict.fromkeys(_names(node), f"it is written by hand in tensorplay_core/{module}")
    return members


def _body(path: Path) -> list[ast.stmt]:
    if not path.exists():
        return []
    try:
        return ast.parse(path.read_text(encoding="utf-8"), path.name).body
    except (SyntaxError, ValueError) as error:
        raise ContractError(
            f"{path}: the generator reads the names of its functions, but it is not Python: {error}"
        ) from error


def _is_bound(node: ast.ClassDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "bind" for d in node.decorator_list)


def _names(node: ast.ClassDef) -> list[str]:
    names: list[str] = []
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(item.name)
        elif isinstance(item, ast.Assign):
            names += [target.id for target in item.targets if isinstance(target, ast.Name)]
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names.append(item.target.id)
    return names
