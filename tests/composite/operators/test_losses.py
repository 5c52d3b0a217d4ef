"""The losses by hand: values, tails, gradients where a formula would divide by 0, warnings and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.errors import ArgumentError, DimError, DTypeError, ShapeError, ValueRangeError

F = tp.nn.functional
X, T = tp.tensor([1.0, 2.0, 6.0]), tp.tensor([1.0, 4.0, 3.0])


@pytest.mark.parametrize(
    ("name", "options", "losses"),
    [
        ("mse_loss", {}, [0.0, 4.0, 9.0]),
        ("l1_loss", {}, [0.0, 2.0, 3.0]),
        ("smooth_l1_loss", {}, [0.0, 1.5, 2.5]),
        ("smooth_l1_loss", {"beta": 4.0}, [0.0, 0.5, 1.125]),
        ("smooth_l1_loss", {"beta": 0.0}, [0.0, 2.0, 3.0]),
        ("huber_loss", {"delta": 2.0}, [0.0, 2.0, 4.0]),
    ],
)
def test_losses_of_differences(name, options, losses):
    loss = getattr(F, name)
    assert loss(X, T, reduction="none", **options).tolist() == losses
    assert loss(X, T, reduction="sum", **options).item() == sum(losses)
    assert loss(X, T, **options).item() == pytest.approx(sum(losses) / 3)


def test_a_weighted_mean_divides_by_the_weights_of_mse_and_l1_alone():
    w = tp.tensor([0.0, 1.0, 3.0])
    assert F.mse_loss(X, T, weight=w).item() == (4 + 27) / 4
    assert F.l1_loss(X, T, weight=w).item() == (2 + 9) / 4
    assert F.huber_loss(X, T, weight=w).item() == pytest.approx((1.5 + 7.5) / 3)


def test_the_second_derivative_of_a_parabola_is_right_where_it_is_least():
    for loss in (F.mse_loss, F.smooth_l1_loss, F.huber_loss):
        x = tp.zeros(1, dtype=tp.float64, requires_grad=True)
        (slope,) = tp.autograd.grad(loss(x, tp.zeros(1, dtype=tp.float64)), x, create_graph=True)
        (bend,) = tp.autograd.grad(slope, x)
        assert bend.item() == (2.0 if loss is F.mse_loss else 1.0)


def test_tails_of_the_logits_keep_their_digits():
    x = tp.tensor([-40.0, 40.0, -1000.0, 1000.0], dtype=tp.float64, requires_grad=True)
    t = tp.tensor([0.0, 1.0, 0.0, 0.0], dtype=tp.float64)
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    tiny = math.exp(-40)
    np.testing.assert_allclose(loss.tolist(), [tiny, tiny, 0.0, 1000.0], rtol=1e-14)
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [tiny, -tiny, 0.0, 1.0], rtol=1e-14)


def test_the_slope_at_a_logit_of_0_is_that_of_the_sigmoid():
    x = tp.zeros(1, requires_grad=True)
    F.binary_cross_entropy_with_logits(x, tp.zeros(1)).backward()
    assert x.grad.item() == 0.5


def test_pos_weight_and_weight():
    x, t = tp.tensor([0.0, 0.0]), tp.tensor([1.0, 0.0])
    found = F.binary_cross_entropy_with_logits(
        x, t, tp.tensor([1.0, 2.0]), reduction="none", pos_weight=tp.tensor([3.0, 3.0])
    )
    np.testing.assert_allclose(found.tolist(), [3 * math.log(2), 2 * math.log(2)], rtol=1e-6)


def test_probabilities_of_0_and_1_are_limited():
    p = tp.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(p, tp.tensor([1.0, 0.0, 0.0, 1.0]), reduction="none")
    assert loss.tolist() == [100.0, 100.0, 0.0, 0.0]
    loss.sum().backward()
    assert all(math.isfinite(g) for g in p.grad.tolist())


def test_kl_div_of_a_distribution_with_itself_is_0_and_its_gradient_finite_at_0():
    t = tp.tensor([[0.5, 0.5, 0.0]], requires_grad=True)
    x = tp.tensor([[math.log(0.5), math.log(0.5), -3.0]])
    loss = F.kl_div(x, t, reduction="batchmean")
    assert loss.item() == pytest.approx(0.0, abs=1e-7)
    loss.backward()
    assert all(math.isfinite(g) for g in t.grad.tolist()[0])
    assert F.kl_div(x[:, :2], x[:, :2], log_target=True).item() == 0.0


def test_gaussian_and_poisson():
    x, t, v = tp.tensor([1.0, 2.0]), tp.tensor([2.0, 2.0]), tp.tensor([4.0, 0.0])
    found = F.gaussian_nll_loss(x, t, v, eps=1.0, reduction="none").tolist()
    np.testing.assert_allclose(found, [0.5 * (math.log(4) + 0.25), 0.0], rtol=1e-6)
    full = F.poisson_nll_loss(tp.tensor([0.0]), tp.tensor([3.0]), full=True).item()
    assert full == pytest.approx(1 + 3 * math.log(3) - 3 + 0.5 * math.log(6 * math.pi), rel=1e-6)
    assert F.poisson_nll_loss(tp.tensor([2.0]), tp.tensor([0.0]), log_input=False).item() == 2.0


def test_margins():
    one = tp.tensor([1.0, -1.0])
    assert F.hinge_embedding_loss(tp.tensor([0.25, 0.25]), one, reduction="none").tolist() == [0.25, 0.75]
    assert F.margin_ranking_loss(
        tp.tensor([1.0, 1.0]), tp.tensor([0.5, 0.5]), one, margin=0.25, reduction="none"
    ).tolist() == [0.0, 0.75]
    a, b = tp.tensor([[1.0, 0.0], [1.0, 0.0]]), tp.tensor([[0.0, 2.0], [3.0, 0.0]])
    np.testing.assert_allclose(F.cosine_embedding_loss(a, b, one, reduction="none").tolist(), [1.0, 1.0], atol=1e-6)
    far = F.soft_margin_loss(tp.tensor([-200.0]), tp.tensor([1.0]))
    assert far.item() == 200.0
    anchor, near, away = tp.zeros(1, 2), tp.tensor([[3.0, 4.0]]), tp.tensor([[0.0, 2.0]])
    for p, d in ((2.0, 5 - 2), (1.0, 7 - 2), (math.inf, 4 - 2)):
        assert F.triplet_margin_loss(anchor, near, away, 1.0, p, 0.0).item() == pytest.approx(1 + d)
    swapped = F.triplet_margin_loss(anchor, near, tp.tensor([[0.0, 9.0]]), 5.0, eps=0.0, swap=True)
    assert swapped.item() == pytest.approx(5 + 5 - math.hypot(3, 5), rel=1e-6)


def test_nll_loss_of_log_softmax_is_the_cross_entropy():
    x = tp.tensor(np.random.default_rng(0).normal(size=(5, 4, 3)), requires_grad=True)
    y = tp.tensor(np.random.default_rng(1).integers(0, 4, (5, 3)))
    w = tp.tensor([1.0, 2.0, 0.5, 0.25], dtype=tp.float64)
    for reduction in ("none", "sum", "mean"):
        ours = F.nll_loss(tp.log_softmax(x, 1), y, w, reduction=reduction, ignore_index=2)
        np.testing.assert_allclose(
            ours.detach().numpy(), F.cross_entropy(x, y, w, reduction=reduction, ignore_index=2).detach().numpy()
        )


@pytest.mark.parametrize("shape", [(3000, 70), (7, 2000), (2, 40000)])
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_the_cross_entropy_of_several_blocks(shape, smoothing):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=shape) + 1e4, rng.integers(0, shape[1], shape[0])
    t = tp.tensor(x, requires_grad=True)
    loss = F.cross_entropy(t, tp.tensor(y), label_smoothing=smoothing)
    log_p = x - x.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    hot = np.full(shape, smoothing / shape[1])
    hot[np.arange(shape[0]), y] += 1 - smoothing
    np.testing.assert_allclose(loss.item(), -(hot * log_p).sum() / shape[0], rtol=1e-10)
    loss.backward()
    np.testing.assert_allclose(t.grad.numpy(), (np.exp(log_p) - hot) / shape[0], atol=1e-12)


def test_half_precisions_do_not_overflow():
    x = tp.tensor([300.0] * 100, dtype=tp.float16)
    assert F.mse_loss(x, tp.zeros(100, dtype=tp.float16)).item() == math.inf  # 90000 is past the largest half
    assert F.l1_loss(x, tp.zeros(100, dtype=tp.float16)).item() == 300.0


def test_another_size_of_target_is_warned_of():
    with pytest.warns(UserWarning, match="different to the input size"):
        assert F.mse_loss(tp.zeros(2, 1), tp.ones(3), reduction="none").shape == (2, 3)


def test_softmin():
    np.testing.assert_allclose(F.softmin(tp.tensor([0.0, math.log(3)]), 0).tolist(), [0.75, 0.25], rtol=1e-6)


REFUSED = [
    (ArgumentError, "size_average is not supported.*reduction='sum'", lambda: F.mse_loss(X, T, size_average=False)),
    (ArgumentError, "reduce is not supported.*reduction='none'",
     lambda: F.cross_entropy(X, tp.tensor(0), reduce=False)),
    (ValueRangeError, "Did you mean 'mean'", lambda: F.l1_loss(X, T, reduction="men")),
    (ValueRangeError, "beta must be 0 or more", lambda: F.smooth_l1_loss(X, T, beta=-1.0)),
    (ValueRangeError, "delta must be more than 0", lambda: F.huber_loss(X, T, delta=0.0)),
    (DTypeError, "takes floating dtypes, not int64", lambda: F.mse_loss(tp.tensor([1]), tp.tensor([2]))),
    (ShapeError, "weight must have the shape of the losses", lambda: F.mse_loss(X, T, weight=tp.ones(2))),
    (ValueRangeError, "between 0 and 1", lambda: F.binary_cross_entropy(X, T)),
    (ValueRangeError, "between 0 and 1", lambda: F.binary_cross_entropy(tp.tensor([math.nan]), tp.zeros(1))),
    (ShapeError, "they must be the same", lambda: F.binary_cross_entropy_with_logits(X, tp.zeros(2))),
    (ValueRangeError, "negative entry", lambda: F.gaussian_nll_loss(X, T, tp.tensor([1.0, -1.0, 1.0]))),
    (ShapeError, "incorrect size", lambda: F.gaussian_nll_loss(X, T, tp.ones(2))),
    (ShapeError, "should have same size", lambda: F.margin_ranking_loss(X, T, tp.ones(2))),
    (ShapeError, r"takes inputs \(N, D\)", lambda: F.cosine_embedding_loss(X, T, tp.ones(3))),
    (ShapeError, "same dimension", lambda: F.triplet_margin_loss(X, T, tp.ones(2, 3))),
    (DimError, "target has class 9", lambda: F.nll_loss(tp.zeros(1, 2), tp.tensor([9]))),
    (DimError, "target has class -1", lambda: F.cross_entropy(tp.zeros(1, 2), tp.tensor([-1]))),
    (DTypeError, "target must be class indices, not float32", lambda: F.nll_loss(tp.zeros(1, 2), tp.zeros(1))),
]  # fmt: skip


@pytest.mark.parametrize(("error", "match", "call"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(error, match, call):
    with pytest.raises(error, match="(?s)" + match):
        call()
