"""Loads the contract: the one door through which the generator, its tests and plugins read contract files.

Everything that can be wrong with a file is found here, before any code is generated, and as much of it as possible at
once: an author who runs the generator sees the list of mistakes, not the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

from tensorplay_core.codegen.collector import without_collector
from tensorplay_core.codegen.contract_derivatives import Vocabulary, read_derivative
from tensorplay_core.codegen.contract_functions import DISPATCH_KEYS, FIELDS, IGNORED_FIELDS, read_function
from tensorplay_core.codegen.contract_model import (
    AUTOCAST_POLICIES,
    COMPOSITE_KINDS,
    PROMOTIONS,
    VARIANTS,
    Contract,
    Derivative,
    Formula,
    NativeFunction,
)
from tensorplay_core.codegen.contract_names import colliding, node_name
from tensorplay_core.codegen.math.records import completed
from tensorplay_core.codegen.math.symbolic import symbolic_derivatives
from tensorplay_core.codegen.yaml_loader import Location, Source, load_records
from tensorplay_core.errors import ContractError, did_you_mean

__all__ = [
    "AUTOCAST_POLICIES",
    "COMPOSITE_KINDS",
    "DISPATCH_KEYS",
    "FIELDS",
    "IGNORED_FIELDS",
    "PROMOTIONS",
    "VARIANTS",
    "Contract",
    "Derivative",
    "Formula",
    "Location",
    "NativeFunction",
    "Source",
    "load_contract",
]

_FUNCTIONS, _DERIVATIVES = "native_functions", "derivatives"
_MAX_PROBLEMS = 20
_T = TypeVar("_T")
_P = ParamSpec("_P")


def load_contract(
    where: Path | str | Source | Iterable[Path | str | Source],
    *,
    helpers: Collection[str] | None = (),
    members: Collection[str] = (),
    dispatch_keys: Collection[str] = (),
    shape_rules: Collection[str] | None = None,
    known: Contract | None = None,
) -> Contract:
    """Reads and checks contract files.

    Args:
        where: a folder, whose ``native_functions*.yaml`` and ``derivatives*.yaml`` are read in the order of their
            names; or files so named, or texts that stand for them.
        helpers: functions that formulas may call besides operators; None accepts any name that is no operator.
        members: attributes and methods of Tensor that formulas may use besides those that the contract makes.
        dispatch_keys: names that ``dispatch`` may use besides the built-in ones: those of other devices.
        shape_rules: the names that ``shape`` may use; None leaves them unchecked.
        known: a contract whose operators formulas may call too, where a plugin's files build on ours.

    Returns:
        The contract of these files alone.

    Raises:
        ContractError: with everything that is wrong, each with file, line, caret, and the nearest valid choices.
    """
    with without_collector():
        return _loaded(_sources(where), helpers, members, dispatch_keys, shape_rules, known or Contract())


def _loaded(
    sources: list[Source],
    helpers: Collection[str] | None,
    members: Collection[str],
    dispatch_keys: Collection[str],
    shape_rules: Collection[str] | None,
    known: Contract,
) -> Contract:
    keys = (*DISPATCH_KEYS, *dispatch_keys)
    problems = _Problems()
    functions: list[NativeFunction] = []
    for source in sources:
        if _kind(source) == _FUNCTIONS:
            family = source.stem.removeprefix(_FUNCTIONS).lstrip("_")
            for record in problems.collect(load_records, source, "an operator") or ():
                function = problems.collect(read_function, record, family, keys, shape_rules)
                if function is not None:
                    functions.append(function)
    problems.extend(_collisions(functions, known))
    problems.extend(colliding(functions))
    problems.check()  # a derivative of a faulty record would only repeat its fault
    functions = completed(functions, known.functions, problems.messages.append)
    problems.check()

    contract = Contract(tuple(functions))
    vocabulary = Vocabulary(
        Contract((*known.functions, *functions)), None if helpers is None else frozenset(helpers), frozenset(members)
    )
    derivatives: list[Derivative] = []
    first: dict[str, Derivative] = {}
    for source in sources:
        if _kind(source) == _DERIVATIVES:
            for record in problems.collect(load_records, source, "a derivative") or ():
                derivative = problems.collect(read_derivative, record, contract.by_name, vocabulary)
                if derivative is not None:
                    problems.collect(_check_first, derivative, first)
                    derivatives.append(derivative)
    problems.check()
    written = Contract(contract.functions, tuple(derivatives))
    derivatives += symbolic_derivatives(written, known, problems.messages.append)
    problems.check()
    return Contract(contract.functions, tuple(derivatives))


class _Problems:
    """Collects errors, so that all are shown at once."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def collect(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Calls a function; an error of the contract is kept, and None returned."""
        try:
            return function(*args, **kwargs)
        except ContractError as error:
            self.messages.append(str(error))
            return None

    def extend(self, messages: Iterable[str]) -> None:
        self.messages.extend(messages)

    def check(self) -> None:
        if not self.messages:
            return
        count = len(self.messages)
        shown = self.messages[:_MAX_PROBLEMS]
        if count > len(shown):
            shown.append(f"... and {count - len(shown)} more")
        heading = [f"{count} problems in the contract"] if count > 1 else []
        raise ContractError("\n\n".join([*heading, *shown]))


def _sources(where: Path | str | Source | Iterable[Path | str | Source]) -> list[Source]:
    if isinstance(where, Path | str) and Path(where).is_dir():
        folder = Path(where)
        files = sorted([*folder.glob(f"{_FUNCTIONS}*.yaml"), *folder.glob(f"{_DERIVATIVES}*.yaml")])
        if not files:
            raise ContractError(f"{folder}: holds neither {_FUNCTIONS}*.yaml nor {_DERIVATIVES}*.yaml")
        return [Source.read(file) for file in files]
    items = [where] if isinstance(where, Path | str | Source) else list(where)
    sources = [item if isinstance(item, Source) else Source.read(Path(item)) for item in items]
    for source in sources:
        _kind(source)
    return sources


def _kind(source: Source) -> str:
    for kind in (_FUNCTIONS, _DERIVATIVES):
        if source.stem == kind or source.stem.startswith(f"{kind}_"):
            return kind
    near = did_you_mean(source.stem, (_FUNCTIONS, _DERIVATIVES))
    raise ContractError(f"{source.name}: a contract file is named {_FUNCTIONS}*.yaml or {_DERIVATIVES}*.yaml.{near}")


def _place(function: NativeFunction) -> Location:
    assert function.location is not None
    return function.location


def _collisions(functions: list[NativeFunction], known: Contract) -> Iterable[str]:
    """Operators given twice, and aliases that are names already."""
    everything = [*known.functions, *functions]
    first: dict[str, NativeFunction] = {function.qualified_name: function for function in known.functions}
    names = {function.name for function in everything}
    for function in functions:
        if function.qualified_name in first:
            yield _place(function).describe(
                f"a second record for '{function.base_name}'; the first is at {first[function.qualified_name].location}"
            )
        first.setdefault(function.qualified_name, function)
    owners = {alias: function.name for function in known.functions for alias in function.aliases}
    for function in functions:
        for alias in function.aliases:
            if alias in names:
                yield _place(function).describe(f"alias '{alias}' of '{function.base_name}' is an operator's name")
            elif owners.setdefault(alias, function.name) != function.name:
                yield _place(function).describe(
                    f"alias '{alias}' of '{function.base_name}' is an alias of '{owners[alias]}' too"
                )


def _check_first(derivative: Derivative, first: dict[str, Derivative]) -> None:
    name = derivative.function.qualified_name
    if name in first:
        message = f"a second record for '{derivative.function.base_name}'; the first is at {first[name].location}"
        derivative.location.fail(message)
    first[name] = derivative
    node = node_name(derivative.function.base_name)
    other = first.setdefault(node, derivative)
    if other is not derivative:
        theirs, place = other.function.base_name, other.location
        derivative.location.fail(
            f"the gradients of '{derivative.function.base_name}' and of '{theirs}' at {place} are both {node} in "
            "generated code; rename one operator"
        )
