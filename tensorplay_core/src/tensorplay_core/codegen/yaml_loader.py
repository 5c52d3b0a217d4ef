"""Reads contract files as YAML in which everything knows its place.

PyYAML's loader forgets where a value stood, lets a second key overwrite the first, and turns ``no`` into False before
anybody sees the word. The contract needs the opposite: every error points at its column, duplicate keys are refused,
and a value keeps the text that was written. So the file is composed into nodes (by libyaml, which is fast) and
converted here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import attrs
import yaml

from tensorplay_core.errors import ContractError, did_you_mean, fix

_MAX_NESTING = 20
_MAX_SHOWN = 240  # characters of a line in an error; a longer line is shown around the caret
_TAGS = {
    "tag:yaml.org,2002:str": "str",
    "tag:yaml.org,2002:int": "int",
    "tag:yaml.org,2002:float": "float",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:null": "null",
}
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # an escape may bring one along; no text needs it
_TRUE = frozenset({"true", "yes", "on"})


@attrs.define(eq=False)
class Source:
    """A contract file, or text that stands for one.

    Attributes:
        name: what errors call it: a path, or any label.
        text: its contents.
    """

    name: str
    text: str

    @classmethod
    def read(cls, path: Path) -> Source:
        """Reads a file.

        Raises:
            ContractError: where it cannot be read, or is not UTF-8.
        """
        try:
            return cls(str(path), path.read_bytes().decode("utf-8"))
        except OSError as error:
            raise ContractError(f"{path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ContractError(f"{path}: not UTF-8 at byte {error.start}") from error

    @property
    def stem(self) -> str:
        """The file's name without folders and ending."""
        return Path(self.name).stem

    @cached_property
    def lines(self) -> list[str]:
        """The lines as YAML counts them."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def line(self, number: int) -> str:
        """Line ``number``, counted from 1, or an empty one."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


@attrs.frozen
class Location:
    """A place in a contract file; lines and columns are counted from 1."""

    source: Source = attrs.field(repr=lambda source: source.name)
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}"

    def describe(self, message: str, remedy: str = "") -> str:
        """``file:line: message``, the line itself, a caret under the column, and the remedy."""
        text, column = _window(self.source.line(self.line).replace("\t", " "), self.column - 1)
        number = str(self.line)
        shown = f"\n  {number} | {text}\n  {' ' * len(number)} | {' ' * column}^"
        return f"{self}: {message}{shown}{fix(remedy) if remedy else ''}"

    def fail(self, message: str, remedy: str = "") -> NoReturn:
        """Raises a ContractError that shows this place."""
        raise ContractError(self.describe(message, remedy))


@attrs.frozen
class Scalar:
    """A word, number or text.

    Attributes:
        text: what was written, quotes and folding resolved.
        kind: how YAML understands it: str, int, float, bool or null.
        location: where it starts.
        end_line: the line where it ends.
    """

    text: str
    kind: str
    location: Location
    end_line: int

    def at(self, offset: int) -> Location:
        """The place of character ``offset`` of ``text``, through quotes and folded lines."""
        return _place(self, offset)

    @property
    def truth(self) -> bool | None:
        """The value of a YAML boolean, None for anything else."""
        return self.text.lower() in _TRUE if self.kind == "bool" else None


@attrs.frozen
class Sequence:
    """A list of values."""

    items: tuple[Value, ...]
    location: Location


@attrs.frozen
class Mapping:
    """Keys, in the order of the file, each with its own place, and their values."""

    entries: tuple[tuple[Scalar, Value], ...]
    location: Location

    def get(self, key: str) -> Value | None:
        """The value of ``key``, or None."""
        for name, value in self.entries:
            if name.text == key:
                return value
        return None

    def key(self, key: str) -> Scalar | None:
        """The key itself, for its place."""
        return next((name for name, _ in self.entries if name.text == key), None)

    def __iter__(self) -> Iterator[tuple[Scalar, Value]]:
        return iter(self.entries)


Value = Scalar | Sequence | Mapping


def load_yaml(source: Source) -> Value | None:
    """Loads one document; None when it holds nothing.

    Raises:
        ContractError: for what is not YAML, a duplicate key, a key that is no word, an anchor or alias, a second
            document.
    """
    loader = yaml.CSafeLoader(source.text) if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader(source.text)
    try:
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        _fail_yaml(source, error)
    except yaml.reader.ReaderError as error:
        before = source.text[: error.position]
        line = before.count("\n") + 1
        Location(source, line, len(before) - before.rfind("\n")).fail(f"not YAML: {error.reason}")
    finally:
        loader.dispose()
    return None if node is None else _Converter(source).convert(node, 0)


def load_records(source: Source, what: str) -> tuple[Mapping, ...]:
    """Loads a file that is a list of records.

    Args:
        source: the file.
        what: what a record is, for errors: ``"an operator"``.
    """
    document = load_yaml(source)
    if document is None or (isinstance(document, Scalar) and document.kind == "null"):
        return ()
    if not isinstance(document, Sequence):
        document.location.fail(
            "a contract file is a list of records", f"start each record with `- `; a record describes {what}"
        )
    for item in document.items:
        if not isinstance(item, Mapping):
            item.location.fail(f"a record that describes {what} is a mapping of fields")
    return tuple(item for item in document.items if isinstance(item, Mapping))


def check_fields(record: Mapping, valid: Iterable[str], what: str) -> None:
    """Refuses a key that is not among ``valid``."""
    valid = list(valid)
    for key, _ in record:
        if key.text not in valid:
            near = did_you_mean(key.text, valid) or f" Valid are {', '.join(sorted(valid))}."
            key.location.fail(f"unknown field '{key.text}' of {what}.{near}")


class _Converter:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.seen: set[int] = set()

    def convert(self, node: yaml.Node, depth: int) -> Value:
        location = self.location(node)
        if id(node) in self.seen:
            location.fail("an anchored value is used again", "write the value out; contract files have no anchors")
        self.seen.add(id(node))
        if depth > _MAX_NESTING:
            location.fail(f"nested more than {_MAX_NESTING} levels deep")
        if isinstance(node, yaml.ScalarNode):
            kind = _TAGS.get(node.tag, "str")
            if node.tag not in _TAGS and node.tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"):
                location.fail(f"the tag {node.tag} means nothing in a contract")
            if (control := _CONTROL.search(node.value)) is not None:
                location.fail(f"a value holds the control character U+{ord(control.group()):04X}")
            return Scalar(node.value, kind, location, node.end_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return Sequence(tuple(self.convert(item, depth + 1) for item in node.value), location)
        assert isinstance(node, yaml.MappingNode)
        return self.mapping(node, location, depth)

    def mapping(self, node: yaml.MappingNode, location: Location, depth: int) -> Mapping:
        entries: list[tuple[Scalar, Value]] = []
        first: dict[str, Scalar] = {}
        for key_node, value_node in node.value:
            key = self.convert(key_node, depth + 1)
            if not isinstance(key, Scalar):
                key.location.fail("a key is a word")
            if key.text in first:
                key.location.fail(f"duplicate key '{key.text}'; the first is on line {first[key.text].location.line}")
            first[key.text] = key
            entries.append((key, self.convert(value_node, depth + 1)))
        return Mapping(tuple(entries), location)

    def location(self, node: yaml.Node) -> Location:
        return Location(self.source, node.start_mark.line + 1, node.start_mark.column + 1)


def _window(text: str, column: int) -> tuple[str, int]:
    if len(text) <= _MAX_SHOWN:
        return text, column
    start = max(0, min(column - _MAX_SHOWN // 2, len(text) - _MAX_SHOWN))
    cut = text[start : start + _MAX_SHOWN]
    return (f"…{cut}", column - start + 1) if start else (f"{cut}…", column)


def _fail_yaml(source: Source, error: yaml.MarkedYAMLError) -> NoReturn:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "cannot be parsed"
    location = Location(source, mark.line + 1, mark.column + 1) if mark is not None else Location(source, 1, 1)
    quoting = (
        "mapping values are not allowed" in problem or "expected <block end>" in problem or "start any token" in problem
    )
    if "did not find expected" in problem:  # behind `key: [a] + b`, where a list ended too early
        quoting = re.search(r":\s+[\[{]", source.line(location.line)) is not None
    location.fail(
        f"not YAML: {problem}", 'put a value that has `: `, ` #` or a leading bracket into "quotes"' if quoting else ""
    )


def _place(scalar: Scalar, offset: int) -> Location:
    """Finds a character of a scalar in its file, by walking both texts over what is not blank.

    YAML folds lines and drops quotes, but it keeps the order of all other characters, escapes apart; where an escape
    makes the two texts differ, the place found last is near enough.
    """
    location = scalar.location
    source = location.source
    line, column = location.line, location.column - 1
    if line == scalar.end_line and source.line(line).startswith(scalar.text, column):
        return Location(source, line, column + offset + 1)  # written as it is, in one line
    if source.line(line)[column : column + 1] in ("|", ">"):
        line, column = line + 1, 0  # a block scalar starts on the next line
    found = Location(source, line, column + 1)
    for index, character in enumerate(scalar.text[: offset + 1]):
        if character.isspace() and index < offset:
            continue
        while line <= scalar.end_line:
            text = source.line(line)
            hit = column if character.isspace() and column < len(text) else text.find(character, column)
            if hit >= 0:
                found, column = Location(source, line, hit + 1), hit + 1
                break
            if character.isspace():
                return Location(source, line, len(text) + 1)
            line, column = line + 1, 0
        else:
            return found
    if offset >= len(scalar.text) and scalar.text:
        return Location(source, found.line, found.column + 1)
    return found
