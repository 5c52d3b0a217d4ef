"""YAML with places: every value knows its line and column, and what the contract does not use is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplay_core.codegen.yaml_loader import (
    Location,
    Mapping,
    Scalar,
    Sequence,
    Source,
    check_fields,
    load_records,
    load_yaml,
)
from tensorplay_core.errors import ContractError


def load(text: str) -> Mapping:
    value = load_yaml(Source("f.yaml", text))
    assert isinstance(value, Mapping)
    return value


def error(text: str) -> str:
    with pytest.raises(ContractError) as caught:
        load_records(Source("f.yaml", text), "a test")
    return str(caught.value)


def test_values_keep_their_text_kind_and_place() -> None:
    value = load("a: 1.50\nb: [x, 'no', null]\nc: {d: yes}\n")
    a, b, c = (item for _, item in value)
    assert isinstance(a, Scalar) and (a.text, a.kind, a.location.line, a.location.column) == ("1.50", "float", 1, 4)
    assert isinstance(b, Sequence)
    assert [(item.text, item.kind, item.location.column) for item in b.items if isinstance(item, Scalar)] == [
        ("x", "str", 5),
        ("no", "str", 8),
        ("null", "null", 14),
    ]
    assert isinstance(c, Mapping)
    flag = c.get("d")
    assert isinstance(flag, Scalar) and flag.truth is True
    assert [key.location.line for key, _ in value] == [1, 2, 3]
    assert value.get("z") is None and value.key("c") is not None


@pytest.mark.parametrize(
    ("text", "truth"), [("true", True), ("No", False), ("on", True), ("1", None), ("'true'", None)]
)
def test_truth(text: str, truth: bool | None) -> None:
    value = load(f"a: {text}").get("a")
    assert isinstance(value, Scalar) and value.truth is truth


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: self * foo", 1, 11),
        ('a: "self * foo"', 1, 12),
        ("a: 'it''s * foo'", 1, 13),
        ("a: self *\n  foo", 2, 3),
        ("a: >\n  self *\n\n    foo\n", 4, 5),
        ("a: |\n  self *\n  foo\n", 3, 3),
        ('a:\n  "self\n   * foo"', 3, 6),
    ],
)
def test_the_place_inside_a_value(text: str, line: int, column: int) -> None:
    value = load(text).get("a")
    assert isinstance(value, Scalar)
    place = value.at(value.text.index("foo"))
    assert (place.line, place.column) == (line, column)


def test_the_end_of_a_value_is_behind_its_last_character() -> None:
    value = load("a: self * foo").get("a")
    assert isinstance(value, Scalar)
    assert value.at(len(value.text)).column == 14


def test_a_long_line_is_shown_around_the_caret() -> None:
    source = Source("f.yaml", "x" * 500 + "!" + "y" * 500)
    shown = Location(source, 1, 501).describe("bad").splitlines()
    assert len(shown[1]) < 260
    assert shown[1][shown[2].index("^")] == "!"


ERRORS = {
    "- a: b\n  a: c": "f.yaml:2: duplicate key 'a'; the first is on line 1\n  2 |   a: c\n    |   ^",
    "- a: b: c": (
        "f.yaml:1: not YAML: mapping values are not allowed in this context\n  1 | - a: b: c\n    |       ^\n"
        'fix: put a value that has `: `, ` #` or a leading bracket into "quotes"'
    ),
    "- a: [b] + c": (
        "f.yaml:1: not YAML: did not find expected key\n  1 | - a: [b] + c\n    |          ^\n"
        'fix: put a value that has `: `, ` #` or a leading bracket into "quotes"'
    ),
    "- a: b\n c: d": "f.yaml:2: not YAML: did not find expected '-' indicator\n  2 |  c: d\n    |  ^",
    "- a: &x b\n  c: *x": (
        "f.yaml:1: an anchored value is used again\n  1 | - a: &x b\n    |      ^\n"
        "fix: write the value out; contract files have no anchors"
    ),
    "- a: *x": "f.yaml:1: not YAML: found undefined alias\n  1 | - a: *x\n    |      ^",
    "- [a]: b": "f.yaml:1: a key is a word\n  1 | - [a]: b\n    |   ^",
    "- !!python/object:os.system x": (
        "f.yaml:1: the tag tag:yaml.org,2002:python/object:os.system means nothing in a contract\n"
        "  1 | - !!python/object:os.system x\n    |   ^"
    ),
    "a: b": (
        "f.yaml:1: a contract file is a list of records\n  1 | a: b\n    | ^\n"
        "fix: start each record with `- `; a record describes a test"
    ),
    "- a": "f.yaml:1: a record that describes a test is a mapping of fields\n  1 | - a\n    |   ^",
    "- a: 1\n---\n- b: 2": "f.yaml:2: not YAML: but found another document\n  2 | ---\n    | ^",
    "- a: 'b": "f.yaml:1: not YAML: found unexpected end of stream\n  1 | - a: 'b\n    |        ^",
    '- a: "b\\0c"': 'f.yaml:1: a value holds the control character U+0000\n  1 | - a: "b\\0c"\n    |      ^',
    '- a: "b\\u2028c"': ('f.yaml:1: a value holds the control character U+2028\n  1 | - a: "b\\u2028c"\n    |      ^'),
    "- a: \x07": "f.yaml:1: not YAML: control characters are not allowed\n  1 | - a: \x07\n    |      ^",
    "- " * 30 + "a": "f.yaml:1: nested more than 20 levels deep\n  1 | " + "- " * 30 + "a\n    | " + " " * 42 + "^",
}


@pytest.mark.parametrize("text", ERRORS, ids=repr)
def test_errors_show_file_line_and_caret(text: str) -> None:
    assert error(text) == ERRORS[text]


@pytest.mark.parametrize("text", ["", "# nothing\n", "null", "---\n"])
def test_an_empty_file_holds_no_records(text: str) -> None:
    assert load_records(Source("f.yaml", text), "a test") == ()


def test_unknown_fields() -> None:
    with pytest.raises(ContractError) as caught:
        check_fields(load("func: f\ndispach: g"), ["func", "dispatch"], "a test")
    assert str(caught.value) == (
        "f.yaml:2: unknown field 'dispach' of a test. Did you mean 'dispatch'?\n  2 | dispach: g\n    | ^"
    )
    with pytest.raises(ContractError, match=r"unknown field 'zzz' of a test\. Valid are dispatch, func\."):
        check_fields(load("zzz: g"), ["func", "dispatch"], "a test")


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["- a0: &a0 [x, x]"] + [f"  a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    assert "an anchored value is used again" in error("\n".join(lines))


def test_brackets_without_end_are_refused() -> None:
    assert "not YAML" in error("[" * 100_000)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff")
    with pytest.raises(ContractError, match=r"missing\.yaml: cannot be read: No such file"):
        Source.read(missing)
    with pytest.raises(ContractError, match=r"binary\.yaml: not UTF-8 at byte 3"):
        Source.read(binary)


@given(st.text(st.sampled_from("ab- :[]{},'\"#&*!|>%@\n\t²\x00"), max_size=40))
def test_any_text_gives_values_or_a_clean_error(text: str) -> None:
    try:
        load_yaml(Source("f.yaml", text))
    except ContractError as caught:
        assert str(caught).startswith("f.yaml:")
