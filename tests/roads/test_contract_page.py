"""The page about the contract: every field is explained and shown, and every example there is a contract that loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tensorplay_core.codegen import contract_derivatives, contract_functions
from tensorplay_core.codegen.context import TENSOR_MEMBERS, CodegenContext
from tensorplay_core.codegen.contract import Contract, Source, load_contract
from tensorplay_core.codegen.contract_model import AUTOCAST_POLICIES, COMPOSITE_KINDS, PROMOTIONS, VARIANTS
from tensorplay_core.types.schema import BaseType

PAGE = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")


class Example(NamedTuple):
    file: str
    text: str
    line: int


EXAMPLES = [
    Example(m["file"], m["text"], PAGE.count("\n", 0, m.start()) + 2)
    for m in re.finditer(r"<!-- example: (?P<file>\S+) -->\n```yaml\n(?P<text>.*?)```\n", PAGE, re.S)
]
BLOCKS = [m[1] for m in re.finditer(r"```yaml\n(.*?)```\n", PAGE, re.S)]


def rows(heading: str) -> dict[str, str]:
    """The rows of the first table below a heading, by the text of their first cell."""
    section = PAGE[PAGE.index(f"\n{heading}\n") :]
    table = re.search(r"(?m)^\|.*\n\|[-|]+\n((?:\|.*\n)+)", section)
    assert table is not None
    return {line.split("|")[1].strip(): line for line in table[1].splitlines()}


@pytest.mark.parametrize("field", contract_functions.FIELDS)
def test_every_field_of_an_operator_is_explained_and_shown(field: str) -> None:
    assert f"`{field}`" in rows("## An operator's record")
    assert any(re.search(rf"(?m)^(- |  ){field}:", block) for block in BLOCKS), "no example has it"


@pytest.mark.parametrize("field", contract_derivatives.FIELDS)
def test_every_field_of_a_derivative_is_explained_and_shown(field: str) -> None:
    assert f"`{field}`" in rows("## A derivative's record")
    assert any(re.search(rf"(?m)^(- |  ){field}:", block) for block in BLOCKS), "no example has it"


def test_the_page_lists_what_there_is_to_choose_from() -> None:
    fields = rows("## An operator's record")
    for field, valid in (("variants", VARIANTS), ("autocast", AUTOCAST_POLICIES), ("composite", COMPOSITE_KINDS)):
        assert all(f"`{word}`" in fields[f"`{field}`"] for word in valid), field
    promote = PAGE[PAGE.index("| `promote` | computes in") :]
    assert all(f"| `{rule}` |" in promote for rule in PROMOTIONS)
    assert all(f"`{field}`" in PAGE for field in contract_functions.IGNORED_FIELDS)
    assert all(f"`{base}`" in PAGE for base in BaseType)


def test_there_are_examples_of_both_kinds_of_file() -> None:
    assert {example.file for example in EXAMPLES} == {"native_functions.yaml", "derivatives.yaml"}
    assert len(EXAMPLES) >= 9


@pytest.fixture(scope="module")
def ours() -> CodegenContext:
    return CodegenContext.load()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line {example.line}")
def test_every_example_loads(ours: CodegenContext, example: Example) -> None:
    """Beside our own contract; a derivative with the operators that the page shows just before it."""
    sources = [Source(example.file, example.text)]
    if example.file.startswith("derivatives"):
        before = [e for e in EXAMPLES if e.line < example.line and e.file.startswith("native")][-1]
        sources.insert(0, Source(before.file, before.text))
    own = set(re.findall(r"func: (\w+)", sources[0].text))
    known = Contract(tuple(f for f in ours.contract.functions if f.name not in own), ours.contract.derivatives)
    contract = load_contract(sources, helpers=ours.helpers, members=TENSOR_MEMBERS, known=known)
    written = example.text.count("\n- ") + 1
    assert len(contract.derivatives if example.file.startswith("derivatives") else contract.functions) == written
