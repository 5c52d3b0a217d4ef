"""Every snippet of the documents runs: sessions, commands with their output, and files that are shown in part or whole.

A snippet is a fenced block. Its language says what is done with it; an HTML comment above it says what its text alone
cannot, such as the file that it is. A block that nothing here knows fails the test, so none goes unread. Set
``TENSORPLAY_UPDATE_DOCUMENTS=1`` to write the output of commands into the documents.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
SOURCES = [
    "src",
    "tensorplay_core/src",
    "tensorplay_composite/src",
    "tensorplay_cpu/src",
    "backends/tensorplay_loopback/src",
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
USER = """import tensorplay as tp

def three_ways(x: tp.Tensor) -> tp.Tensor:
    return tp.quick_gelu(x) + x.quick_gelu() + x.clone().quick_gelu_()
"""
PICTURES = ("text", "mermaid")
BLOCK = re.compile(r"(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```\n", re.S)


class Snippet(NamedTuple):
    note: str
    language: str
    text: str
    line: int


def snippets(document: str) -> list[Snippet]:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(BLOCK.findall(text)), "a fence without a language, or one that is not closed"
    return [
        Snippet(m["note"] or "", m["language"], m["text"], text.count("\n", 0, m.start()) + 1)
        for m in BLOCK.finditer(text)
    ]


def run_sessions(parts: list[Snippet], folder: Path, env: dict[str, str] | None = None) -> str:
    """Runs interactive sessions one after the other, in one process of their own; returns what failed."""
    if not parts:
        return ""
    (folder / "session.txt").write_text("\n".join(part.text for part in parts), encoding="utf-8")
    code = f"import doctest, sys; sys.exit(bool(doctest.testfile('session.txt', False, optionflags={FLAGS}).failed))"
    return execute(f'{sys.executable} -c "{code}"', folder, env)


def commands(text: str) -> list[tuple[str, str]]:
    """Splits a console block into commands and what each prints."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)
    return [(command.partition("  #")[0].rstrip(), output) for command, output in found]


def execute(command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    environment = {**os.environ, "COLUMNS": "80", **(env or {})}
    environment["PATH"] = str(Path(sys.executable).parent) + os.pathsep + environment["PATH"]
    done = subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout


def said(output: str) -> str:
    """Returns what an output says: not its numbers, nor where its lines are folded, nor what depends on a GPU."""
    paragraphs = [p for p in output.split("\n\n") if not p.startswith("cuda ")]
    return " ".join(re.sub(r"\d+(\.\d+)?", "0", "\n\n".join(paragraphs)).split())


def written(document: str, part: Snippet, tmp_path: Path, env: dict[str, str] | None = None) -> None:
    """Puts the output of a document's commands into it."""
    text = ""
    for command, _ in commands(part.text):
        output = execute(command, tmp_path, env).rstrip()
        assert "Traceback" not in output, output
        text += f"$ {command}\n{output}\n"
    path = ROOT / document
    path.write_text(path.read_text(encoding="utf-8").replace(part.text, text), encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_snippet_is_of_a_kind_that_is_tested(document: str) -> None:
    for part in snippets(document):
        known = (
            "not run: ",
            "example: ",
            "file: ",
            "part of: ",
            "new file: ",
            "append to: ",
            "after ",
            "in the new folder",
        )
        assert part.note.startswith(known) or part.language in ("pycon", "console", *PICTURES), part


@pytest.mark.parametrize("document", DOCUMENTS)
def test_sessions(document: str, tmp_path: Path) -> None:
    assert run_sessions([p for p in snippets(document) if p.language == "pycon" and not p.note], tmp_path) == ""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands(document: str, tmp_path: Path) -> None:
    for part in snippets(document):
        if part.language == "console" and not part.note:
            if os.environ.get("TENSORPLAY_UPDATE_DOCUMENTS") == "1":
                written(document, part, tmp_path)
                continue
            for command, output in commands(part.text):
                assert said(execute(command, tmp_path)) == said(output), f"{document}: $ {command}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_are_shown(document: str) -> None:
    for part in snippets(document):
        kind, _, name = part.note.partition(": ")
        if kind == "file":
            assert part.text == (ROOT / name).read_text(encoding="utf-8"), f"{document} shows another {name}"
        elif kind == "part of":
            assert part.text in (ROOT / name).read_text(encoding="utf-8"), f"{document} shows another {name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", (ROOT / document).read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / document).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_an_operator_in_a_record_and_a_line(document: str, tmp_path: Path) -> None:
    """The edits that a document shows, made in a copy of the tree, give the operator that it promises."""
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    env = {"PYTHONPATH": os.pathsep.join(str(tmp_path / folder) for folder in SOURCES)}
    edits = 0
    for part in snippets(document):
        kind, _, name = part.note.partition(": ")
        if kind == "append to":
            with (tmp_path / name).open("a", encoding="utf-8") as file:
                file.write("\n" + part.text)
            edits += 1
        elif part.note.startswith("after `"):
            _, line, place = part.note.split("`")
            path, anchor = tmp_path / place.removeprefix(" in: "), line + "\n"
            text = path.read_text(encoding="utf-8")
            assert text.count(anchor) == 1
            path.write_text(text.replace(anchor, anchor + part.text), encoding="utf-8")
            edits += 1
    assert edits == (1 if document == "README.md" else 3)
    for part in snippets(document):
        if part.note == "after the edits" and part.language == "console":
            for command, output in commands(part.text):
                assert said(execute(command, tmp_path, env)) == said(output)
        elif part.note == "after the edits":
            assert run_sessions([part], tmp_path, env) == ""
    assert "nothing to do" in execute("tensorplay codegen --check", tmp_path, env)
    if document == "README.md":
        (tmp_path / "user.py").write_text(USER, encoding="utf-8")
        env["MYPYPATH"] = env["PYTHONPATH"]
        checked = execute("mypy --strict --follow-imports=silent --config-file= user.py", tmp_path, env)
        assert "Success: no issues found" in checked, checked
        shown = execute("python -c 'import tensorplay as tp; help(tp.quick_gelu)'", tmp_path, env)
        assert "``x * sigmoid(1.702 * x)``" in shown, shown


def test_write_a_backend(tmp_path: Path) -> None:
    """The files of the page, with the metadata that installing would make, are a backend that does what it says."""
    document = "docs/write-a-backend.md"
    for part in snippets(document):
        kind, _, name = part.note.partition(": ")
        if kind == "new file":
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(part.text, encoding="utf-8")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = tmp_path / "site" / "tensorplay_toy-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(tmp_path / "site")])}
    for part in snippets(document):
        if part.note == "in the new folder" and part.language == "pycon":
            assert run_sessions([part], tmp_path, env) == ""
        elif part.note == "in the new folder":
            if os.environ.get("TENSORPLAY_UPDATE_DOCUMENTS") == "1":
                written(document, part, tmp_path, env)
                continue
            for command, output in commands(part.text):
                assert said(execute(command, tmp_path, env)) == said(output)
