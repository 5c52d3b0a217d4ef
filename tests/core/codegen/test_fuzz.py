"""Whatever stands in a contract file, the generator gives a clean error or files that compile.

Records of the whole grammar with formulas of the whole language, and real files of the contract with lines cut,
swapped, repeated and filled with what YAML has to offer, go through everything, from bytes on disk to files on disk. A
clean error is a ContractError with file and line; the folder is then as it was. ``TENSORPLAY_FUZZ=100`` in the
environment runs a hundred times as many.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import symtable
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorplay_core import codegen, errors
from tensorplay_core.codegen.context import TENSOR_MEMBERS, CodegenContext
from tensorplay_core.codegen.contract import Contract, load_contract
from tensorplay_core.codegen.generate import generate
from tensorplay_core.errors import ContractError

F, D = "native_functions_fuzz.yaml", "derivatives_fuzz.yaml"
PLACE = re.compile(rf"(?m)^.*({re.escape(F)}|{re.escape(D)})(:\d+: |: not UTF-8 at byte \d+)")
SECONDS = 5.0
CODEGEN = Path(codegen.__file__).parent
CONFIG = Path(errors.__file__).parent / "config"

fuzz = settings(
    max_examples=max(1, int(40 * float(os.environ.get("TENSORPLAY_FUZZ", "1")))),
    deadline=SECONDS * 1000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
Outcome = Callable[[str | bytes, str | bytes], str | None]


@pytest.fixture
def outcome(ours: CodegenContext, tmp_path: Path) -> Outcome:
    """Runs the generator on two files; returns None, or the error, after making sure that it is a clean one."""
    (tmp_path / "contract").mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "_generated_old.py").write_text("# from an earlier run\n")

    def run(functions: str | bytes, derivatives: str | bytes) -> str | None:
        files = []
        for name, text in ((F, functions), (D, derivatives)):
            files.append(tmp_path / "contract" / name)
            files[-1].write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        try:
            contract = load_contract(files, helpers=HELPERS, members=TENSOR_MEMBERS, known=_known(ours, files[0]))
            context = CodegenContext(contract, {"ops": out, "autocast": out / "autocast", "docs": out / "docs"})
            context.__dict__.update({name: getattr(ours, name) for name in ("helpers", "handwritten")})
            generate(context)
        except ContractError as error:
            message = str(error)
            assert PLACE.search(message), message
            assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before, "a partial file"
            return message
        for path in out.rglob("*.py"):
            assert undefined(path.read_text(encoding="utf-8")) == set(), path.name
        return None

    return run


def undefined(text: str) -> set[str]:
    """The global names that a module's functions read and that it neither defines nor imports."""
    module = symtable.symtable(text, "generated", "exec")
    known = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    found, tables = set(), [module]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if isinstance(table, symtable.Function):
            found |= {name for name in table.get_globals() if table.lookup(name).is_referenced()}
    return found - known - set(dir(builtins))


HELPERS = ("a_helper", "several")


def _known(ours: CodegenContext, path: Path) -> Contract:
    """Our operators, less those that the file declares itself."""
    own = set(re.findall(r"func:\s*['\"]?(\w+)", path.read_text(encoding="utf-8", errors="replace")))
    return Contract(tuple(f for f in ours.contract.functions if f.name not in own))


# records of the whole grammar


WORDS = (
    *("self", "other", "input", "x", "dim", "keepdim", "axis", "out", "size", "alpha", "grad", "result", "tensors"),
    *("from", "lambda", "class", "None", "node", "graph", "record", "save", "call", "Tensor", "F", "H", "n", "t", "n0"),
    *("grad_self", "saved_x", "edge_x", "shared_0", "self_shape", "x_ndim", "len", "tuple", "args", "requires_grad"),
)
NAMES = ("f", "g", "f_", "F", "share", "pick", "class", "__and__", "_f", "max", "f_x", "call", "Tensor", "mul", "zero_")
TYPES = (
    "Tensor",
    "Tensor?",
    "Tensor[]",
    "Tensor?[]",
    "int",
    "int[]",
    "SymInt[2]",
    "int[1]?",
    "Scalar",
    "float",
    "bool",
)
OTHERS = (
    "str",
    "str?",
    "ScalarType?",
    "Device?",
    "Layout",
    "MemoryFormat?",
    "Generator?",
    "Scalar[]",
    "float[]?",
    "bool[3]",
)
RESULTS = ("Tensor", "Tensor", "Tensor", "Tensor[]", "int", "Scalar")
LITERALS = ("1", "0.5", "None", "True", "inf", '"a b"', "()", "[]", "result", "-1")
DEFAULTS = {
    "int": ("1", "-100", "Mean", "9" * 30),
    "int[]": ("[]", "[0,1]", "[-1]"),
    "SymInt[2]": ("1", "[1,2]"),
    "Scalar": ("1", "1.5", "True", "inf", "1e-05"),
    "float": ("0.5", "1e300"),
    "bool": ("True", "False"),
    "str": ("'a'", '"it\'s"', "'\\\\n'", "'\\n'", "'\"'", "'é'"),
    "Scalar[]": ("[]", "[1.5]"),
    "bool[3]": ("True", "[True,False,True]"),
    "Layout": ("strided",),
}
FIELDS = (
    *(
        "variants: function, method",
        "variants: method",
        "inplace: true",
        "out: true",
        "shape: broadcast",
        "shape: same",
    ),
    *("promote: default", "promote: float", "promote: bool", "promote: keep", "composite: explicit", "aliases: [g, h]"),
    *("composite: implicit", "autocast: promote", "autocast: fp32", "tags: [creation]", "tags: [pointwise, core]"),
    *(
        "tags: [nn, view]",
        "python_module: nn",
        "aliases: share",
        "dispatch: {CPU: f, Composite: g}",
        "tags: [backward]",
    ),
)


def signature(random: Random) -> tuple[str, list[str], list[str]]:
    """Returns a signature, the names of its arguments and of its results."""
    names = random.sample(WORDS, random.randint(0, 5))
    if random.random() < 0.7:
        names = ["self", *(name for name in names if name != "self")]
    split = random.randint(0, 9)
    parts: list[str] = []
    defaults = False
    for i, name in enumerate(names):
        parts += ["*"] if i == split else []
        type_ = "Tensor" if name == "self" else random.choice(TYPES if i < 2 else TYPES + OTHERS)
        if defaults and i < split and not (type_.endswith("?") or type_ in DEFAULTS):
            type_ = "int"
        choices = [*DEFAULTS.get(type_, ()), *(["None"] if type_.endswith("?") else [])]
        defaults = i < split and bool(choices) and (defaults or random.random() < 0.3)
        default = f"={random.choice(choices)}" if choices and (defaults or random.random() < 0.3) else ""
        alias = (
            random.choice(("(a)", "(a!)", "(a -> *)")) if type_.startswith("Tensor") and random.random() < 0.1 else ""
        )
        parts.append(f"{type_.replace('Tensor', f'Tensor{alias}')} {name}{default}")
    results = [random.choice(RESULTS) for _ in range(random.choice((1, 1, 1, 1, 0, 2, 3)))]
    outputs = ["result"] if len(results) == 1 else [f"result{i}" for i in range(len(results))]
    if random.random() < 0.3:
        outputs = random.sample(("y", "indices", "values", "from", "node", "x"), len(results))
        results = [f"{type_} {name}" for type_, name in zip(results, outputs, strict=True)]
    returned = results[0] if len(results) == 1 and " " not in results[0] else f"({', '.join(results)})"
    overload = random.choice(("", "", "", ".dim", ".x", ".default", ".from"))
    return f"{random.choice(NAMES)}{overload}({', '.join(parts)}) -> {returned}", names, outputs


def formula(random: Random, names: list[str], depth: int = 0) -> str:
    """Returns a formula of the whole language over some names."""

    def inner() -> str:
        return formula(random, names, depth + 1)

    name = random.choice(names or ["self"])
    if depth > 3 or random.random() < 0.3:
        metadata = (".shape", ".ndim", ".size(0)", ".dtype", ".numel()", ".device", ".stride()", "[0]", " is None")
        asked = [f"{name}{random.choice(metadata)}", f"needs[{name}]", f"len({name})"]
        return random.choice([name, name, "grad", "grad", "grads[0]", *asked, *LITERALS])
    kind = random.randrange(9)
    if kind < 3:
        operator = random.choice(("+", "-", "*", "*", "/", "//", "%", "**", "@", "<", "==", "and", "or"))
        return f"({inner()}) {operator} ({inner()})"
    if kind == 3:
        return f"{random.choice(('-', 'not '))}({inner()})"
    if kind == 4:
        return f"({inner()}) if ({inner()}) else ({inner()})"
    if kind == 5:
        return random.choice(
            (f"a_helper({inner()}, key={inner()})", f"several({inner()})[0:1, ::2]", f"exp({inner()})")
        )
    if kind == 6:
        return random.choice(
            (f"({inner()}).mul({inner()})", f"({inner()}).conj()", f"sum({inner()}, dim=0, keepdim=True)")
        )
    return random.choice((f"[{inner()}, ({inner()},)]", f"({inner()}, {inner()})", f"({inner()})"))


def pointwise(random: Random, names: list[str], depth: int = 0) -> str:
    """Returns what may stand behind ``math:``, or nearly."""
    if depth > 4 or random.random() < 0.25:
        return random.choice([*(names or ["self"]), "1", "0", "2", "0.5", "-1", "3.0", "inf", "pi", "1e300"])

    def inner() -> str:
        return pointwise(random, names, depth + 1)

    one = random.choice(
        ("exp", "log", "tanh", "sigmoid", "sqrt", "abs", "sin", "log1p", "sgn", "neg", "relu", "nothing")
    )
    return random.choice(
        (
            f"{one}({inner()})",
            f"{one}({inner()})",
            f"({inner()}) {random.choice('+-*/')} ({inner()})",
            f"({inner()}) {random.choice('+-*/')} ({inner()})",
            f"({inner()}) ** {random.choice(('2', '3', '-1', '0.5', inner()))}",
            f"-({inner()})",
            f"where(({inner()}) {random.choice(('<', '>=', '=='))} ({inner()}), {inner()}, {inner()})",
            f"{random.choice(('maximum', 'minimum'))}({inner()}, {inner()})",
        )
    )


def math_record(random: Random, name: str) -> str:
    """Returns a record that `math:` describes."""
    names = ["self", "other"][: random.randint(1, 2)]
    tensors = ", ".join(f"Tensor {name}" for name in names)
    number = random.choice(("", ", *, Scalar alpha=1", ", float beta=0.5"))
    names += re.findall(r"\w+(?==)", number)
    shape = "broadcast" if "other" in names else "same"
    fields = [f"shape: {shape}", f"promote: {random.choice(('float', 'default'))}", "variants: function, method"]
    fields += [f"math: {json.dumps(pointwise(random, names))}", *random.sample(["inplace: true", "out: true"], 1)]
    fields += ["tags: [pointwise, real]"] if random.random() < 0.5 else []
    return "\n  ".join([f"- func: {name}({tensors}{number}) -> Tensor", *fields])


def contract(random: Random, words: str = "") -> tuple[str, str]:
    """Returns the texts of both files, with records of the whole grammar."""
    functions, derivatives = [], []
    for _ in range(random.choice((1, 1, 2, 3))):
        if random.random() < 0.2:
            functions.append(math_record(random, random.choice(("f", "g", "_f", "f_x"))))
            continue
        text, names, outputs = signature(random)
        fields = {field.split(":")[0]: field for field in random.sample(FIELDS, random.randint(0, 5))}
        functions += [f"- func: {json.dumps(text)}", *(f"  {field}" for field in fields.values())]
        functions += [f"  doc: {json.dumps(words)}"] if words else []
        functions += [f"  math: {json.dumps(pointwise(random, names))}"] if random.random() < 0.1 else []
        if random.random() < 0.6:
            derivatives.append(f"- name: {json.dumps(random.choice((text, text.partition('(')[0])))}")
            inputs = [name for name in names if re.search(rf"Tensor\S* {name}\b", text)]
            together = len(inputs) > 1 and random.random() < 0.2
            for name in [", ".join(inputs)] if together else inputs:
                derivatives.append(f"  {name}: {json.dumps(formula(random, names))}")
            derivatives += [f"  {outputs[0]}: auto_linear"] if outputs and random.random() < 0.2 else []
    return "\n".join(functions), "\n".join(derivatives)


@fuzz
@given(st.randoms(note_method_calls=False), st.text(max_size=20))
def test_records_of_the_whole_grammar(outcome: Outcome, random: Random, words: str) -> None:
    outcome(*contract(random, words))


# real files, and what may become of them in an editor


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
    "blocks": "- func: |\n" + "    f(\n" * 20_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("which", [0, 1])
def test_hostile_files_are_answered_soon(outcome: Outcome, text: str, which: int) -> None:
    start = time.perf_counter()
    files = ["- func: f(Tensor x) -> Tensor", ""]
    files[which] = text
    outcome(files[0], files[1])
    assert time.perf_counter() - start < SECONDS


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
