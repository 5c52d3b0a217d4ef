"""The laws that random numbers are held to are NumPy's, and what draws by another law is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.testing.suite import distributions as laws
from tensorplay_core.testing.suite.checks import check
from tensorplay_core.testing.suite.outcome import FAILED, Gaps
from tensorplay_core.testing.suite.subject import Subject, operators
from tensorplay_loopback import plugin

RNG = np.random.default_rng(7)
MANY = 200_000
SHARES = (1.0, 2.0, 0.0, 5.0)
PAIRS = [RNG.choice(4, 2, replace=False, p=np.array(SHARES) / 8) for _ in range(20_000)]


@pytest.mark.parametrize(
    ("law", "numbers"),
    [
        (laws.uniform(-2, 3), RNG.uniform(-2, 3, MANY)),
        (laws.normal(2, 0.5), RNG.normal(2, 0.5, MANY)),
        (laws.exponential(2), RNG.exponential(1 / 2, MANY)),
        (laws.geometric(0.25), RNG.geometric(0.25, MANY)),
        (laws.integers(3, 9), RNG.integers(3, 9, MANY)),
        (laws.integers(0, 256), RNG.integers(0, 256, MANY)),
        (laws.chances(0.25, 0.75), RNG.binomial(1, 0.75, MANY)),
        (laws.chances(*SHARES), RNG.choice(4, MANY, p=np.array(SHARES) / 8)),
        (laws.chances(*SHARES), np.array(PAIRS)[:, 0]),
        (laws.second(*SHARES), np.array(PAIRS)[:, 1]),
    ],
)
def test_a_law_is_what_numpy_draws_by(law: laws.Law, numbers: Any) -> None:
    assert all(law.inside(float(one)) for one in numbers[:1000])
    assert len(law.points) >= 2
    for point in law.points:
        assert np.mean(numbers <= point) == pytest.approx(law.below(point), abs=3 / np.sqrt(len(numbers)))


def test_every_operator_that_draws_has_a_law_or_is_made_of_one_that_has() -> None:
    of_their_own = {"rand", "randn", "randperm"}  # the check of the device looks at those
    of_channels = {"dropout1d", "dropout2d", "dropout3d", "alpha_dropout"}
    random = {name for name, op in operators().items() if "random" in op.tags}
    assert {
        name for name in random if any(laws.draws(operators()[name], "float32"))
    } == random - of_their_own - of_channels


def host(generator: Any) -> Any:
    """NumPy's generator that a call draws from, so that states and seeds are obeyed and only the law is wrong."""
    return (generator or plugin.DEVICE.random).generator(0)


def fill(self: Any, numbers: Any) -> Any:
    self[...] = numbers
    return self


def wrong_uniform(self: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    return fill(self, host(generator).uniform(low, 1.0 if (low, high) == (0, 2) else high, self.shape))


def wrong_rate(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    return fill(self, host(generator).exponential(lambd, self.shape))


def wrong_spread(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    return fill(self, host(generator).normal(mean, std * std, self.shape))


def wrong_end(self: Any, high: int, *, generator: Any = None) -> Any:
    return fill(self, host(generator).integers(0, high, self.shape, endpoint=True))


def wrong_side(self: Any, p: float, *, generator: Any = None) -> Any:
    return (host(generator).random(self.shape) >= p).astype(self.dtype)


def wrong_weights(self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    rows = self.reshape((-1, self.shape[-1])) > 0
    drawn = [host(generator).choice(len(row), num_samples, replace=replacement, p=row / row.sum()) for row in rows]
    return np.array(drawn, dtype="int64").reshape((*self.shape[:-1], num_samples))


def wrong_trials(self: Any, p: float, *, generator: Any = None) -> Any:
    return fill(self, host(generator).geometric(p, self.shape) - 1)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("uniform_", wrong_uniform), ("exponential_", wrong_rate), ("normal_", wrong_spread), ("random_.to", wrong_end),
        ("bernoulli.p", wrong_side), ("multinomial", wrong_weights), ("geometric_", wrong_trials),
    ],
)  # fmt: skip
def test_a_kernel_that_draws_by_another_law_is_found(name: str, kernel: Any) -> None:
    tp.zeros(1, device="loopback")
    library = tp.library.Library("tp", "IMPL", "loopback")
    try:
        library.impl(name, kernel, override=True)
        subject = Subject("loopback", quick=True)
        found = [
            one for one in check(operators()[name], "forward", subject, Gaps(subject.profile)) if one.status == FAILED
        ]
    finally:
        library.close()
    assert found and all("after tp.manual_seed" in one.what for one in found), found
    assert all("is right" in one.what or "which it cannot" in one.what for one in found), found


def test_a_kernel_that_takes_no_notice_of_state_and_generator_is_found() -> None:
    def kernel(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Any:
        return fill(self, np.random.default_rng().random(self.shape) * (to - from_) + from_)

    tp.zeros(1, device="loopback")
    library = tp.library.Library("tp", "IMPL", "loopback")
    try:
        library.impl("uniform_", kernel, override=True)
        subject = Subject("loopback", quick=True)
        outcomes = check(operators()["uniform_"], "forward", subject, Gaps(subject.profile))
        found = [one.what for one in outcomes if one.status == FAILED and one.dtype == "float32"]
    finally:
        library.close()
    assert any("draws other numbers after set_rng_state" in what for what in found), found
