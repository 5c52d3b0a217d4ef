"""The syntax tree of a formula, and its printer.

Nodes are frozen and compare by what they mean: positions are kept for error messages and take no part in equality, so
that the analysis can find the same subexpression in two formulas. The printer writes as few parentheses as the grammar
allows, and what it writes parses back to an equal tree; the text is also Python, which is what the emitters rely on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

# Precedence levels, as in Python; a printer asks a child for at least the level that its place needs.
CONDITIONAL, OR, AND, NOT, COMPARISON, SUM, PRODUCT, NEGATION, POWER, POSTFIX, ATOM = range(1, 12)
BINARY_LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT, "@": PRODUCT, "**": POWER}
COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_NUMBER = re.compile(r"(?:[0-9]+|[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


@attrs.frozen(cache_hash=True)
class Expr:
    """Base class of the nodes that have a value."""

    position: int = attrs.field(default=0, eq=False, repr=False, kw_only=True)

    @property
    def level(self) -> int:
        """The precedence of the node's outermost operator."""
        return _level(self)

    def __str__(self) -> str:
        return _write(self)


@attrs.frozen(cache_hash=True)
class Number(Expr):
    """A number as Python prints it, so that ``1`` and ``1.0`` stay apart; without a sign."""

    text: str = attrs.field()

    @text.validator
    def _check(self, _: attrs.Attribute[str], value: str) -> None:
        if _NUMBER.fullmatch(value) is None:
            raise ValueError(f"not a number of the formula language: {value!r}")

    @property
    def value(self) -> int | float:
        """The Python number."""
        return int(self.text) if self.text.isdigit() else float(self.text)


@attrs.frozen(cache_hash=True)
class String(Expr):
    """A string."""

    value: str


@attrs.frozen(cache_hash=True)
class Constant(Expr):
    """``None``, ``True``, ``False``, ``inf``, ``nan`` or ``pi``."""

    name: str


@attrs.frozen(cache_hash=True)
class Name(Expr):
    """A name: an input, an output, ``grad``, ``grads``, ``needs``."""

    name: str


@attrs.frozen(cache_hash=True)
class Call(Expr):
    """A call of an operator or a helper: ``where(x > 0, x, 0)``."""

    function: str
    args: tuple[Expr, ...] = ()
    kwargs: tuple[tuple[str, Expr], ...] = ()


@attrs.frozen(cache_hash=True)
class Method(Expr):
    """A call of a method: ``grad.sum(dim, keepdim=True)``."""

    object: Expr
    name: str
    args: tuple[Expr, ...] = ()
    kwargs: tuple[tuple[str, Expr], ...] = ()


@attrs.frozen(cache_hash=True)
class Attribute(Expr):
    """An attribute: ``self.shape``."""

    object: Expr
    name: str


@attrs.frozen(cache_hash=True)
class Slice:
    """A slice inside an index; no value of its own."""

    start: Expr | None = None
    stop: Expr | None = None
    step: Expr | None = None


@attrs.frozen(cache_hash=True)
class Index(Expr):
    """An index: ``x[0]``, ``x[:, 1]``; ``items`` are what stands between the commas."""

    object: Expr
    items: tuple[Expr | Slice, ...]


@attrs.frozen(cache_hash=True)
class Tuple(Expr):
    """A tuple, always written with parentheses."""

    items: tuple[Expr, ...] = ()


@attrs.frozen(cache_hash=True)
class List(Expr):
    """A list."""

    items: tuple[Expr, ...] = ()


@attrs.frozen(cache_hash=True)
class Unary(Expr):
    """``-x`` or ``not x``."""

    operator: str
    operand: Expr


@attrs.frozen(cache_hash=True)
class Binary(Expr):
    """``+ - * / // % ** @``."""

    operator: str
    left: Expr
    right: Expr


@attrs.frozen(cache_hash=True)
class Compare(Expr):
    """``< <= > >= == !=``; comparisons are not chained."""

    operator: str
    left: Expr
    right: Expr


@attrs.frozen(cache_hash=True)
class IsNone(Expr):
    """``x is None``, or ``x is not None`` where ``negated``."""

    operand: Expr
    negated: bool = False


@attrs.frozen(cache_hash=True)
class Boolean(Expr):
    """``a and b``, ``a or b``; on Python values."""

    operator: str
    left: Expr
    right: Expr


@attrs.frozen(cache_hash=True)
class Conditional(Expr):
    """``then if condition else otherwise``; the condition is a Python value."""

    then: Expr
    condition: Expr
    otherwise: Expr


@attrs.frozen(cache_hash=True)
class Each(Expr):
    """``[body for variable in source]``: how an attribute maps over a list; made by a rewrite, never parsed."""

    body: Expr
    variable: str
    source: Expr


_PARTS: dict[type[Expr], tuple[str, ...]] = {
    Number: (),
    String: (),
    Constant: (),
    Name: (),
    Call: ("args", "kwargs"),
    Method: ("object", "args", "kwargs"),
    Attribute: ("object",),
    Index: ("object", "items"),
    Tuple: ("items",),
    List: ("items",),
    Unary: ("operand",),
    Binary: ("left", "right"),
    Compare: ("left", "right"),
    IsNone: ("operand",),
    Boolean: ("left", "right"),
    Conditional: ("then", "condition", "otherwise"),
    Each: ("body", "source"),
}
"""The fields of each node that hold expressions."""


def children(expr: Expr) -> list[Expr]:
    """The expressions directly inside ``expr``, from left to right; a slice gives its parts."""
    found: list[Expr] = []
    for name in _PARTS[type(expr)]:
        _collect(getattr(expr, name), found)
    return found


def walk(expr: Expr) -> Iterator[Expr]:
    """``expr`` and everything inside it, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def transform(expr: Expr, function: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrites a tree from the top: a node that ``function`` returns replaces the subtree; None means look inside."""
    replaced = function(expr)
    if replaced is not None:
        return replaced
    changes: dict[str, Any] = {}
    for name in _PARTS[type(expr)]:
        old = getattr(expr, name)
        new = _transformed(old, function)
        if new is not old:
            changes[name] = new
    return attrs.evolve(expr, **changes) if changes else expr


def _collect(value: object, found: list[Expr]) -> None:
    if isinstance(value, Expr):
        found.append(value)
    elif isinstance(value, Slice):
        found.extend(part for part in (value.start, value.stop, value.step) if part is not None)
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, found)


def _transformed(value: object, function: Callable[[Expr], Expr | None]) -> object:
    if isinstance(value, Expr):
        return transform(value, function)
    if isinstance(value, Slice):
        parts = [None if part is None else transform(part, function) for part in (value.start, value.stop, value.step)]
        same = parts[0] is value.start and parts[1] is value.stop and parts[2] is value.step
        return value if same else Slice(*parts)
    if isinstance(value, tuple):
        items = tuple(_transformed(item, function) for item in value)
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


# the printer


def _level(expr: Expr) -> int:
    match expr:
        case Method() | Attribute() | Index():
            return POSTFIX
        case Unary(operator=operator):
            return NOT if operator == "not" else NEGATION
        case Binary(operator=operator):
            return BINARY_LEVELS[operator]
        case Compare() | IsNone():
            return COMPARISON
        case Boolean(operator=operator):
            return AND if operator == "and" else OR
        case Conditional():
            return CONDITIONAL
    return ATOM


def _at(expr: Expr, level: int) -> str:
    """The text of a child whose place needs precedence ``level``."""
    text = _write(expr)
    return text if expr.level >= level else f"({text})"


def _object(expr: Expr) -> str:
    """The text of what a dot follows; `1.real` would be a number that runs into a name."""
    return f"({_write(expr)})" if isinstance(expr, Number) else _at(expr, POSTFIX)


def _arguments(args: tuple[Expr, ...], kwargs: tuple[tuple[str, Expr], ...]) -> str:
    return ", ".join([*map(_write, args), *(f"{name}={_write(value)}" for name, value in kwargs)])


def _slice(item: Expr | Slice) -> str:
    if isinstance(item, Expr):
        return _write(item)
    start, stop, step = ("" if part is None else _write(part) for part in (item.start, item.stop, item.step))
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _binary(left: Expr, operator: str, right: Expr, levels: tuple[int, int]) -> str:
    return f"{_at(left, levels[0])} {operator} {_at(right, levels[1])}"


def _write(expr: Expr) -> str:
    match expr:
        case Number(text=text):
            return text
        case String(value=value):
            return f'"{value.translate(_ESCAPES)}"'
        case Constant(name=name) | Name(name=name):
            return name
        case Call(function=function, args=args, kwargs=kwargs):
            return f"{function}({_arguments(args, kwargs)})"
        case Method(object=receiver, name=name, args=args, kwargs=kwargs):
            return f"{_object(receiver)}.{name}({_arguments(args, kwargs)})"
        case Attribute(object=receiver, name=name):
            return f"{_object(receiver)}.{name}"
        case Index(object=receiver, items=parts):
            return f"{_at(receiver, POSTFIX)}[{', '.join(map(_slice, parts))}]"
        case Tuple(items=items):
            return f"({_write(items[0])},)" if len(items) == 1 else f"({', '.join(map(_write, items))})"
        case List(items=items):
            return f"[{', '.join(map(_write, items))}]"
        case _:
            return _write_operator(expr)


def _write_operator(expr: Expr) -> str:
    level = expr.level
    match expr:
        case Unary(operator="not", operand=operand):
            return f"not {_at(operand, NOT)}"
        case Unary(operator=operator, operand=operand):
            return f"{operator}{_at(operand, NEGATION)}"
        case Binary(operator="**", left=left, right=right):
            return _binary(left, "**", right, (POSTFIX, NEGATION))  # binds tighter than a minus on its left only
        case Binary(operator=operator, left=left, right=right):
            return _binary(left, operator, right, (level, level + 1))
        case Compare(operator=operator, left=left, right=right):
            return _binary(left, operator, right, (SUM, SUM))
        case IsNone(operand=operand, negated=negated):
            return f"{_at(operand, SUM)} is {'not ' if negated else ''}None"
        case Boolean(operator=operator, left=left, right=right):
            return _binary(left, operator, right, (level, level + 1))
        case Conditional(then=then, condition=condition, otherwise=otherwise):
            return f"{_at(then, OR)} if {_at(condition, OR)} else {_at(otherwise, CONDITIONAL)}"
        case Each(body=body, variable=variable, source=source):
            return f"[{_write(body)} for {variable} in {_at(source, OR)}]"
    raise AssertionError(f"no such node: {type(expr).__name__}")
