"""Random numbers: their distributions, their seeds, generators, zero gradients and what is refused."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

import tensorplay as tp

DEVICES = ("cpu", "loopback")


def seeded(seed=0, device="cpu"):
    return tp.Generator(device).manual_seed(seed)


@pytest.mark.parametrize("device", DEVICES)
def test_one_seed_gives_the_same_numbers_on_every_device(device):
    def draws(place):
        g = seeded(3, place)
        x = tp.empty(4, device=place)
        return [
            tp.rand(3, generator=g, device=place).tolist(),
            tp.randint(0, 9, (3,), generator=g, device=place).tolist(),
            x.uniform_(2, 5, generator=g).tolist(),
            x.normal_(1, 2, generator=g).tolist(),
            x.exponential_(generator=g).tolist(),
            tp.multinomial(tp.tensor([1.0, 2.0, 3.0], device=place), 2, generator=g).tolist(),
            tp.bernoulli(tp.full((5,), 0.5, device=place), generator=g).tolist(),
        ]

    assert draws(device) == draws("cpu")


def test_a_generator_is_apart_from_the_device_and_starts_from_one_seed():
    tp.manual_seed(5)
    first = tp.rand(3).tolist()
    tp.manual_seed(5)
    g = tp.Generator()
    tp.rand(7, generator=g)
    assert tp.rand(3).tolist() == first
    assert tp.Generator().initial_seed() == tp.Generator().initial_seed() == 67280421310721  # as in PyTorch
    assert tp.rand(3, generator=tp.Generator()).tolist() == tp.rand(3, generator=tp.Generator()).tolist()


def test_a_generators_state_can_be_kept_pickled_and_copied():
    g = seeded(7)
    tp.rand(3, generator=g)
    state = g.get_state()
    again = pickle.loads(pickle.dumps(g))
    twin = copy.deepcopy(g)
    clone = g.clone_state()
    wanted = tp.randn(5, generator=g).tolist()
    assert all(tp.randn(5, generator=one).tolist() == wanted for one in (again, twin, clone))
    assert tp.randn(5, generator=g.set_state(state)).tolist() == wanted
    assert again.initial_seed() == 7
    assert g.manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.seed() == g.initial_seed()
    assert repr(seeded(1)) == "<tensorplay.Generator device='cpu' initial_seed=1>"


def test_what_is_no_generator_of_the_device_is_refused():
    with pytest.raises(tp.ArgumentError, match=r"must be a tp.Generator, not int\nfix: pass tp.Generator\(\)"):
        tp.rand(2, generator=1)
    with pytest.raises(tp.DeviceMismatch, match="draws for loopback:0, and the call is on cpu"):
        tp.rand(2, generator=tp.Generator("loopback"))
    with pytest.raises(tp.ArgumentError, match="takes an int"):
        tp.Generator().manual_seed(1.5)
    with pytest.raises(tp.ValueRangeError, match="no state"):
        tp.Generator().set_state(b"x")


@pytest.mark.parametrize(
    ("draw", "mean", "variance"),
    [
        (lambda x, g: x.uniform_(-1, 3, generator=g), 1, 16 / 12),
        (lambda x, g: x.normal_(2, 3, generator=g), 2, 9),
        (lambda x, g: x.exponential_(2, generator=g), 0.5, 0.25),
        (lambda x, g: x.geometric_(0.25, generator=g), 4, 12),
        (lambda x, g: x.bernoulli_(0.2, generator=g), 0.2, 0.16),
        (lambda x, g: x.random_(0, 10, generator=g), 4.5, 8.25),
        (lambda x, g: tp.bernoulli(tp.full_like(x, 0.7), generator=g), 0.7, 0.21),
        (lambda x, g: tp.normal(tp.full_like(x, 1), 2.0, generator=g), 1, 4),
        (lambda x, g: tp.rand_like(x, generator=g), 0.5, 1 / 12),
        (lambda x, g: tp.randn_like(x, generator=g), 0, 1),
    ],
)
def test_mean_and_variance_are_the_distributions(draw, mean, variance):
    count = 40_000
    x = draw(tp.empty(count, dtype=tp.float64), seeded(11))
    assert abs(x.mean().item() - mean) < 6 * math.sqrt(variance / count)
    spread = ((x - mean) * (x - mean)).mean().item()
    assert abs(spread / variance - 1) < 0.15


@pytest.mark.parametrize("dtype", [tp.float16, tp.bfloat16, tp.float32, tp.float64])
def test_uniform_never_gives_its_end(dtype):
    x = tp.empty(20_000, dtype=dtype).uniform_(1, 2, generator=seeded())
    values = x.tolist()
    assert min(values) >= 1
    assert max(values) < 2
    assert tp.empty(3, dtype=dtype).uniform_(2, 2).tolist() == [2, 2, 2]


def test_integers_cover_their_interval_and_no_more():
    g = seeded(1)
    assert sorted({*tp.randint(-2, 3, (500,), generator=g).tolist()}) == [-2, -1, 0, 1, 2]
    assert sorted({*tp.randint(3, (500,), generator=g).tolist()}) == [0, 1, 2]
    assert tp.randint(5, 6, (2, 2), dtype=tp.float32).tolist() == [[5, 5], [5, 5]]
    assert {*tp.randint_like(tp.zeros(50, dtype=tp.int8), 4).tolist()} == {0, 1, 2, 3}
    big = tp.empty(200, dtype=tp.uint64).random_(generator=g).tolist()
    assert max(big) > 2**63
    assert max(tp.empty(2000, dtype=tp.float16).random_(generator=g).tolist()) <= 2**11
    assert min(tp.empty(50, dtype=tp.int8).random_(-128, None, generator=g).tolist()) < 0


def test_multinomial_draws_in_proportion_and_never_what_has_no_chance():
    g = seeded(2)
    weights = tp.tensor([[1.0, 0.0, 3.0, 0.0], [0.0, 5.0, 5.0, 0.0]])
    drawn = tp.multinomial(weights, 20_000, True, generator=g)
    first, second = drawn.tolist()
    assert {*first} == {0, 2}
    assert {*second} == {1, 2}
    assert abs(first.count(2) / 20_000 - 0.75) < 0.02
    assert [sorted(row) for row in tp.multinomial(weights, 2, generator=g).tolist()] == [[0, 2], [1, 2]]
    leads = [tp.multinomial(tp.tensor([1.0, 9.0]), 2, generator=g)[0].item() for _ in range(300)]
    assert abs(sum(leads) / 300 - 0.9) < 0.1
    assert drawn.dtype is tp.int64


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: tp.multinomial(tp.tensor([1.0, math.nan]), 1), tp.ValueRangeError, "infinity, NaN or an element < 0"),
        (lambda: tp.multinomial(tp.tensor([[1.0], [-1.0]]), 1), tp.ValueRangeError, "in row 1"),
        (lambda: tp.multinomial(tp.zeros(3), 1), tp.ValueRangeError, "adds up to 0"),
        (lambda: tp.multinomial(tp.ones(3), 4), tp.ValueRangeError, "cannot draw 4 times from 3 categories"),
        (lambda: tp.multinomial(tp.tensor([1.0, 0.0]), 2), tp.ValueRangeError, "1 of its categories"),
        (lambda: tp.multinomial(tp.ones(3), 0), tp.ValueRangeError, "num_samples is 1 or more"),
        (lambda: tp.multinomial(tp.ones(1, 1, 1), 1), tp.ShapeError, "1 or 2 dims"),
        (lambda: tp.multinomial(tp.ones(3, dtype=tp.int64), 1), tp.DTypeError, "floating dtype"),
        (lambda: tp.bernoulli(tp.tensor([1.5])), tp.ValueRangeError, "from 0 to 1"),
        (lambda: tp.empty(2).bernoulli_(-0.1), tp.ValueRangeError, "p is a probability"),
        (lambda: tp.empty(2).uniform_(3, 2), tp.ValueRangeError, "exchange them"),
        (lambda: tp.empty(2).normal_(0, -1), tp.ValueRangeError, "std is a finite number of at least 0"),
        (lambda: tp.empty(2).exponential_(0), tp.ValueRangeError, "lambd is a finite number above 0"),
        (lambda: tp.empty(2).geometric_(0), tp.ValueRangeError, "above 0, at most 1"),
        (lambda: tp.empty(2, dtype=tp.int8).random_(0, 200), tp.ValueRangeError, "199 does not fit int8"),
        (lambda: tp.empty(2).random_(5, 5), tp.ValueRangeError, "no such integer"),
        (lambda: tp.empty(2, dtype=tp.int64).uniform_(), tp.DTypeError, "floating dtype, not int64"),
        (lambda: tp.randint(3, 3, (1,)), tp.ValueRangeError, "no such integer"),
        (lambda: tp.randint(3), tp.ArgumentError, "size is missing"),
        (lambda: tp.randint(0, 300, (1,), dtype=tp.uint8), tp.ValueRangeError, "299 does not fit uint8"),
        (lambda: tp.normal(tp.zeros(2), tp.tensor([1.0, -1.0])), tp.ValueRangeError, "std must not be negative"),
        (lambda: tp.normal(0.0, 1.0), tp.ArgumentError, "size is missing"),
        (lambda: tp.normal(tp.zeros(2), 1.0, (2,)), tp.ArgumentError, "leave those away"),
        (lambda: tp.rand_like([1]), (tp.ArgumentError, AttributeError), "."),
    ],
)
def test_what_no_distribution_has_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_a_refused_draw_writes_nothing_and_counts_no_version():
    x = tp.ones(2)
    with pytest.raises(tp.ValueRangeError):
        x.bernoulli_(tp.tensor([0.5, 2.0]))
    assert x.tolist() == [1, 1]
    assert x._version_number == 0


def test_gradients_of_draws_are_zero():
    mean, std = tp.ones(3, requires_grad=True), tp.ones(3, requires_grad=True)
    tp.normal(mean, std).sum().backward()
    p = tp.full((3,), 0.5).requires_grad_()
    tp.bernoulli(p).sum().backward()
    x = tp.ones(3, requires_grad=True)
    (x * 2).uniform_().sum().backward()
    for leaf in (mean, std, p, x):
        assert leaf.grad.tolist() == [0, 0, 0]
    assert not tp.multinomial(tp.ones(3, requires_grad=True), 1).requires_grad


def test_draws_into_a_view_reach_its_base():
    x = tp.zeros(2, 3)
    x[:, 1].normal_(generator=seeded())
    assert [row[0] for row in x.tolist()] == [0, 0]
    assert all(row[1] != 0 for row in x.tolist())
