"""A convolutional network reads handwritten digits.

Two blocks of convolution, batch normalisation, rectifier and max pooling, then dropout and one linear layer; trained
by stochastic gradients with Nesterov's momentum. What dropout takes away is the library's own choice, so the accuracy
is compared as a statistic; the same training without dropout is compared exactly.

Sources: Y. LeCun et al., Gradient-based learning applied to document recognition, 1998; S. Ioffe and C. Szegedy,
Batch normalization, 2015; N. Srivastava et al., Dropout, 2014. Weights start as in K. He et al., Delving deep into
rectifiers, 2015.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from support import Value, alone, digits

TRAIN, BATCH = 1500, 50


def start(kind):
    """The network before training: its parameters, and the running statistics of its normalisations."""
    rng = np.random.default_rng(0)

    def weight(*shape):
        values = rng.normal(0, math.sqrt(2 / math.prod(shape[1:])), shape)
        return torch.from_numpy(values).to(**kind).requires_grad_()

    parameters = {
        "conv1": weight(16, 1, 3, 3),
        "gain1": torch.ones(16, **kind, requires_grad=True),
        "shift1": torch.zeros(16, **kind, requires_grad=True),
        "conv2": weight(32, 16, 3, 3),
        "gain2": torch.ones(32, **kind, requires_grad=True),
        "shift2": torch.zeros(32, **kind, requires_grad=True),
        "weight": weight(10, 128),
        "bias": torch.zeros(10, **kind, requires_grad=True),
    }
    running = {n: (torch.zeros(size, **kind), torch.ones(size, **kind)) for n, size in ((1, 16), (2, 32))}
    return parameters, running


def network(p, running, x, training, dropout=0.0):
    """Images (n, 1, 8, 8) to the unnormalised log-probabilities of the ten digits, (n, 10)."""
    for n in (1, 2):
        x = F.conv2d(x, p[f"conv{n}"], padding=1)
        x = F.batch_norm(x, *running[n], p[f"gain{n}"], p[f"shift{n}"], training=training)
        x = F.max_pool2d(F.relu(x), 2)
    x = F.dropout(x.flatten(1), dropout, training=training)
    return F.linear(x, p["weight"], p["bias"])


def train(images, labels, kind, settings, epochs, dropout):
    """Trains from the start; returns parameters, running statistics, and the loss and gradient of the first step."""
    p, running = start(kind)
    velocities = {name: torch.zeros_like(value) for name, value in p.items()}
    rng = np.random.default_rng(1)
    steps = [torch.from_numpy(rng.permutation(TRAIN)).to(kind["device"]) for _ in range(epochs)]
    steps = [batch for order in steps for batch in order.split(BATCH)]
    first = None
    for step, batch in enumerate(settings.track(steps, f"training, dropout {dropout}")):
        loss = F.cross_entropy(network(p, running, images[batch], True, dropout), labels[batch])
        loss.backward()
        first = first or (loss.item(), p["conv1"].grad.norm().item())
        rate = 0.03 * (1 - step / len(steps))
        with torch.no_grad():
            for name, value in p.items():
                velocities[name].mul_(0.9).add_(value.grad)
                value.sub_(value.grad + 0.9 * velocities[name], alpha=rate)
                value.grad = None
    return p, running, first


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    torch.manual_seed(0)
    pictures, names = digits()
    images = torch.from_numpy(pictures).to(**kind).unsqueeze(1)
    labels = torch.from_numpy(names).to(settings.device)
    test, answers = images[TRAIN:], labels[TRAIN:]

    p, running, first = train(images, labels, kind, settings, epochs=1, dropout=0.0)
    with torch.no_grad():
        plain = F.cross_entropy(network(p, running, test, training=False), answers)

    p, running, _ = train(images, labels, kind, settings, epochs=settings.size(20, 3), dropout=0.3)
    with torch.no_grad():
        logits = network(p, running, test, training=False)
        loss = F.cross_entropy(logits, answers)
        guesses = logits.argmax(1)
        accuracy = 100 * (guesses == answers).to(kind["dtype"]).mean()

    wrong = (guesses != answers).nonzero().flatten().tolist()
    settings.picture("digits_cnn.png", lambda axes: draw(axes, p["conv1"], test, guesses, answers, wrong), (8, 4), 3, 8)
    return {
        "loss of the first batch": Value(first[0]),
        "gradient of the first convolution": Value(first[1]),
        "test loss after an epoch, no dropout": Value(plain.item()),
        "test loss": Value(loss.item(), within=0.1),
        "test accuracy, %": Value(accuracy.item(), within=1.5),
    }


def draw(axes, filters, test, guesses, answers, wrong):
    """The sixteen filters of the first convolution, and test digits that were read wrong (then some that were not)."""
    shown = [(f[0].detach().tolist(), "") for f in filters]
    for i in (wrong + [i for i in range(len(answers)) if i not in wrong])[:8]:
        shown.append((test[i, 0].tolist(), f"{answers[i].item()} read as {guesses[i].item()}"))
    for ax, (image, title) in zip(axes.flat, shown, strict=True):
        ax.imshow(image, cmap="gray_r" if title else "coolwarm")
        ax.set_title(title, fontsize=8)
        ax.axis("off")


if __name__ == "__main__":
    alone(main)
