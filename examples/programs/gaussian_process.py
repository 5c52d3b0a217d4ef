"""Gaussian-process regression says how far diabetes went in a year, and how sure it is.

The covariance is a squared exponential with a length for every measurement; lengths, scale and noise are found by
following the gradient of the log marginal likelihood through the Cholesky factorisation. A second process sees the
body mass index alone.

Source: C. Rasmussen and C. Williams, Gaussian processes for machine learning, 2006, algorithm 2.1 and equation 5.1.
The data are B. Efron et al.'s, Least angle regression, 2004, as scikit-learn has them.
"""

import math

import numpy as np
import torch
from adam import Adam
from support import Value, alone, package

TRAIN, BMI = 300, 2


def covariance(a, b, log):
    """The squared exponential covariance of the rows of a (n, d) and b (m, d), which is (n, m)."""
    length = log["length"].exp()
    squares = (a[:, None] / length - b / length).square().sum(dim=-1)
    return (2 * log["scale"]).exp() * torch.exp(-0.5 * squares)


def factors(x, y, log):
    """The Cholesky factor of the covariance of what was observed, and its inverse times the observations."""
    noise = (2 * log["noise"]).exp() * torch.eye(len(x), dtype=x.dtype, device=x.device)
    lower = torch.linalg.cholesky(covariance(x, x, log) + noise)
    return lower, torch.cholesky_solve(y[:, None], lower)[:, 0]


def surprise(x, y, log):
    """The negative log marginal likelihood of the observations, in nats."""
    lower, weights = factors(x, y, log)
    return 0.5 * torch.dot(y, weights) + lower.diagonal().log().sum() + 0.5 * len(y) * math.log(2 * math.pi)


def predict(x, y, log, new):
    """Means and standard deviations of new observations, noise included."""
    lower, weights = factors(x, y, log)
    between = covariance(x, new, log)
    explained = torch.linalg.solve_triangular(lower, between, upper=False).square().sum(dim=0)
    return between.T @ weights, ((2 * log["scale"]).exp() + (2 * log["noise"]).exp() - explained).sqrt()


def fit(x, y, settings, steps, what):
    """The hyperparameters, as logarithms, and the surprise and its gradient before the first step."""
    kind = {"dtype": x.dtype, "device": x.device}
    log = {
        "length": torch.full((x.shape[1],), math.log(3.0), **kind, requires_grad=True),
        "scale": torch.zeros((), **kind, requires_grad=True),
        "noise": torch.full((), math.log(0.5), **kind, requires_grad=True),
    }
    optimizer = Adam(log.values(), rate=0.05)
    first = None
    for _ in settings.track(range(steps), f"fitting {what}"):
        loss = surprise(x, y, log)
        loss.backward()
        first = first or (loss.item(), torch.cat([p.grad.flatten() for p in log.values()]).norm().item())
        optimizer.step()
    return log, first


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    data = package("sklearn.datasets").load_diabetes(scaled=False)
    order = np.random.default_rng(0).permutation(len(data.target))
    x = torch.from_numpy(data.data[order]).to(**kind)
    y = torch.from_numpy(data.target[order]).to(**kind)
    train = settings.size(TRAIN, 120)
    x = (x - x[:train].mean(dim=0)) / x[:train].std(dim=0)
    middle, spread = y[:train].mean(), y[:train].std()
    y = (y - middle) / spread
    known, answers, new, truth = x[:train], y[:train], x[TRAIN:], y[TRAIN:]

    log, first = fit(known, answers, settings, settings.size(120, 15), "all measurements")
    alone_log, _ = fit(known[:, [BMI]], answers, settings, settings.size(80, 15), "the body mass index")
    grid = torch.linspace(-2.2, 3.6, 150, **kind)[:, None]
    with torch.no_grad():
        last = surprise(known, answers, log).item()
        mean, deviation = predict(known, answers, log, new)
        within = ((mean - truth).abs() < 1.96 * deviation).to(x.dtype).mean()
        explained = 1 - (mean - truth).square().mean() / truth.var(correction=0)
        alone_mean, alone_deviation = predict(known[:, [BMI]], answers, alone_log, grid)
    lengths = dict(zip(data.feature_names, log["length"].exp().tolist(), strict=True))
    settings.say("length scales, in standard deviations: " + ", ".join(f"{n} {v:.1f}" for n, v in lengths.items()))
    settings.picture(
        "gaussian_process.png",
        lambda axes: draw(
            axes, (known[:, BMI], answers), (grid[:, 0], alone_mean, alone_deviation), (truth, mean, deviation)
        ),
        (10, 4.2),
        1,
        2,
    )
    return {
        "surprise before, nats": Value(first[0]),
        "norm of its gradient": Value(first[1]),
        "surprise after, nats": Value(last, within=1e-6),
        "explained variance, new patients": Value(explained.item(), within=1e-6),
        "share within the 95 % band": Value(within.item(), within=1e-6),
        "noise, standard deviations": Value(log["noise"].exp().item(), within=1e-6),
    }


def draw(axes, seen, curve, new):
    (x, y), (grid, mean, deviation) = ([t.tolist() for t in group] for group in (seen, curve))
    low, high = ([m + sign * 1.96 * d for m, d in zip(mean, deviation, strict=True)] for sign in (-1, 1))
    axes[0].fill_between(grid, low, high, alpha=0.2, label="95 % of new patients")
    axes[0].plot(grid, mean, label="mean")
    axes[0].plot(x, y, "k.", markersize=3, label="patients")
    axes[0].set(xlabel="body mass index, standardised", ylabel="progression, standardised")
    truth, mean, deviation = (t.tolist() for t in new)
    axes[1].errorbar(
        truth,
        mean,
        [1.96 * d for d in deviation],
        fmt=".",
        color="black",
        ecolor="tab:blue",
        elinewidth=0.4,
        label="mean and 95 % band",
    )
    axes[1].axline((0, 0), slope=1, color="black", linewidth=1)
    axes[1].set(xlabel="progression of new patients", ylabel="predicted from all measurements")
    for ax in axes:
        ax.legend(fontsize=8)


if __name__ == "__main__":
    alone(main)
