"""Where a source file can be mutated, and how: small changes of the kind that a person makes by mistake.

A mutation replaces one expression or drops one statement. It is found in the syntax tree and made in the text, so the
lines keep their numbers. Messages, annotations and docstrings are left alone: the suite does not read them.
"""

from __future__ import annotations

import ast
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
FUNCTIONS = {
    "any": "all", "all": "any", "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum",
    "add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply", "less": "less_equal",
    "less_equal": "less", "greater": "greater_equal", "greater_equal": "greater", "equal": "not_equal",
    "not_equal": "equal", "exp": "expm1", "expm1": "exp", "log": "log1p", "log1p": "log", "sin": "cos", "cos": "sin",
    "sqrt": "abs", "tanh": "sinh", "abs": "negative", "sign": "negative", "logical_or": "logical_and",
    "logical_and": "logical_or", "argmax": "argmin", "isnan": "isinf", "zeros": "ones", "ones": "zeros",
    "ceil": "floor", "floor": "ceil", "real": "imag", "conj": "negative", "uniform": "normal", "normal": "uniform",
}  # fmt: skip
"""Members of an array module, of ``math`` and of the random source that are taken for one another."""
TEXTS = {
    "half": "float", "float": "half", "int": "uint", "uint": "int", "bool": "int", "complex": "float",
    "float32": "float64", "float64": "float32", "int64": "int32", "complex64": "complex128",
}  # fmt: skip
"""Kinds and names of dtypes."""
DTYPES = {
    "single": "support.native('float16')", "double": "support.single", "int64": "support.native('int32')",
    "boolean": "support.int64",
}  # fmt: skip
"""Dtypes that a family of kernels has at hand."""
UNWRAPPED = frozenset({"copy", "cast", "clip", "floor", "hushed", "silent", "expand_dims", "reshape", "flatnonzero"})
"""Functions whose call can be left out, so that their argument stays."""
NOT_SWAPPED = frozenset(
    {"getattr", "hasattr", "isinstance", "_first", "setdefault", "cast", "reshape", "take", "expand_dims"}
    | {"broadcast_to", "move", "kernels", "check_0d", "draw", "put", "replaced", "numbers_of", "arithmetic"}
    | {"transcendental", "extremes", "sums", "sizes", "parts", "filled", "random", "refuse", "FunctionType", "keep"}
)
"""Functions whose arguments differ so much that a swap fails at the first call, which shows nothing."""
COMMUTATIVE = frozenset(
    {"max", "min", "maximum", "minimum", "add", "multiply", "equal", "swapaxes", "broadcast_shapes"}
)
"""Functions whose first two arguments may change places: a swap changes nothing."""
LOOPS = (ast.For, ast.While)
SKIPPED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "type_params"})


class Identity(NamedTuple):
    """Which mutation is meant, apart from line numbers; the attributes are those of :class:`Mutation`."""

    file: str
    function: str
    source: str
    kind: str
    before: str
    after: str
    nth: int = 0


class Mutation(NamedTuple):
    """One change of one file.

    Attributes:
        file: the file, from the package's folder.
        line: where it is.
        function: the functions and classes around it, joined by dots; empty at the top of the module.
        kind: what sort of change it is.
        before, after: what is replaced, and by what.
        span: the first and last byte of it in the file.
        statement: the line where the statement around it begins; 0 where it runs when the module is imported.
        hint: the key of the mapping that it is a value of, which may be an operator.
        source: a digest of the innermost function around it, or of the statement at the top of the module.
        nth: how many of the same kind, before and after come earlier in ``source``.
    """

    file: str
    line: int
    function: str
    kind: str
    before: str
    after: str
    span: tuple[int, int]
    statement: int
    hint: str
    source: str = ""
    nth: int = 0

    @property
    def identity(self) -> Identity:
        """What stays the same wherever the function moves to, and changes when the function does."""
        return Identity(self.file, self.function, self.source, self.kind, self.before, self.after, self.nth)

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def applied(self, text: bytes) -> bytes:
        """Returns the file's text with the change made; lines keep their numbers."""
        begin, end = self.span
        lost = text[begin:end].count(b"\n")
        after = self.after if self.kind == "statement dropped" else f"({self.after})"
        return text[:begin] + after.encode() + (b"\n" * lost if after == "pass" else b" \\\n" * lost) + text[end:]


class Sites(ast.NodeVisitor):
    """Finds every mutation of a file."""

    def __init__(self, file: str, text: bytes) -> None:
        self.file, self.found = file, []  # type: tuple[str, list[Mutation]]
        self._lines = text.decode().splitlines()
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._around: list[str] = []
        self._functions: list[ast.FunctionDef] = []
        self._statement, self._hint = 0, ""
        self._source, self._met = "", Counter()  # type: tuple[str, Counter[Identity]]
        tree = ast.parse(text)
        self._idle = {id(last) for loop in ast.walk(tree) if isinstance(loop, LOOPS) for last in lasts(loop.body)}
        for node in tree.body:
            self._source = self._digest(node)
            self.visit(node)

    def _add(self, node: ast.expr | ast.stmt, kind: str, after: ast.AST | str) -> None:
        text = after if isinstance(after, str) else ast.unparse(after)
        before = ast.unparse(node)
        assert node.end_lineno is not None and node.end_col_offset is not None
        span = (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )
        one = Mutation(
            self.file, node.lineno, ".".join(self._around), kind, before, text, span, self._statement, self._hint,
            self._source,
        )  # fmt: skip
        if before != text:
            self.found.append(one._replace(nth=self._met[one.identity]))
            self._met[one.identity] += 1

    def _digest(self, node: ast.stmt) -> str:
        """Returns a digest of a statement's text that does not depend on where it is, nor on how it is indented."""
        words = " ".join(self._lines[node.lineno - 1 : node.end_lineno]).split()
        return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]

    # ------------------------------------------------------------------------------------------------- the tree

    def visit(self, node: ast.AST) -> None:
        outer = self._statement
        if isinstance(node, ast.stmt):
            self._statement = node.lineno if self._functions else 0
            self._drop(node)
            if isinstance(node, (ast.If, ast.While)) and not isinstance(node.test, ast.UnaryOp):
                self._add(node.test, "condition negated", ast.UnaryOp(ast.Not(), node.test))
        if isinstance(node, ast.expr):
            for kind, after in expressions(node, self._has_support()):
                self._add(node, kind, after)
        getattr(self, f"visit_{type(node).__name__}", self.generic_visit)(node)
        self._statement = outer

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in SKIPPED_FIELDS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Goes on to the body; defaults are left alone, as core passes a kernel every argument."""
        self._around.append(node.name)
        self._functions.append(node)
        outer, self._source = self._source, self._digest(node)
        for child in node.body:
            self.visit(child)
        self._source = outer
        self._functions.pop()
        self._around.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._around.append(node.name)
        for child in node.body:
            self.visit(child)
        self._around.pop()

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            outer = self._hint
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self._hint = key.value
            self.visit(value)
            self._hint = outer

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leaves the message alone."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leaves texts alone."""

    def visit_Import(self, node: ast.Import) -> None:
        """Leaves imports alone."""

    visit_ImportFrom = visit_Import

    # ------------------------------------------------------------------------------------------------ statements

    def _has_support(self) -> bool:
        return any(arg.arg == "support" for function in self._functions for arg in function.args.args)

    def _drop(self, node: ast.stmt) -> None:
        if not self._functions:
            return
        if (
            isinstance(node, (ast.AugAssign, ast.Raise))
            or (isinstance(node, ast.Continue) and id(node) not in self._idle)
            or self._again(node)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
            or (isinstance(node, ast.If) and not node.orelse and not isinstance(node.body[0], ast.Raise))
        ):
            self._add(node, "statement dropped", "pass")

    def _again(self, node: ast.stmt) -> bool:
        """Whether a statement gives a value to what has one; without it the rest would fail at once."""
        if not isinstance(node, ast.Assign):
            return False
        target, function = node.targets[0], self._functions[-1]
        if not isinstance(target, ast.Name):
            return isinstance(target, ast.Subscript)
        given = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}
        earlier = {
            name.id
            for name in ast.walk(function)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.lineno < node.lineno
        }
        return target.id in given | earlier


def lasts(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements that nothing follows in a block; a ``continue`` that is one of a loop's does nothing."""
    match body:
        case [*_, ast.If(_, one, other)]:
            yield from (*lasts(one), *lasts(other))
        case [*_, ast.Try(one, handlers, other, [])]:
            for block in (other or one, *(handler.body for handler in handlers)):
                yield from lasts(block)
        case [*_, ast.With(_, one)]:
            yield from lasts(one)
        case [*_, last]:
            yield last


def expressions(node: ast.expr, support: bool) -> Iterator[tuple[str, ast.AST | str]]:
    """Yields what an expression can be replaced by, with the sort of the change."""
    match node:
        case ast.Compare(left, [op], right) if type(op) in COMPARISONS:
            yield "comparison swapped", ast.Compare(left, [COMPARISONS[type(op)]()], right)
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            yield "operator changed", ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.BoolOp(ast.And(), operands):
            yield "and to or", ast.BoolOp(ast.Or(), operands)
        case ast.BoolOp(ast.Or(), operands):
            yield "or to and", ast.BoolOp(ast.And(), operands)
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            yield "sign or negation dropped", operand
        case ast.IfExp(test, body, orelse) if not isinstance(test, ast.UnaryOp):
            yield "condition negated", ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Constant(bool() as value):
            yield "constant changed", ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield "constant changed", ast.Constant(value + 1)
        case ast.Constant(str() as value) if value in TEXTS:
            yield "dtype changed", ast.Constant(TEXTS[value])
        case ast.Name(name, ast.Load()) if support and name in DTYPES:
            yield "dtype changed", DTYPES[name]
        case ast.Attribute(ast.Name("xp" | "math" | "source") as owner, name) if name in FUNCTIONS:
            yield "function changed", ast.Attribute(owner, FUNCTIONS[name], ast.Load())
        case ast.Call():
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST | str]]:
    function, args = node.func, node.args
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in UNWRAPPED and args:
        yield "call left out", args[0]
    if (
        len(args) > 1
        and name not in NOT_SWAPPED | COMMUTATIVE
        and not any(isinstance(arg, ast.Starred) for arg in args[:2])
    ):
        yield "arguments swapped", ast.Call(function, [args[1], args[0], *args[2:]], node.keywords)
    for i, given in enumerate(node.keywords):
        if given.arg == "axis" and isinstance(given.value, ast.Constant) and given.value.value == 0:
            continue  # -0 is 0
        changes: dict[str, Callable[[ast.expr], ast.expr | None]] = {
            "axis": lambda value: ast.UnaryOp(ast.USub(), value),
            "keepdims": lambda value: ast.UnaryOp(ast.Not(), value),
            "dtype": lambda _: None,
        }
        if given.arg in changes:
            value = changes[given.arg](given.value)
            kept = [*node.keywords[:i], *([ast.keyword(given.arg, value)] if value else []), *node.keywords[i + 1 :]]
            words = {"axis": "sign of axis changed", "keepdims": "keepdims flipped", "dtype": "dtype left out"}
            yield words[given.arg], ast.Call(function, args, kept)


def sites(folder: Path, pattern: str) -> list[Mutation]:
    """Returns every mutation of the files of a package."""
    found: list[Mutation] = []
    for path in sorted(folder.glob(pattern)):
        found += Sites(path.relative_to(folder).as_posix(), path.read_bytes()).found
    return found


def drawn(found: list[Mutation], count: int, rng: random.Random) -> list[Mutation]:
    """Draws mutations: each file has a share by its size, at least 2, and within it the functions take turns."""
    files: dict[str, dict[str, list[Mutation]]] = {}
    for one in found:
        files.setdefault(one.file, {}).setdefault(one.function, []).append(one)
    turns = {file: _turns(functions, rng) for file, functions in files.items()}
    share = {
        file: max(min(2, len(turn)), round(count * len(turn) / max(1, len(found)))) for file, turn in turns.items()
    }
    chosen = [one for file, turn in turns.items() for one in turn[: share[file]]]
    spare = [one for file, turn in turns.items() for one in turn[share[file] :]]
    rng.shuffle(chosen)
    rng.shuffle(spare)
    return [*chosen, *spare][:count]


def _turns(functions: dict[str, list[Mutation]], rng: random.Random) -> list[Mutation]:
    queues = list(functions.values())
    for queue in queues:
        rng.shuffle(queue)
    rng.shuffle(queues)
    found: list[Mutation] = []
    while queues:
        found += [queue.pop() for queue in queues]
        queues = [queue for queue in queues if queue]
    return found


# ---------------------------------------------------------------------------------------------------- who reaches it


def marked(file: str, text: str) -> str:
    """Returns a module's text in which each statement of a function tells ``__reached__`` where it is."""
    tree = ast.parse(text)
    for node in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        _mark(file, node)
    return ast.unparse(ast.fix_missing_locations(tree))


def _mark(file: str, node: ast.AST) -> None:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if not isinstance(block, list) or not block:
            continue
        new: list[ast.stmt] = []
        for i, child in enumerate(block):
            if not (i == 0 and isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                new.append(ast.parse(f"__reached__({f'{file}:{child.lineno}'!r})").body[0])
            new.append(child)
            if not isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                _mark(file, child)
        setattr(node, name, new)
    for handler in getattr(node, "handlers", []):
        _mark(file, handler)
