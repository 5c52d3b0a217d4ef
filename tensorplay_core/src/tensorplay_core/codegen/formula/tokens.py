"""Cuts a formula into tokens.

Formulas come from YAML files that anybody may write, so the first thing that sees them accepts a short list of
characters and says no to the rest with a place and a remedy. Most strangers are habits from C++ or NumPy, and each of
those is told what to write.
"""

from __future__ import annotations

import enum
import keyword
import re

import attrs

from tensorplay_core.errors import ContractError

MAX_LENGTH = 10_000

KEYWORDS = frozenset({"and", "or", "not", "is", "if", "else"})
CONSTANTS = ("None", "True", "False", "inf", "nan", "pi")
_FOREIGN_KEYWORDS = frozenset(keyword.kwlist) - KEYWORDS - frozenset(CONSTANTS)

_SPACE = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYNTAX = re.compile(rf"\s*(?:[:('\"0-9]|(?!(?:{'|'.join(sorted(KEYWORDS))})\b)[A-Za-z_])")
"""What follows a word of Python that is meant as such, ``lambda x:`` or ``for x in``, and never a name."""
_OPERATOR = re.compile(r"\*\*|//|==|!=|<=|>=|[-+*/%@<>()\[\],.:=]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_HABITS = {
    "&&": "write `and`",
    "||": "write `or`",
    "->": "write `.`",
    "!": "write `not`",
    "?": "write `a if condition else b`",
    "&": "call logical_and or bitwise_and",
    "|": "call logical_or or bitwise_or",
    "^": "call bitwise_xor, or write `**` for a power",
    "~": "call logical_not or bitwise_not",
    "{": "a list is written [a, b]",
    "#": "comments belong to the YAML file",
    ";": "a formula is one expression",
}


class FormulaError(ContractError):
    """A formula that cannot be used.

    Attributes:
        reason: what is wrong, in one sentence, with the nearest valid choices.
        text: the formula; empty where only a position is known yet.
        position: the offending column, counted from 0.
    """

    def __init__(self, reason: str, text: str, position: int) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        shown = re.sub(r"\s", " ", text)
        super().__init__(f"{reason}\n  {shown}\n  {' ' * max(position, 0)}^" if text else reason)

    def __reduce__(self) -> tuple[type[FormulaError], tuple[str, str, int]]:
        return type(self), (self.reason, self.text, self.position)


class TokenKind(enum.Enum):
    """What a token is."""

    NUMBER = "a number"
    STRING = "a string"
    NAME = "a name"
    KEYWORD = "a keyword"
    OPERATOR = "an operator"
    END = "the end of the formula"


@attrs.frozen
class Token:
    """One token; ``text`` of a string is its value, without quotes and escapes."""

    kind: TokenKind
    text: str
    position: int

    def __str__(self) -> str:
        if self.kind is TokenKind.END:
            return "the end of the formula"
        return f"the string {self.text!r}" if self.kind is TokenKind.STRING else f"'{self.text}'"


def tokenize(text: str) -> list[Token]:
    """Cuts ``text`` into tokens, the last of which is of kind END.

    Raises:
        FormulaError: for a character that no token starts with, a string that is not closed, a number that runs into a
            name.

    Example:
        >>> [token.text for token in tokenize("grad * 2")]
        ['grad', '*', '2', '']
    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"a formula of {len(text)} characters; {MAX_LENGTH} are the most", text[:60], 0)
    tokens: list[Token] = []
    position = 0
    while True:
        space = _SPACE.match(text, position)
        position = space.end() if space is not None else position
        if position >= len(text):
            tokens.append(Token(TokenKind.END, "", len(text)))
            return tokens
        token, position = _token(text, position)
        tokens.append(token)


def _token(text: str, start: int) -> tuple[Token, int]:
    character = text[start]
    if character in "'\"":
        value, end = _string(text, start)
        return Token(TokenKind.STRING, value, start), end
    number = _NUMBER.match(text, start)
    if number is not None:
        _check_number(text, number)
        return Token(TokenKind.NUMBER, number.group(), start), number.end()
    name = _NAME.match(text, start)
    if name is not None:
        word = name.group()
        if word in _FOREIGN_KEYWORDS and _SYNTAX.match(text, name.end()):  # else it may be an argument's name
            raise FormulaError(
                f"'{word}' is a word of Python that formulas do not have; a formula is one expression", text, start
            )
        return Token(TokenKind.KEYWORD if word in KEYWORDS else TokenKind.NAME, word, start), name.end()
    habit = _HABITS.get(text[start : start + 2])
    operator = _OPERATOR.match(text, start)
    if habit is None and operator is not None:
        return Token(TokenKind.OPERATOR, operator.group(), start), operator.end()
    found = text[start : start + 2] if habit is not None else character
    habit = habit or _HABITS.get(character)
    raise FormulaError(f"{found!r} is not in the formula language{f'; {habit}' if habit else ''}", text, start)


def _check_number(text: str, number: re.Match[str]) -> None:
    start, end = number.span()
    if text[end : end + 1].isidentifier() or text[end : end + 1].isdigit():
        raise FormulaError("this number runs into a name", text, end)
    written = number.group()
    if written.isdigit():
        if len(written) > 1 and written.startswith("0"):
            raise FormulaError("an integer is written without leading zeros", text, start)
        if len(written) > 40:
            raise FormulaError("this integer is too long", text, start)
    elif float(written) == float("inf"):
        raise FormulaError("this number is too large for a float; write inf", text, start)


def _string(text: str, start: int) -> tuple[str, int]:
    quote = text[start]
    characters: list[str] = []
    position = start + 1
    while position < len(text):
        character = text[position]
        if character == quote:
            return "".join(characters), position + 1
        if character == "\\":
            position += 1
            escaped = _ESCAPES.get(text[position : position + 1])
            if escaped is None:
                raise FormulaError("unknown escape in a string", text, position - 1)
            character = escaped
        characters.append(character)
        position += 1
    raise FormulaError("this string is not closed", text, start)
