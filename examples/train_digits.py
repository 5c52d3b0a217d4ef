"""Trains a network on 1,438 handwritten digits and tests it on the other 359: `tensorplay demo` without its talk."""

from math import sqrt

import tensorplay as tp
from tensorplay.demo.data import load, split

DEVICE = "cpu"  # or "cuda", or the device of any backend that is installed
tp.manual_seed(0)
digits = load()
train, test = split(digits.labels, seed=0)
images = tp.tensor(digits.images, dtype=tp.float32, device=DEVICE) / 16  # (1797, 64), from 0 to 1
labels = tp.tensor(digits.labels, device=DEVICE)

w1 = (tp.randn(128, 64, device=DEVICE) * sqrt(2 / 64)).requires_grad_()
b1 = tp.zeros(128, device=DEVICE, requires_grad=True)
w2 = (tp.randn(10, 128, device=DEVICE) * sqrt(1 / 128)).requires_grad_()
b2 = tp.zeros(10, device=DEVICE, requires_grad=True)
parameters = [w1, b1, w2, b2]
velocities = [tp.zeros_like(p) for p in parameters]


def network(x):
    return tp.linear(tp.relu(tp.linear(x, w1, b1)), w2, b2)


images_train, labels_train = images[train], labels[train]
for epoch in range(12):
    order = tp.randperm(len(train), device=DEVICE)
    for start in range(0, len(train), 32):
        batch = order[start : start + 32]
        loss = tp.cross_entropy(network(images_train[batch]), labels_train[batch], label_smoothing=0.1)
        loss.backward()
        with tp.no_grad():
            for p, v in zip(parameters, velocities, strict=True):
                p.sub_(v.mul_(0.9).add_(p.grad) * (0.2 * (1 - epoch / 12)))
                p.grad = None

with tp.no_grad():
    right = network(images[test]).argmax(1) == labels[test]
print(f"test accuracy {right.to(tp.float32).mean().item():.2%}")
