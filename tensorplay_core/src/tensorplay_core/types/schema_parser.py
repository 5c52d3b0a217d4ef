"""Reads operator signatures in torchgen's spelling.

The grammar is small enough for one recursive descent over the text itself; no regular expression sees more than one
word. Every error knows its column, because whoever writes a contract record deserves a caret, and because the contract
loader turns that column into a place in a YAML file.

    signature = [namespace "::"] name ["." overload] "(" [arguments] ")" "->" returns
    argument  = type name ["=" default] | "*"
    type      = base ["(" alias ")"] {"?" | "[" [integer] "]"}
    alias     = set {"|" set} ["!"] ["->" ("*" | set) {"|" set}]
    returns   = "()" | type [name] | "(" type [name] {"," type [name]} ")"
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NoReturn

from tensorplay_core.errors import SchemaError, did_you_mean
from tensorplay_core.types.schema import (
    DEFAULT_NAMESPACE,
    Alias,
    Argument,
    BaseType,
    Default,
    DefaultValue,
    Identifier,
    ListSuffix,
    OpSchema,
    OptionalSuffix,
    Return,
    Type,
)

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.])")
_PLAIN_ARGUMENT = re.compile(r"([A-Za-z]+(?:\[[0-9]*\]|\?)*) ([A-Za-z_][A-Za-z0-9_]*)")
_BASE_TYPES = {base.value: base for base in BaseType}
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_INTEGERS = frozenset({BaseType.INT, BaseType.SYMINT})
_NUMBERS = _INTEGERS | {BaseType.FLOAT, BaseType.SCALAR}
_NAMED = frozenset({BaseType.SCALAR_TYPE, BaseType.LAYOUT, BaseType.MEMORY_FORMAT, BaseType.DEVICE, BaseType.INT})
_MAX_NESTING = 8


@lru_cache(maxsize=256)
def _type_of(base: BaseType, suffixes: tuple[OptionalSuffix | ListSuffix, ...]) -> Type:
    """There are few types and many arguments: equal types are one, which answers what it is asked once."""
    return Type(base, suffixes)


class SchemaSyntaxError(SchemaError):
    """A signature that does not parse; keeps the parts of its message so that a loader can add file and line.

    Attributes:
        reason: what is wrong, in one sentence, with the nearest valid choices.
        text: the signature.
        column: where in the text.
    """

    def __init__(self, reason: str, text: str, column: int) -> None:
        self.reason = reason
        self.text = text
        self.column = column
        shown = text.replace("\n", " ").replace("\t", " ")
        super().__init__(f"{reason}\n  {shown}\n  {' ' * column}^")

    def __reduce__(self) -> tuple[type[SchemaSyntaxError], tuple[str, str, int]]:
        return type(self), (self.reason, self.text, self.column)


@lru_cache(maxsize=256)
def _type_of_text(text: str) -> Type | None:
    """The type that is spelled so; None where it is none, which the parser then says properly."""
    parser = SchemaParser(text)
    try:
        type_, _ = parser._type()
    except SchemaSyntaxError:
        return None
    return type_ if parser.position == len(text) else None


class SchemaParser:
    """A cursor over one signature; use :func:`tensorplay_core.types.schema.parse_schema`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def parse(self) -> OpSchema:
        """Parses the whole text."""
        self._skip_prefix()
        namespace, name, overload = self._operator_name()
        arguments = self._arguments()
        self._expect("->", "'->' and the results")
        returns = self._returns()
        self._blank()
        if self.position < len(self.text):
            self._fail(f"the signature ends here; found {self._found()}")
        schema = OpSchema(namespace, name, overload, arguments, returns)
        self._check_aliases(schema)
        return schema

    # names

    def _skip_prefix(self) -> None:
        self._blank()
        if self.text.startswith("func:", self.position):
            self.position += len("func:")

    def _operator_name(self) -> tuple[str, str, str]:
        name = self._word("the operator's name")
        namespace = DEFAULT_NAMESPACE
        if self.text.startswith("::", self.position):
            self.position += 2
            namespace, name = name, self._word("the operator's name")
        overload = ""
        if self.text.startswith(".", self.position):
            self.position += 1
            start = self.position
            overload = self._word("the overload's name")
            if overload == "default":  # as in PyTorch
                self._fail("'default' is what the overload without a name is called; leave it out", start)
        return namespace, name, overload

    # arguments

    def _arguments(self) -> tuple[Argument, ...]:
        self._expect("(", "'(' and the arguments")
        arguments: list[Argument] = []
        names: set[str] = set()
        kwarg_only = defaults = False
        while not self._take(")"):
            if arguments or kwarg_only:
                self._expect(",", "',' or ')'")
            start = self._blank()
            if self._take("*"):
                if kwarg_only:
                    self._fail("a second '*' in the arguments", start)
                kwarg_only = True
                self._blank()
                if self.text.startswith(")", self.position):
                    self._fail("'*' is followed by no argument", start)
                continue
            arguments.append(self._argument(names, kwarg_only, defaults))
            names.add(arguments[-1].name)
            defaults = defaults or arguments[-1].default is not None
        return tuple(arguments)

    def _argument(self, names: set[str], kwarg_only: bool, defaults: bool) -> Argument:
        start = self._blank()
        plain = _PLAIN_ARGUMENT.match(self.text, start)
        type_ = _type_of_text(plain[1]) if plain is not None else None
        if plain is not None and type_ is not None:  # what nine of ten arguments are
            alias, name, name_at = None, plain[2], plain.start(2)
            self.position = plain.end()
        else:
            type_, alias = self._type()
            name_at = self._blank()
            name = self._word("the argument's name")
        if name in names:
            self._fail(f"two arguments are named '{name}'", name_at)
        default = self._default(type_) if self._take("=") else None
        if default is None and defaults and not kwarg_only:
            self._fail(f"argument '{name}' has no default but stands behind one that has", name_at)
        return Argument(name, type_, default, kwarg_only, alias, start)

    def _type(self) -> tuple[Type, Alias | None]:
        start = self._blank()
        word = self._word("a type")
        base = _BASE_TYPES.get(word)
        if base is None:
            near = did_you_mean(word, _BASE_TYPES) or f" Types are {', '.join(_BASE_TYPES)}."
            self._fail(f"unknown type '{word}'.{near}", start)
        alias = self._alias() if self.text.startswith("(", self.position) else None
        suffixes: list[OptionalSuffix | ListSuffix] = []
        while self.text[self.position : self.position + 1] in ("?", "["):
            at = self.position
            suffix = self._suffix()
            if isinstance(suffix, OptionalSuffix) and suffixes and suffixes[-1] == suffix:
                self._fail("'?' twice", at)
            suffixes.append(suffix)
            if len(suffixes) > _MAX_NESTING:
                self._fail("a type nested this deep means nothing", at)
        return _type_of(base, tuple(suffixes)), alias

    def _suffix(self) -> OptionalSuffix | ListSuffix:
        if self._take("?"):
            return OptionalSuffix()
        self._expect("[", "'['")
        digits = _DIGITS.match(self.text, self.position)
        if digits is None:
            self._expect("]", "']' or the size of the list")
            return ListSuffix()
        self.position = digits.end()
        size = self._integer(digits.group(), digits.start())
        if size == 0 or str(size) != digits.group():
            self._fail("the size of a list is a positive integer without leading zeros", digits.start())
        self._expect("]", "']'")
        return ListSuffix(size)

    def _alias(self) -> Alias:
        self._expect("(", "'('")
        before = self._alias_sets()
        is_write = self._take("!")
        after: tuple[str, ...] = ()
        if self._take("->"):
            after = ("*",) if self._take("*") else self._alias_sets()
        self._expect(")", "')' at the end of the alias annotation")
        return Alias(before, is_write, after)

    def _alias_sets(self) -> tuple[str, ...]:
        sets = [self._word("the name of an alias set, such as 'a'")]
        while self._take("|"):
            sets.append(self._word("the name of an alias set"))
        return tuple(sets)

    # defaults

    def _default(self, type_: Type) -> Default:
        start = self._blank()
        value = self._literal(0)
        text = self.text[start : self.position]
        if not _fits(value, type_):
            self._fail(f"the default {text} is not a value of type {type_}", start)
        return Default(value, text)

    def _literal(self, depth: int) -> DefaultValue:
        start = self._blank()
        character = self.text[start : start + 1]
        if character and character in "[(":
            return self._sequence("]" if character == "[" else ")", depth)
        if character and character in "'\"":
            return self._string(character)
        number = _NUMBER.match(self.text, start)
        if number is not None:
            self.position = number.end()
            return self._number(number.group(), start)
        word = _WORD.match(self.text, start)
        if word is None:
            self._fail(f"expected a default value, found {self._found()}", start)
        self.position = word.end()
        constants: dict[str, DefaultValue] = {"None": None, "True": True, "False": False, "inf": float("inf")}
        return constants[word.group()] if word.group() in constants else Identifier(word.group())

    def _sequence(self, end: str, depth: int) -> DefaultValue:
        start = self.position
        if depth >= _MAX_NESTING:
            self._fail("a default nested this deep means nothing", start)
        self.position += 1
        items: list[DefaultValue] = []
        while not self._take(end):
            if items:
                self._expect(",", f"',' or '{end}'")
            items.append(self._literal(depth + 1))
        return tuple(items)

    def _string(self, quote: str) -> str:
        start = self.position
        position = start + 1
        characters: list[str] = []
        while position < len(self.text):
            character = self.text[position]
            if character == quote:
                self.position = position + 1
                return "".join(characters)
            if character == "\\":
                position += 1
                character = _ESCAPES.get(self.text[position : position + 1], "")
                if not character:
                    self._fail("unknown escape in a string", position - 1)
            characters.append(character)
            position += 1
        self._fail("this string is not closed", start)

    def _number(self, text: str, start: int) -> int | float:
        if text.lstrip("+-").isdigit():
            return self._integer(text, start)
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self._fail("this number is too large for a float", start)
        return value

    def _integer(self, text: str, start: int) -> int:
        if len(text) > 40:
            self._fail("this integer is too long", start)
        return int(text)

    # results

    def _returns(self) -> tuple[Return, ...]:
        self._blank()
        if not self._take("("):
            return (self._return([]),)
        returns: list[Return] = []
        while not self._take(")"):
            if returns:
                self._expect(",", "',' or ')'")
            returns.append(self._return(returns))
        return tuple(returns)

    def _return(self, before: list[Return]) -> Return:
        type_, alias = self._type()
        start = self._blank()
        word = _WORD.match(self.text, start)
        if word is None:
            return Return(None, type_, alias)
        self.position = word.end()
        if any(result.name == word.group() for result in before):
            self._fail(f"two results are named '{word.group()}'", start)
        return Return(word.group(), type_, alias)

    def _check_aliases(self, schema: OpSchema) -> None:
        known = {name for a in schema.arguments if a.alias is not None for name in a.alias.before}
        for result in schema.returns:
            for name in result.alias.before if result.alias is not None else ():
                if name != "*" and name not in known:
                    at = self.text.rfind(f"({result.alias})")
                    self._fail(f"the result shares alias set '{name}', but no argument is in it", max(at, 0))

    # the cursor

    def _blank(self) -> int:
        while self.position < len(self.text) and self.text[self.position] in " \t\n":
            self.position += 1
        return self.position

    def _word(self, expected: str) -> str:
        word = _WORD.match(self.text, self.position) or _WORD.match(self.text, self._blank())
        if word is None:
            self._fail(f"expected {expected}, found {self._found()}")
        self.position = word.end()
        return word.group()

    def _take(self, symbol: str) -> bool:
        if not self.text.startswith(symbol, self.position) and not self.text.startswith(symbol, self._blank()):
            return False
        self.position += len(symbol)
        return True

    def _expect(self, symbol: str, expected: str) -> None:
        if not self._take(symbol):
            self._fail(f"expected {expected}, found {self._found()}")

    def _found(self) -> str:
        start = self._blank()
        if start >= len(self.text):
            return "the end of the signature"
        word = _WORD.match(self.text, start)
        return repr(word.group() if word is not None else self.text[start])

    def _fail(self, reason: str, column: int | None = None) -> NoReturn:
        raise SchemaSyntaxError(reason, self.text, self.position if column is None else column)


def _fits(value: DefaultValue, type_: Type) -> bool:
    """Whether a default may stand for a type; one number stands for every item of a list of given size."""
    if value is None:
        return type_.is_optional
    required = type_.required
    if required.is_list:
        item = required.item
        if isinstance(value, tuple):
            return all(_fits(part, item) for part in value)
        return required.list_size is not None and _fits(value, item)
    base = type_.base
    if isinstance(value, bool):
        return base in (BaseType.BOOL, BaseType.SCALAR)
    if isinstance(value, int):
        return base in _NUMBERS
    if isinstance(value, float):
        return base in (BaseType.FLOAT, BaseType.SCALAR)
    if isinstance(value, str):
        return base in (BaseType.STR, BaseType.DEVICE)
    return isinstance(value, Identifier) and base in _NAMED
