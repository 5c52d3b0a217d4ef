"""A face is repainted in the manner of another picture, both of 64 x 64 pixels.

What makes a manner is which features occur together, the Gram matrix of filtered pixels; what makes a content is
where they occur. The filters are random and never trained, of three sizes and on a pyramid of the picture; the pixels
are what is trained.

Sources: L. Gatys et al., A neural algorithm of artistic style, 2015; I. Ustyuzhaninov et al., Texture synthesis using
shallow convolutional networks with random filters, 2016 (that they need no training).
"""

import numpy as np
import torch
import torch.nn.functional as F
from adam import Adam, warmup_cosine
from support import Value, alone, package

SIDE, LEVELS, SIZES, FILTERS = 64, 3, (3, 7, 11), 24


def load(kind):
    """The astronaut's face and a stained tissue, each (1, 3, 64, 64) from 0 to 1, reduced by averaging."""
    data = package("skimage.data")
    images = []
    for image, top, left, side in ((data.astronaut(), 0, 128, 192), (data.immunohistochemistry(), 128, 192, 256)):
        pixels = torch.from_numpy(image[top : top + side, left : left + side].copy()).to(**kind) / 255
        images.append(F.avg_pool2d(pixels.permute(2, 0, 1).unsqueeze(0), side // SIDE))
    return images


def filters(kind):
    """Random filters (24, 3, size, size) of each size, blind to even surfaces, about as loud as pixels."""
    rng = np.random.default_rng(0)
    made = []
    for size in SIZES:
        values = rng.normal(size=(FILTERS, 3, size, size))
        values -= values.mean(axis=(2, 3), keepdims=True)
        made.append(torch.from_numpy(values / np.sqrt(3 * size)).to(**kind))
    return made


def features(image, bank):
    """What the filters see on each level of the pyramid: maps (channels, pixels), the colours themselves among them."""
    maps = []
    for level in range(LEVELS):
        if level:
            image = F.avg_pool2d(image, 2)
        seen = [F.relu(F.conv2d(F.pad(image, (f.shape[-1] // 2,) * 4, mode="reflect"), f)) for f in bank]
        maps.append(torch.cat([*seen, image], dim=1)[0].flatten(1))
    return maps


def gram(maps):
    """Which features occur together: the mean of their products, (channels, channels)."""
    return maps @ maps.T / maps.shape[1]


def losses(image, bank, content, manner):
    """How far the picture is from the face, seen through the filters, and from the manner."""
    maps = features(image, bank)
    place = F.mse_loss(maps[1], content)
    style = sum((gram(m) - g).square().mean() / g.square().mean() for m, g in zip(maps, manner, strict=True))
    return place, style


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    face, tissue = load(kind)
    bank = filters(kind)
    content = features(face, bank)[1]
    manner = [gram(m) for m in features(tissue, bank)]
    image = face.clone().requires_grad_()
    optimizer = Adam([image], rate=0.03)
    steps = settings.size(250, 6)
    history = []
    first = None
    for n in settings.track(range(steps), "painting"):
        place, style = losses(image, bank, content, manner)
        # Colours outside the range from 0 to 1 cannot be shown.
        outside = (image - image.clamp(0, 1)).square().sum()
        (1.5 * place + style + 0.1 * outside).backward()
        first = first or (style.item(), image.grad.norm().item())
        history.append((place.item(), style.item()))
        optimizer.step(warmup_cosine(n, steps))

    with torch.no_grad():
        place, style = losses(image, bank, content, manner)
        shown = [picture[0].permute(1, 2, 0).clamp(0, 1).tolist() for picture in (face, tissue, image)]
    settings.picture("style.png", lambda axes: draw(axes, shown, history), (12, 3.2), 1, 4)
    return {
        "distance from the manner, before": Value(first[0]),
        "gradient of the first step": Value(first[1]),
        "distance from the manner, after": Value(style.item(), within=1e-6),
        "distance from the content, after": Value(place.item(), within=1e-6),
    }


def draw(axes, shown, history):
    for ax, picture, title in zip(axes, shown, ("content", "manner", "both"), strict=False):
        ax.imshow(picture)
        ax.set_title(title)
        ax.axis("off")
    axes[3].semilogy(history, label=["content", "manner"])
    axes[3].set(xlabel="step", title="distances")
    axes[3].legend()


if __name__ == "__main__":
    alone(main)
