"""Schemas from type hints, and the errors for hints that have none."""

from __future__ import annotations

import numbers
import typing
from collections.abc import Sequence
from typing import Optional

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.types.schema import parse_schema

infer_schema = tp.library.infer_schema


def function(parameters, result="tp.Tensor", **names):
    """A function with these parameters, its hints evaluated at once."""
    scope = {**vars(typing), "tp": tp, "np": np, "typing": typing, "numbers": numbers, "Sequence": Sequence, **names}
    exec(compile(f"def f({parameters}) -> {result}: ...", "<string>", "exec", dont_inherit=True), scope)
    return scope["f"]


HINTS = {
    "tp.Tensor": "Tensor",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "tp.dtype": "ScalarType",
    "tp.device": "Device",
    "int | float": "Scalar",
    "int | float | bool": "Scalar",
    "Union[float, int, bool, complex]": "Scalar",
    "numbers.Number": "Scalar",
    "tp.Tensor | None": "Tensor?",
    "None | tp.Tensor": "Tensor?",
    "Optional[int]": "int?",
    "int | float | None": "Scalar?",
    "list[tp.Tensor]": "Tensor[]",
    "List[tp.Tensor]": "Tensor[]",
    "Sequence[tp.Tensor]": "Tensor[]",
    "typing.Sequence[int]": "int[]",
    "tuple[int, ...]": "int[]",
    "Tuple[float, ...]": "float[]",
    "list[tp.Tensor | None]": "Tensor?[]",
    "Optional[List[Optional[tp.Tensor]]]": "Tensor?[]?",
    "list[int] | None": "int[]?",
    "list[bool]": "bool[]",
    "Annotated[tp.Tensor, 'a note']": "Tensor",
    "'tp.Tensor'": "Tensor",
    "Optional['tp.Tensor']": "Tensor?",
    "list['tp.Tensor']": "Tensor[]",
    "'list[\"tp.Tensor\"]'": "Tensor[]",
}


@pytest.mark.parametrize(("hint", "type"), HINTS.items())
def test_a_hint_becomes_a_type(hint, type):
    text = infer_schema(function(f"x: {hint}"), mutates_args=(), op_name="f")
    assert text == f"f({type} x) -> Tensor"
    assert str(parse_schema(text)) == text


DEFAULTS = {
    "x: int = 3": "int x=3",
    "x: int = -3": "int x=-3",
    "x: float = 1e-5": "float x=1e-05",
    "x: float = 1": "float x=1",
    "x: float = float('inf')": "float x=inf",
    "x: bool = True": "bool x=True",
    "x: str = 'a\"b'": 'str x="a\\"b"',
    "x: tp.dtype = tp.bfloat16": "ScalarType x=bfloat16",
    "x: tp.device = tp.device('cuda:1')": 'Device x="cuda:1"',
    "x: tp.device = 'cpu'": 'Device x="cpu"',
    "x: tp.Tensor | None = None": "Tensor? x=None",
    "x: list[int] = (1, 2)": "int[] x=[1, 2]",
    "x: list[float] = [0.5]": "float[] x=[0.5]",
    "x: int | float = 2": "Scalar x=2",
}


@pytest.mark.parametrize(("parameter", "argument"), DEFAULTS.items())
def test_a_default_becomes_a_default(parameter, argument):
    text = infer_schema(function(parameter), mutates_args=(), op_name="f")
    assert text == f"f({argument}) -> Tensor"
    assert str(parse_schema(text)) == text


RESULTS = {
    "None": "()",
    "tp.Tensor": "Tensor",
    "list[tp.Tensor]": "Tensor[]",
    "Sequence[tp.Tensor]": "Tensor[]",
    "tuple[tp.Tensor, ...]": "Tensor[]",
    "tuple[tp.Tensor, tp.Tensor]": "(Tensor, Tensor)",
    "tuple[tp.Tensor, list[tp.Tensor], int]": "(Tensor, Tensor[], int)",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "int | float": "Scalar",
    "'tp.Tensor'": "Tensor",
}


@pytest.mark.parametrize(("hint", "type"), RESULTS.items())
def test_a_result_becomes_a_result(hint, type):
    text = infer_schema(function("x: tp.Tensor", hint), mutates_args=(), op_name="f")
    assert text == f"f(Tensor x) -> {type}"
    assert str(parse_schema(text)) == text


def test_keyword_only_arguments_and_what_is_written_to():
    f = function("x: tp.Tensor, n: int, ys: list[tp.Tensor], *, out: tp.Tensor | None = None, eps: float = 0.5")
    assert infer_schema(f, mutates_args={"out", "ys"}) == (
        "(Tensor x, int n, Tensor(a2!)[] ys, *, Tensor(a3!)? out=None, float eps=0.5) -> Tensor"
    )
    assert infer_schema(f, mutates_args="unknown") == (
        "(Tensor(a0!) x, int n, Tensor(a2!)[] ys, *, Tensor(a3!)? out=None, float eps=0.5) -> Tensor"
    )
    assert "!" not in infer_schema(f, mutates_args=[])


def test_the_hints_of_a_local_function_are_found_where_it_is_written():
    from tensorplay import Tensor as T  # only in this function's locals

    def f(x: T, size: Sequence[int]) -> Optional[T]: ...  # noqa: UP045

    def g(x: T, size: Sequence[int]) -> T: ...

    assert infer_schema(g, mutates_args=()) == "(Tensor x, int[] size) -> Tensor"
    with pytest.raises(tp.SchemaError, match="the return value is annotated"):
        infer_schema(f, mutates_args=())


BAD = {
    "x": "parameter 'x' has no type hint",
    "x: np.ndarray": r"parameter 'x' is annotated numpy.ndarray, which has no counterpart",
    "x: dict[str, int]": r"parameter 'x' is annotated dict\[str, int\]",
    "x: list": r"annotated list, which does not say of what; write for example list\[tp.Tensor\]",
    "x: Any": "annotated typing.Any, which does not say of what",
    "x: complex": r"annotated complex, which no schema has alone",
    "x: tp.float": r"a dtype and no type; for a number write Python's own float",
    "x: tp.int64": r"a dtype and no type; for a number write Python's own int",
    "x: 3": "annotated 3, which has no counterpart",
    "x: tp.Tensor | int": "a union means either None or a number of any kind",
    "x: list[list[int]]": "a list of lists, which no schema has",
    "x: tuple[int, int]": r"a tuple of fixed length; a list of any length is tuple\[..., ...\]",
    "x: 'Nowhere'": r"the hint 'Nowhere' of parameter 'x' means nothing here \(NameError",
    "x: 'tp.'": r"the hint 'tp.' of parameter 'x' means nothing here \(SyntaxError",
    "*xs: tp.Tensor": "parameter '\\*xs.*is variadic positional",
    "**kw: int": "parameter '\\*\\*kw.*is variadic keyword",
    "x: tp.Tensor, /": "parameter 'x.*is positional-only",
    "x: int = 1.5": "parameter 'x' is annotated int, and its default is 1.5",
    "x: int = None": "parameter 'x' is annotated int, and its default is None",
    "x: tp.Tensor = 3": r"parameter 'x' is annotated tp.Tensor, and its default is 3",
    "x: float = float('nan')": r"parameter 'x' has the default nan \(float\), which no schema has",
    "x: int | float = 1j": r"parameter 'x' has the default 1j \(complex\)",
}


@pytest.mark.parametrize(("parameters", "message"), BAD.items())
def test_what_has_no_schema_is_named_with_its_place_and_what_is_supported(parameters, message):
    with pytest.raises(tp.SchemaError, match=message) as info:
        infer_schema(function(parameters), mutates_args=())
    text = str(info.value)
    assert "(<string>:1)" in text and "\nfix: " in text


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("str", "the return value is annotated str, which no operator returns"),
        ("tp.Tensor | None", "annotated tp.Tensor | None, which no operator returns"),
        ("tuple[tp.Tensor]", "a tuple of one"),
        ("list[int]", "which no operator returns"),
        ("'Nowhere'", "the hint 'Nowhere' of the return value means nothing here"),
    ],
)
def test_results_that_no_operator_has(result, message):
    with pytest.raises(tp.SchemaError, match=message.replace("|", r"\|")) as info:
        infer_schema(function("x: tp.Tensor", result), mutates_args=())
    assert "\nfix: " in str(info.value)


def test_a_missing_result_hint_is_asked_for():
    def f(x: tp.Tensor): ...

    with pytest.raises(tp.SchemaError, match=r"there is no hint for what it returns.*test_infer_schema.py:\d+"):
        infer_schema(f, mutates_args=())


def test_wrong_mutates_args_are_answered():
    f = function("x: tp.Tensor, n: int")
    with pytest.raises(tp.SchemaError, match=r"mutates_args names 'xx', which is no parameter. Did you mean 'x'"):
        infer_schema(f, mutates_args={"xx"})
    with pytest.raises(tp.SchemaError, match=r"mutates_args names 'n', which is int: only tensors are mutated"):
        infer_schema(f, mutates_args={"n"})
    with pytest.raises(tp.SchemaError, match=r"a collection of names or 'unknown', not 'x'"):
        infer_schema(f, mutates_args="x")


def test_what_python_knows_no_signature_of():
    with pytest.raises(tp.SchemaError, match="has no signature that Python knows"):
        infer_schema(max, mutates_args=())


@pytest.mark.parametrize("value", [None, 3, [3], [None]])
def test_mutates_args_that_are_no_names(value):
    def function(x: tp.Tensor) -> tp.Tensor: ...

    with pytest.raises(tp.SchemaError, match=r"(?s)collection of names or 'unknown', not .*mutates_args=\(\)"):
        tp.library.infer_schema(function, mutates_args=value)


def test_mutates_args_may_be_an_iterator():
    def function(x: tp.Tensor, y: tp.Tensor) -> None: ...

    assert tp.library.infer_schema(function, mutates_args=iter(["y"])) == "(Tensor x, Tensor(a1!) y) -> ()"
