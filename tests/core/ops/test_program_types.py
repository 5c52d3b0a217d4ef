"""The dtypes of a program's steps, and what its numbers may be."""

from __future__ import annotations

import math

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import intern, unresolved
from tensorplay_core.errors import DTypeError, ValueRangeError
from tensorplay_core.ops.define import operator
from tensorplay_core.ops.program_types import Use, Weak, fitted, numbers_of, typed
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import by_name
from tensorplay_core.types.program import Program


def program(*steps, inputs=("x",), keywords=(), numbers=(), scalar_steps=(), results=None):
    return Program(inputs, keywords, numbers, scalar_steps, steps, results or (steps[-1][0],))


def dtypes(made, dtype, **numbers):
    found = typed(made, by_name(dtype), numbers)
    return {step.name: step.result.name for step in found.steps}


# -------------------------------------------------------------------------------------------------------------- numbers


SCALARS = [
    (("add", 1, 2), 3),
    (("sub", 1, 2.5), -1.5),
    (("mul", True, 2), 2),
    (("neg", 3), -3),
    (("div", 1, 2), 0.5),
    (("pow", 2, 3), 8),
    (("pow", 2, -1), 0.5),
    # where Python raises or leaves the reals, as IEEE 754 has it
    (("div", 1, 0), math.inf),
    (("div", 1, -0.0), -math.inf),
    (("div", -1, 0), -math.inf),
    (("div", 0, 0), math.nan),
    (("pow", 0.0, -1), math.inf),
    (("pow", -0.0, -1), -math.inf),
    (("pow", 10.0, 400), math.inf),
    (("pow", -10.0, 401), -math.inf),
    (("pow", -8.0, 0.5), math.nan),
    (("add", 10**400, 0.5), math.inf),
    (("div", 1, 10**400), 0.0),
]


@pytest.mark.parametrize(("step", "expected"), SCALARS)
def test_scalar_steps_compute_as_elements_would(step, expected):
    made = program(("t0", "mul", "x", "s0"), inputs=("x", "n"), numbers=("n",), scalar_steps=(("s0", *step),))
    found = numbers_of(made, (None, 1), {})["s0"]
    assert repr(found) == repr(expected)


def test_numbers_come_from_positions_keywords_and_defaults():
    made = program(
        ("t0", "mul", "x", "s0"),
        inputs=("x", "n"),
        keywords=(("alpha", 1.0), ("beta", 2)),
        numbers=("n", "alpha", "beta"),
        scalar_steps=(("s0", "mul", "n", "alpha"), ("s1", "add", "s0", "beta")),
    )
    assert numbers_of(made, (None, 3), {"alpha": 0.5}) == {"n": 3, "alpha": 0.5, "beta": 2, "s0": 1.5, "s1": 3.5}


FITTED = [
    (300, "uint8", 44), (-1, "uint8", 255), (128, "int8", -128), (2**63, "int64", -(2**63)),
    (True, "bool", True), (True, "int8", 1), (2, "float32", 2.0), (1e39, "float32", math.inf),
    (-1e39, "float32", -math.inf), (3.4028235e38, "float32", 3.4028235e38), (1e39, "float64", 1e39),
    (1j, "complex64", 1j), (2, "complex64", 2 + 0j),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype", "expected"), FITTED)
def test_numbers_are_fitted_to_dtypes(value, dtype, expected):
    found = fitted(value, by_name(dtype))
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(("value", "dtype"), [(0.5, "int32"), (1j, "float32"), ("1", "float32"), (2, "bool")])
def test_a_number_of_another_kind_is_refused(value, dtype):
    with pytest.raises(TypeError, match="is no number for"):
        fitted(value, by_name(dtype))


def test_an_integer_too_long_for_any_float_is_refused():
    with pytest.raises(ValueRangeError, match="does not fit float32"):
        fitted(10**400, by_name("float32"))


# --------------------------------------------------------------------------------------------------------------- dtypes


def test_steps_have_their_operators_promote_rules():
    made = program(("a", "abs", "x"), ("b", "gt", "a", 0), ("c", "exp", "x"), ("d", "where", "b", "c", 1))
    assert dtypes(made, "float64") == {"a": "float64", "b": "bool", "c": "float64", "d": "float64"}
    assert dtypes(made, "int16") == {"a": "int16", "b": "bool", "c": "float32", "d": "float32"}
    assert dtypes(program(("a", "abs", "x"), ("b", "mul", "a", "x")), "complex64") == {"a": "float32", "b": "complex64"}


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_precisions_compute_in_float32_and_return_in_their_own(half):
    found = typed(program(("a", "mul", "x", "x"), ("b", "gt", "a", 1), results=("a", "b")), by_name(half), {})
    assert found.compute is tp.float32 and found.dtypes["x"] is tp.float32
    assert [dtype.name for dtype in found.returned] == [half, "bool"]


def test_a_comparison_among_numbers_counts_as_the_tensors_do():
    made = program(("a", "gt", "x", 0), ("b", "mul", "a", 0.5), ("c", "mul", "x", "b"))
    assert dtypes(made, "float64") == {"a": "bool", "b": "float64", "c": "float64"}
    found = typed(made, by_name("float64"), {}).steps[1]
    assert found.operands == (Use("a", tp.float64), Weak(0.5, 0.5, tp.float64))


def test_steps_that_no_result_needs_are_left_out():
    made = program(("a", "exp", "x"), ("b", "log", "x"), ("c", "neg", "a"))
    assert list(dtypes(made, "float32")) == ["a", "c"]


def test_a_condition_is_bool_beside_any_dtype():
    made = program(("t0", "where", "condition", "x", 0), inputs=("condition", "x"))
    assert typed(made, by_name("float16"), {}).dtypes == {"condition": tp.bool, "x": tp.float32, "t0": tp.float32}


COMPARED = [
    ("int32", 0.5, tp.float32, 0.5),
    ("int32", 7, tp.int32, 7),
    ("uint8", -1, tp.float32, -math.inf),
    ("int8", 300, tp.float32, math.inf),
    ("int64", 2**63, tp.float32, math.inf),
    ("float32", 2, tp.float32, 2.0),
]


@pytest.mark.parametrize(("dtype", "number", "inner", "value"), COMPARED)
def test_integers_compare_with_any_number(dtype, number, inner, value):
    step = typed(program(("t0", "lt", "x", number)), by_name(dtype), {}).steps[0]
    assert step.compute is inner and step.operands[1] == Weak(number, value, inner) and step.result is tp.bool


def test_integers_wrap_beside_integers():
    step = typed(program(("t0", "add", "x", 300)), by_name("uint8"), {}).steps[0]
    assert step.operands[1].value == 44


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [("int32", 0.5, "float32"), ("bool", 2.5, "float32"), ("float32", 1j, "complex64"), ("float64", 1j, "complex128")],
)
def test_a_number_of_another_kind_is_an_error_that_says_what_to_convert(dtype, number, wanted):
    made = program(("t0", "mul", "x", "n"), inputs=("x", "n"), numbers=("n",))
    with pytest.raises(DTypeError) as info:
        typed(made, by_name(dtype), {"n": number}, "scaled")
    assert str(info.value).startswith(f"scaled: n is {number!r}, and {dtype} tensors")
    assert f"convert the tensors with .to(tp.{wanted})" in str(info.value)


# ---------------------------------------------------------------------------------------------------------------- calls


@pytest.fixture
def scaled():
    made = program(("t0", "mul", "x", "n"), inputs=("x", "n"), numbers=("n",))
    schema = "scaled(Tensor x, Scalar n=2) -> Tensor"
    op = operator(schema, shape="same", promote="default", composite="explicit", math=made, fast=True)
    yield op
    REGISTRY.remove(op)


@pytest.mark.parametrize("device", ["cpu", "loopback"])
def test_a_float_beside_integer_tensors_names_the_operator_and_the_remedy(scaled, device):
    x = tp.tensor([1, 2], device=device)
    call = tp.ops.tp.scaled
    for _ in range(2):
        assert call(x, 3).tolist() == [3, 6] and call(x, 3).dtype is tp.int64
        with pytest.raises(DTypeError, match=r"scaled: n is 0.5, and int64 tensors(.|\n)*\.to\(tp\.float32\)"):
            call(x, 0.5)
        with pytest.raises(DTypeError, match=r"scaled: n is 1j, and float32 tensors"):
            call(x.to(tp.float32), 1j)
    assert call(x.to(tp.float32), 0.5).tolist() == [0.5, 1.0]


def test_integers_with_numbers_take_the_slow_path_where_they_are_checked(scaled):
    for dtype, filled in ((tp.int64, False), (tp.float32, True)):
        x = tp.ones(2, dtype=dtype)
        tp.ops.tp.scaled(x, 3)
        assert (intern(Device("cpu"), dtype).__dict__[scaled.slot] is not unresolved) is filled


def test_a_formula_with_a_float_in_it_takes_no_integers():
    made = program(("t0", "mul", "x", 0.5))
    op = operator("halved(Tensor x) -> Tensor", shape="same", promote="default", composite="explicit", math=made)
    try:
        assert tp.ops.tp.halved(tp.ones(1)).tolist() == [0.5]
        with pytest.raises(DTypeError, match=r"halved: its formula has the number 0\.5, and int64 tensors"):
            tp.ops.tp.halved(tp.tensor([1]))
    finally:
        REGISTRY.remove(op)
