"""From schemas to Python signatures: names, annotations, defaults, and how calls may be spelled."""

# ruff: noqa: E501 (signatures stand as they are)

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.contract import NativeFunction
from tensorplay_core.codegen.signatures import (
    NUMPY_NAMES,
    joined,
    parameter_name,
    plural,
    promoted,
    signature,
    spread,
    takes_numbers,
)
from tensorplay_core.errors import ArgumentError
from tensorplay_core.types.schema import parse_schema


def function(schema: str, **fields: Any) -> NativeFunction:
    return NativeFunction(parse_schema(schema), **fields)


@pytest.mark.parametrize(
    ("schema", "fields", "wanted"),
    [
        ("f(Tensor self) -> Tensor", {}, "(input: Tensor) -> Tensor"),
        ("f(Tensor self) -> Tensor", {"out": True}, "(input: Tensor, *, out: Tensor | None = None) -> Tensor"),
        ("f() -> ()", {}, "() -> None"),
        ("f(Tensor a, Tensor? b=None) -> (Tensor, Tensor)", {}, "(a: Tensor, b: Tensor | None = None) -> tuple[Tensor, Tensor]"),
        ("f(Tensor self, Tensor other) -> Tensor", {}, "(input: Tensor, other: Tensor) -> Tensor"),
        (
            "f(Tensor self, Tensor other) -> Tensor",
            {"promote": "default", "shape": "broadcast"},
            "(input: Tensor | Number, other: Tensor | Number) -> Tensor",
        ),
        ("f(Tensor[] tensors, int dim=0) -> Tensor", {}, "(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None) -> Tensor"),
        ("f(Tensor self, Tensor?[] indices) -> Tensor", {}, "(input: Tensor, indices: Sequence[Tensor | None]) -> Tensor"),
        ("f(Tensor self, int dim) -> Tensor", {}, "(input: Tensor, dim: int) -> Tensor"),
        ("f(Tensor self, *, Scalar alpha=1) -> Tensor", {}, "(input: Tensor, *, alpha: Number = 1) -> Tensor"),
        ("f(Tensor self, *, int k) -> Tensor", {}, "(input: Tensor, *, k: int) -> Tensor"),
        ('f(Tensor self, str mode="mean", float p=0.5) -> Tensor', {}, '(input: Tensor, mode: str = "mean", p: float = 0.5) -> Tensor'),
        ("f(Tensor self, int[2] k=1) -> Tensor", {}, "(input: Tensor, k: int | Sequence[int] = 1) -> Tensor"),
        ("f(Tensor self, int[] k=[0, 1]) -> Tensor", {}, "(input: Tensor, k: Sequence[int] = (0, 1)) -> Tensor"),
        ("f(Tensor self, ScalarType dtype, Device? device=None) -> Tensor", {}, "(input: Tensor, dtype: DType, device: Device | str | None = None) -> Tensor"),
        (
            "f(SymInt[] size, *, ScalarType? dtype=None) -> Tensor",
            {"tags": ("creation",)},
            "(*sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DType | None = None, requires_grad: bool = False) -> Tensor",
        ),
        (
            "f(Tensor self, int[] dims) -> Tensor",
            {},
            "(input: Tensor, *dims_: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor",
        ),
        (
            "f(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
            {},
            "(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, axis: int | Sequence[int] | None = None, keepdims: bool | None = None) -> Tensor",
        ),
    ],
)  # fmt: skip
def test_signatures(schema: str, fields: dict[str, Any], wanted: str) -> None:
    found = signature(function(schema, **fields))
    assert f"({', '.join(found.parameters)}) -> {found.returns}" == wanted


def test_a_method_has_self_and_an_inplace_form_no_out() -> None:
    add = function("add(Tensor self, Tensor other) -> Tensor", out=True, promote="default", shape="broadcast")
    assert signature(add, first="self").parameters[:2] == ("self", "other: Tensor | Number")
    assert signature(add, out=False, first="input: Tensor").parameters == ("input: Tensor", "other: Tensor | Number")


def test_self_is_input_in_python() -> None:
    schema = parse_schema("f(Tensor self, Tensor other) -> Tensor")
    assert [parameter_name(a) for a in schema.arguments] == ["input", "other"]


def test_numbers_may_stand_for_tensors_that_share_a_dtype_with_another() -> None:
    two = "f(Tensor self, Tensor other) -> Tensor"
    assert takes_numbers(function(two, promote="float", shape="broadcast"))
    assert not takes_numbers(function(two, promote="keep", shape="broadcast"))
    assert not takes_numbers(function("f(Tensor self) -> Tensor", promote="float", shape="broadcast"))
    where = function(
        "where(Tensor condition, Tensor self, Tensor other) -> Tensor", promote="default", shape="broadcast"
    )
    assert [a.name for a in promoted(where)] == ["self", "other"]


def test_only_a_last_list_of_any_length_without_a_default_is_spread() -> None:
    spreads = function("f(Tensor self, int[] dims, *, int k=1) -> Tensor")
    assert (argument := spread(spreads)) is not None and argument.name == "dims" and plural(argument) == "dims_"
    for schema in (
        "f(int[] dims, int k) -> Tensor",
        "f(int[2] dims) -> Tensor",
        "f(int[] dims=[]) -> Tensor",
        "f() -> Tensor",
    ):
        assert spread(function(schema)) is None, schema


def test_joined_is_what_a_reader_sees_first() -> None:
    assert joined(("input: Tensor", "*", "alpha: Number = 1")) == "input, *, alpha=1"
    assert joined(("*sizes: int | Sequence[int]", "size: Sequence[int] | None = None")) == "*sizes, size=None"


def test_every_public_function_has_the_signature_of_its_record(ours: CodegenContext) -> None:
    count = 0
    for record in ours.contract.functions:
        if record.name in ours.handwritten or record.schema.is_inplace or len(ours.overloads(record)) > 1:
            continue
        wanted = signature(record)
        call = getattr(tp, record.name, None) or getattr(tp.ops.tp, record.name)._operators()[0].function
        found = inspect.signature(call)
        parts = [str(p).replace("'", "") for p in found.parameters.values()]
        assert len(parts) == len([p for p in wanted.parameters if p != "*"]), record.name
        for name, (text, parameter) in zip(
            found.parameters, zip(parts, [p for p in wanted.parameters if p != "*"], strict=True), strict=True
        ):
            assert name == parameter.partition(":")[0].lstrip("*"), record.name
            if " = " not in parameter:
                assert text == parameter, record.name
        count += 1
    assert count > 40


# spellings of a call


X = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, tuple):
        for f, w in zip(found, wanted, strict=True):
            same(f, w)
        return
    assert found.dtype is wanted.dtype and found.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        (lambda x: tp.sum(x, axis=0), lambda x: tp.sum(x, 0)),
        (lambda x: x.sum(axis=(0, 1), keepdims=True), lambda x: x.sum((0, 1), True)),
        (lambda x: x.mean(axis=1, keepdim=True), lambda x: x.mean(1, True)),
        (lambda x: tp.argmax(x, axis=1, keepdims=True), lambda x: tp.argmax(x, 1, True)),
        (lambda x: tp.max(x, axis=1, keepdims=True), lambda x: tp.max(x, 1, True)),
        (lambda x: x.max(axis=0), lambda x: x.max(0)),
        (lambda x: tp.cat([x, x], axis=1), lambda x: tp.cat([x, x], 1)),
        (lambda x: tp.concatenate([x, x], axis=0), lambda x: tp.cat([x, x])),
        (lambda x: x.squeeze(axis=0), lambda x: x.squeeze(0)),
        (lambda x: tp.add(input=x, other=1), lambda x: x + 1),
        (lambda x: tp.max(input=x), lambda x: x.max()),
        (lambda x: tp.permute(input=x, dims=(1, 0)), lambda x: x.T),
    ],
)
def test_names_of_numpy_and_of_pytorch(spelled: Callable[[Any], Any], plain: Callable[[Any], Any]) -> None:
    x = tp.tensor(X)
    same(spelled(x), plain(x))
    with tp.testing.force_slow_path():
        same(spelled(x), plain(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: tp.sum(x, dim=0, axis=0), "sum: dim and axis are the same argument; give one of them"),
        (lambda x: x.sum(0, axis=1), "sum: dim and axis are the same argument; give one of them"),
        (lambda x: x.mean(keepdim=True, keepdims=True), "mean: keepdim and keepdims are the same argument"),
        (lambda x: tp.cat([x, x], 1, axis=0), "cat: dim and axis are the same argument"),
        (lambda x: tp.max(x, dim=0, axis=0), "max: dim and axis are the same argument"),
        (lambda x: x.max(0, keepdim=True, keepdims=True), "max: keepdim and keepdims are the same argument"),
        (lambda x: x.reshape(2, 3, shape=(2, 3)), "reshape: the sizes are given twice, by position and by name"),
        (lambda x: tp.zeros(2, size=(2,)), "zeros: the sizes are given twice, by position and by name"),
    ],
)
def test_an_argument_given_twice_is_an_error(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(tp.tensor(X))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "calls",
    [
        (
            lambda x: x.reshape(3, 2),
            lambda x: x.reshape((3, 2)),
            lambda x: x.reshape([3, 2]),
            lambda x: x.reshape(shape=(3, 2)),
            lambda x: tp.reshape(x, (3, 2)),
            lambda x: tp.reshape(x, 3, -1),
        ),
        (
            lambda x: x.permute(1, 0),
            lambda x: x.permute((1, 0)),
            lambda x: x.permute(dims=[1, 0]),
            lambda x: tp.permute(x, (1, 0)),
        ),
        (lambda x: x.expand(2, -1, 3), lambda x: x.expand((2, -1, 3)), lambda x: x.expand(size=(2, -1, 3))),
        (
            lambda x: tp.zeros(2, 3),
            lambda x: tp.zeros((2, 3)),
            lambda x: tp.zeros([2, 3]),
            lambda x: tp.zeros(size=(2, 3)),
            lambda x: tp.zeros(x.shape),
        ),
        (lambda x: tp.ones(), lambda x: tp.ones(()), lambda x: tp.ones(size=())),
    ],
)
def test_sizes_may_be_several_arguments_or_one(calls: tuple[Callable[[Any], Any], ...]) -> None:
    x = tp.tensor(X)
    first, *others = [call(x) for call in calls]
    for other in others:
        assert other.shape == first.shape and other.tolist() == first.tolist()


def test_only_names_with_a_default_have_a_second_spelling() -> None:
    assert NUMPY_NAMES == {"dim": "axis", "keepdim": "keepdims"}
    assert signature(function("f(Tensor self, int dim, bool keepdim=False) -> Tensor")).numpy_names == (
        ("keepdim", "keepdims"),
    )
