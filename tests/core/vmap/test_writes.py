"""Writes under vmap: to batched tensors, to new ones, to what all elements share; views; random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import TransformError

X = np.arange(6.0).reshape(3, 2)


def tensor():
    return tp.tensor(X.tolist())


def test_a_new_tensor_can_be_written_to():
    """Case C03: the value is what a loop gives."""

    def function(x):
        m = tp.zeros(2)
        m[0] = x.sum()
        return m

    assert tp.vmap(function)(tp.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[3.0, 0.0], [7.0, 0.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: tp.zeros(2),
        lambda x: tp.ones(2) * 0,
        lambda x: tp.empty(2).zero_(),
        lambda x: tp.full((2,), 0.0),
        lambda x: tp.zeros_like(x),
        lambda x: x.new_zeros(2),
        lambda x: tp.zeros(4)[1:3],
        lambda x: tp.zeros(2, 1).T[0],
        lambda x: tp.tensor([0.0, 0.0]),
        lambda x: tp.as_tensor([[0.0, 0.0]])[0],
        lambda x: tp.tensor([]).new_zeros(2),
        lambda x: OUTER.clone(),
        lambda x: OUTER.to(tp.float64).to(tp.float32),
    ],
)
def test_whatever_made_it(make):
    found = tp.vmap(lambda x: make(x).add_(x))(tensor())
    assert np.array_equal(found.numpy(), X)


OUTER = tp.zeros(2)


def test_views_that_were_taken_before_the_write_see_it():
    def function(x):
        m = tp.zeros(2, 2)
        row, column, square = m[0], m[:, 1], m.reshape(4)
        row.copy_(x)
        assert m[0].shape == (2,)
        return tp.stack([m.reshape(4), square, tp.cat([row, column])])

    found = tp.vmap(function)(tensor())
    for x, one in zip(X, found.numpy(), strict=True):
        m = np.zeros((2, 2))
        m[0] = x
        assert np.array_equal(one, [m.ravel(), m.ravel(), [*m[0], *m[:, 1]]])


def test_parts_of_a_new_tensor_see_the_write():
    def function(x):
        m = tp.zeros(4)
        first, second = m.split(2)
        second.add_(x)
        return m + first.sum()

    assert np.array_equal(tp.vmap(function)(tensor()).numpy(), np.pad(X, ((0, 0), (2, 0))))


def test_gradients_pass_through_a_new_tensor():
    def function(x):
        m = tp.zeros(2)
        m[1] = x[0] * x[1]
        return (m * m).sum()

    found = tp.vmap(tp.func.grad(function))(tensor())
    a, b = X.T
    assert np.allclose(found.numpy(), np.stack([2 * a * b * b, 2 * a * a * b], 1))


def test_a_write_to_a_batched_argument_reaches_its_memory():
    x = tensor()
    tp.vmap(lambda a: a.mul_(2))(x)
    tp.vmap(lambda a: a[0].zero_(), in_dims=1)(x)
    assert x.tolist() == [[0.0, 0.0], [4.0, 6.0], [8.0, 10.0]]


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: y.add_(x),
        lambda x, y: y.copy_(x),
        lambda x, y: y.__setitem__(0, x[0]),
        lambda x, y: y[0].mul_(x[0]),
        lambda x, y: y.index_put_([tp.tensor([0])], x[:1]),
        lambda x, y: tp.add(x, x, out=y),
    ],
)
def test_a_batched_value_does_not_fit_what_all_elements_share(write):
    y = tp.zeros(2)
    with pytest.raises(TransformError, match=r"(?s)room for one value, and the batch has 3.*fix: "):
        tp.vmap(lambda x: write(x, y))(tensor())
    assert y.tolist() == [0.0, 0.0]


def test_masks_select_what_is_written():
    def function(x):
        y = x * 1
        y[y > 2] = -1.0
        return y

    assert np.array_equal(tp.vmap(function)(tensor()).numpy(), np.where(X > 2, -1.0, X))


def test_batched_indices_into_shared_and_batched_tensors():
    table, places = tp.arange(12.0).reshape(4, 3), tp.tensor([[0, 3], [1, 1], [2, 0]])
    plain = np.arange(12.0).reshape(4, 3)
    found = tp.vmap(lambda i: table[i])(places)
    assert np.array_equal(found.numpy(), plain[places.numpy()])
    found = tp.vmap(lambda i: table[i[0]])(places)
    assert np.array_equal(found.numpy(), plain[places.numpy()[:, 0]])
    found = tp.vmap(lambda x, i: x[:, i])(tp.arange(24.0).reshape(3, 2, 4), places)
    wanted = [np.arange(24.0).reshape(3, 2, 4)[b][:, i] for b, i in enumerate(places.numpy())]
    assert np.array_equal(found.numpy(), wanted)


def test_a_mask_with_one_value_at_every_level():
    x = np.arange(12.0).reshape(2, 2, 3)
    mask = np.array([[True, False, True], [False, False, True]])

    def function(x, m, accumulate):
        y = x * 1
        y.index_put_((m,), tp.tensor(7.0), accumulate)
        return y

    for accumulate in (False, True):
        inner = tp.vmap(lambda x, m: function(x, m, accumulate), (0, None))  # noqa: B023
        found = tp.vmap(inner)(tp.tensor(x.tolist()), tp.tensor(mask.tolist()))
        assert np.array_equal(found.numpy(), np.where(mask[:, None], 7 + accumulate * x, x))


@pytest.mark.parametrize("batched", [True, False])
def test_a_mask_of_another_shape_is_refused(batched):
    def function(x, m):
        y = x * 1
        y[m] = 0.0
        return y

    mask = tp.tensor([[True], [False], [True]])
    with pytest.raises(tp.errors.DimError, match=r"the shape of the mask \(1,\).*does not match \(2,\)"):
        tp.vmap(function, (0, 0 if batched else None))(tensor(), mask if batched else mask[0])


@pytest.mark.parametrize(
    "write",
    [
        lambda y, a: y.mul_(a), lambda y, a: y.div_(a), lambda y, a: y.pow_(a), lambda y, a: y.atan2_(a),
        lambda y, a: y.lerp_(a * 2, a), lambda y, a: y.addcmul_(a, a), lambda y, a: y.hypot_(a),
        lambda y, a: y.sin_(), lambda y, a: y.sigmoid_(), lambda y, a: y.tanh_(), lambda y, a: y.square_(),
        lambda y, a: y.log_(), lambda y, a: y.exp_(), lambda y, a: y.reciprocal_(), lambda y, a: y.clamp_(0.5, 2.5),
        lambda y, a: y.xlogy_(a),
        lambda y, a: y.sinc_(), lambda y, a: y.cumprod_(0), lambda y, a: y[:1].mul_(a[1:]), lambda y, a: y.mul_(y),
        lambda y, a: y.scatter_reduce_(0, tp.tensor([0, 0]), a * 2, "prod"), lambda y, a: y.mul_(a[0]),
    ],
)  # fmt: skip
def test_a_gradient_passes_a_write_in_place(write):
    def function(a):
        y = a * 1
        write(y, a)
        return (y * y).sum()

    x = tp.tensor(X[1:].tolist(), dtype=tp.float64)
    wanted = [tp.func.grad(function)(row).numpy() for row in x]
    assert np.allclose(tp.func.grad(lambda x: tp.vmap(function)(x).sum())(x).numpy(), wanted)
    assert np.allclose(tp.vmap(tp.func.grad(function))(x).numpy(), wanted)
    x.requires_grad_()
    tp.vmap(function)(x).sum().backward()
    assert np.allclose(x.grad.numpy(), wanted)


@pytest.mark.parametrize("write", [lambda a, b: a.copy_(b), lambda a, b: a.__setitem__(slice(None), b)])
def test_the_dims_of_what_is_copied_are_not_the_batch(write):
    x = tensor()
    with pytest.raises(tp.errors.ShapeError, match=r"copy_: shape \(3, 2\) does not broadcast to \(2,\)"):
        tp.vmap(lambda a: write(a, tp.ones(3, 2)))(x)
    assert np.array_equal(x.numpy(), X)


def test_a_write_that_would_change_the_shape_is_refused_before_anything_is_written():
    x = tensor()
    with pytest.raises(tp.errors.ShapeError, match=r"add_: .*\(2,\)"):
        tp.vmap(lambda a, b: a.add_(b))(x, tp.ones(3, 4, 2))
    assert np.array_equal(x.numpy(), X)


# ------------------------------------------------------------------------------------------------------ random numbers


@pytest.mark.parametrize("draw", [lambda x: tp.rand(4), lambda x: tp.randn(4), lambda x: tp.randint(0, 9**9, (4,)),
                                  lambda x: tp.randperm(50), lambda x: tp.rand_like(x), lambda x: x.uniform_(),
                                  lambda x: tp.zeros(4).normal_(), lambda x: tp.bernoulli(tp.full((40,), 0.5)),
                                  lambda x: tp.nn.functional.dropout(tp.ones(40), 0.5)])  # fmt: skip
def test_randomness(draw):
    x = tp.zeros(3, 4)
    with pytest.raises(TransformError, match=r"(?s)is random.*fix: pass randomness='different'"):
        tp.vmap(draw)(x)
    rows = tp.vmap(draw, randomness="different")(x).tolist()
    assert rows[0] != rows[1] != rows[2] != rows[0]
    if draw(tp.zeros(4)) is not None:
        one, other, last = tp.vmap(draw, randomness="same")(tp.zeros(3, 4)).tolist()
        assert one == other == last


def test_what_all_elements_share_may_be_drawn_into_once():
    shared = tp.zeros(4)
    found = tp.vmap(lambda x: x.sum() * 0 + shared.uniform_(), randomness="same")(tensor())
    assert shared.sum().item() > 0 and all(tp.equal(row, shared) for row in found)
    with pytest.raises(TransformError, match="room for one value, and the batch has 3"):
        tp.vmap(lambda x: shared.uniform_(), randomness="different")(tensor())
    with pytest.raises(TransformError, match="is random"):
        tp.vmap(lambda x: shared.uniform_())(tensor())


def test_probabilities_that_are_batched_draw_for_each_element():
    p = tp.tensor([0.0, 1.0, 0.0])
    assert tp.vmap(lambda p: tp.bernoulli(p.expand(5)), randomness="different")(p).sum(1).tolist() == [0.0, 5.0, 0.0]
    with pytest.raises(TransformError, match="probabilities are batched"):
        tp.vmap(tp.bernoulli, randomness="same")(p)
    weights = tp.tensor([[1.0, 0.0], [0.0, 1.0]])
    drawn = tp.vmap(lambda w: tp.multinomial(w, 3, True), randomness="different")(weights)
    assert drawn.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_dropout_of_a_batch_is_the_same_or_different():
    x = tp.ones(3, 200)
    drop = lambda x: tp.nn.functional.dropout(x, 0.5)  # noqa: E731
    one, other, _ = tp.vmap(drop, randomness="same")(x)
    assert tp.equal(one, other) and 0 < (one == 0).sum().item() < 200
    one, other, _ = tp.vmap(drop, randomness="different")(x)
    assert not tp.equal(one, other)


def test_random_numbers_outside_are_as_before():
    tp.manual_seed(3)
    before = tp.rand(4)
    tp.manual_seed(3)
    tp.vmap(lambda x: x * 2)(tp.zeros(2))
    assert tp.equal(tp.rand(4), before)
