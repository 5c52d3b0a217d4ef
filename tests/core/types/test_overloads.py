"""Which overload a call means: by the kinds of its arguments, whatever the order of the records."""

from __future__ import annotations

from itertools import permutations

import pytest

from tensorplay_core.types.overloads import EXAMPLES, PRECEDENCE, TYPE_ORDER, best, candidate, ranks_of
from tensorplay_core.types.schema import BaseType, parse_schema

T = "tensor"


def meant(signatures: list[str], args: list[str], kwargs: dict[str, str] | None = None) -> list[str]:
    """The overloads that a call means, the same for every order of the records."""
    schemas = [parse_schema(text) for text in signatures]
    answers = set()
    for order in permutations(schemas):
        found = best([candidate(s) for s in order], args, kwargs or {})
        answers.add(tuple(sorted(order[i].overload for i in found)))
    assert len(answers) == 1, answers
    return list(answers.pop())


# PyTorch's own sets; what each call means is what PyTorch 2.13 calls.
ADD = [
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
]
MAX = [
    "max(Tensor self) -> Tensor",
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "max.other(Tensor self, Tensor other) -> Tensor",
]
SUM = [
    "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
]
STD = [
    "std(Tensor self, bool unbiased=True) -> Tensor",
    "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
    "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
]
POW = [
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
]
CLAMP = [
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
]
VIEW = ["view(Tensor(a) self, SymInt[] size) -> Tensor(a)", "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"]
SPLIT = [
    "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
]


@pytest.mark.parametrize(
    ("signatures", "args", "kwargs", "wanted"),
    [
        (ADD, [T, T], {}, "Tensor"),
        (ADD, [T, "int"], {}, "Scalar"),
        (ADD, [T, "0-d tensor"], {"alpha": "float"}, "Tensor"),
        (ADD, [T, "complex", "int"], {}, "Scalar"),
        (MAX, [T], {}, ""),
        (MAX, [T, "int"], {}, "dim"),
        (MAX, [T, T], {}, "other"),
        (MAX, [T, "0-d tensor"], {}, "other"),
        (MAX, ["tensor"], {"axis": "int", "keepdims": "bool"}, "dim"),
        (SUM, [T], {}, ""),
        (SUM, [T], {"dtype": "dtype"}, ""),
        (SUM, [T, "None"], {}, "dim_IntList"),
        (SUM, [T, "[int]"], {}, "dim_IntList"),
        (SUM, [T, "int", "bool"], {}, "dim_IntList"),
        (STD, [T], {}, ""),
        (STD, [T, "bool"], {}, ""),
        (STD, [T, "int"], {}, "dim"),
        (STD, [T, "None", "bool"], {}, "dim"),
        (STD, [T], {"correction": "int"}, "correction"),
        (STD, [T], {"keepdim": "bool", "dim": "int"}, "dim"),
        (POW, [T, T], {}, "Tensor_Tensor"),
        (POW, ["int", T], {}, "Scalar"),
        (POW, [T, "float"], {}, "Tensor_Scalar"),
        (CLAMP, [T, "int"], {}, ""),
        (CLAMP, [T, "None", T], {}, "Tensor"),
        (CLAMP, [T], {"max": "float"}, ""),
        (VIEW, [T, "int", "int"], {}, ""),
        (VIEW, [T, "[int]"], {}, ""),
        (VIEW, [T, "dtype"], {}, "dtype"),
        (SPLIT, [T, "int"], {}, "Tensor"),
        (SPLIT, [T, "[int]", "int"], {}, "sizes"),
    ],
)
def test_calls_of_pytorchs_sets(signatures: list[str], args: list[str], kwargs: dict[str, str], wanted: str) -> None:
    assert meant(signatures, args, kwargs) == [wanted]


@pytest.mark.parametrize("kind", PRECEDENCE)
def test_the_first_type_in_the_table_is_the_one_that_is_meant(kind: str) -> None:
    types = [t.replace("[n]", "[2]").replace("object[]", "ScalarType[]") for t in PRECEDENCE[kind]]
    sets = [f"f.o{i}(Tensor y, {type} x, bool b=True) -> Tensor" for i, type in enumerate(types)]
    for first in range(len(sets)):  # beside a tensor, without which a number is none
        assert meant(sets[first : first + 3], [T, kind]) == [f"o{first}"]


def test_a_number_alone_is_no_tensor() -> None:
    assert meant(["f(Tensor x) -> Tensor", "f.o(Tensor x, str y) -> Tensor"], ["int"]) == []


@pytest.mark.parametrize(
    ("one", "other", "args", "wanted"),
    [
        ("Tensor self, int dim", "Tensor self, int dim, bool b=True", [T, "int"], "one"),  # fewer parameters
        ("Tensor self, int d, bool b", "Tensor self, int d, bool b=True", [T, "int", "bool"], "one"),  # more required
        ("Tensor self, int[2] s", "Tensor self, int[] s", [T, "[int]"], "one"),  # a list of given size
        ("Tensor self, Tensor o", "Tensor self, Tensor? o", [T, T], "one"),  # not optional
        ("Tensor self, float p=1", "Tensor self, Scalar p=1", [T], "one"),  # the same parameters, in another type
        ("Tensor self, int a=1", "Tensor self, float b=1", [T], ""),  # other parameters: nothing decides
        ("Tensor self, int dim", "Tensor self, int index", [T, "int"], ""),
        ("Tensor self, int a, Scalar b", "Tensor self, Scalar a, int b", [T, "int", "int"], ""),  # each suits once
        ("Tensor self, int a, Scalar b", "Tensor self, Scalar a, int b", [T, "int", "float"], "one"),
    ],
)
def test_what_decides_where_the_arguments_suit_alike(one: str, other: str, args: list[str], wanted: str) -> None:
    found = meant([f"f.one({one}) -> Tensor", f"f.other({other}) -> Tensor"], args)
    assert found == ([wanted] if wanted else ["one", "other"])


def test_an_exact_overload_settles_what_two_others_leave_open() -> None:
    two = ["f.a(Tensor self, int a, Scalar b) -> Tensor", "f.b(Tensor self, Scalar a, int b) -> Tensor"]
    assert meant([*two, "f.c(Tensor self, int a, int b) -> Tensor"], [T, "int", "int"]) == ["c"]


@pytest.mark.parametrize(
    ("signature", "args", "kwargs", "fits"),
    [
        ("f(Tensor self, int dim) -> Tensor", [T], {}, False),  # one is missing
        ("f(Tensor self, int dim) -> Tensor", [T, "int", "int"], {}, False),
        ("f(Tensor self, int dim) -> Tensor", [T, "int"], {"dim": "int"}, False),  # given twice
        ("f(Tensor self, int dim) -> Tensor", [], {"input": T, "axis": "int"}, True),
        ("f(Tensor self, int dim) -> Tensor", [T], {"dims": "int"}, False),
        ("f(Tensor self, int from) -> Tensor", [T], {"from_": "int"}, True),  # a word of Python
        ("f(Tensor self, int from) -> Tensor", [T], {"from": "int"}, True),
        ("f(Tensor self, int axis) -> Tensor", [T], {"axis": "int"}, True),
        ("f(Tensor self, int dim) -> Tensor", [T, "bool"], {}, False),  # as everywhere, True is no dim
        ("f(Tensor self, Tensor other) -> Tensor", [T, "int"], {}, True),  # a number stands for a tensor
        ("f(Tensor[] tensors) -> Tensor", ["[tensor, None]"], {}, False),
        ("f(Tensor?[] tensors) -> Tensor", ["[tensor, None]"], {}, True),
        ("f(Tensor self, int[] size) -> Tensor", [T, "int", "int"], {}, True),
        ("f(Tensor self, int[] size) -> Tensor", [T, "[int]", "int"], {}, False),
        ("f(Tensor self, int[] size=[]) -> Tensor", [T, "int", "int"], {}, False),
        ("f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", [T], {"out": T}, True),
        ("f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", [T], {}, False),
    ],
)
def test_which_calls_fit(signature: str, args: list[str], kwargs: dict[str, str], fits: bool) -> None:
    assert bool(best([candidate(parse_schema(signature))], args, kwargs)) is fits


def test_out_is_an_argument_where_it_is_one() -> None:
    schema = parse_schema("f(Tensor self) -> Tensor")
    assert best([candidate(schema)], [T], {"out": T}) == []
    assert best([candidate(schema, out=True)], [T], {"out": T}) == [0]


def test_a_methods_self_stands_first() -> None:
    schema = parse_schema("where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor")
    assert candidate(schema, method=True).names == ("self", "condition", "other")
    assert best([candidate(schema)], [T, T, "int"], {}) == [0]


def test_the_tables_know_every_type_and_every_kind() -> None:
    assert set(TYPE_ORDER) == {b.value for b in BaseType} - {"SymInt"}
    assert set(EXAMPLES) == {*PRECEDENCE, "None"}
    for base in BaseType:
        for spelled in (f"{base}", f"{base}[]", f"{base}[2]?", f"{base}?"):
            ranks = ranks_of(parse_schema(f"f({spelled} x) -> Tensor").arguments[0])
            assert ranks and ("None" in ranks) is spelled.endswith("?"), spelled
