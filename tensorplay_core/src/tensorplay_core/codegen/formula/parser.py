"""Parses a formula by precedence climbing.

One loop over the operators' levels replaces a function for each of them, so the table in :mod:`ast` is the grammar.
Depth is limited: a tree that is walked by recursive functions later must not be deep enough to exhaust the
interpreter's stack.
"""

from __future__ import annotations

from typing import NoReturn

from tensorplay_core.codegen.formula import ast
from tensorplay_core.codegen.formula.ast import Expr
from tensorplay_core.codegen.formula.tokens import CONSTANTS, FormulaError, Token, TokenKind, tokenize

MAX_NESTING = 50  # brackets and prefix operators inside each other
MAX_DEPTH = 150  # of the tree: a sum of n terms is n deep

_INFIX = {
    **ast.BINARY_LEVELS,
    **dict.fromkeys(ast.COMPARISONS, ast.COMPARISON),
    "is": ast.COMPARISON,
    "and": ast.AND,
    "or": ast.OR,
    "if": ast.CONDITIONAL,
}


def parse_formula(text: str) -> Expr:
    """Parses one expression of the formula language.

    Args:
        text: for example ``grad * other.conj()``.

    Returns:
        The tree; ``str()`` of it is the formula with no more parentheses than it needs.

    Raises:
        FormulaError: with the formula, a caret under the fault, and what was expected.

    Example:
        >>> str(parse_formula("(grad * (2)) ** (-1)"))
        '(grad * 2) ** -1'
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self.nesting = 0

    def parse(self) -> Expr:
        if len(self.tokens) == 1:
            self.fail("the formula is empty")
        expr = self.expression(ast.CONDITIONAL)
        if self.current.kind is not TokenKind.END:
            hint = "; an operator is called by its name alone, without a namespace" if self.is_operator(":") else ""
            self.fail(f"expected an operator or the end of the formula, found {self.current}{hint}")
        self.check_depth(expr)
        return expr

    # expressions

    def expression(self, level: int) -> Expr:
        """Parses an expression of operators that bind at ``level`` or tighter."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.fail(f"nested too deeply ({MAX_NESTING} levels are the most)")
        left = self.prefix(level)
        while True:
            token = self.current
            binds = _INFIX.get(token.text) if token.kind in (TokenKind.OPERATOR, TokenKind.KEYWORD) else None
            if binds is None or binds < level:
                break
            self.at += 1
            left = self.infix(left, token, binds)
        self.nesting -= 1
        return left

    def prefix(self, level: int) -> Expr:
        token = self.current
        if self.take("-"):
            return ast.Unary("-", self.expression(ast.NEGATION), position=token.position)
        if token.text == "not" and token.kind is TokenKind.KEYWORD:
            if level > ast.NOT:
                self.fail("`not` binds looser than the operator before it; put it into parentheses")
            self.at += 1
            return ast.Unary("not", self.expression(ast.NOT), position=token.position)
        if self.is_operator("+"):
            self.fail("a formula has no unary plus")
        return self.postfix(self.atom())

    def infix(self, left: Expr, token: Token, level: int) -> Expr:
        operator, position = token.text, token.position
        if operator == "is":
            negated = self.take("not")
            if self.current.text != "None" or self.current.kind is not TokenKind.NAME:
                self.fail(f"expected None after 'is', found {self.current}; equality is written ==")
            self.at += 1
            if any(map(self.is_operator, ast.BINARY_LEVELS)):
                self.fail("an operator behind `is None`; put the comparison into parentheses")
            return self.unchained(ast.IsNone(left, negated, position=position))
        if operator == "if":
            condition = self.expression(ast.OR)
            self.expect("else", "'else'; a condition is written `a if condition else b`")
            return ast.Conditional(left, condition, self.expression(ast.CONDITIONAL), position=position)
        if operator == "**":
            return ast.Binary(operator, left, self.expression(ast.NEGATION), position=position)
        right = self.expression(level + 1)
        if operator in ast.COMPARISONS:
            return self.unchained(ast.Compare(operator, left, right, position=position))
        if level in (ast.AND, ast.OR):
            return ast.Boolean(operator, left, right, position=position)
        return ast.Binary(operator, left, right, position=position)

    def unchained(self, comparison: Expr) -> Expr:
        if _INFIX.get(self.current.text) == ast.COMPARISON and self.current.kind is not TokenKind.STRING:
            self.fail("comparisons are not chained; write `a < b and b < c`")
        return comparison

    def atom(self) -> Expr:
        token = self.current
        self.at += 1
        if token.kind is TokenKind.NUMBER:
            written = int(token.text) if token.text.isdigit() else float(token.text)
            return ast.Number(repr(written), position=token.position)
        if token.kind is TokenKind.STRING:
            return ast.String(token.text, position=token.position)
        if token.kind is TokenKind.NAME:
            if token.text in CONSTANTS:
                return ast.Constant(token.text, position=token.position)
            if self.take("("):
                args, kwargs = self.arguments()
                return ast.Call(token.text, args, kwargs, position=token.position)
            return ast.Name(token.text, position=token.position)
        if token.kind is TokenKind.OPERATOR and token.text == "(":
            return self.parenthesised(token)
        if token.kind is TokenKind.OPERATOR and token.text == "[":
            return ast.List(self.items("]"), position=token.position)
        self.at -= 1
        self.fail(f"expected a value, found {token}")

    def postfix(self, expr: Expr) -> Expr:
        while True:
            token = self.current
            if self.take("."):
                name = self.current
                if name.kind is not TokenKind.NAME or name.text in CONSTANTS:
                    self.fail(f"expected the name of an attribute or a method, found {name}")
                self.at += 1
                if self.take("("):
                    args, kwargs = self.arguments()
                    expr = ast.Method(expr, name.text, args, kwargs, position=name.position)
                else:
                    expr = ast.Attribute(expr, name.text, position=name.position)
            elif self.take("["):
                expr = ast.Index(expr, self.index_items(), position=token.position)
            elif self.is_operator("("):
                self.fail("only operators, helpers and methods can be called, by their name")
            else:
                return expr

    # lists of things

    def parenthesised(self, opening: Token) -> Expr:
        if self.take(")"):
            return ast.Tuple((), position=opening.position)
        first = self.expression(ast.CONDITIONAL)
        if self.take(")"):
            return first
        self.expect(",", "',' or ')'")
        return ast.Tuple((first, *self.items(")")), position=opening.position)

    def items(self, end: str) -> tuple[Expr, ...]:
        """The rest of a sequence behind its opening bracket, up to and with ``end``; a last comma may stand."""
        items: list[Expr] = []
        while not self.take(end):
            items.append(self.expression(ast.CONDITIONAL))
            if not self.is_operator(end):
                self.expect(",", f"',' or '{end}'")
        return tuple(items)

    def arguments(self) -> tuple[tuple[Expr, ...], tuple[tuple[str, Expr], ...]]:
        args: list[Expr] = []
        kwargs: list[tuple[str, Expr]] = []
        while not self.take(")"):
            token, after = self.current, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
            if token.kind is TokenKind.NAME and after.kind is TokenKind.OPERATOR and after.text == "=":
                if token.text in CONSTANTS or any(name == token.text for name, _ in kwargs):
                    self.fail(f"'{token.text}' cannot be given here, or is given twice")
                self.at += 2
                kwargs.append((token.text, self.expression(ast.CONDITIONAL)))
            elif kwargs:
                self.fail("a positional argument behind a keyword argument")
            else:
                args.append(self.expression(ast.CONDITIONAL))
            if not self.is_operator(")"):
                self.expect(",", "',' or ')'")
        return tuple(args), tuple(kwargs)

    def index_items(self) -> tuple[Expr | ast.Slice, ...]:
        items: list[Expr | ast.Slice] = []
        while True:
            items.append(self.index_item())
            if self.take("]"):
                return tuple(items)
            self.expect(",", "',' or ']'")

    def index_item(self) -> Expr | ast.Slice:
        if self.is_operator("]"):
            self.fail("expected an index, found ']'")
        parts: list[Expr | None] = []
        while True:
            bare = self.is_operator(":") or self.is_operator(",") or self.is_operator("]")
            parts.append(None if bare else self.expression(ast.CONDITIONAL))
            if len(parts) == 3 or not self.take(":"):
                break
        if len(parts) > 1:
            return ast.Slice(*parts)
        if parts[0] is None:
            self.fail(f"expected an index, found {self.current}")
        return parts[0]

    # the cursor

    @property
    def current(self) -> Token:
        return self.tokens[self.at]

    def is_operator(self, text: str) -> bool:
        token = self.tokens[self.at]
        return token.text == text and token.kind is TokenKind.OPERATOR

    def take(self, text: str) -> bool:
        token = self.tokens[self.at]
        if token.text != text or token.kind not in (TokenKind.OPERATOR, TokenKind.KEYWORD):
            return False
        self.at += 1
        return True

    def expect(self, text: str, expected: str) -> None:
        if not self.take(text):
            hint = "; `=` names a keyword argument of a call" if self.is_operator("=") else ""
            self.fail(f"expected {expected}, found {self.current}{hint}")

    def fail(self, reason: str) -> NoReturn:
        raise FormulaError(reason, self.text, self.current.position)

    def check_depth(self, expr: Expr) -> None:
        if len(self.tokens) <= MAX_DEPTH:
            return  # every node has a token of its own
        layer, depth = [expr], 0
        while layer:
            depth += 1
            if depth > MAX_DEPTH:
                reason = f"the formula is more than {MAX_DEPTH} operators deep; split it into helpers"
                raise FormulaError(reason, self.text, layer[0].position)
            layer = [child for node in layer for child in ast.children(node)]
