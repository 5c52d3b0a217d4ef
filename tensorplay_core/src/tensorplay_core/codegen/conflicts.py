"""Which variants of a contract's operators can be emitted, and which overloads could not be told apart.

A record asks for variants: a function, a method, ``name_``, ``out=``. One that something written by hand takes the
place of, or that another record gives already, is dropped from the record before any target sees it, and listed with
the reason. Two overloads of which one call could mean either are an error that shows the call, found by the rule that
chooses at run time (:mod:`tensorplay_core.types.overloads`).
"""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations, islice, product
from typing import NamedTuple

import attrs

from tensorplay_core.codegen.contract import Contract, NativeFunction
from tensorplay_core.errors import ContractError, fix
from tensorplay_core.types.overloads import EXAMPLES, Candidate, best, candidate
from tensorplay_core.types.schema import DEFAULT_NAMESPACE, OpSchema

_MAX_CALLS, _MAX_SHOWN = 400, 20
_SHOWN_FIRST = ("tensor", "int", "float", "[int]", "str", "bool")
_SHOWN_RANK = {kind: rank for rank, kind in enumerate(_SHOWN_FIRST)}


@attrs.frozen
class Skipped:
    """A variant that is not emitted.

    Attributes:
        variant: ``function``, ``method``, ``in-place`` or ``out``.
        name: what would have been emitted.
        function: the record that asked for it.
        reason: why it is not.
    """

    variant: str
    name: str
    function: NativeFunction
    reason: str


@attrs.frozen
class Member:
    """One overload of a Python name.

    Attributes:
        schema: its signature; of an in-place variant, that of the operator which it is a form of.
        label: its name for messages.
        out: whether it takes ``out=``.
        function: the record.
        derived: it is an in-place variant, which nobody wrote a record for.
    """

    schema: OpSchema
    label: str
    out: bool
    function: NativeFunction
    derived: bool

    @property
    def is_inplace(self) -> bool:
        """Whether it writes to its first argument."""
        return self.derived or self.schema.is_inplace


def inplace_base_name(function: NativeFunction) -> str:
    """Returns the name of an operator's in-place variant: ``add_``, ``add_.Tensor``."""
    overload = f".{function.schema.overload}" if function.schema.overload else ""
    return f"{function.name}_{overload}"


def resolved(
    contract: Contract, members: Mapping[str, str], handwritten: Collection[str] = ()
) -> tuple[Contract, tuple[Skipped, ...]]:
    """Returns the contract with the variants that are emitted, and those that are not.

    Args:
        contract: the checked contract.
        members: attributes that Tensor has by other means, each with where it is written.
        handwritten: functions that are written by hand.

    Raises:
        ContractError: one call could mean two overloads.
    """
    skipped: list[Skipped] = []
    functions = [_possible(f, contract, members, handwritten, skipped) for f in contract.functions]
    problems: list[str] = []
    functions = _without_ambiguous(functions, skipped, problems)
    raise_all(problems)
    if not skipped:
        return contract, ()
    new = {f.qualified_name: f for f in functions}
    derivatives = [attrs.evolve(d, function=new[d.function.qualified_name]) for d in contract.derivatives]
    return Contract(tuple(functions), tuple(derivatives)), tuple(skipped)


def raise_all(problems: list[str]) -> None:
    """Raises one error for several problems, the first of them in full; none where there are none."""
    if problems:
        more = [f"... and {len(problems) - _MAX_SHOWN} more"] if len(problems) > _MAX_SHOWN else []
        heading = [f"{len(problems)} problems in the contract"] if len(problems) > 1 else []
        raise ContractError("\n\n".join([*heading, *problems[:_MAX_SHOWN], *more]))


# variants that something else stands in the way of


def _possible(
    function: NativeFunction,
    contract: Contract,
    members: Mapping[str, str],
    handwritten: Collection[str],
    skipped: list[Skipped],
) -> NativeFunction:
    changes: dict[str, object] = {}
    variants = list(function.variants)
    for variant in function.variants:
        reason = _against(variant, function, members, handwritten)
        if reason:
            variants.remove(variant)
            skipped.append(Skipped(variant, function.name, function, reason))
    if function.inplace and (reason := _against_inplace(function, contract, members)):
        changes["inplace"] = False
        skipped.append(Skipped("in-place", inplace_base_name(function), function, reason))
    if function.out and (reason := _against_out(function, contract)):
        changes["out"] = False
        skipped.append(Skipped("out", f"{function.base_name}(out=)", function, reason))
    if len(variants) < len(function.variants):
        changes["variants"] = tuple(variants)
    return attrs.evolve(function, **changes) if changes else function  # type: ignore[arg-type]


def _against(
    variant: str, function: NativeFunction, members: Mapping[str, str], handwritten: Collection[str]
) -> str | None:
    name = function.name
    if keyword.iskeyword(name):
        return "its name is a word of Python; call it with getattr(tp.ops.<namespace>, name)"
    if variant == "method":
        if name in members and name not in handwritten:
            return f"Tensor has it already: {members[name]}"
        if name.startswith("__") and not name.endswith("__"):
            return "Python gives names that begin with two underscores another meaning in a class"
    elif name in ("__getattr__", "__dir__", "__name__", "__doc__", "__all__"):
        return "Python gives a module's attribute of that name a meaning of its own"
    return None


def _against_inplace(function: NativeFunction, contract: Contract, members: Mapping[str, str]) -> str | None:
    schema, name = function.schema, f"{function.name}_"
    existing = contract.by_name.get(f"{schema.namespace}::{inplace_base_name(function)}")
    if existing is not None:
        return f"it has a record of its own, at {existing.location}"
    if (function.is_method or schema.namespace == DEFAULT_NAMESPACE) and name in members:
        return f"Tensor has it already: {members[name]}"
    if schema.arguments[0].type.is_optional:
        return "its first argument may be None, and nothing could be written to it"
    others = [f for f in contract.overloads.get(name, ()) if f.name != name]
    if others:
        return f"'{name}' is an alias of '{others[0].base_name}'"
    return None


def _against_out(function: NativeFunction, contract: Contract) -> str | None:
    if function.schema.argument("out") is not None:
        return "it has an argument `out` of its own"
    own = [(a.name, a.type) for a in function.schema.arguments]
    for other in contract.overloads.get(function.name, ()):
        outs = other.schema.out_arguments
        if outs and [(a.name, a.type) for a in other.schema.arguments if a not in outs] == own:
            return f"'{other.base_name}', at {other.location}, takes it"
    return None


# calls that could mean two overloads


def _without_ambiguous(
    functions: list[NativeFunction], skipped: list[Skipped], problems: list[str]
) -> list[NativeFunction]:
    """Drops variants that could not be told from another record's operator; other pairs are problems."""
    changes: dict[str, dict[str, bool]] = {}
    for name, group in overload_sets(functions).items():
        if len(group) < 2:
            continue
        problems.extend(_several_families(name, group, skipped, changes))
        while (found := next(iter(ambiguities(group)), None)) is not None:
            group = _without_one(group, found, skipped, changes, problems)
    return [attrs.evolve(f, **changes[f.base_name]) if f.base_name in changes else f for f in functions]  # type: ignore[arg-type]


def _without_one(
    group: list[Member],
    found: Ambiguity,
    skipped: list[Skipped],
    changes: dict[str, dict[str, bool]],
    problems: list[str],
) -> list[Member]:
    """Returns a set of overloads without what makes one call ambiguous: a variant, or if there is none, an overload."""
    pair = (found.other, found.one)
    for member in pair:
        rival = (found.one if member is found.other else found.other).label
        reason = f"`{found.call}` could mean '{rival}' too"
        if member.derived:
            skipped.append(Skipped("in-place", member.label, member.function, reason))
            changes.setdefault(member.function.base_name, {})["inplace"] = False
            return [m for m in group if m is not member]
        if found.has_out and member.out:
            skipped.append(Skipped("out", f"{member.label}(out=)", member.function, reason))
            changes.setdefault(member.function.base_name, {})["out"] = False
            return [attrs.evolve(m, out=False) if m is member else m for m in group]
    problems.append(_problem(found.call, found.one, found.other))
    return [m for m in group if m is not found.other]


def overload_sets(functions: Iterable[NativeFunction]) -> dict[str, list[Member]]:
    """Returns the overloads of each Python name."""
    found: dict[str, list[Member]] = {}
    for f in functions:
        found.setdefault(f.name, []).append(Member(f.schema, f.base_name, f.out, f, False))
        if f.inplace:
            label = inplace_base_name(f)
            found.setdefault(f"{f.name}_", []).append(Member(f.schema, label, False, f, True))
    return found


def _several_families(
    name: str, group: list[Member], skipped: list[Skipped], changes: dict[str, dict[str, bool]]
) -> Iterator[str]:
    """One Python function is in one module, so its overloads are in the files of one family."""
    explicit = [m for m in group if not m.derived] or group[:1]
    family = explicit[0].function.family
    for member in group:
        if member.function.family == family:
            continue
        families = ", ".join(sorted({m.function.family for m in group}))
        if member.derived:
            reason = f"the overloads of '{name}' are in several families: {families}"
            skipped.append(Skipped("in-place", member.label, member.function, reason))
            changes.setdefault(member.function.base_name, {})["inplace"] = False
        else:
            message = f"the overloads of '{name}' are in several families: {families}"
            place = member.function.location
            yield place.describe(message) if place is not None else message
            return


def _problem(call: str, one: Member, other: Member) -> str:
    first, second = one.schema, other.schema
    message = f"`{call}` could mean both\n    {first}\n    {second}"
    place, before = other.function.location, one.function.location
    remedy = "make the types of their arguments differ, or give one of them another name"
    return place.describe(f"{message}\n  (the first is at {before})", remedy) if place else message + fix(remedy)


class Ambiguity(NamedTuple):
    """A call that could mean two overloads.

    Attributes:
        call: as it would be written.
        one, other: the overloads, in the order of their records.
        has_out: whether the call gives ``out=``.
    """

    call: str
    one: Member
    other: Member
    has_out: bool


def ambiguities(group: list[Member]) -> Iterator[Ambiguity]:
    """Yields a call for each pair of overloads that cannot be told apart there."""
    candidates = [candidate(m.schema, out=m.out) for m in group]
    for i, j in combinations(range(len(group)), 2):
        for args, kwargs in islice(_common_calls(candidates[i], candidates[j]), _MAX_CALLS):
            found = best(candidates, args, kwargs)
            if i in found and j in found:
                yield Ambiguity(_written(group[i], args, kwargs), group[i], group[j], "out" in kwargs)
                break


def _common_calls(a: Candidate, b: Candidate) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yields calls that both take and neither suits better, by the kinds of their arguments.

    For each number of positional arguments these are: the required ones in kinds that suit both alike, and, for each
    two arguments, the first in a kind that suits one better and the second in a kind that suits the other better.
    """
    longest = max(len(a.names), len(b.names)) + (a.spread and b.spread)
    counts = [n for n in range(longest + 1) if (n <= len(a.names) or a.spread) and (n <= len(b.names) or b.spread)]
    # A call without keywords is the easiest to read, so those come first.
    for count, keywords in [*((n, False) for n in counts), *((n, True) for n in reversed(counts))]:
        taken = {*a.names[:count], *b.names[:count]}
        needed = sorted((a.required - set(a.names[:count])) | (b.required - set(b.names[:count])))
        free = [n for n in a.ranks if n in b.ranks and n not in taken]
        if any(n not in free for n in needed) or (needed and not keywords):
            continue
        slots: list[int | str] = [*range(count), *needed]
        extra = [n for n in free if n not in needed] if keywords else []
        for more in [[], *([n] for n in extra), *([m, n] for m, n in combinations(extra, 2))]:
            yield from _undecided(a, b, [*slots, *more], count)


def _undecided(
    a: Candidate, b: Candidate, slots: list[int | str], count: int
) -> Iterator[tuple[list[str], dict[str, str]]]:
    alike, better, worse = [], [], []
    for slot in slots:
        ours, theirs = _ranks(a, slot, count), _ranks(b, slot, count)
        common = sorted((k for k in ours if k in theirs), key=_shown_order)
        if not common:
            return
        alike.append([k for k in common if ours[k] == theirs[k]])
        better.append([k for k in common if ours[k] < theirs[k]])
        worse.append([k for k in common if ours[k] > theirs[k]])
    every = [x + y + z for x, y, z in zip(alike, better, worse, strict=True)]
    choices = [alike] if a.weight == b.weight and all(alike) else []
    for i, j in product(range(len(slots)), repeat=2):
        if i != j and better[i] and worse[j]:
            choices.append([better[i] if k == i else worse[j] if k == j else every[k] for k in range(len(slots))])
    for choice in choices:
        for kinds in islice(product(*choice), 64):
            call = dict(zip(slots, kinds, strict=True))
            yield list(kinds[:count]), {n: k for n, k in call.items() if isinstance(n, str)}


def _ranks(c: Candidate, slot: int | str, count: int) -> Mapping[str, int]:
    if isinstance(slot, str):
        return c.ranks[slot]
    last = len(c.names) - 1
    ranks = c.ranks[c.names[min(slot, last)]]
    return {"int": ranks["int"]} if c.spread and count > last + 1 and slot >= last else ranks


def _shown_order(kind: str) -> tuple[int, str]:
    """Sorts the kinds that readers know best to the front: the first call that is found is the one that is shown."""
    return (_SHOWN_RANK.get(kind, len(_SHOWN_FIRST) + (kind == "None")), kind)


def _written(member: Member, args: list[str], kwargs: dict[str, str]) -> str:
    given = [EXAMPLES[kind] for kind in args] + [f"{name}={EXAMPLES[kind]}" for name, kind in kwargs.items()]
    return f"{member.label.partition('.')[0]}({', '.join(given)})"
