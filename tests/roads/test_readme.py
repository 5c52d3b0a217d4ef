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
import sysconfig
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


def run_sessions(
    parts: list[Snippet], folder: Path, env: dict[str, str] | None = None, python: str | Path = sys.executable
) -> str:
    """Runs interactive sessions one after the other, in one process of their own; returns what failed."""
    if not parts:
        return ""
    (folder / "session.txt").write_text("\n".join(part.text for part in parts), encoding="utf-8")
    code = f"import doctest, sys; sys.exit(bool(doctest.testfile('session.txt', False, optionflags={FLAGS}).failed))"
    return execute(f'{python} -c "{code}"', folder, env)


def commands(text: str) -> list[tuple[str, str]]:
    """Splits a console block into commands and what each prints."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)
    return [(command.partition("  #")[0].rstrip(), output) for command, output in found]


def execute(command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    environment = {**os.environ, "COLUMNS": "80", **(env or {})}
    if "PATH" not in (env or {}):
        environment["PATH"] = str(Path(sys.executable).parent) + os.pathsep + environment["PATH"]
    done = subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    # What a machine says that is slow just now belongs to no document.
    return re.sub(r"^tensorplay: still loading backend .*\n", "", done.stdout, flags=re.M)


def said(output: str) -> str:
    """Returns what an output says: not its numbers, nor where its lines are folded, nor what depends on a GPU."""
    # What `ops show` says of slots.
    output = re.sub(r"^  (CUDA|Vulkan) \(\d+\): .*\n( {6}.*\n)*", "", output, flags=re.M)
    paragraphs = [p for p in output.split("\n\n") if not p.startswith(("cuda ", "vulkan "))]
    return " ".join(re.sub(r"\d+(\.\d+)?", "0", "\n\n".join(paragraphs)).split())


def written(document: str, part: Snippet, tmp_path: Path, env: dict[str, str] | None = None) -> None:
    """Puts the output of a document's commands into it."""
    text = ""
    for command, _ in commands(part.text):
        output = re.sub(r" +$", "", execute(command, tmp_path, env), flags=re.M).strip("\n")
        assert "Traceback" not in output, output
        text += f"$ {command}\n" + f"{output}\n" * bool(output)
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
            "written: ",
            "instead of `",
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


SHIMS = {
    "tensorplay": 'exec "{python}" -m tensorplay "$@"',
    "pytest": 'exec "{python}" -m pytest "$@"',
    # Of what the page installs, everything but the new backend is there already.
    "pip": 'exec "{uv}" pip "$@" --python "{python}" --no-deps --no-index --offline',
}
"""What the commands of the page are in an environment on top of this one, where nothing is fetched."""


@pytest.fixture
def author(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder, and the environment variables of an author who has TensorPlay and starts a backend there."""
    uv = [sys.executable, "-m", "uv"]
    command = [*uv, "venv", "--quiet", "--no-project", "--offline", "--python", sys.executable, str(tmp_path / "env")]
    subprocess.run(command, check=True, timeout=120)
    ours = Path(sysconfig.get_paths()["purelib"])
    site = tmp_path / "env" / ours.relative_to(sys.prefix)
    (site / "_base.pth").write_text(f"import site; site.addsitedir({str(ours)!r})\n", encoding="utf-8")
    scripts = tmp_path / "env" / "bin"
    beside = Path(sys.executable).parent
    for name, line in SHIMS.items():
        (scripts / name).write_text(
            "#!/bin/sh\n" + line.format(python=scripts / "python", uv=beside / "uv") + "\n", encoding="utf-8"
        )
        (scripts / name).chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    path = os.pathsep.join([str(scripts), str(beside), os.environ["PATH"]])
    return folder, {"PATH": path, "UV_OFFLINE": "1", "VIRTUAL_ENV": str(tmp_path / "env"), "PYTHONPATH": ""}


def edited(part: Snippet, folder: Path) -> None:
    """Puts a snippet in the place of the paragraph that begins with the line its note names."""
    _, line, place = part.note.split("`")
    path = folder / place.removeprefix(" in: ")
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.count(line) == 1, f"{line} in {path}"
    start = lines.index(line)
    lines[start : lines.index("", start)] = part.text.rstrip().split("\n")
    path.write_text("\n".join(lines), encoding="utf-8")


def test_write_a_backend(author: tuple[Path, dict[str, str]]) -> None:
    """The page from its top to its end, as its reader would do it: commands, edits and sessions in one folder."""
    document = "docs/write-a-backend.md"
    folder, env = author
    python = Path(env["VIRTUAL_ENV"]) / "bin" / "python"
    for part in snippets(document):
        if part.note.startswith("written: "):
            name = part.note.removeprefix("written: ")
            assert part.text == (folder / name).read_text(encoding="utf-8"), f"{document} shows another {name}"
        elif part.note.startswith("instead of `"):
            edited(part, folder)
        elif part.note == "in the new folder" and part.language == "pycon":
            assert run_sessions([part], folder, env, python) == ""
        elif part.note == "in the new folder":
            if os.environ.get("TENSORPLAY_UPDATE_DOCUMENTS") == "1":
                written(document, part, folder, env)
                continue
            for command, output in commands(part.text):
                same = re.sub(r"(backends check \w+)", r"\1 --seed 1", command)  # which is what makes a run repeatable
                assert said(execute(same, folder, env)) == said(output), f"{document}: $ {command}"
