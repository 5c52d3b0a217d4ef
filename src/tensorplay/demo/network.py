"""The network of the demo and how it learns: tensors, gradients and in-place updates, without a library of layers.

Seeded through ``tp.manual_seed``, so the same seed gives the same network on the same device.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorplay as tp
from tensorplay.demo.data import CLASSES, PIXELS

HIDDEN = 128
EPOCHS = 12
# Products of this size run in one thread of NumPy's BLAS. Twice as large, several would share them, and on a busy
# machine wait for each other many times longer than they compute.
BATCH = 32
LEARNING_RATE = 0.2
MOMENTUM = 0.9
SMOOTHING = 0.1


class Network:
    """64 pixels, 128 hidden units with ReLU, 10 classes.

    Args:
        device: where its weights live.
    """

    def __init__(self, device: str) -> None:
        self.parameters = [
            tp.randn(HIDDEN, PIXELS, device=device) * math.sqrt(2 / PIXELS),
            tp.zeros(HIDDEN, device=device),
            tp.randn(CLASSES, HIDDEN, device=device) * math.sqrt(1 / HIDDEN),
            tp.zeros(CLASSES, device=device),
        ]
        for parameter in self.parameters:
            parameter.requires_grad_()

    def __call__(self, images: tp.Tensor) -> tp.Tensor:
        """Returns the logits (N, 10) of images (N, 64) with pixels from 0 to 1."""
        w1, b1, w2, b2 = self.parameters
        return tp.linear(tp.relu(tp.linear(images, w1, b1)), w2, b2)


class Momentum:
    """Stochastic gradient descent with momentum.

    Args:
        parameters: the tensors to change.
    """

    def __init__(self, parameters: list[tp.Tensor]) -> None:
        self.parameters = parameters
        self.velocities = [tp.zeros_like(parameter) for parameter in parameters]

    def step(self, learning_rate: float) -> None:
        """Moves each parameter against its gradient, and forgets the gradient."""
        with tp.no_grad():
            for parameter, velocity in zip(self.parameters, self.velocities, strict=True):
                assert parameter.grad is not None, "backward() comes before step()"
                velocity.mul_(MOMENTUM).add_(parameter.grad)
                parameter.sub_(velocity * learning_rate)
                parameter.grad = None


class Training:
    """A network, the data it learns from, and how far it is.

    Args:
        images: (N, 64), pixels from 0 to 1.
        labels: (N,), integers.
        epochs: how often every image will be seen.
    """

    def __init__(self, images: tp.Tensor, labels: tp.Tensor, epochs: int) -> None:
        self.images, self.labels, self.device = images, labels, str(images.device)
        self.network = Network(self.device)
        self.optimizer = Momentum(self.network.parameters)
        self.steps_per_epoch = math.ceil(len(labels) / BATCH)
        self.steps = self.steps_per_epoch * epochs
        self.step = 0

    def epoch(self, report: Callable[[float], None]) -> float:
        """Shows the network every image once.

        Args:
            report: called with the loss after each batch.

        Returns:
            The mean loss.
        """
        order = tp.randperm(len(self.labels), device=self.device)
        total = 0.0
        for start in range(0, len(self.labels), BATCH):
            batch = order[start : start + BATCH]
            logits = self.network(self.images[batch])
            loss = tp.cross_entropy(logits, self.labels[batch], label_smoothing=SMOOTHING)
            loss.backward()
            self.optimizer.step(LEARNING_RATE * (1 - self.step / self.steps))
            self.step += 1
            value = float(loss.item())
            total += value
            report(value)
        return total / self.steps_per_epoch


def predict(network: Network, images: tp.Tensor) -> tp.Tensor:
    """Returns the class that a network sees in each image, (N,) integers."""
    with tp.no_grad():
        return network(images).argmax(1)


def confusion(labels: tp.Tensor, predictions: tp.Tensor) -> list[list[int]]:
    """Counts, for each true class (row), what was predicted (column).

    Example:
        >>> counts = confusion(tp.tensor([0, 1, 1]), tp.tensor([0, 1, 7]))
        >>> counts[0][0], counts[1][1], counts[1][7]
        (1, 1, 1)
    """
    one_hot = tp.eye(CLASSES, device=labels.device)
    counts: list[list[int]] = (one_hot[labels].T @ one_hot[predictions]).to(tp.int32).tolist()
    return counts
