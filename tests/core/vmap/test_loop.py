"""Operators without a rule, called once for each element: what they write to, and what they draw."""

from __future__ import annotations

import warnings

import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import TransformError
from tensorplay_core.ops.custom import registration
from tensorplay_core.vmap.loop import VmapLoopWarning

X = tp.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture(autouse=True)
def leave_no_operator_behind():
    before = set(registration.DEFINITIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VmapLoopWarning)
        yield
    for name in set(registration.DEFINITIONS) - before:
        registration.DEFINITIONS.pop(name)._lib.close()
    assert not any(name.startswith("looped::") for name in REGISTRY.operators)


@pytest.fixture
def total_into():
    @tp.library.custom_op("looped::total_into", mutates_args=("out",))
    def total_into(x: tp.Tensor, out: tp.Tensor) -> None:
        out.add_(1)
        out.add_(x.sum().item())

    return total_into


def test_each_element_writes_to_a_new_tensor_of_its_own(total_into):
    def function(x):
        out = tp.zeros(2)
        total_into(x, out)
        return out

    assert tp.vmap(function)(X).tolist() == [[4.0, 4.0], [8.0, 8.0]]


def test_each_element_of_every_level_writes_to_its_own(total_into):
    def function(x):
        out = tp.zeros(1)
        total_into(x, out)
        return out[0]

    x = tp.arange(12.0).reshape(2, 3, 2)
    assert tp.vmap(tp.vmap(function))(x).tolist() == (x.sum(-1) + 1).tolist()


def test_each_element_writes_to_its_part_of_an_argument(total_into):
    def function(x, out):
        total_into(x, out[0])
        return out * 1

    out = tp.zeros(2, 2)
    assert tp.vmap(function)(X, out).tolist() == [[4.0, 0.0], [8.0, 0.0]]
    assert out.tolist() == [[4.0, 0.0], [8.0, 0.0]]


def test_what_all_elements_share_is_not_written_to(total_into):
    shared = tp.zeros(2)
    with pytest.raises(TransformError, match=r"(?s)room for one value, and the batch has 2.*fix: "):
        tp.vmap(lambda x: (total_into(x, shared), x)[1])(X)
    with pytest.raises(TransformError, match="room for one value"):
        tp.vmap(tp.vmap(lambda x: (total_into(x, shared), x)[1]))(tp.ones(2, 3, 2))
    assert shared.tolist() == [0.0, 0.0]


def test_a_composite_that_cannot_go_on_has_written_nothing():
    @tp.library.custom_op("looped::counts", mutates_args=("out",))
    def counts(x: tp.Tensor, out: tp.Tensor) -> None:
        out.add_(x)
        if x.sum() > 5:
            out.add_(100)

    def function(x):
        out = x * 10
        counts(x, out)
        return out

    assert tp.vmap(function)(X).tolist() == [[11.0, 22.0], [133.0, 144.0]]


@pytest.fixture
def noise():
    @tp.library.custom_op("looped::noise", mutates_args=())
    def noise(x: tp.Tensor) -> tp.Tensor:
        return x * 0 + tp.rand(x.shape)

    return noise


def test_a_loop_draws_as_randomness_says(noise):
    with pytest.raises(TransformError, match=r"(?s)rand is random.*fix: pass randomness"):
        tp.vmap(noise)(X)
    one, other = tp.vmap(noise, randomness="different")(X)
    assert not tp.equal(one, other)


@pytest.mark.parametrize(("outer", "inner"), [("error", "different"), ("different", "error")])
def test_every_level_around_a_loop_has_its_say(noise, outer, inner):
    with pytest.raises(TransformError, match="rand is random"):
        tp.vmap(tp.vmap(noise, randomness=inner), randomness=outer)(X.reshape(2, 2, 1))


def test_a_call_without_a_batch_draws_once():
    @tp.library.custom_op("looped::fixed", mutates_args=())
    def fixed(x: tp.Tensor) -> tp.Tensor:
        return x + tp.rand(2)

    fixed.register_autograd(lambda ctx, grad: grad)  # so that it is called as it is
    function = lambda x: fixed(tp.zeros(2)) + 0 * x  # noqa: E731
    with pytest.raises(TransformError, match="rand is random"):
        tp.vmap(function)(X)
    with pytest.raises(TransformError, match=r"would draw the same numbers for each.*randomness='different'"):
        tp.vmap(function, randomness="different")(X)
    one, other = tp.vmap(function, randomness="same")(X)
    assert tp.equal(one, other)


def test_a_composite_that_draws_without_a_batch_asks_what_is_meant():
    @tp.library.custom_op("looped::filled", mutates_args=("out",))
    def filled(out: tp.Tensor) -> None:
        out.uniform_()

    def function(x):
        out = tp.zeros(2)
        filled(out)
        return out + 0 * x

    with pytest.raises(TransformError, match="uniform_ is random"):
        tp.vmap(function)(X)
    one, other = tp.vmap(function, randomness="same")(X)
    assert tp.equal(one, other)
    one, other = tp.vmap(function, randomness="different")(X)
    assert not tp.equal(one, other)


def test_a_loop_cannot_draw_the_same():
    @tp.library.custom_op("looped::values", mutates_args=())
    def values(x: tp.Tensor) -> tp.Tensor:
        return tp.rand(2) * float(x.sum())

    with pytest.raises(TransformError, match=r"(?s)would draw other numbers for each.*randomness='same'.*fix: give"):
        tp.vmap(values, randomness="same")(X)
    one, other = tp.vmap(values, randomness="different")(tp.ones(2, 2))
    assert not tp.equal(one, other)
    assert tp.rand(2).shape == (2,)  # as ever afterwards


def test_the_warning_names_the_programs_line():
    @tp.library.custom_op("looped::slow", mutates_args=())
    def slow(x: tp.Tensor) -> tp.Tensor:
        return x * float(x.sum())

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tp.vmap(slow)(X)
        tp.vmap(slow)(X)
    assert [(one.category, one.filename) for one in told] == [(VmapLoopWarning, __file__)]


def test_a_warning_that_is_made_an_error_is_not_forgotten():
    @tp.library.custom_op("looped::strict", mutates_args=())
    def strict(x: tp.Tensor) -> tp.Tensor:
        return x * float(x.sum())

    for _ in range(2):
        with warnings.catch_warnings(), pytest.raises(VmapLoopWarning):
            warnings.simplefilter("error")
            tp.vmap(strict)(X)
