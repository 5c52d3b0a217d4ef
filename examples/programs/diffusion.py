"""Denoising diffusion in the plane: noise turns into points that lie like the dark of a photograph.

The data are places in scikit-image's picture of a cameraman, drawn with a probability like their darkness. A network
of three layers learns to tell the noise in a noisy place, at every level of noise; new points are made by starting
from pure noise and taking away, step by step, what the network takes for noise. All noise is NumPy's.

Source: J. Ho et al., Denoising diffusion probabilistic models, 2020, algorithms 1 and 2; the cosine schedule is A.
Nichol's and P. Dhariwal's, Improved denoising diffusion probabilistic models, 2021, equation 17. The features of
places and times are sines, as in M. Tancik et al., Fourier features let networks learn high frequency functions in
low dimensional domains, 2020.
"""

import math
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from adam import Adam, warmup_cosine
from support import Value, alone, package

TIMES, WAVES, HIDDEN, BATCH = 100, 32, 128, 512


def places(count, rng):
    """Points (count, 2) in the dark of the picture, standardised: sky and grass are light, the man's coat is not."""
    image = package("skimage.data").camera()[::2, ::2]
    dark = np.clip(110.0 - image, 0, None).ravel()
    chosen = rng.choice(dark.size, size=count, p=dark / dark.sum())
    row, column = np.divmod(chosen, image.shape[1])
    points = np.stack([column, -row], axis=1) + rng.uniform(-0.5, 0.5, (count, 2))
    points -= points.mean(axis=0)
    return points / points.std()


def schedule(kind):
    """What is left of the signal after each step of noise: the running product of 1 - variance, (times,)."""
    t = torch.linspace(0, 1, TIMES + 1, **kind)
    left = torch.cos((t + 0.008) / 1.008 * torch.pi / 2).square()
    return torch.cumprod(1 - (1 - left[1:] / left[:-1]).clamp(max=0.999), dim=0)


def start(kind):
    """The waves that places and times are seen through, and the parameters."""
    rng = np.random.default_rng(0)

    def normal(scale, *shape):
        return torch.from_numpy(rng.normal(0, scale, shape)).to(**kind)

    p = {"waves": normal(2.0, WAVES, 2)}
    sizes = (2 + 2 * WAVES + 16, HIDDEN, HIDDEN, HIDDEN, 2)
    for n, (inner, outer) in enumerate(pairwise(sizes)):
        p[f"{n}"] = normal(1 / math.sqrt(inner), outer, inner).requires_grad_()
        p[f"{n}_bias"] = torch.zeros(outer, **kind, requires_grad=True)
    return p


def noise_in(p, x, t):
    """What the network takes for noise in places (n, 2) at times (n,): (n, 2)."""
    phase = F.linear(x, p["waves"])
    moment = (
        (t.to(x.dtype) / TIMES).unsqueeze(1) * torch.pi * 2.0 ** torch.arange(-1, 7, dtype=x.dtype, device=x.device)
    )
    h = torch.cat([x, phase.sin(), phase.cos(), moment.sin(), moment.cos()], dim=1)
    for n in range(3):
        h = F.silu(F.linear(h, p[f"{n}"], p[f"{n}_bias"]))
    return F.linear(h, p["3"], p["3_bias"])


@torch.no_grad()
def sample(p, left, count, rng, settings):
    """Points made out of noise (count, 2), and how they were after some of the steps."""
    kind = {"dtype": left.dtype, "device": left.device}
    x = torch.from_numpy(rng.normal(size=(count, 2))).to(**kind)
    path = [x]
    for n in settings.track(range(TIMES - 1, -1, -1), "sampling"):
        before = left[n - 1] if n else torch.ones((), **kind)
        kept = left[n] / before
        noise = noise_in(p, x, torch.full((count,), n, device=x.device))
        # The clean point that this noise would mean stays near the data, whose scale is one.
        clean = ((x - (1 - left[n]).sqrt() * noise) / left[n].sqrt()).clamp(-3, 3)
        x = (before.sqrt() * (1 - kept) * clean + kept.sqrt() * (1 - before) * x) / (1 - left[n])
        if n:
            variance = (1 - before) / (1 - left[n]) * (1 - kept)
            x = x + variance.sqrt() * torch.from_numpy(rng.normal(size=(count, 2))).to(**kind)
        if n in (60, 30, 15, 0):
            path.append(x)
    return x, path


def energy_distance(a, b):
    """How different two clouds of points are: 0 for one distribution (G. Székely, 2003)."""
    return 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    rng = np.random.default_rng(1)
    data = torch.from_numpy(places(8000, rng)).to(**kind)
    left = schedule(kind)
    p = start(kind)
    trained = [value for name, value in p.items() if name != "waves"]
    optimizer = Adam(trained, rate=3e-3)
    steps = settings.size(2500, 40)
    history = []
    first = None
    for n in settings.track(range(steps), "training"):
        x = data[torch.from_numpy(rng.integers(len(data), size=BATCH)).to(settings.device)]
        t = torch.from_numpy(rng.integers(TIMES, size=BATCH)).to(settings.device)
        noise = torch.from_numpy(rng.normal(size=(BATCH, 2))).to(**kind)
        signal = left[t].unsqueeze(1)
        loss = F.mse_loss(noise_in(p, signal.sqrt() * x + (1 - signal).sqrt() * noise, t), noise)
        loss.backward()
        first = first or (loss.item(), p["0"].grad.norm().item())
        optimizer.step(warmup_cosine(n, steps))
        history.append(loss.detach())

    points, path = sample(p, left, settings.size(4000, 500), rng, settings)
    with settings.timed():
        recent = torch.stack(history[-100:]).mean().item()
        # As many points as that from the data itself, to see what the distance is when nothing is wrong.
        far = energy_distance(points[:2000], data[:2000]).item()
        near = energy_distance(data[2000:4000], data[:2000]).item()
    settings.say(
        f"energy distance to the data: noise {energy_distance(path[0][:2000], data[:2000]).item():.4f}, "
        f"samples {far:.4f}, other data {near:.4f}"
    )
    settings.picture("diffusion.png", lambda axes: draw(axes, path, data), (13, 3), 1, 6)
    return {
        "loss of the first batch": Value(first[0]),
        "gradient of the first layer": Value(first[1]),
        "mean loss of the last 100 batches": Value(recent, within=1e-6),
        "energy distance to the data": Value(far, within=1e-5),
    }


def draw(axes, path, data):
    titles = [f"step {n}" for n in (0, TIMES - 60, TIMES - 30, TIMES - 15, TIMES)]
    for ax, points, title in zip(axes, [*path, data[:4000]], [*titles, "data"], strict=True):
        ax.plot(points[:, 0].tolist(), points[:, 1].tolist(), ".", markersize=0.7)
        ax.set(xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), aspect="equal", xticks=[], yticks=[], title=title)


if __name__ == "__main__":
    alone(main)
