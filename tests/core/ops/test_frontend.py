"""Functions with overloads: which is called, by whatever spelling, and what an error says."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError
from tensorplay_core.ops.call import call
from tensorplay_core.ops.frontend import choose, created, kind_of, pick
from tensorplay_core.types.device import Device

SIGNATURES = (
    "f(Tensor self, int dim) -> Tensor",
    "f.Scalar(Tensor self, Scalar other) -> Tensor",
    "f.Tensor(Tensor self, Tensor other) -> Tensor",
    "f.sizes(Tensor self, int[] size) -> Tensor",
    "f.mode(Tensor self, *, str from) -> Tensor",
)


@pytest.fixture
def overloads() -> Iterator[tuple[Operator, ...]]:
    lib = Library("front", "DEF")
    for text in SIGNATURES:
        op = lib.define(text)
        name = op.overload or "int"
        lib.impl(op.qualified_name, lambda x, *args, name=name, **kwargs: _record(x, name, args, kwargs), "Composite")
    yield tuple(op for op in REGISTRY.operators.values() if op.namespace == "front")
    lib.close()


CALLS: list[Any] = []


def _record(x: Any, *what: Any) -> Any:
    CALLS.append(what)
    return x + 0


def called(overloads: tuple[Operator, ...], *args: Any, **kwargs: Any) -> Any:
    """What is called, the same for every order of the overloads."""
    answers = []
    for order in list(permutations(overloads))[::17]:
        CALLS.clear()
        pick("f", order, args, kwargs)
        answers.append(CALLS[0])
    assert all(repr(answer) == repr(answers[0]) for answer in answers)
    return answers[0]


def test_the_overload_that_the_arguments_mean(overloads: tuple[Operator, ...]) -> None:
    x = tp.ones(2, 3)
    assert called(overloads, x, 1) == ("int", (1,), {})
    assert called(overloads, x, np.int64(1)) == ("int", (1,), {})
    assert called(overloads, x, 1.0) == ("Scalar", (1.0,), {})
    assert called(overloads, x, True) == ("Scalar", (True,), {})
    assert called(overloads, x, x)[0] == "Tensor" and called(overloads, x, tp.tensor(1))[0] == "Tensor"
    assert called(overloads, x, (2, 3)) == ("sizes", ((2, 3),), {}) == called(overloads, x, [2, 3])
    assert called(overloads, x, 2, 3) == ("sizes", ((2, 3),), {}), "the sizes may be written as several arguments"
    assert called(overloads, x, size=2) == ("sizes", (2,), {}) or called(overloads, x, size=2)[0] == "sizes"


def test_every_spelling_of_an_argument(overloads: tuple[Operator, ...]) -> None:
    x = tp.ones(2, 3)
    assert called(overloads, input=x, axis=1) == ("int", (1,), {})
    assert called(overloads, self=x, dim=0) == ("int", (0,), {})
    assert called(overloads, x, from_="a") == ("mode", (), {"from": "a"}) == called(overloads, x, **{"from": "a"})
    with pytest.raises(ArgumentError, match="f: dim and axis are the same argument; give one of them"):
        pick("f", overloads, (x,), {"dim": 1, "axis": 1})


def test_where_none_fits_all_are_listed(overloads: tuple[Operator, ...]) -> None:
    with pytest.raises(ArgumentError) as caught:
        pick("f", overloads, (tp.ones(2), "a"), {"k": 1})
    assert str(caught.value).startswith("f: no overload takes (Tensor, str, k=int). There are:\n  f(Tensor")
    assert all(text.partition("(")[2] in str(caught.value) for text in SIGNATURES)


def test_where_several_fit_alike_they_are_named() -> None:
    """Only run-time definitions can come to this: the generator refuses such a set."""
    lib = Library("front", "DEF")
    lib.define("g(Tensor self, int a) -> Tensor")
    lib.define("g.other(Tensor self, int b) -> Tensor")
    with pytest.raises(ArgumentError) as caught:
        tp.ops.front.g(tp.ones(2), 1)
    text = str(caught.value)
    assert "(Tensor, int) could mean several overloads. These fit equally well:" in text
    assert "int a" in text and "int b" in text and "tp.ops.front.g" in text
    lib.close()


def test_a_method_whose_self_is_not_first() -> None:
    lib = Library("front", "DEF")
    op = lib.define("h(Tensor condition, Tensor self, Scalar other) -> Tensor")
    condition, x = tp.tensor([True]), tp.ones(1)
    found = choose("h", (op,), (x, condition, 2), {}, method=True)
    assert found[1][0] is condition and found[1][1] is x and found[1][2] == 2
    named = choose("h", (op,), (x,), {"other": 2, "condition": condition}, method=True)
    assert named[1][0] is condition and named[1][1] is x
    lib.close()


def test_out_goes_to_those_that_take_it(overloads: tuple[Operator, ...]) -> None:
    x, out = tp.ones(2), tp.zeros(2)
    by_name = {op.overload: op for op in overloads}
    two = (by_name["Tensor"], by_name["Scalar"])
    assert pick("f", two, (x, x), {"out": out}, ("Tensor",)) is out and out.tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match="no overload takes"):
        pick("f", two, (x, x), {"out": out})
    with pytest.raises(ArgumentError, match="other must be a Tensor, not int"):  # it alone takes out=
        pick("f", two, (x, 2), {"out": out}, ("Tensor",))


class Number(enum.IntEnum):
    """An int of another class."""

    TWO = 2


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (tp.ones(2), "tensor"),
        (tp.tensor(2.0), "0-d tensor"),
        (True, "bool"),
        (np.True_, "bool"),
        (2, "int"),
        (Number.TWO, "int"),
        (np.int8(2), "int"),
        (2.5, "float"),
        (np.float32(2.5), "float"),
        (1j, "complex"),
        ("a", "str"),
        (tp.float32, "dtype"),
        (float, "dtype"),
        (Device("cpu"), "device"),
        (None, "None"),
        (object(), "object"),
        ([], "[]"),
        ((2, 3), "[int]"),
        (range(3), "[int]"),
        ([2, 2.5], "[float]"),
        ([2, 1j], "[complex]"),
        ([True, 2], "[int]"),
        ([True], "[bool]"),
        ([tp.tensor(1), 2], "[int]"),
        ([tp.ones(2)], "[tensor]"),
        ([tp.ones(2), None], "[tensor, None]"),
        (["a"], "[str]"),
        ([tp.float32], "[object]"),
    ],
)
def test_the_kind_of_a_value(value: object, kind: str) -> None:
    assert kind_of(value) == kind


# out= of several results, and of creation


def test_several_outs_are_written_all_or_none() -> None:
    lib = Library("front", "DEF")
    op = lib.define("both(Tensor self) -> (Tensor low, Tensor high)")
    lib.impl("both", lambda x: (x - 1, x + 1), "Composite")
    x = tp.tensor([1.0, 2.0])
    outs = tp.zeros(2), tp.zeros(2)
    found = call(op, (x,), None, outs)
    assert found.low is outs[0] and found.high is outs[1]
    assert [t.tolist() for t in outs] == [[0.0, 1.0], [2.0, 3.0]]
    before = tp.zeros(2)
    for wrong, match in (
        ((before,), "out must be a tuple of 2 tensors, not 1"),
        (before, "out must be a tuple of 2 tensors, not Tensor"),
        ((before, 3), r"out\[1\] must be a Tensor, not int"),
        ((before, tp.zeros(3)), r"out\[1\] has shape \(3,\), the result \(2,\)"),
        ((before, tp.zeros(2, dtype=tp.int64)), r"the result is float32, which cannot be written to out\[1\]"),
        ((before, before), r"out\[0\] and out\[1\] are the same memory"),
        ((before, before[:]), r"out\[0\] and out\[1\] are the same memory"),
    ):
        with pytest.raises(tp.TensorPlayError, match=match):
            call(op, (x,), None, wrong)
        assert before.tolist() == [0.0, 0.0], "nothing is written"
    lib.close()


def test_out_of_creation_says_what_is_made() -> None:
    op = REGISTRY.find("full")
    out = tp.zeros(2, dtype=tp.float64)
    unsaid = {"dtype": None, "device": None}
    assert created(op, ((2,), 3), unsaid, False, out) is out and out.tolist() == [3.0, 3.0]
    with pytest.raises(tp.TensorPlayError, match="complex64, which cannot be written to out of dtype float64"):
        created(op, ((2,), 3), {**unsaid, "dtype": tp.complex64}, False, out)
    with pytest.raises(tp.TensorPlayError, match=r"out has shape \(2,\), the result \(3,\)"):
        created(op, ((3,), 3), unsaid, False, out)
