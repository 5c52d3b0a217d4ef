"""Which overload a call means, as one rule for the run time and the generator.

The rule never looks at the order of records, so bringing a record along from elsewhere cannot change what an existing
call does. It sees kinds of values (``int``, ``[tensor]``, ``None``), not values: the generator can then go through
every call that two overloads have in common, and refuse a set in which one call could mean two of them.

Of the overloads that a call fits, the one is meant

1. whose parameters suit the arguments best, in every argument (:data:`PRECEDENCE`);
2. if that leaves several, that has the fewest parameters, ``out`` not counted;
3. then, that has the most parameters without a default;
4. then, if both have the same parameters with other types, as ``clamp`` has for numbers and for tensors, whose types
   come first (:data:`TYPE_ORDER`; what is not optional before what is): only defaults and None are left to differ.

Where even that leaves two, the call is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tensorplay_core.types.schema import Argument, OpSchema, Type

PRECEDENCE: dict[str, tuple[str, ...]] = {
    "tensor": ("Tensor",),
    "0-d tensor": ("Tensor", "int", "bool"),
    "bool": ("bool", "Scalar", "float", "Tensor"),
    "int": ("int", "int[n]", "float", "Scalar", "int[]", "bool", "Tensor"),
    "float": ("float", "Scalar", "Tensor"),
    "complex": ("Scalar", "Tensor"),
    "str": ("str", "Device", "Layout", "MemoryFormat"),
    "dtype": ("ScalarType",),
    "device": ("Device",),
    "object": ("Generator", "Layout", "MemoryFormat"),
    "[]": ("Tensor[]", "Tensor?[]", "int[]", "float[]", "Scalar[]", "bool[]", "str[]", "object[]"),
    "[tensor]": ("Tensor[]", "Tensor?[]"),
    "[tensor, None]": ("Tensor?[]",),
    "[int]": ("int[]", "float[]", "Scalar[]"),
    "[float]": ("float[]", "Scalar[]"),
    "[complex]": ("Scalar[]",),
    "[bool]": ("bool[]", "Scalar[]"),
    "[str]": ("str[]", "object[]"),
    "[object]": ("object[]",),
}
"""Kind of value to the types that take it, the best first; ``None`` is what every optional type takes.

A number stands for a Tensor where nothing else takes it, beside a tensor, as in ``div(x, 2)``. ``int[n]`` is a list of
given size, for which one int may stand; the last ``int[]`` of a function may be written as several arguments.
"""
NUMBERS = ("bool", "int", "float", "complex")
EXAMPLES = {
    "tensor": "x",
    "0-d tensor": "tensor(1)",
    "bool": "True",
    "int": "2",
    "float": "2.5",
    "complex": "1j",
    "str": '"a"',
    "dtype": "float32",
    "device": 'device("cpu")',
    "object": "Generator()",
    "[]": "[]",
    "[tensor]": "[x, y]",
    "[tensor, None]": "[x, None]",
    "[int]": "[2, 3]",
    "[float]": "[2.5]",
    "[complex]": "[1j]",
    "[bool]": "[True]",
    "[str]": '["a"]',
    "[object]": "[float32]",
    "None": "None",
}
"""A value of each kind as Python text, for messages."""
TYPE_ORDER = (
    *("int", "float", "Scalar", "bool", "str", "ScalarType", "Device", "Layout", "MemoryFormat", "Generator", "Tensor"),
)
SECOND_NAMES = {"axis": "dim", "keepdims": "keepdim", "input": "self"}
"""NumPy's spellings, and PyTorch's for the ``self`` of a function."""

Ranks = Mapping[str, int]


def _base_of(type: Type) -> str:
    base: str = type.base.value
    return "int" if base == "SymInt" else base


def _class_of(type: Type) -> str:
    base = _base_of(type)
    if not type.is_list:
        return base
    if base == "Tensor":
        return "Tensor?[]" if type.item.is_optional else "Tensor[]"
    return f"{base}[]" if base in ("int", "float", "Scalar", "bool", "str") else "object[]"


def _ranks_of(key: tuple[str, bool, bool]) -> Ranks:
    name, optional, sized = key
    found = {kind: order.index(name) for kind, order in PRECEDENCE.items() if name in order}
    if name == "int[]" and sized:
        found["int"] = PRECEDENCE["int"].index("int[n]")
    if optional:
        found["None"] = 0
    return found


_known: dict[tuple[str, bool, bool], Ranks] = {}


def ranks_of(argument: Argument) -> Ranks:
    """Returns the kinds of values that an argument takes, the better the smaller the number.

    Example:
        >>> from tensorplay_core.types.schema import parse_schema
        >>> ranks_of(parse_schema("f(Scalar? x) -> Tensor").arguments[0])
        {'bool': 1, 'int': 3, 'float': 1, 'complex': 0, 'None': 0}
    """
    type = argument.type
    optional = type.is_optional or (argument.default is not None and argument.default.value is None)
    key = (_class_of(type), optional, type.list_size is not None)
    if key not in _known:
        _known[key] = _ranks_of(key)
    return _known[key]


class Candidate(NamedTuple):
    """One overload, as far as choosing it goes.

    Attributes:
        names: its positional parameters.
        ranks: what each parameter takes, by name.
        required: the parameters without a default.
        spread: the last positional one may be written as several arguments.
        weight: what decides where the arguments do not: the smaller wins.
        types: what decides between overloads with parameters of the same names, sorted by them.
    """

    names: tuple[str, ...]
    ranks: Mapping[str, Ranks]
    required: frozenset[str]
    spread: bool
    weight: tuple[int, int]
    types: tuple[tuple[str, tuple[int, int, int, int]], ...]

    def name_of(self, keyword: str) -> str | None:
        """Returns the parameter that a keyword means: by its name, a second spelling, or ``from_`` for ``from``."""
        if keyword in self.ranks:
            return keyword
        second = SECOND_NAMES.get(keyword) or keyword.rstrip("_")
        return second if second in self.ranks else None

    def suits(self, args: Sequence[str], kwargs: Mapping[str, str]) -> tuple[int, ...] | None:
        """Returns how well each argument of a call suits, by their kinds; None when the call does not fit.

        Args:
            args: kinds of the positional arguments.
            kwargs: name to kind of the others, by any spelling.
        """
        count = len(self.names)
        if len(args) > count and not self.spread:
            return None
        alone = not any("tensor" in kind for kind in (*args, *kwargs.values()))

        def rank_of(name: str, kind: str) -> int | None:
            ranks = self.ranks[name]
            return None if alone and kind in NUMBERS and "tensor" in ranks else ranks.get(kind)

        result = []
        for i, kind in enumerate(args):
            rank = rank_of(self.names[i] if i < count else self.names[-1], kind)
            if rank is None or (len(args) > count and i >= count - 1 and kind != "int"):
                return None
            result.append(rank)
        given = set(self.names[: len(args)])
        for keyword, kind in kwargs.items():
            name = self.name_of(keyword)
            rank = None if name is None or name in given else rank_of(name, kind)
            if name is None or rank is None:
                return None
            given.add(name)
            result.append(rank)
        return tuple(result) if self.required <= given else None


def spread_argument(schema: OpSchema) -> Argument | None:
    """Returns the argument that may be written as several: the last positional, if a list of ints of any length."""
    last = schema.positional[-1] if schema.positional else None
    if last is None or last.default is not None or str(last.type) not in ("int[]", "SymInt[]"):
        return None
    return last


def candidate(schema: OpSchema, *, out: bool = False, method: bool = False) -> Candidate:
    """Returns an overload as a candidate.

    Args:
        schema: its signature.
        out: whether its function takes ``out=``.
        method: whether it is called on ``self``, which then stands first.
    """
    positional = list(schema.positional)
    own = schema.self_argument
    if method and own is not None:
        positional.remove(own)
        positional.insert(0, own)
    ranks = {a.name: ranks_of(a) for a in (*positional, *schema.keyword_only)}
    if out:
        ranks["out"] = {"tensor": 0, "0-d tensor": 0, "None": 0, "[tensor]": 0}
    required = frozenset(a.name for a in schema.arguments if a.default is None)
    counted = [a for a in schema.arguments if a not in schema.out_arguments]
    types = sorted((SECOND_NAMES.get(a.name, a.name), _order(a.type)) for a in counted)
    spread = spread_argument(schema) is not None and positional[-1] is schema.positional[-1]
    weight = (len(counted), -sum(a.default is None for a in counted))
    return Candidate(tuple(a.name for a in positional), ranks, required, spread, weight, tuple(types))


def _order(type: Type) -> tuple[int, int, int, int]:
    lists = 0 if not type.is_list else 1 if type.list_size is not None else 2
    return (lists, TYPE_ORDER.index(_base_of(type)), type.item.is_optional and type.is_list, type.is_optional)


def best(candidates: Iterable[Candidate], args: Sequence[str], kwargs: Mapping[str, str]) -> list[int]:
    """Returns the numbers of the overloads that a call may mean: none, one, or several where it is ambiguous.

    Example:
        >>> from tensorplay_core.types.schema import parse_schema
        >>> sets = "f(Tensor self, int dim) -> Tensor", "f.S(Tensor self, Scalar other) -> Tensor"
        >>> two = [candidate(parse_schema(text)) for text in sets]
        >>> best(two, ["tensor", "int"], {}), best(two, ["tensor", "float"], {}), best(two, ["int"], {})
        ([0], [1], [])
    """
    fitting = [(i, c, s) for i, c in enumerate(candidates) if (s := c.suits(args, kwargs)) is not None]
    return [
        i
        for i, one, suits in fitting
        if not any(_beats(other, theirs, one, suits) for j, other, theirs in fitting if j != i)
    ]


def _beats(a: Candidate, a_suits: tuple[int, ...], b: Candidate, b_suits: tuple[int, ...]) -> bool:
    if a_suits == b_suits and a.weight == b.weight:
        return [name for name, _ in a.types] == [name for name, _ in b.types] and a.types < b.types
    if a_suits == b_suits:
        return a.weight < b.weight
    return all(x <= y for x, y in zip(a_suits, b_suits, strict=True))
