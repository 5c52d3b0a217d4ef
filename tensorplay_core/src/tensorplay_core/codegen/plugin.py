"""A contract outside this repository: what its package adds to what core's contract already says.

The package is read as text, like core's own hand-written modules: ``helpers.py`` has functions that formulas may call,
``shapes.py`` shape rules, ``handwritten.py`` functions that take the place of generated ones.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable
from pathlib import Path

import attrs

from tensorplay_core.codegen.conflicts import raise_all
from tensorplay_core.codegen.context import (
    PACKAGE,
    TENSOR_MEMBERS,
    CodegenContext,
    Plugin,
    own_folders,
    shape_rules,
)
from tensorplay_core.codegen.contract import Contract, NativeFunction, load_contract
from tensorplay_core.codegen.handwritten import public_functions
from tensorplay_core.errors import ContractError, fix
from tensorplay_core.types.schema import DEFAULT_NAMESPACE

HELPERS, SHAPES, WRITTEN = "helpers", "shapes", "handwritten"
"""The modules of a plugin's package that the generator knows, each optional."""


def load_plugin(
    contract: Collection[Path],
    out: Path,
    *,
    package: str | None = None,
    docs: Path | None = None,
    dispatch_keys: Collection[str] = (),
) -> CodegenContext:
    """Reads and checks a plugin's contract.

    Args:
        contract: files named ``native_functions*.yaml``, beside which ``derivatives*.yaml`` are read too, or folders.
        out: the package's folder, which gets the generated files.
        package: its dotted name; found from the ``__init__.py`` files around it when None.
        docs: the folder of the operators' pages; none are written without it.
        dispatch_keys: names that ``dispatch`` may use besides the built-in keys.

    Raises:
        ContractError: it is wrong; a record is in no namespace of its own, or in several; a method exists already; a
            folder is core's.
    """
    _refuse_ours([folder for folder in (out, docs) if folder is not None])
    core = CodegenContext.load()
    name = _checked(package) if package else package_of(out)
    own = Plugin(
        namespace="",
        helpers=frozenset(public_functions(out / f"{HELPERS}.py")),
        shapes=frozenset(public_functions(out / f"{SHAPES}.py")),
        handwritten=dict.fromkeys(public_functions(out / f"{WRITTEN}.py"), f"{name}.{WRITTEN}"),
        methods=_methods(core),
    )
    loaded = load_contract(
        list(files_of(contract)),
        helpers=(*core.helpers, *core.handwritten, *own.helpers, *own.handwritten),
        members=TENSOR_MEMBERS,
        dispatch_keys=dispatch_keys,
        shape_rules=(*shape_rules(), *own.shapes),
        known=core.contract,
    )
    namespace = _namespace(loaded, contract)
    made = CodegenContext(
        _with_families(loaded, namespace),
        folders_of(out, docs),
        {"ops": name},
        PACKAGE / "ops",
        attrs.evolve(own, namespace=namespace),
    )
    _refuse_methods(made)
    return made


def folders_of(out: Path, docs: Path | None = None) -> dict[str, Path | None]:
    """Returns the folders of a plugin's generated files; autocast learns its policies when operators are defined."""
    return {"ops": out, "autocast": None, "docs": docs}


def files_of(places: Iterable[Path]) -> list[Path]:
    """Returns the contract files of files and folders: with a file come the derivatives that lie beside it.

    Raises:
        ContractError: there is nothing at a place.
    """
    found: list[Path] = []
    for place in places:
        if not place.exists():
            raise ContractError(f"{place}: there is no such file or folder")
        folder = place if place.is_dir() else place.parent
        if place.is_file() and place.name.startswith("derivatives"):
            remedy = "give its native_functions*.yaml, or the folder: all derivatives*.yaml beside it are read with it."
            raise ContractError(f"{place}: holds derivatives, and a contract begins with operators" + fix(remedy))
        functions = sorted(folder.glob("native_functions*.yaml")) if place.is_dir() else [place]
        if not functions:
            remedy = "a contract's records are in files of such a name, beside its derivatives*.yaml."
            raise ContractError(f"{place}: holds no native_functions*.yaml" + fix(remedy))
        found += [*functions, *sorted(folder.glob("derivatives*.yaml"))]
    return list(dict.fromkeys(found))


def package_of(folder: Path) -> str:
    """Returns the dotted name of the package in a folder, from the ``__init__.py`` files in it and above it.

    Raises:
        ContractError: it is none, or its path is no name.
    """
    place = folder.resolve()
    names: list[str] = []
    while (place / "__init__.py").exists():
        names.insert(0, place.name)
        place = place.parent
    if not names:
        raise ContractError(
            f"{folder} holds no __init__.py, so the name that its modules are imported by cannot be told"
            + fix("make it a package, or give the name with --package.")
        )
    if bad := next((n for n in names if not _is_name(n)), None):
        raise ContractError(f"{folder}: {bad!r} is not a name of Python" + fix("give the package's with --package."))
    return ".".join(names)


def _is_name(word: str) -> bool:
    return word.isidentifier() and not keyword.iskeyword(word)


def _checked(package: str) -> str:
    if not all(map(_is_name, package.split("."))):
        remedy = "give the name that it is imported by, 'mypackage.ops'; a distribution's name may be another."
        raise ContractError(f"{package!r} is no name of a package" + fix(remedy))
    return package


def _refuse_ours(folders: Iterable[Path]) -> None:
    """Refuses the folders of core, in which a plugin's files would take the place of everything that is generated."""
    ours = [PACKAGE, *(folder.resolve() for folder in own_folders().values() if folder is not None)]
    for folder in folders:
        place = folder.resolve()
        if found := next((one for one in ours if one in (place, *place.parents)), None):
            raise ContractError(
                f"{folder} is in {found}, which has the files that core's own contract makes"
                + fix("give the folder of the package that the contract belongs to.")
            )


def _namespace(contract: Contract, places: Iterable[Path]) -> str:
    """Returns the one namespace of a plugin's operators."""
    problems = []
    first: NativeFunction | None = None
    for function in contract.functions:
        space = function.schema.namespace
        assert function.location is not None
        if space == DEFAULT_NAMESPACE:
            message = f"'{function.base_name}' is in the namespace 'tp', which holds the built-in operators only"
            remedy = f"name the plugin's: `mypackage::{function.base_name}(...)`"
            problems.append(function.location.describe(message, remedy))
        elif first is not None and first.schema.namespace != space:
            message = f"'{function.qualified_name}' is in another namespace than '{first.qualified_name}'"
            remedy = "a contract has one namespace; give this one a folder and a contract of its own"
            problems.append(function.location.describe(message, remedy))
        else:
            first = first or function
    raise_all(problems)
    if first is None:
        remedy = "a record is '- func: mypackage::name(Tensor self) -> Tensor'."
        raise ContractError(f"{', '.join(map(str, places))}: the contract has no operators" + fix(remedy))
    return first.schema.namespace


def _with_families(contract: Contract, namespace: str) -> Contract:
    """Gives operators of a file that names no family that of the namespace; a family is part of a module's name."""

    def renamed(function: NativeFunction) -> NativeFunction:
        return attrs.evolve(function, family=re.sub(r"\W", "_", function.family) or namespace)

    functions = {f.qualified_name: renamed(f) for f in contract.functions}
    derivatives = [attrs.evolve(d, function=functions[d.function.qualified_name]) for d in contract.derivatives]
    return Contract(tuple(functions.values()), tuple(derivatives))


def _methods(core: CodegenContext) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, group in core.sets.items():
        for member in group:
            if core.is_method(member):
                aliases = () if member.is_inplace else member.function.aliases
                found |= dict.fromkeys((name, *aliases), f"core's contract makes it, at {member.function.location}")
    return found


def _refuse_methods(context: CodegenContext) -> None:
    """Refuses what would change a method that Tensor has for everybody."""
    problems = []
    for skipped in context.skipped:
        if skipped.variant == "method" and "already" in skipped.reason:
            message = f"a method '{skipped.name}' for '{skipped.function.base_name}': {skipped.reason}"
            assert skipped.function.location is not None
            problems.append(skipped.function.location.describe(message, "take `method` out of `variants`"))
    raise_all(problems)


__all__ = ["HELPERS", "SHAPES", "WRITTEN", "files_of", "load_plugin", "package_of"]
