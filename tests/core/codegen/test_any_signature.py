"""Whatever the grammar allows gives code that is right: the function of every record reaches its operator."""

from __future__ import annotations

import keyword
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError
from tensorplay_core.types.schema import Argument, BaseType, OpSchema, parse_schema

NAMES = (
    *(
        "self",
        "input",
        "other",
        "dim",
        "axis",
        "keepdim",
        "n",
        "t",
        "r",
        "out",
        "from",
        "lambda",
        "class",
        "None",
        "in",
    ),
    *("call", "Tensor", "size", "shape", "sizes", "dtype", "device", "requires_grad", "node", "record", "x", "k", "p"),
    *("w", "inf", "float", "int", "str", "result", "grad", "F", "H", "len", "tuple", "args", "kwargs", "method", "op"),
)
BASES = tuple(base.value for base in BaseType)
SUFFIXES = ("", "", "", "?", "[]", "[2]", "[]?", "?[]")
RESULTS = (
    *["Tensor"] * 4,
    *("()", "(Tensor, Tensor)", "(Tensor values, Tensor indices)", "Tensor[]", "Scalar", "bool", "(Tensor, int)"),
)
DEFAULTS: dict[str, tuple[str, ...]] = {
    "Scalar": ("1", "2.5", "True", "inf"),
    "int": ("0", "-1", "Mean"),
    "SymInt": ("3",),
    "float": ("1e-05", "inf", "1"),
    "bool": ("False",),
    "str": ("'x'", "'it\\'s'"),
    "ScalarType": ("long", "float32", "bool"),
    "Device": ("'cpu'",),
    "Layout": ("strided",),
    "MemoryFormat": ("contiguous_format",),
}
VALUES: dict[str, Callable[[], Any]] = {
    "Tensor": lambda: tp.ones(2, 2),
    "Scalar": lambda: 2.5,
    "int": lambda: 1,
    "SymInt": lambda: 1,
    "float": lambda: 0.5,
    "bool": lambda: True,
    "str": lambda: "a",
    "ScalarType": lambda: tp.float32,
    "Device": lambda: tp.device("cpu"),
    "Layout": lambda: "strided",
    "MemoryFormat": lambda: "contiguous_format",
    "Generator": object,
}


def arguments(random_: random.Random) -> Iterator[str]:
    """Arguments of any name and type; behind one with a default, all others have one."""
    defaults = keywords = False
    for i, name in enumerate(random_.sample(NAMES, random_.randint(0, 6))):
        if not keywords and random_.random() < 0.15:
            yield "*"
            keywords = True
        base = random_.choice([*BASES, *["Tensor"] * 8])
        suffix = random_.choice(SUFFIXES)
        default = ""
        if random_.random() < 0.3 or (defaults and not keywords):
            if suffix.endswith("]"):
                default = "=[]"
            elif base in DEFAULTS and not suffix:
                default = f"={random_.choice(DEFAULTS[base])}"
            else:
                suffix, default = suffix or "?", "=None"
            defaults = defaults or not keywords
        writes = f"({'abcdefg'[i]}!)" if base == "Tensor" and random_.random() < 0.12 else ""
        yield f"{base}{writes}{suffix} {name}{default}"


def records(seed: int, count: int) -> Iterator[tuple[OpSchema, str]]:
    """Operators with names of their own, and what their records ask for."""
    random_ = random.Random(seed)
    for i in range(count):
        name = random_.choice(["op", "share", "call", "_op", "float", "add"]) + str(i) + random_.choice(["", "", "_"])
        parts = list(arguments(random_))
        parts = parts[:-1] if parts[-1:] == ["*"] else parts
        schema = parse_schema(f"any{seed}::{name}({', '.join(parts)}) -> {random_.choice(RESULTS)}")
        asks = [f"promote: {random_.choice(['none', 'default', 'float', 'keep', 'bool'])}"]
        functional = not schema.mutates and bool(schema.returns) and all(r.type.is_tensor for r in schema.returns)
        first = schema.positional[0] if schema.positional else None
        if functional and random_.random() < 0.5:
            asks.append("out: true")
        one = functional and first is not None and str(first.type) == "Tensor" and len(schema.returns) == 1
        if one and not name.endswith("_") and random_.random() < 0.5:
            asks.append("inplace: true")
        if random_.random() < 0.3:
            asks.append("shape: broadcast")
        if functional and random_.random() < 0.15:
            asks.append("tags: creation")
        quoted = str(schema).replace("'", "''")
        yield schema, f"- func: '{quoted}'\n" + "".join(f"  {line}\n" for line in asks)


def value(argument: Argument) -> Any:
    """A value that an argument takes."""
    one = VALUES[argument.type.base.value]()
    return [one] * (argument.type.list_size or 2) if argument.type.is_list else one


@pytest.mark.parametrize("seed", range(3))
def test_the_function_of_every_record_reaches_its_operator(package: Callable[..., Any], seed: int) -> None:
    made = list(records(seed, 150))
    package("".join(text for _, text in made))
    reached = 0
    for schema, text in made:
        op = REGISTRY.find(schema.qualified_name)
        forms = [op, *([REGISTRY.find(f"{schema.qualified_name}_")] if "inplace: true" in text else [])]
        for form in forms:
            assert form.function is not None, schema
            args = [value(a) for a in schema.positional]
            named = {a.name + "_" * keyword.iskeyword(a.name): value(a) for a in schema.keyword_only}
            with pytest.raises((tp.KernelMissing, ArgumentError)) as caught:
                form.function(*args, **named)
            if isinstance(caught.value, tp.KernelMissing):
                assert str(caught.value).startswith((f"{op.display_name}:", f"{form.display_name}:")), schema
                reached += 1
            else:  # an object is no dtype, a number no tensor: said by name
                assert form.display_name in str(caught.value) or op.display_name in str(caught.value), caught.value
    assert reached > 120


WORD_HELPERS = "def scaled(grad, by):\n    return grad * by\n"
WORDS = """\
- func: mine::from_to(Tensor self, int from, *, Scalar lambda=1) -> Tensor
  inplace: true
- func: mine::curve(Tensor self, Tensor other, *, Scalar lambda=1, Scalar width=2) -> Tensor
  math: sin(self * (lambda + 1)) * other ** 2 / width
"""


def test_arguments_named_by_words_of_python_reach_kernels_formulas_and_math(package: Callable[..., Any]) -> None:
    made = package(WORDS, "- name: mine::from_to\n  self: scaled(grad, lambda + from)\n", helpers=WORD_HELPERS)
    lib = Library("mine", "IMPL")
    lib.impl("from_to", lambda x, from_, *, lambda_=1: x * (from_ + lambda_), "CPU", level="array")
    x = tp.tensor([1.0, -2.0], requires_grad=True)
    functions = made
    y = functions.from_to(x, 3, lambda_=2)
    y.sum().backward()
    assert y.tolist() == [5.0, -10.0] and x.grad is not None and x.grad.tolist() == [5.0, 5.0]
    tests = ("test_gradient", "test_fast_path", "test_fake")
    for op, kwargs in ((functions.curve, {"lambda_": 1.5, "width": 3}), (tp.ops.mine.curve, {"lambda": 2})):
        found = tp.library.opcheck(op, (x, x), kwargs, test_utils=tests)
        assert set(found.values()) == {"SUCCESS"}
    lib.close()


def test_a_derivative_of_math_conjugates_numbers_too(package: Callable[..., Any]) -> None:
    curve = package(WORDS).curve
    z = tp.tensor([0.5 + 1j, -0.25j], requires_grad=True)
    for keywords in ({"lambda_": 0.5 + 1j, "width": 1 - 2j}, {"lambda_": 1, "width": 3}):
        assert tp.library.opcheck(curve, (z, z), keywords, test_utils="test_gradient") == {"test_gradient": "SUCCESS"}
