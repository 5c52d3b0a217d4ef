"""The pages of the operators: what they say is so, their examples run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import functools
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import DOCS_HEADER, CodegenContext
from tensorplay_core.codegen.contract import AUTOCAST_POLICIES, PROMOTIONS, NativeFunction
from tensorplay_core.codegen.targets import documentation
from tensorplay_core.codegen.targets.documentation import anchor, is_public
from tensorplay_core.errors import ContractError
from tensorplay_core.ops.shapes import RULES

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture(scope="session")
def pages(ours: CodegenContext) -> dict[str, str]:
    return dict(documentation.generate(ours))


@functools.cache
def sections(text: str) -> dict[str, str]:
    """The sections of a page, by heading."""
    parts = re.split(r"^## (.*)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def row(section: str, label: str) -> str | None:
    found = re.search(rf"^\| {label} \| (.*) \|$", section, re.M)
    return found and found[1].replace("\\|", "|")


# -------------------------------------------------------------------------------------------------------- our own pages


def test_every_public_operator_has_a_section_with_an_example_of_its_own(
    ours: CodegenContext, pages: dict[str, str]
) -> None:
    seen: dict[str, str] = {}
    for function in ours.contract.functions:
        page = sections(pages[f"{function.family}.md"])
        if not is_public(function):
            assert function.base_name not in page and f"`{function.schema}`" in page["Internal operators"]
            continue
        section = page[function.base_name]
        assert row(section, "schema") == f"`{function.schema}`"
        assert function.example, f"{function.base_name} has no example"
        assert f"```pycon\n{function.example}\n```" in section
        assert function.name in function.example or any(a in function.example for a in "-@<>=!*"), "of another operator"
        assert seen.setdefault(function.example, function.base_name) == function.base_name


def test_the_table_lists_them_all_and_links_to_their_sections(ours: CodegenContext, pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| \[`(.+?)`\]\((.+?)\.md#(.+?)\) \| (.+) \| (\w+) \|$", pages["index.md"], re.M)
    public = [f for f in ours.contract.functions if is_public(f)]
    assert [name for name, *_ in rows] == sorted(f.base_name for f in public)
    for name, page, where, what, family in rows:
        assert page == family and where in map(anchor, sections(pages[f"{page}.md"])) and anchor(name) == where
        assert what and not what.endswith(".")


def test_the_examples_show_what_python_shows(ours: CodegenContext) -> None:
    """In a process with everything else; tests/roads runs each page in one of its own."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for function in ours.contract.functions:
        test = doctest.DocTestParser().get_doctest(function.example, {"tp": tp}, function.base_name, None, None)
        report: list[str] = []
        result = runner.run(test, out=report.append)
        assert result.failed == 0, "".join(report)
        assert result.attempted > 0 or not is_public(function)


def test_what_pages_call_exists(ours: CodegenContext, pages: dict[str, str]) -> None:
    found = 0
    for text in pages.values():
        for heading, section in sections(text).items():
            forms = [row(section, "call") or "", *(row(section, "also") or "").split("<br>")]
            for form in filter(None, forms):
                name = form.strip("`").partition("(")[0]
                name = name.replace("x.", "tp.Tensor.", 1) if name.startswith("x.") else name
                assert callable(attrgetter(name.removeprefix("tp."))(tp)), f"{heading}: {form}"
                found += 1
    assert found > len(ours.contract.functions)


def test_links_lead_to_sections(pages: dict[str, str]) -> None:
    links = 0
    for name, text in pages.items():
        for page, where in re.findall(r"\]\(([\w.]*)#([^)]+)\)", text):
            links += 1
            assert where in map(anchor, sections(pages[page or name])), f"{name}: {page}#{where}"
    assert links > len(pages)


def test_gradients(pages: dict[str, str]) -> None:
    pointwise, view = sections(pages["pointwise.md"]), sections(pages["view.md"])
    assert row(pointwise["mul"], "gradient") == "`self`: `grad * other.conj()`<br>`other`: `grad * self.conj()`"
    assert "`condition`: declared not differentiable" in (row(pointwise["where"], "gradient") or "")
    assert row(pointwise["eq"], "gradient") == "none: the result is declared not differentiable"
    assert row(sections(pages["creation.md"])["zeros"], "gradient") == "none: no input is a tensor"
    assert row(sections(pages["nn.md"])["linear"], "gradient") == "that of the operators that it is made of"
    assert (row(sections(pages["activation.md"])["silu"], "gradient") or "").endswith("found from the formula")
    assert row(view["reshape"], "gradient") == "`self`: `grad.reshape(self.shape)`"


def test_rules_in_words(ours: CodegenContext, pages: dict[str, str]) -> None:
    assert set(documentation.DTYPES) == set(PROMOTIONS)
    assert {*documentation.AUTOCAST, "none"} == set(AUTOCAST_POLICIES)
    for function in filter(is_public, ours.contract.functions):
        section = sections(pages[f"{function.family}.md"])[function.base_name]
        assert row(section, "dtype")
        if function.shape is not None:
            said = (RULES[function.shape].__doc__ or "").partition("\n\n")[0].rstrip(".").replace("``", "`")
            said = " ".join(said.split())
            assert row(section, "shape") == f"`{function.shape}`: {said[0].lower()}{said[1:]}"
        assert (row(section, "autocast") is None) is (function.autocast == "none")
        assert (row(section, "formula") is None) is (function.math is None)
    assert row(sections(pages["pointwise.md"])["add"], "kernels") == "CPU, CUDA; Composite elsewhere"
    assert row(sections(pages["activation.md"])["silu"], "kernels") == "made from the formula on every backend"


def test_forms(pages: dict[str, str]) -> None:
    pointwise = sections(pages["pointwise.md"])
    assert row(pointwise["sub"], "call") == "`tp.sub(input, other, *, alpha=1, out=None) -> Tensor`"
    assert row(pointwise["sub"], "also") == (
        "`x.sub(other, *, alpha=1)`<br>`x.sub_(other, *, alpha=1)`<br>`tp.subtract(…)`"
    )
    creation = sections(pages["creation.md"])
    assert row(creation["fill_"], "call") == "`x.fill_(value)`"
    assert row(creation["arange"], "call") == (
        "`tp.arange(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False) -> Tensor`"
    ), "as it is written by hand"


def test_the_committed_pages_are_these_and_the_documents_link_them(pages: dict[str, str]) -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "operators").glob("*.md")}
    assert on_disk == pages
    for document in (DOCS / "index.md", DOCS.parent / "README.md"):
        assert "operators/index.md" in document.read_text(encoding="utf-8")


def test_docstrings_carry_the_example() -> None:
    assert "Example:\n        >>> import tensorplay as tp\n        >>> tp.mean(" in (tp.mean.__doc__ or "")
    overloaded = tp.max.__doc__ or ""
    assert overloaded.count("import tensorplay") == 1 and "dim=1)" in overloaded and "tensor(5)" in overloaded


# -------------------------------------------------------------------------------------------------- contracts of others


RECORDS = """\
- func: f(Tensor self, str how="a|b") -> Tensor
  doc: "Does ``this``, unlike :func:`g.x` and :func:`exp`. And more."
- func: g.x(Tensor self) -> Tensor
  math: self * 2
  example: |
    >>> tp.g(tp.ones(1))
    tensor([2.])
- func: _h(Tensor self) -> Tensor
  doc: Internal | so to speak.
"""


def test_a_page_of_few_lines(small: Callable[..., CodegenContext]) -> None:
    made = dict(documentation.generate(small(RECORDS, "- name: g.x\n  self: grad * 2\n")))
    assert set(made) == {"index.md", "small.md"}
    assert all(text.startswith(DOCS_HEADER) for text in made.values())
    page = sections(made["small.md"])
    assert list(page) == ["f", "g.x", "Internal operators"]
    assert page["f"].startswith("\nDoes `this`, unlike [`g.x`](#gx) and `exp`. And more.\n")
    assert "| [`f`](small.md#f) | Does `this`, unlike [`g.x`](small.md#gx) and `exp` | small |" in made["index.md"]
    assert row(page["f"], "gradient") == "none is declared: the backward pass raises"
    assert row(page["f"], "schema") == '`f(Tensor self, str how="a|b") -> Tensor`'
    assert 'how="a\\|b"' in page["f"], "a bar would end the cell"
    assert row(page["f"], "kernels") == "none is promised" and row(page["f"], "shape") is None
    assert row(page["g.x"], "gradient") == "`self`: `grad * 2`"
    assert "Internal \\| so to speak." in page["Internal operators"]


def test_a_page_without_examples_imports_nothing(small: Callable[..., CodegenContext]) -> None:
    made = dict(documentation.generate(small("- func: f(Tensor self) -> Tensor\n")))
    assert "pycon" not in made["small.md"] and "No description." in made["small.md"]


def test_an_example_that_is_none_is_refused(small: Callable[..., CodegenContext]) -> None:
    for text in ("example: tp.f(x)", "example: |\n    Well:\n    >>> 1"):
        with pytest.raises(ContractError, match=r"small.yaml:2: an example starts with `>>> `(.|\n)*fix: "):
            small(f"- func: f(Tensor self) -> Tensor\n  {text}\n")


def test_what_is_public() -> None:
    from tensorplay_core.types.schema import parse_schema

    function = NativeFunction(parse_schema("f(Tensor self) -> Tensor"))
    assert is_public(function)
    assert not is_public(NativeFunction(function.schema, tags=("backward",)))
