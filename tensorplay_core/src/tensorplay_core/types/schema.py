"""What an operator's signature is: frozen classes that print back to the text they came from.

The contract, the dispatcher, the generator and the documentation all have to mean the same thing by "the signature of
``add``", so there is one model of it, in torchgen's spelling, and nobody keeps signatures as text. The classes know
nothing about parsing; :mod:`tensorplay_core.types.schema_parser` makes them, and :func:`parse_schema` here is the door
to it.
"""

from __future__ import annotations

import enum
from functools import cached_property

import attrs

DEFAULT_NAMESPACE = "tp"

# The dunder operators that write into their first argument; `__and__` ends with an underscore and does not.
_INPLACE_DUNDERS = frozenset(
    f"__i{name}__"
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
        "matmul",
    )
)


class BaseType(enum.Enum):
    """The closed set of types that a signature is built from."""

    TENSOR = "Tensor"
    SCALAR = "Scalar"
    INT = "int"
    SYMINT = "SymInt"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    SCALAR_TYPE = "ScalarType"
    DEVICE = "Device"
    LAYOUT = "Layout"
    MEMORY_FORMAT = "MemoryFormat"
    GENERATOR = "Generator"

    def __str__(self) -> str:
        return self.value


@attrs.frozen
class OptionalSuffix:
    """The ``?`` of ``Tensor?``: None is accepted."""

    def __str__(self) -> str:
        return "?"


@attrs.frozen
class ListSuffix:
    """The ``[]`` of ``int[]``, or the ``[2]`` of ``int[2]`` (where one value stands for ``size`` equal ones)."""

    size: int | None = None

    def __str__(self) -> str:
        return "[]" if self.size is None else f"[{self.size}]"


@attrs.frozen
class Type:
    """A base type and what was put around it, from the inside out: ``Tensor?[]`` is Tensor, optional, list.

    Example:
        >>> str(Type(BaseType.TENSOR, (OptionalSuffix(), ListSuffix())))
        'Tensor?[]'
    """

    base: BaseType
    suffixes: tuple[OptionalSuffix | ListSuffix, ...] = ()

    @cached_property
    def is_optional(self) -> bool:
        """Whether None is a value of this type (``int[]?`` yes, ``Tensor?[]`` no)."""
        return bool(self.suffixes) and isinstance(self.suffixes[-1], OptionalSuffix)

    @cached_property
    def required(self) -> Type:
        """The type without a ``?`` at its end."""
        return Type(self.base, self.suffixes[:-1]) if self.is_optional else self

    @cached_property
    def is_list(self) -> bool:
        """Whether its values are sequences (None apart)."""
        return any(isinstance(suffix, ListSuffix) for suffix in self.suffixes)

    @cached_property
    def list_size(self) -> int | None:
        """The N of ``int[N]``, None for ``int[]`` and for what is no list."""
        last = self.required.suffixes[-1] if self.required.suffixes else None
        return last.size if isinstance(last, ListSuffix) else None

    @cached_property
    def item(self) -> Type:
        """The type of a list's items (``Tensor?`` of ``Tensor?[]``); of what is no list, the type itself."""
        required = self.required
        return Type(self.base, required.suffixes[:-1]) if required.is_list else self

    @property
    def is_tensor(self) -> bool:
        """``Tensor`` or ``Tensor?``."""
        return self.base is BaseType.TENSOR and not self.is_list

    @property
    def is_tensor_list(self) -> bool:
        """``Tensor[]``, ``Tensor?[]``, ``Tensor[]?``."""
        return self.base is BaseType.TENSOR and self.is_list

    @property
    def holds_tensors(self) -> bool:
        """Whether a value of this type is or contains tensors."""
        return self.base is BaseType.TENSOR

    def spelled(self, alias: Alias | None = None) -> str:
        """The text of the type, with an alias annotation where torchgen puts it: after the base type."""
        return self._text if alias is None else f"{self.base.value}({alias}){''.join(map(str, self.suffixes))}"

    @cached_property
    def _text(self) -> str:
        return f"{self.base.value}{''.join(map(str, self.suffixes))}"

    def __str__(self) -> str:
        return self._text


@attrs.frozen
class Alias:
    """What a value shares with others: ``(a)`` shares memory, ``(a!)`` is written to, ``(a -> *)`` may end in any set.

    Attributes:
        before: the alias sets on entry, ``('a',)``; ``('a', 'b')`` for ``(a|b)``.
        is_write: whether the operator writes to it.
        after: the alias sets on return: ``('*',)`` for ``a -> *``; empty where the text does not say.
    """

    before: tuple[str, ...]
    is_write: bool = False
    after: tuple[str, ...] = ()

    def __str__(self) -> str:
        tail = f" -> {'|'.join(self.after)}" if self.after else ""
        return f"{'|'.join(self.before)}{'!' if self.is_write else ''}{tail}"


@attrs.frozen
class Identifier:
    """A default that is a name, not a literal: ``contiguous_format``, ``Mean``, ``strided``."""

    name: str

    def __str__(self) -> str:
        return self.name


DefaultValue = int | float | bool | str | None | Identifier | tuple["DefaultValue", ...]


REDUCTIONS = {"None": 0, "Mean": 1, "Sum": 2}
"""PyTorch's names for the numbers of a loss's ``int reduction``."""


def _plain(value: DefaultValue) -> DefaultValue:
    if isinstance(value, Identifier):
        return REDUCTIONS.get(value.name, value.name)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


@attrs.frozen
class Default:
    """A default: its Python value (a list is a tuple), and its spelling, since ``1e-05`` and ``0.00001`` are equal."""

    value: DefaultValue
    text: str

    @property
    def plain(self) -> DefaultValue:
        """The value as Python has it, names resolved: ``contiguous_format`` is a text, the ``Mean`` of losses is 1."""
        return _plain(self.value)

    def means_same(self, other: Default) -> bool:
        """Whether two spellings are one value; ``True`` is not ``1``, ``1.0`` is ``1``."""
        return self.value == other.value and isinstance(self.value, bool) == isinstance(other.value, bool)

    def __str__(self) -> str:
        return self.text


@attrs.frozen
class Argument:
    """One parameter of an operator.

    Attributes:
        name: as in the text, ``self`` included.
        type: without its alias annotation.
        default: None where the caller must give a value; ``Default(None, 'None')`` where the default is None.
        kwarg_only: whether it stands behind the ``*``.
        alias: the annotation, or None.
        column: where its type starts in the text that was parsed, for errors; takes no part in equality.
    """

    name: str
    type: Type
    default: Default | None = None
    kwarg_only: bool = False
    alias: Alias | None = None
    column: int = attrs.field(default=0, eq=False, repr=False)

    @property
    def is_write(self) -> bool:
        """Whether the operator writes into this argument."""
        return self.alias is not None and self.alias.is_write

    def __str__(self) -> str:
        tail = "" if self.default is None else f"={self.default}"
        return f"{self.type.spelled(self.alias)} {self.name}{tail}"


@attrs.frozen
class Return:
    """One result of an operator; most have no name."""

    name: str | None
    type: Type
    alias: Alias | None = None

    def __str__(self) -> str:
        spelled = self.type.spelled(self.alias)
        return spelled if self.name is None else f"{spelled} {self.name}"


@attrs.frozen
class OpSchema:
    """The signature of one overload of one operator.

    Example:
        >>> schema = parse_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
        >>> schema.qualified_name, [argument.name for argument in schema.keyword_only]
        ('tp::add.Tensor', ['alpha'])
        >>> str(schema)
        'add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor'
    """

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    @cached_property
    def base_name(self) -> str:
        """Name and overload as the contract writes them: ``max.dim``."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @cached_property
    def qualified_name(self) -> str:
        """The operator's name in the registry: ``tp::max.dim``."""
        return f"{self.namespace}::{self.base_name}"

    @cached_property
    def positional(self) -> tuple[Argument, ...]:
        """The arguments before the ``*``."""
        return tuple(argument for argument in self.arguments if not argument.kwarg_only)

    @cached_property
    def keyword_only(self) -> tuple[Argument, ...]:
        """The arguments behind the ``*``, out arguments included."""
        return tuple(argument for argument in self.arguments if argument.kwarg_only)

    @property
    def out_arguments(self) -> tuple[Argument, ...]:
        """The keyword-only arguments that are written to: ``Tensor(a!) out``."""
        return tuple(argument for argument in self.keyword_only if argument.is_write)

    @cached_property
    def tensor_arguments(self) -> tuple[Argument, ...]:
        """The arguments that are or hold tensors, out arguments left out, in order."""
        return tuple(a for a in self.arguments if a.type.holds_tensors and not (a.kwarg_only and a.is_write))

    @cached_property
    def self_argument(self) -> Argument | None:
        """The positional argument named ``self``, which need not be the first, or None."""
        return next((argument for argument in self.positional if argument.name == "self"), None)

    @property
    def is_inplace(self) -> bool:
        """Whether the name says that the first argument is written to: ``add_``, ``__iand__``, not ``__and__``."""
        if self.name.endswith("__"):
            return self.name in _INPLACE_DUNDERS
        return self.name.endswith("_")

    @property
    def is_out(self) -> bool:
        """Whether results go into arguments that the caller gives by keyword."""
        return bool(self.out_arguments)

    @property
    def is_functional(self) -> bool:
        """Whether it writes to none of its arguments."""
        return not self.mutates

    @property
    def is_view(self) -> bool:
        """Whether a result shares memory with an argument that is not written to."""
        return any(result.alias is not None and not result.alias.is_write for result in self.returns)

    @property
    def returns_list(self) -> bool:
        """Whether the one result is a list of tensors."""
        return len(self.returns) == 1 and self.returns[0].type.is_tensor_list

    @property
    def is_multi_view(self) -> bool:
        """Whether the result is a list of views of the first argument."""
        return self.is_view and self.returns_list

    @property
    def mutates(self) -> tuple[str, ...]:
        """The names of the arguments that are written to."""
        return tuple(argument.name for argument in self.arguments if argument.is_write)

    @property
    def return_names(self) -> tuple[str, ...]:
        """A name for each result: its own; else ``result``, or ``result0``, ``result1`` where there are several."""
        if len(self.returns) == 1:
            return (self.returns[0].name or "result",)
        return tuple(result.name or f"result{i}" for i, result in enumerate(self.returns))

    def argument(self, name: str) -> Argument | None:
        """The argument of that name, or None."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def __str__(self) -> str:
        prefix = "" if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}::"
        parts = [str(argument) for argument in self.positional]
        keyword_only = self.keyword_only
        if keyword_only:
            parts += ["*", *map(str, keyword_only)]
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            results = f"({results})"
        return f"{prefix}{self.base_name}({', '.join(parts)}) -> {results}"


def parse_schema(text: str) -> OpSchema:
    """Parses one signature, with or without torchgen's leading ``func:``.

    Args:
        text: for example ``max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)``.

    Returns:
        The schema; ``str()`` of it is the same text, where the text is spelled as torchgen spells it.

    Raises:
        SchemaError: with the text, a caret under the fault, and the nearest valid names.
    """
    from tensorplay_core.types.schema_parser import SchemaParser  # imports this module's classes

    return SchemaParser(text).parse()
