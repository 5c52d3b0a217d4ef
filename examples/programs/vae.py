"""A variational autoencoder learns what digits look like, and draws some of its own.

An encoder gives each picture a normal distribution over eight numbers, a decoder turns eight numbers into a picture;
both are trained on the evidence lower bound, through the sample (the reparameterisation trick). The noise is NumPy's.

Source: D. Kingma and M. Welling, Auto-encoding variational Bayes, 2014; the divergence of the normal is its appendix
B.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from adam import Adam
from support import Value, alone, digits

HIDDEN, LATENT, TRAIN, BATCH = 256, 8, 1500, 100
SIZES = {"enc1": (HIDDEN, 64), "enc2": (2 * LATENT, HIDDEN), "dec1": (HIDDEN, LATENT), "dec2": (64, HIDDEN)}


def start(kind):
    """Weights and biases of the four layers before training."""
    rng = np.random.default_rng(0)
    p = {}
    for name, shape in SIZES.items():
        p[name] = torch.from_numpy(rng.normal(0, 1 / math.sqrt(shape[1]), shape)).to(**kind).requires_grad_()
        p[f"{name}_bias"] = torch.zeros(shape[0], **kind, requires_grad=True)
    return p


def layer(p, name, x):
    return F.linear(x, p[name], p[f"{name}_bias"])


def encode(p, x):
    """Pictures (n, 64) to the means and the logarithms of the variances of their codes, each (n, 8)."""
    return layer(p, "enc2", F.silu(layer(p, "enc1", x))).chunk(2, dim=1)


def decode(p, z):
    """Codes (n, 8) to the logits of the 64 pixels."""
    return layer(p, "dec2", F.silu(layer(p, "dec1", z)))


def bound(p, x, noise):
    """The negated evidence lower bound in nats a picture: its two parts, reconstruction and divergence."""
    mean, log_variance = encode(p, x)
    z = torch.addcmul(mean, torch.exp(0.5 * log_variance), noise)
    reconstruction = F.binary_cross_entropy_with_logits(decode(p, z), x, reduction="sum") / len(x)
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1).mean()
    return reconstruction, divergence


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    pictures, names = digits()
    x = torch.from_numpy(pictures.reshape(-1, 64)).to(**kind)
    train, test = x[:TRAIN], x[TRAIN:]
    p = start(kind)
    optimizer = Adam(p.values(), rate=2e-3)
    rng = np.random.default_rng(1)

    def noise(*shape):
        return torch.from_numpy(rng.normal(size=shape)).to(**kind)

    first = None
    for _ in settings.track(range(settings.size(120, 4)), "training"):
        order = torch.from_numpy(rng.permutation(TRAIN)).to(settings.device)
        for batch in order.split(BATCH):
            reconstruction, divergence = bound(p, train[batch], noise(BATCH, LATENT))
            loss = reconstruction + divergence
            loss.backward()
            first = first or (loss.item(), p["enc1"].grad.norm().item())
            optimizer.step()

    with torch.no_grad():
        reconstruction, divergence = bound(p, test, noise(len(test), LATENT))
        codes, _ = encode(p, test)
        again = torch.sigmoid(decode(p, codes[:10]))
        drawn = torch.sigmoid(decode(p, noise(40, LATENT)))
        # From the first test picture's code to that of the next picture of another digit, in ten steps.
        other = next(i for i in range(1, len(test)) if names[TRAIN + i] != names[TRAIN])
        path = torch.lerp(codes[0], codes[other], torch.linspace(0, 1, 10, **kind)[:, None])
        between = torch.sigmoid(decode(p, path))
        rows = torch.cat([test[:10], again, drawn, between]).view(-1, 10, 8, 8).tolist()
    settings.picture("vae.png", lambda axes: draw(axes, rows), (7, 5.4), 7, 10)
    return {
        "bound of the first batch, nats": Value(first[0]),
        "gradient of the first layer": Value(first[1]),
        "test reconstruction, nats": Value(reconstruction.item(), within=1e-6),
        "test divergence, nats": Value(divergence.item(), within=1e-6),
        "mean darkness of the drawn digits": Value(drawn.mean().item(), within=1e-6),
    }


def draw(axes, rows):
    """Rows of ten: digits, what is left of them in eight numbers, new ones, and one turning into another."""
    titles = ["digits", "decoded", "drawn", "drawn", "drawn", "drawn", "one to\nanother"]
    for line, row, title in zip(axes, rows, titles, strict=True):
        for ax, image in zip(line, row, strict=True):
            ax.imshow(image, cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(title, rotation=0, ha="right", va="center")


if __name__ == "__main__":
    alone(main)
