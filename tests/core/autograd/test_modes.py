"""no_grad, enable_grad, set_grad_enabled and inference_mode: as blocks, decorators, in generators and threads."""

from __future__ import annotations

import asyncio

import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE


@pytest.fixture
def x():
    return tp.ones(2, requires_grad=True)


@pytest.fixture(autouse=True)
def counters_return_to_where_they_were():
    before = (active.special, active.grad_off, active.inference)
    yield
    assert (active.special, active.grad_off, active.inference) == before
    assert tp.is_grad_enabled()
    assert not tp.is_inference_mode_enabled()


def test_nesting(x):
    with tp.no_grad():
        assert not (x * 2).requires_grad
        with tp.enable_grad():
            assert (x * 2).requires_grad
            with tp.no_grad():
                assert not (x + 2).requires_grad
            assert (x + 2).requires_grad
        assert not tp.is_grad_enabled()
    assert (x * 2).requires_grad


def test_an_exception_restores_the_mode(x):
    for mode in (tp.no_grad, tp.inference_mode):
        with pytest.raises(KeyError), mode():
            raise KeyError
    assert (x * 2).requires_grad


def test_leaves_can_be_made_in_no_grad():
    with tp.no_grad():
        assert tp.ones(2, requires_grad=True).requires_grad


def test_decorators(x):
    @tp.no_grad()
    def off(v):
        """Doubles."""
        return v * 2

    @tp.enable_grad()
    def on(v):
        return v * 2

    @tp.inference_mode()
    def inferring(v):
        return v * 2

    assert not off(x).requires_grad
    assert (off.__name__, off.__doc__) == ("off", "Doubles.")
    with tp.no_grad():
        assert on(x).requires_grad
    y = inferring(x)
    assert y.is_inference()
    assert not y.requires_grad


def test_a_decorated_function_may_call_itself(x):
    @tp.no_grad()
    def countdown(n):
        return countdown(n - 1) if n else tp.is_grad_enabled()

    assert countdown(5) is False


def test_a_decorated_generator_is_in_the_mode_only_while_it_runs(x):
    @tp.no_grad()
    def numbers():
        got = yield (x * 1).requires_grad
        try:
            yield (got, (x * 1).requires_grad)
        except ValueError:
            yield ("caught", (x * 1).requires_grad)
        finally:
            seen.append(tp.is_grad_enabled())

    seen: list[bool] = []
    generator = numbers()
    assert next(generator) is False
    assert tp.is_grad_enabled()
    assert generator.send("hello") == ("hello", False)
    assert generator.throw(ValueError) == ("caught", False)
    assert tp.is_grad_enabled()
    generator.close()
    assert seen == [False]

    @tp.no_grad()
    def returning():
        yield 1
        return 2

    def outer():
        return (yield from returning())

    steps = outer()
    next(steps)
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == 2


def test_two_generators_interleaved(x):
    @tp.no_grad()
    def off():
        for _ in range(3):
            yield tp.is_grad_enabled()

    @tp.enable_grad()
    def on():
        for _ in range(3):
            yield tp.is_grad_enabled()

    assert list(zip(off(), on(), strict=True)) == [(False, True)] * 3


def test_set_grad_enabled_as_block(x):
    with tp.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert tp.is_grad_enabled()
    with tp.no_grad(), tp.set_grad_enabled(True):
        assert (x * 2).requires_grad


def test_set_grad_enabled_as_call_holds_until_the_next(x):
    tp.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        tp.set_grad_enabled(True)
    assert (x * 2).requires_grad
    with pytest.raises(tp.ArgumentError, match="True or False"):
        tp.set_grad_enabled(1)


def test_set_grad_enabled_as_decorator_leaves_the_mode_alone(x):
    @tp.set_grad_enabled(False)
    def off(v):
        return v * 2

    assert tp.is_grad_enabled()
    assert not off(x).requires_grad


def test_inference_mode(x):
    with tp.inference_mode():
        y = x * 2
        z = tp.zeros(2)
        assert tp.is_inference_mode_enabled()
        assert not tp.is_grad_enabled()
        with tp.enable_grad():
            assert not (x * 2).requires_grad
        with tp.inference_mode(False):
            assert (x * 2).requires_grad
            assert not (x * 2).is_inference()
    assert y.is_inference()
    assert z.is_inference()
    assert not x.is_inference()
    assert not y.requires_grad
    with pytest.raises(tp.AutogradError, match="inference mode cannot require grad"):
        y.requires_grad_()


def test_operations_between_ordinary_and_inference_tensors(x):
    with tp.inference_mode():
        y = tp.ones(2)
    assert (x + y).requires_grad
    assert not (y + y).requires_grad
    (x + y).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_what_is_computed_in_inference_mode_are_inference_tensors_and_views_are_as_their_base(x):
    with tp.inference_mode():
        for y in (x[0], x.reshape(2, 1), x.unsqueeze(0)):
            assert not y.is_inference()
            assert not y.requires_grad
            assert (y * 1).reshape(-1)[0].is_inference()
        for y in (x.to(tp.float64), x.sum(), x.max(0)[0], tp.cat([x, x]), tp.where(x > 0, x, 0)):
            assert y.is_inference()
            assert not y.requires_grad


def test_tasks_have_modes_of_their_own(x):
    async def off():
        with tp.no_grad():
            await asyncio.sleep(0)
            return tp.is_grad_enabled()

    async def on():
        await asyncio.sleep(0)
        return tp.is_grad_enabled()

    async def both():
        return await asyncio.gather(off(), on(), off(), on())

    assert asyncio.run(both()) == [False, True, False, True]


def test_one_scope_object_can_be_entered_again(x):
    scope = tp.no_grad()
    with scope:
        with scope:
            assert not tp.is_grad_enabled()
        assert not tp.is_grad_enabled()
    assert tp.is_grad_enabled()
    with scope:
        assert not tp.is_grad_enabled()


@pytest.mark.parametrize("view", [lambda x: x[0], lambda x: x.reshape(-1), lambda x: x.transpose(0, 1)])
def test_a_view_of_an_inference_tensor_is_one_wherever_it_is_taken(x, view):
    with tp.inference_mode():
        made = tp.ones(2, 3)
    for _ in range(3):  # the first call takes the slow path
        part = view(made)
        assert part.is_inference()
        with pytest.raises(tp.AutogradError, match="inference mode"):
            part.add_(1)
    with pytest.raises(tp.AutogradError, match="inference mode"):
        made[0] = 5.0
    assert made.tolist() == [[1.0] * 3] * 2
    assert not (part + 1).is_inference()


def test_bare_calls_of_set_grad_enabled_do_not_pile_up(x):
    for _ in range(50):
        tp.set_grad_enabled(False)
        with tp.set_grad_enabled(True):
            assert (x * 2).requires_grad
        assert not tp.is_grad_enabled()  # a block restores what the bare call has set
        tp.set_grad_enabled(False)(lambda: None)
        assert not tp.is_grad_enabled() and active.grad_off == 1
        tp.set_grad_enabled(True)
        assert active.grad_off == 0
    depth, state = 0, STATE.get()
    while state is not None:
        depth, state = depth + 1, state.beneath
    assert depth < 5
    with tp.no_grad():
        tp.set_grad_enabled(True)
        tp.set_grad_enabled(False)
        tp.set_grad_enabled(True)
        assert tp.is_grad_enabled()
    assert tp.is_grad_enabled()


@pytest.mark.parametrize(
    ("mode", "inside"),
    [(tp.no_grad, (False, False)), (tp.enable_grad, (True, False)), (tp.inference_mode, (False, True))],
)
def test_a_mode_decorates_without_parentheses(mode, inside):
    def state():
        return tp.is_grad_enabled(), tp.is_inference_mode_enabled()

    @mode
    def function(value):
        """Says it."""
        return value, state()

    class Model:
        @mode
        def method(self):
            return self, state()

    @mode
    def generator():
        yield state()
        yield state()

    model = Model()
    assert (function.__name__, function.__doc__) == ("function", "Says it.")
    assert function(3) == (3, inside) and model.method() == (model, inside)
    for found in generator():
        assert (found, state()) == (inside, (True, False))


def test_a_mode_refuses_what_is_no_function():
    for mode in (tp.no_grad, tp.enable_grad):
        with pytest.raises(TypeError, match=r"takes no arguments.*not False\nfix: use set_grad_enabled"):
            mode(False)
    with pytest.raises(TypeError, match=r"takes True or False, or the function.*\nfix: "):
        tp.inference_mode("yes")
