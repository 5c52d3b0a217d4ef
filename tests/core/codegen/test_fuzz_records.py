"""Whatever record a contract holds, the generator gives a clean error or files that compile and name nothing unknown.

Records of the whole grammar, with formulas of the whole language and names that generated code uses itself, go from
bytes on disk to files on disk. A clean error is a ContractError with file and line; the folder is then as it was.
``TENSORPLAY_FUZZ=100`` in the environment runs a hundred times as many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

fuzz = settings.get_profile("fuzz")
Outcome = Callable[[str | bytes, str | bytes], str | None]

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
