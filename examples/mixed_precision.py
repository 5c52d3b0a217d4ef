"""Trains a convolutional network on handwritten digits in float32, float16 and bfloat16, and prints what each learns.

The network is that of `programs/digits_cnn.py`. Its parameters stay in float32; in an autocast region convolutions and
the linear layer compute in half precision, normalisation and loss in float32. float16 needs a GradScaler: its smallest
number is 6e-8, and many gradients are smaller. `--quick` trains for three epochs instead of fifteen.
"""

import sys
from math import prod, sqrt

import tensorplay as tp
import tensorplay.nn.functional as F
from tensorplay.demo.data import load, split

EPOCHS = 3 if "--quick" in sys.argv else 15
SEEDS = 1 if "--quick" in sys.argv else 3
BATCH = 50


def start():
    """The network before training: its parameters, and the running statistics of its normalisations."""

    def weight(*shape):
        return (tp.randn(shape) * sqrt(2 / prod(shape[1:]))).requires_grad_()

    p = {"conv1": weight(16, 1, 3, 3), "conv2": weight(32, 16, 3, 3), "weight": weight(10, 128)}
    p |= {f"gain{n}": tp.ones(16 * n, requires_grad=True) for n in (1, 2)}
    p |= {f"shift{n}": tp.zeros(16 * n, requires_grad=True) for n in (1, 2)}
    p["bias"] = tp.zeros(10, requires_grad=True)
    return p, {n: (tp.zeros(16 * n), tp.ones(16 * n)) for n in (1, 2)}


def network(p, running, x, training):
    """Images (n, 1, 8, 8) to the unnormalised log-probabilities of the ten digits, (n, 10)."""
    for n in (1, 2):
        x = F.conv2d(x, p[f"conv{n}"], padding=1)
        x = F.batch_norm(x, *running[n], p[f"gain{n}"], p[f"shift{n}"], training=training)
        x = F.max_pool2d(F.relu(x), 2)
    return F.linear(x.flatten(1), p["weight"], p["bias"])


def train(images, labels, order, precision):
    """Trains with Nesterov's momentum; returns the parameters and the statistics, all of them float32."""
    p, running = start()
    velocities = {name: tp.zeros_like(value) for name, value in p.items()}
    lower = {"float16": tp.float16, "bfloat16": tp.bfloat16}.get(precision)
    scaler = tp.amp.GradScaler(init_scale=2.0**12, growth_interval=200, enabled=precision == "float16")
    steps = [batch for epoch in order for batch in epoch.split(BATCH)]

    def descend(rate):
        with tp.no_grad():
            for name, value in p.items():
                velocities[name].mul_(0.9).add_(value.grad)
                value.sub_(value.grad + 0.9 * velocities[name], alpha=rate)

    for step, batch in enumerate(steps):
        with tp.autocast("cpu", dtype=lower, enabled=lower is not None):
            loss = F.cross_entropy(network(p, running, images[batch], training=True), labels[batch])
        scaler.scale(loss).backward()
        scaler.step(descend, 0.03 * (1 - step / len(steps)), parameters=p.values())
        scaler.update()
        for value in p.values():
            value.grad = None
    return p, running


def accuracy(p, running, images, labels, precision):
    lower = {"float16": tp.float16, "bfloat16": tp.bfloat16}.get(precision)
    with tp.no_grad(), tp.autocast("cpu", dtype=lower, enabled=lower is not None):
        guesses = network(p, running, images, training=False).argmax(1)
    return 100 * (guesses == labels).to(tp.float32).mean().item()


digits = load()
images = tp.tensor(digits.images, dtype=tp.float32).reshape(-1, 1, 8, 8) / 16
labels = tp.tensor(digits.labels)
for precision in ("float32", "float16", "bfloat16"):
    found = []
    for seed in range(SEEDS):
        tp.manual_seed(seed)
        train_, test = (tp.tensor(part) for part in split(digits.labels, seed))
        order = [train_[tp.randperm(len(train_))] for _ in range(EPOCHS)]
        p, running = train(images, labels, order, precision)
        found.append(accuracy(p, running, images[test], labels[test], precision))
    print(f"{precision:<9} test accuracy {sum(found) / SEEDS:.2f}%")
