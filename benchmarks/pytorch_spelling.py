"""Writes PyTorch's derivative formulas, which are C++ expressions, in the formula language of the contract.

The change is mechanical: it knows spellings and brackets, no operator and no operand. What it does is the five tables
below, and three rules that tables cannot hold: ``c ? a : b`` becomes ``a if c else b``, ``a & b`` becomes
``logical_and(a, b)``, and ``!a`` becomes ``(not a)``, which binds looser in Python than in C++. Whatever it does not
know stays as it stands, for the parser to refuse: lambdas above all.
"""

from __future__ import annotations

import re
from collections.abc import Callable

WORDS = {
    "true": "True",
    "false": "False",
    "nullptr": "None",
    "M_PI": "pi",
    "std::nullopt": "None",
    "c10::nullopt": "None",
    "at::Reduction::None": "0",
    "at::Reduction::Mean": "1",
    "at::Reduction::Sum": "2",
    "c10::MemoryFormat::Contiguous": '"contiguous_format"',
    "c10::kJagged": '"jagged"',
}
"""Words; of any other qualified name the last part stays, ``at::where`` becomes ``where``."""

OPERATORS = {"&&": "and", "||": "or", "->": ".", "{": "[", "}": "]"}
"""Operators and brackets; ``{{1, 1}}``, which means the same as ``{1, 1}``, becomes one list."""

MEMBERS: dict[str, Callable[[str, str], str]] = {
    "sym_sizes": lambda x, _: f"{x}.shape",
    "sizes": lambda x, _: f"{x}.shape",
    "sym_strides": lambda x, _: f"{x}.stride()",
    "strides": lambda x, _: f"{x}.stride()",
    "sym_size": lambda x, args: f"{x}.size({args})",
    "size": lambda x, args: f"{x}.size({args})" if args else f"len({x})",  # the second of a std::vector
    "sym_numel": lambda x, _: f"{x}.numel()",
    "scalar_type": lambda x, _: f"{x}.dtype",
    "dtype": lambda x, _: f"{x}.dtype",
    "device": lambda x, _: f"{x}.device",
    "isComplex": lambda x, _: f"{x}.is_complex()",
    "defined": lambda x, _: f"({x} is not None)",
    "has_value": lambda x, _: f"({x} is not None)",
    "value": lambda x, _: x,
    "value_or": lambda x, args: f"({args} if {x} is None else {x})",
    "back": lambda x, _: f"{x}[-1]",
    "toDouble": lambda x, _: x,  # a Scalar is a number already
    "toFloat": lambda x, _: x,
    "toComplexDouble": lambda x, _: x,
}
"""Members, from receiver and arguments; any other ``x.name_symint(...)`` loses the suffix, and the rest stays."""

CALLS: dict[str, Callable[[str], str]] = {
    "Tensor": lambda args: args or "None",
    "IntArrayRef": lambda args: args,
    "std::optional": lambda args: args or "None",
    "at::OptionalArrayRef": lambda args: args,
    "std::make_tuple": lambda args: f"({args},)",
}
"""Constructors without template arguments, or where these do not matter; the name of any other call is a word."""

TEMPLATES: dict[str, Callable[[str, str], str]] = {
    "std::get": lambda index, args: f"({args})[{index}]",
    "std::tuple": lambda types, args: f"({args or ', '.join(['None'] * (types.count(',') + 1))},)",
    "std::vector": lambda types, args: _filled(args),
}
"""Calls whose template arguments matter, from these and the arguments."""

_TOKEN = re.compile(
    r"""\s+|/\*.*?\*/                                     # space and comments, which mean nothing
    |(?P<template>(?:::)?\w+::\w+<[\w:,\s]*>)             # std::get<0>
    |(?P<word>(?:::)?[A-Za-z_]\w*(?:::\w+)*)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlL]?)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<operator>&&|\|\||->|==|!=|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_ENDS = frozenset({"", ",", ")", "]", "}", "?", ":", "&", "&&", "||"})


class _Token(str):
    """One token; ``kind`` is the name of its group above."""

    kind: str


def change(text: str) -> str:
    """Returns a formula in the spelling of the contract.

    Args:
        text: a C++ expression, as in PyTorch's ``derivatives.yaml``.

    Example:
        >>> change("self.is_complex() ? grad * at::real(self) : std::get<0>(f(grad, {1, self.sym_size(0)}))")
        'grad * real(self) if self.is_complex() else (f(grad, [1, self.size(0)]))[0]'
        >>> change("!weight.defined() || train.value() ? Tensor() : 2. * *weight")
        'None if (weight is None) or train else 2.0 * weight'
    """
    cursor = _Change(text)
    changed = cursor.expression()
    return changed if cursor.whole and not cursor.current else text


def _filled(args: str) -> str:
    """``std::vector<T>(n, value)``."""
    count, _, value = args.rpartition(", ")
    return f"[{value}] * {count}" if count else f"[None] * {value}"


class _Change:
    """A cursor over the tokens of one formula."""

    def __init__(self, text: str) -> None:
        self.tokens: list[_Token] = []
        self.whole = True  # until a bracket is not closed
        for match in _TOKEN.finditer(text):
            if match.lastgroup is not None:
                token = _Token(match.group())
                token.kind = match.lastgroup
                self.tokens.append(token)
        self.at = 0

    @property
    def current(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def expression(self) -> str:
        """Everything up to a comma, a closing bracket, or the ``:`` of a condition around it."""
        text = self.terms(("&&", "||"), self.conjunction)
        if self.current != "?":
            return text
        self.take()
        then = self.expression()
        if self.current == ":":
            self.take()
        then = f"({then})" if " if " in then else then
        return f"{then} if {text} else {self.expression()}"

    def conjunction(self) -> str:
        """``a & b``, which binds looser than comparisons in C++."""
        text = self.terms((), self.operand)
        while self.current == "&":
            self.take()
            text = f"logical_and({text}, {self.terms((), self.operand)})"
        return text

    def terms(self, operators: tuple[str, ...], term: Callable[[], str]) -> str:
        """Terms with operators between them, by default with those that bind tighter than ``&``."""
        parts = [term()]
        while self.current in operators if operators else self.current not in _ENDS:
            operator = self.take()
            parts += [OPERATORS.get(operator, operator), term()]
        return " ".join(parts)

    def operand(self) -> str:
        """A word, number, string or group, with the signs before it and what follows without an operator between."""
        if self.current in _ENDS:
            return ""
        token = self.take()
        if token == "*":  # what is in an optional
            return self.operand()
        if token == "-":
            return f"-{self.operand()}"
        if token == "!":
            text = self.operand()
            asked = text.removeprefix("(").removesuffix(" is not None)")
            return f"({asked} is None)" if len(text) - len(asked) == len("( is not None)") else f"(not {text})"
        if token.kind == "number":
            text = _number(token)
        elif token.kind == "template":
            text = self.template(token)
        elif token.kind == "word":
            text = self.word(token.removeprefix("::"))
        elif token in _CLOSING:
            text = self.group(token)
        else:
            text = str(token)
        while self.current in (".", "->", "["):
            text = self.group("[", text) if self.take() == "[" else self.member(text)
        return text

    def template(self, token: _Token) -> str:
        name, _, types = token.removeprefix("::")[:-1].partition("<")
        args = self.arguments()
        if name in TEMPLATES:
            return TEMPLATES[name](types, args)
        return CALLS.get(name, lambda args: f"{_last(name)}({args})")(args)

    def word(self, name: str) -> str:
        if self.current != "(":
            return WORDS.get(name, _last(name))
        args = self.arguments()
        return CALLS[name](args) if name in CALLS else f"{_last(name).removesuffix('_symint')}({args})"

    def member(self, receiver: str) -> str:
        name = self.take() if self.current else ""
        if self.current != "(":
            return f"{receiver}.{name}"
        args = self.arguments()
        return MEMBERS.get(name, lambda x, args: f"{x}.{name.removesuffix('_symint')}({args})")(receiver, args)

    def arguments(self) -> str:
        """What stands between the parentheses that begin here."""
        return self.group(self.take())[1:-1] if self.current in _CLOSING else ""

    def group(self, opening: str, before: str = "") -> str:
        """The rest of a bracket, behind what stands before it."""
        items = []
        while self.current and self.current != _CLOSING[opening]:
            start = self.at
            items.append(self.expression())
            if self.current == ",":
                self.take()
            elif self.at == start:
                items[-1] += self.take()  # nothing that belongs here; the parser says so
        if self.current:
            self.take()
        else:
            self.whole = False
        text = ", ".join(items)
        if opening == "{" and len(items) == 1 and text.startswith("[") and text.endswith("]"):
            return text
        return f"{before}{OPERATORS.get(opening, opening)}{text}{OPERATORS.get(_CLOSING[opening], _CLOSING[opening])}"


def _last(name: str) -> str:
    return name.rpartition("::")[2]


def _number(text: str) -> str:
    text = text.rstrip("fFlL")
    if text.isdigit() or "e" in text.lower():
        return text
    whole, _, rest = text.partition(".")
    return f"{whole or '0'}.{rest or '0'}"
