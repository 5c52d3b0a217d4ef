"""Modes of operators: what they see, in what order, and that they leave nothing behind."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.context import STATE, Scope


class Seen(tp.DispatchMode):
    def __init__(self, answer=None):
        self.names, self.answer = [], answer

    def __tensorplay_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {})) if self.answer is None else self.answer


def test_forward_and_backward_are_seen_and_the_gradient_is_right():
    x = tp.tensor([1.0, 2.0], requires_grad=True)
    with Seen() as mode:
        y = (x * x).sum()
        assert mode.names == ["mul.default", "sum.default"]
        y.backward()
    assert mode.names[2:].count("mul.default") >= 1
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])


def test_what_an_operator_is_composed_of_is_seen():
    with Seen() as mode:
        tp.nn.functional.linear(tp.ones(1, 2), tp.ones(3, 2), tp.ones(3))
    assert "linear.default" not in mode.names
    assert {"matmul.default", "add.default"} <= set(mode.names)


def test_a_mode_may_keep_an_implicit_operator_whole():
    class Whole(Seen):
        def keeps(self, op, keys):
            return op.name == "linear"

    with tp.no_grad(), Whole() as mode:
        tp.nn.functional.linear(tp.ones(1, 2), tp.ones(3, 2))
    assert mode.names[-1] == "linear.default"


def test_autocast_is_above():
    with Scope(autocast={"cpu": tp.bfloat16}), Seen() as mode:
        y = tp.ones(2, 2) @ tp.ones(2, 2)
    assert y.dtype is tp.bfloat16
    assert mode.names.count("_to_copy.default") == 2


def test_modes_nest_inner_first_and_each_is_off_in_its_handler():
    order = []

    class Named(tp.DispatchMode):
        def __init__(self, name):
            self.name = name

        def __tensorplay_dispatch__(self, func, types, args=(), kwargs=None):
            order.append((self.name, func.__name__, len(STATE.get().modes.operators)))
            if func.__name__ == "exp.default":
                args = (args[0] * 2,)
            return func(*args, **(kwargs or {}))

    x = tp.zeros(1)
    with Named("outer"), Named("inner"):
        x.exp()
    assert order == [
        ("inner", "exp.default", 1),
        ("outer", "mul.default", 0),
        ("outer", "exp.default", 0),
    ]


def test_nothing_is_recorded_in_a_handler_and_the_result_is():
    class Looking(tp.DispatchMode):
        def __tensorplay_dispatch__(self, func, types, args=(), kwargs=None):
            assert not tp.is_grad_enabled()
            return func(*args, **(kwargs or {}))

    x = tp.ones(2, requires_grad=True)
    with Looking():
        y = x.exp()
    assert y.grad_fn.name == "ExpBackward"


def test_a_result_can_be_replaced():
    x = tp.zeros(2, requires_grad=True)
    with Seen(answer=tp.full((2,), 7.0)):
        y = x.exp()
    assert y.tolist() == [7.0, 7.0]
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [7.0, 7.0])  # the derivative is the result


def test_wrong_answers_are_clear_errors():
    with Seen(answer=3), pytest.raises(TypeError, match="exp: __tensorplay_dispatch__ of Seen returned int"):
        tp.exp(ONES)
    with (
        Seen(answer=NotImplemented),
        pytest.raises(TypeError, match="exp: __tensorplay_dispatch__ of the mode Seen returned NotImplemented"),
    ):
        tp.exp(ONES)


ONES = tp.ones(2)


def test_a_mode_that_does_not_answer_leaves_it_to_the_next():
    with Seen() as outer, Seen(answer=NotImplemented) as inner:
        assert tp.exp(ONES * 0).tolist() == [1.0, 1.0]
    assert inner.names == outer.names == ["mul.default", "exp.default"]


def test_writes_and_views_keep_their_relations():
    x = tp.zeros(2, 3)
    with Seen() as mode:
        row = x[1]
        row.add_(5)
        x.T[0].fill_(1)
    assert x.tolist() == [[1.0, 0.0, 0.0], [1.0, 5.0, 5.0]]
    assert row._base is x
    assert {"select.default", "add_.default", "fill_.default"} <= set(mode.names)
    leaf = tp.ones(3, requires_grad=True)
    with Seen():
        base = leaf * 1
        base[1:].mul_(2)
        base.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [1.0, 2.0, 2.0])


def test_state_is_restored_whatever_is_raised():
    before = STATE.get()

    class Failing(tp.DispatchMode):
        def __tensorplay_dispatch__(self, func, types, args=(), kwargs=None):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Failing(), Seen():
        tp.exp(ONES)
    assert STATE.get() is before
    with Failing() as mode:
        pass
    with mode, pytest.raises(ZeroDivisionError):
        tp.exp(ONES)


def test_a_generator_leaves_its_mode_with_its_block():
    def steps():
        with Seen() as mode:
            tp.exp(ONES)
            yield mode
            tp.exp(ONES)

    running = steps()
    mode = next(running)
    list(running)
    assert mode.names == ["exp.default"] * 2
    tp.exp(ONES)
    assert len(mode.names) == 2
    assert not STATE.get().modes.operators


def test_a_task_that_began_inside_a_mode_keeps_it():
    async def main():
        with Seen() as mode:
            task = asyncio.create_task(later())
        await task
        return mode.names

    async def later():
        tp.exp(ONES)

    assert asyncio.run(main()) == ["exp.default"]


def test_inference_mode_and_no_grad():
    for scope in (tp.inference_mode, tp.no_grad):
        with scope(), Seen() as mode:
            y = tp.exp(ONES)
        assert mode.names == ["exp.default"]
        assert y.is_inference() is (scope is tp.inference_mode)


class Scaled(tp.Tensor):
    """Has a say in operators: everything is computed on plain tensors, and doubled by exp."""

    __tensorplay_function__ = tp.overrides.DISABLED

    @classmethod
    def __tensorplay_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [tp.overrides.plain(value) if isinstance(value, cls) else value for value in args]
        result = func(*args, **(kwargs or {}))
        return (result * 2 if func is tp.ops.tp.exp.default else result).as_subclass(cls)


def test_a_subclass_can_have_a_say_in_operators():
    x = tp.zeros(2).as_subclass(Scaled)
    y = x.exp()
    assert type(y) is Scaled
    assert tp.overrides.plain(y).tolist() == [2.0, 2.0]
    leaf = tp.Tensor._make_subclass(Scaled, tp.zeros(2), True)
    z = leaf.exp()
    assert z.grad_fn.name == "ExpBackward"
    z.sum().backward()
    assert tp.overrides.plain(leaf.grad).tolist() == [2.0, 2.0]


def test_a_mode_is_asked_before_the_class():
    x = tp.zeros(2).as_subclass(Scaled)
    with Seen() as mode:
        y = x.exp()
    assert tp.overrides.plain(y).tolist() == [2.0, 2.0]
    assert mode.names[0] == "exp.default"
