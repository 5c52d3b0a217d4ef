"""Whatever becomes of a contract file in an editor, the generator gives a clean error or files that compile.

Real files with lines cut, swapped, repeated and filled with what YAML has to offer, real formulas with tokens out of
place, and files that were made to hurt, go from bytes on disk to files on disk. ``TENSORPLAY_FUZZ=100`` in the
environment runs a hundred times as many.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorplay_core import codegen, errors

fuzz = settings.get_profile("fuzz")
Outcome = Callable[[str | bytes, str | bytes], str | None]
SECONDS = 5.0
CODEGEN = Path(codegen.__file__).parent
CONFIG = Path(errors.__file__).parent / "config"


def _records(prefix: str) -> list[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(CONFIG.glob(f"{prefix}*.yaml")))
    return [f"- {record.rstrip()}\n" for record in re.split(r"(?m)^- ", text)[1:]]


FUNCTIONS = _records("native_functions")
DERIVATIVES = {re.sub(r"[^.\w].*", "", record[8:], flags=re.S): record for record in _records("derivatives")}
YAML = (
    *(
        "\t",
        "&a ",
        "*a",
        "<<: *a",
        "---",
        "...",
        "? ",
        ": ",
        "- ",
        "|",
        ">-",
        "#",
        "%YAML 1.2",
        "!!binary ",
        "!x ",
        "''",
    ),
    *(
        "[",
        "]",
        "{",
        "}",
        ",",
        '"',
        "'",
        "\\",
        "\r\n",
        "\r",
        "\x00",
        "\ufeff",
        "\x85",
        "\u2028",
        "\U0001f600",
        "é",
        "²",
    ),
    *(
        "null",
        "~",
        "true",
        "1e3",
        "0x1f",
        "2026-01-01",
        "=",
        "x" * 3000,
        "[" * 60,
        "- " * 40,
        "a: " * 3,
        "(" * 100,
        " " * 99,
    ),
)
SHORT = (
    "- func: f(Tensor self, *, int n=1) -> Tensor\n  inplace: true\n  dispatch: {CPU, CUDA: g}\n",
    "- {func: 'f(Tensor x) -> Tensor', tags: [a, b], aliases: []}\n",
    "- func: >\n    f(Tensor self,\n    Tensor? other=None) -> (Tensor a, Tensor b)\n  doc: |\n    One.\n\n    Two.\n",
)


def mutated(random: Random) -> tuple[bytes, bytes]:
    """Returns both files, one of them changed: what is written, and where, is up to chance."""
    start = random.randrange(len(FUNCTIONS))
    chosen = FUNCTIONS[start : start + random.randint(1, 4)] if random.random() < 0.7 else [random.choice(SHORT)]
    names = [re.match(r"- func: ([.\w]+)", record) for record in chosen]
    files = ["".join(chosen), "".join(DERIVATIVES.get(m[1], "") for m in names if m)]
    which = random.randrange(2) if files[1] else 0
    text = files[which]
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        text = _mutation(random, text)
    data = [file.encode("utf-8", "surrogatepass") for file in (text if i == which else f for i, f in enumerate(files))]
    if random.random() < 0.1:
        at = random.randint(0, len(data[which]))
        data[which] = data[which][:at] + random.randbytes(random.randint(1, 4)) + data[which][at:]
    return data[0], data[1]


def _mutation(random: Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    i, j = random.randrange(len(lines)), random.randrange(len(lines))
    at = random.randint(0, len(text))
    match random.randrange(9):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case 3:
            lines[i] = " " * random.randint(0, 6) + lines[i].lstrip(" ")
        case 4:
            return text[:at] + text[at + random.randint(1, 12) :]
        case 5:
            return text[:at]
        case 6:
            return re.sub(r"\n", "\r\n", text)
        case 7:
            words = list(re.finditer(r"\w+", text)) or [re.match("", text)]
            word, other = random.choice(words), random.choice(words)
            return text[: word.start()] + other.group() + text[word.end() :]
        case _:
            return text[:at] + random.choice(YAML) + text[at:]
    return "".join(lines)


TOKENS = (
    *(
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        ":",
        "=",
        "+",
        "-",
        "*",
        "/",
        "**",
        "@",
        "<",
        "==",
        "if",
        "else",
        "and",
        "not",
        "is",
    ),
    *(
        "None",
        "grad",
        "self",
        "result",
        "grads[0]",
        "needs[self]",
        "0",
        "1e308",
        "9" * 39,
        "0.1e-320",
        '"',
        "'a'",
        "lambda",
    ),
    *("(" * 60, "-" * 60, "not " * 60, "[" * 30 + "]" * 30, "+ x" * 200, ".conj()" * 120, "x[" * 55, "inf", "é", "&&"),
)


def mutated_formula(random: Random) -> tuple[str, str]:
    """Returns the records of one operator, with a formula of which tokens are cut, repeated, swapped and added."""
    name = random.choice(sorted(DERIVATIVES))
    record = next((f for f in FUNCTIONS if re.match(rf"- func: {re.escape(name)}\b[(.]", f)), FUNCTIONS[0])
    lines = DERIVATIVES[name].splitlines()
    at = random.choice([i for i, line in enumerate(lines) if i and "differentiab" not in line] or [0])
    if math := random.random() < 0.4:
        record = random.choice([f for f in FUNCTIONS if "\n  math: " in f])
        lines = record.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("  math: "))
    key, _, formula = lines[at].partition(": ")
    tokens = re.findall(r"\w+|\*\*|\S|\s", formula.strip("\"'"))
    for _ in range(random.choice((1, 1, 2, 3))):
        i, j = random.randrange(len(tokens) + 1), random.randrange(len(tokens) + 1)
        match random.randrange(4):
            case 0:
                del tokens[min(i, j) : min(i, j) + 2]
            case 1:
                tokens[i:i] = tokens[min(i, j) : max(i, j)] * random.choice((1, 1, 2, 30))
            case 2 if i != j and max(i, j) < len(tokens):
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case _:
                tokens.insert(i, random.choice(TOKENS))
    lines[at] = f"{key}: {json.dumps(''.join(tokens))}"
    return ("\n".join(lines), "") if math else (record, "\n".join(lines))


@fuzz
@given(st.randoms(note_method_calls=False))
def test_real_files_with_changes(outcome: Outcome, random: Random) -> None:
    outcome(*mutated(random))


@fuzz
@given(st.randoms(note_method_calls=False))
def test_real_formulas_with_changes(outcome: Outcome, random: Random) -> None:
    outcome(*mutated_formula(random))


HOSTILE = {
    "billion laughs": "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60)),
    "brackets": "[" * 100_000,
    "flow mappings": "{a: " * 50_000,
    "block sequences": "- " * 50_000,
    "quotes": '- func: "' + "\\" * 99_999,
    "one line": f"- func: f({'x' * 1_000_000}",
    "arguments": f"- func: f({', '.join(f'Tensor x{i}' for i in range(5_000))}) -> Tensor",
    "duplicate keys": "- func: f(Tensor x) -> Tensor\n" + "  doc: x\n" * 20_000,
    "documents": "---\n" * 20_000,
    "merges": "- &a {func: f(Tensor x) -> Tensor}\n" + "- <<: *a\n" * 5_000,
    "default": f"- func: f(int[] x={'[' * 5_000}) -> Tensor",
    "suffixes": f"- func: f(int{'[]' * 5_000} x) -> Tensor",
    "tags": "- func: f(Tensor x) -> Tensor\n  tags: [" + ", ".join(f"t{i}" for i in range(20_000)) + "]",
    "commas": "- func: f(Tensor x) -> Tensor\n  variants: " + "," * 50_000,
    "records": "".join(f"- func: f{i}(Tenso x) -> Tensor\n" for i in range(3_000)),
    "math": f"- func: f(Tensor x) -> Tensor\n  math: {'(' * 9_000}",
    "sum": f"- func: f(Tensor x) -> Tensor\n  math: {'x + ' * 2_000}x",
    "half a character": '- func: f(Tensor x) -> Tensor\n  doc: "\\ud83d"',
    "half a character in a formula": "- func: f(Tensor x) -> Tensor\n  math: \"x + '\\ud83d'\"",
    "half a character in a kernel": '- func: f(Tensor x) -> Tensor\n  dispatch: {CPU: "\\udc00"}',
    "control characters": '- func: f(Tensor x) -> Tensor\n  doc: "\\0\\x07\\e\\u2028\\u0085 \\"\\"\\" \\\\"',
    "blocks": "- func: |\n" + "    f(\n" * 20_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("which", [0, 1])
def test_hostile_files_are_answered_soon(outcome: Outcome, text: str, which: int) -> None:
    start = time.process_time()
    files = ["- func: f(Tensor x) -> Tensor", ""]
    files[which] = text
    outcome(files[0], files[1])
    assert time.process_time() - start < SECONDS


def test_nothing_of_the_generator_evaluates_text() -> None:
    """Formulas and defaults are parsed; what is made of them is compiled to see that it can be, and never run here."""
    for path in sorted(CODEGEN.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            assert name not in ("eval", "exec", "literal_eval", "__builtins__", "unsafe_load"), (
                f"{path.name}:{node.lineno}"
            )
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "compile":
                assert path.name == "generate.py", f"{path.name}:{node.lineno}"
