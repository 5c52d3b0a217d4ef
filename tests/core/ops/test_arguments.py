"""Arguments against schemas: one canonical form, and messages that name the operator, the argument and the remedy."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.errors import ArgumentError
from tensorplay_core.ops.arguments import bind, normalise, plan_of, python_scalar, tensors_in

X = tp.ones(2)


def op(schema, **options):
    return Operator(schema, namespace="t", **options)


OP = op(
    "op(Tensor x, int n, int[2] size=1, bool flag=False, *, "
    "float eps=0.5, ScalarType? dtype=None, str mode='mean') -> Tensor"
)


def test_the_plan_is_read_from_the_schema_once():
    plan = plan_of(OP)
    assert plan_of(OP) is plan
    assert [spec.name for spec in plan.positional] == ["x", "n", "size", "flag"]
    assert [spec.name for spec in plan.keyword] == ["eps", "dtype", "mode"]
    assert plan.tensor_positions == (0,) and plan.returns == 1 and plan.returns_tensor
    writing = plan_of(op("w_(Tensor(a!) self, Tensor other) -> Tensor(a!)"))
    assert writing.writes and not writing.view
    view = plan_of(op("v(Tensor(a) self) -> Tensor(a)"))
    assert view.view and not view.writes
    several = plan_of(op("s(Tensor x) -> (Tensor values, Tensor indices)"))
    assert several.returns == 2 and not several.returns_tensor
    pair = several.result_class([1, 2])
    assert pair.values == 1 and pair.indices == 2 and pair == (1, 2)


def test_binding_fills_defaults_and_takes_names():
    assert bind(OP, (X, 3), {}) == ((X, 3, 1, False), {})
    assert bind(OP, (X,), {"flag": True, "n": 2, "eps": 1.0}) == ((X, 2, 1, True), {"eps": 1.0})


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "argument 'x' is missing"),
        ((X,), {}, "argument 'n' is missing"),
        ((X, 1, 2, False, 3), {}, "takes 4 positional arguments, got 5"),
        ((X, 1), {"x": X}, "argument 'x' is given twice"),
        ((X, 1), {"esp": 1}, "unexpected argument 'esp'. Did you mean 'eps'"),
    ],
)
def test_binding_errors_name_the_operator_and_its_signature(args, kwargs, message):
    with pytest.raises(ArgumentError, match=message) as info:
        bind(OP, args, kwargs)
    assert str(info.value).startswith("t::op: ")
    assert isinstance(info.value, TypeError)


def test_keywords_that_equal_their_default_are_left_out():
    assert normalise(OP, (X, 3, 1, False), {"eps": 0.5, "mode": "mean", "dtype": None}) == ((X, 3, 1, False), {})
    _, changed = normalise(OP, (X, 3, 1, False), {"eps": 1, "mode": "sum", "dtype": float})
    assert changed == {"eps": 1.0, "mode": "sum", "dtype": tp.float32}


def test_one_canonical_form():
    args, _ = normalise(OP, (X, np.int64(3), [1, 2], np.bool_(True)), {})
    assert args == (X, 3, (1, 2), True) and type(args[1]) is int and type(args[3]) is bool


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("x", 1, 1, False), {}, "x must be a Tensor, not str"),
        ((None, 1, 1, False), {}, "x must be a Tensor, not None"),
        (([1.0], 1, 1, False), {}, r"x must be a Tensor, not list. Convert it with tp.tensor"),
        ((np.ones(2), 1, 1, False), {}, r"x must be a Tensor, not ndarray. Convert it with tp.tensor"),
        ((1.0, 1, 1, False), {}, "x must be a Tensor, not float"),
        ((X, "1", 1, False), {}, "n .*int"),
        ((X, 1.5, 1, False), {}, "n .*int"),
        ((X, True, 1, False), {}, "n .*int"),
        ((X, None, 1, False), {}, "n must be an int, not None"),
        ((X, 1, 1, "yes"), {}, "flag must be a bool, not 'yes'"),
        ((X, 1, 1, 2), {}, "flag must be a bool, not 2"),
        ((X, 1, 1, False), {"eps": "1"}, "eps must be a float, not '1'"),
        ((X, 1, 1, False), {"mode": 3}, "mode must be a string, not 3"),
        ((X, 1, 1, False), {"dtype": "float32"}, r"Write tp\.float32"),
    ],
)
def test_wrong_types_are_named(args, kwargs, message):
    with pytest.raises(ArgumentError, match=message):
        normalise(OP, args, kwargs)


def test_lists_of_tensors():
    many = op("many(Tensor[] xs, Tensor?[] maybe=[]) -> Tensor")
    assert normalise(many, ([X, X], [None, X]), {})[0] == ((X, X), (None, X))
    for wrong, message in [
        (X, "xs must be a list or tuple of tensors"),
        ([X, 3], r"xs\[1\] must be a Tensor, not int"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            normalise(many, (wrong, []), {})


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((number, number) for number in (True, 2, 2.5, 1j)),
        (np.float32(0.5), 0.5),
        (np.int8(3), 3),
        (np.bool_(False), False),
        (np.array(4.0), 4.0),
        ("x", None),
        (None, None),
        ([1], None),
        (X, None),
        (np.ones(2), None),
        (np.array("x"), None),
    ],
)
def test_python_numbers(value, number):
    found = python_scalar(value)
    assert found == number and type(found) is type(number)


def test_tensors_are_found_in_arguments_lists_and_keywords():
    y = tp.zeros(1)
    assert list(tensors_in((X, 1, (y, None, X), "s"), {"k": y, "n": 2})) == [X, y, X, y]


@pytest.mark.parametrize(
    "call", [lambda: X + "a", lambda: "a" + X, lambda: X - [1], lambda: X - {}, lambda: X * object()]
)
def test_operators_with_strangers_are_pythons_type_error(call):
    with pytest.raises(TypeError, match=r"unsupported operand|can only concatenate|must be str"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul,
        operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
    ],
)  # fmt: skip
def test_an_array_of_numpy_is_refused_with_what_to_write_instead(call):
    for pair in ((X, np.ones(2)), (np.ones(2), X)):
        with pytest.raises(ArgumentError, match=r"do not mix in an expression\nfix: .*tp\.tensor\(\.\.\.\)"):
            call(*pair)


def test_a_number_of_numpy_is_a_number():
    assert (np.float32(2) * X).tolist() == (X * np.array(2.0)).tolist() == (X * 2).tolist()


def test_a_stranger_may_answer_itself():
    class Stranger:
        def __radd__(self, other):
            return "radd"

        def __rmul__(self, other):
            return "rmul"

    assert X + Stranger() == "radd" and X * Stranger() == "rmul"
    assert (np.float32(2) * X).tolist() == [2.0, 2.0]
    with pytest.raises(TypeError):
        np.ones(2) + X
