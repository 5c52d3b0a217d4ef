"""Digits without their labels: principal components to see them in a plane, k-means to find the groups.

The components come from the singular value decomposition of the centred data; k-means starts from points chosen by
k-means++ (drawn from a running sum with NumPy's numbers) and moves the centres until no digit changes its group.

Sources: K. Pearson, On lines and planes of closest fit, 1901; S. Lloyd, Least squares quantization in PCM, 1982; D.
Arthur and S. Vassilvitskii, k-means++, 2007.
"""

import numpy as np
import torch
import torch.nn.functional as F
from support import Value, alone, digits

GROUPS = 10


def components(x, count):
    """The first principal directions (count, d), the share of the variance that each has, and the mean."""
    mean = x.mean(dim=0)
    _, singular, directions = torch.linalg.svd(x - mean, full_matrices=False)
    # A direction is known up to its sign: let its largest part be positive.
    largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))
    share = singular.square() / singular.square().sum()
    return (directions * largest.sign())[:count], share[:count], mean


def plus_plus(x, rng):
    """Starting centres: each next one is a point, with a probability like its squared distance to those before it."""
    centres = x[int(rng.integers(len(x)))][None]
    for _ in range(GROUPS - 1):
        distance = torch.cdist(x, centres).amin(dim=1).square()
        running = torch.cumsum(distance, dim=0)
        drawn = torch.searchsorted(running, running[-1] * float(rng.random()))
        centres = torch.cat([centres, x[drawn][None]])
    return centres


def k_means(x, centres):
    """Moves the centres until the groups stay; returns them, the group of each point, and the mean squared distance."""
    groups = None
    while True:
        distance, new = torch.cdist(x, centres).min(dim=1)
        if groups is not None and torch.equal(new, groups):
            return centres, groups, distance.square().mean().item()
        groups = new
        sums = torch.zeros_like(centres).index_add_(0, groups, x)
        sizes = torch.bincount(groups, minlength=len(centres))
        centres = torch.where((sizes > 0)[:, None], sums / sizes[:, None].clamp(min=1), centres)


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    pictures, names = digits()
    kept = settings.size(len(names), 600)
    x = torch.from_numpy(pictures[:kept].reshape(-1, 64)).to(**kind)
    labels = torch.from_numpy(names[:kept]).to(settings.device)
    rng = np.random.default_rng(0)
    with settings.timed():
        directions, share, mean = components(x, 20)
        plane = (x - mean) @ directions[:2].T
        left = (x - mean - (x - mean) @ directions.T @ directions).square().sum(dim=1).mean()

    runs = [k_means(x, plus_plus(x, rng)) for _ in settings.track(range(settings.size(20, 4)), "k-means")]
    centres, groups, spread = min(runs, key=lambda run: run[2])
    # How many of each digit are in each group; a group is named after the digit that it has most of.
    table = F.one_hot(groups, GROUPS).T @ F.one_hot(labels, 10)
    most, name = table.max(dim=1)
    purity = most.sum().item() / kept
    sharp = torch.sort(table.to(x.dtype).max(dim=0).values / table.sum(dim=0), descending=True)
    best = ", ".join(f"{d} {100 * s:.0f} %" for d, s in zip(sharp.indices.tolist(), sharp.values.tolist(), strict=True))
    settings.say(f"of each digit, the share that is in one group: {best}")
    settings.picture(
        "kmeans_pca.png",
        lambda axes: draw(axes, plane, groups, centres, name, (centres - mean) @ directions[:2].T),
        (11, 5),
        1,
        2,
    )
    return {
        "variance in two components": Value(share[:2].sum().item()),
        "squares left by twenty": Value(left.item()),
        "first component of the first digit": Value(plane[0, 0].item()),
        "mean squared distance": Value(spread, within=1e-8),
        "largest group": Value(float(torch.bincount(groups).max().item()), within=0),
        "purity of the groups": Value(purity, within=1e-12),
    }


def draw(axes, plane, groups, centres, name, places):
    """The digits in the plane, coloured by group; and the centres as pictures, where they are in that plane."""
    axes[0].scatter(plane[:, 0].tolist(), plane[:, 1].tolist(), c=groups.tolist(), cmap="tab10", s=5)
    for (a, b), digit in zip(places.tolist(), name.tolist(), strict=True):
        axes[0].text(a, b, str(digit), weight="bold", fontsize=14, ha="center", va="center")
    axes[0].set(
        title="groups, each named after its commonest digit", xlabel="first component", ylabel="second component"
    )
    for (a, b), centre in zip(places.tolist(), centres.tolist(), strict=True):
        image = [centre[row * 8 : row * 8 + 8] for row in range(8)]
        axes[1].imshow(image, cmap="gray_r", extent=(a - 0.25, a + 0.25, b - 0.25, b + 0.25))
    axes[1].set(xlim=axes[0].get_xlim(), ylim=axes[0].get_ylim(), title="the centres", aspect="auto")


if __name__ == "__main__":
    alone(main)
