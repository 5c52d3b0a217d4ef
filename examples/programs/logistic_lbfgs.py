"""Logistic regression on digits by L-BFGS: a convex problem, solved to the last digits.

The minimiser is written in tensor operations over one flat vector: directions from the last ten steps and changes of
the gradient (the two-loop recursion), lengths by a search that meets the strong Wolfe conditions. Where it ends does
not depend on the way, so any other solver has to find the same numbers.

Source: J. Nocedal and S. Wright, Numerical optimization, 2006, algorithms 7.4, 7.5, 3.5 and 3.6 (by bisection).
"""

import torch
import torch.nn.functional as F
from support import Value, alone, digits

TRAIN, PENALTY, MEMORY = 1300, 1e-3, 10


def objective(flat, x, labels):
    """The mean cross-entropy and the penalty on the weights; ``flat`` is 65 x 10, the last row the biases."""
    w = flat.view(65, 10)
    return F.cross_entropy(torch.addmm(w[64], x, w[:64]), labels) + 0.5 * PENALTY * w[:64].square().sum()


def direction(gradient, history):
    """Minus the gradient, times what the history of (step, change) knows of the inverse Hessian: two loops."""
    q, kept = gradient.clone(), []
    for step, change in reversed(history):
        a = torch.dot(step, q) / torch.dot(step, change)
        q.sub_(a * change)
        kept.append(a)
    if history:
        step, change = history[-1]
        q.mul_(torch.dot(step, change) / torch.dot(change, change))
    for (step, change), a in zip(history, reversed(kept), strict=True):
        q.add_((a - torch.dot(change, q) / torch.dot(step, change)) * step)
    return q.neg()


def search(evaluate, point, value, gradient, way, c1=1e-4, c2=0.9):
    """A length along the way with enough decrease and a slope that is flat enough: (point, value, gradient) there."""
    slope = torch.dot(gradient, way).item()
    low, high, length = 0.0, None, 1.0
    for _ in range(40):
        there = point + length * way
        new_value, new_gradient = evaluate(there)
        if new_value > value + c1 * length * slope:
            high = length
        else:
            new_slope = torch.dot(new_gradient, way).item()
            if abs(new_slope) <= -c2 * slope:
                break
            low, high = (length, high) if new_slope < 0 else (low, length)
        length = 2 * length if high is None else 0.5 * (low + high)
    return there, new_value, new_gradient


def minimise(evaluate, point, tolerance, track):
    """Goes on until no part of the gradient is above the tolerance: the point, its gradient, the values on the way."""
    value, gradient = evaluate(point)
    history, values = [], [value]
    for _ in track:
        there, value, new_gradient = search(evaluate, point, value, gradient, direction(gradient, history))
        step, change = there - point, new_gradient - gradient
        if torch.dot(step, change) > 1e-10 * torch.dot(change, change):
            history = [*history, (step, change)][-MEMORY:]
        point, gradient = there, new_gradient
        values.append(value)
        if gradient.abs().max() < tolerance:
            break
    return point, gradient, values


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    pictures, names = digits()
    x = torch.from_numpy(pictures.reshape(-1, 64)).to(**kind)
    labels = torch.from_numpy(names).to(settings.device)
    train = settings.size(TRAIN, 300)

    def evaluate(flat):
        flat = flat.detach().requires_grad_()
        value = objective(flat, x[:train], labels[:train])
        (gradient,) = torch.autograd.grad(value, flat)
        return value.item(), gradient

    tolerance = 1e-8 if settings.dtype == "float64" else 1e-4
    flat, gradient, values = minimise(
        evaluate, torch.zeros(650, **kind), tolerance, settings.track(range(600), "minimising")
    )
    w = flat.view(65, 10)
    accuracy = 100 * ((x[TRAIN:] @ w[:64] + w[64]).argmax(dim=1) == labels[TRAIN:]).to(x.dtype).mean()
    settings.say(f"{len(values) - 1} iterations, largest part of the gradient {gradient.abs().max().item():.1e}")
    settings.picture("logistic_lbfgs.png", lambda axes: draw(axes, w, values), (10, 2.4), 1, 11)
    return {
        "value at zero, log 10": Value(values[0], within=1e-12),
        "value at the minimum": Value(values[-1], within=1e-10),
        "norm of the weights": Value(w[:64].norm().item(), within=1e-5),
        "test accuracy, %": Value(accuracy.item(), within=1e-6),
    }


def draw(axes, w, values):
    """How the value falls, and the weights of the ten digits as pictures."""
    axes[0].semilogy([value - values[-1] + 1e-16 for value in values])
    axes[0].set_title("value less minimum", fontsize=7)
    axes[0].tick_params(labelsize=5)
    for digit, ax in enumerate(axes[1:]):
        ax.imshow(w[:64, digit].view(8, 8).tolist(), cmap="coolwarm", vmin=-2.5, vmax=2.5)
        ax.set_title(str(digit))
        ax.axis("off")


if __name__ == "__main__":
    alone(main)
