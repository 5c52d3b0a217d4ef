"""A gated recurrent unit learns the English of Python's own help texts, and then writes some.

The text is read in parallel rows, each from where it stopped, and gradients reach one window back. The sample is
drawn by the Gumbel trick, argmax(log p + noise), with NumPy's noise: so two libraries write the same text, character
for character.

Sources: K. Cho et al., Learning phrase representations using RNN encoder–decoder, 2014 (the cell, here in the form of
cuDNN and PyTorch, with the reset gate after the product); P. Werbos, Backpropagation through time, 1990.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from adam import Adam, clip, warmup_cosine
from support import Value, alone, help_text

EMBEDDED, HIDDEN, ROWS, WINDOW = 48, 160, 32, 48


def start(letters, kind):
    """The parameters before training, by name."""
    rng = np.random.default_rng(0)

    def uniform(*shape):
        limit = 1 / math.sqrt(HIDDEN)
        return torch.from_numpy(rng.uniform(-limit, limit, shape)).to(**kind).requires_grad_()

    return {
        "letters": torch.from_numpy(rng.normal(0, 1, (letters, EMBEDDED))).to(**kind).requires_grad_(),
        "input": uniform(3 * HIDDEN, EMBEDDED),
        "input_bias": uniform(3 * HIDDEN),
        "hidden": uniform(3 * HIDDEN, HIDDEN),
        "hidden_bias": uniform(3 * HIDDEN),
        "output": uniform(letters, HIDDEN),
        "output_bias": uniform(letters),
    }


def cell(p, x, h):
    """The next state, from what a letter contributes (batch, 3 * hidden) and the state (batch, hidden)."""
    x_reset, x_update, x_new = x.chunk(3, dim=-1)
    h_reset, h_update, h_new = F.linear(h, p["hidden"], p["hidden_bias"]).chunk(3, dim=-1)
    reset = torch.sigmoid(x_reset + h_reset)
    update = torch.sigmoid(x_update + h_update)
    new = torch.tanh(x_new + reset * h_new)
    return torch.lerp(new, h, update)


def run(p, text, h):
    """Letters (batch, time) and a state to the logits of the next letters (batch, time, letters) and the last state."""
    inputs = F.linear(F.embedding(text, p["letters"]), p["input"], p["input_bias"])
    states = []
    for x in inputs.unbind(dim=1):
        h = cell(p, x, h)
        states.append(h)
    return F.linear(torch.stack(states, dim=1), p["output"], p["output_bias"]), h


def loss_of(p, rows, h):
    logits, h = run(p, rows[:, :-1], h)
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()), h


@torch.no_grad()
def write(p, text, length):
    """Reads a text (1, time) and continues it; returns the letters written and their mean log-probability."""
    noise = torch.from_numpy(np.random.default_rng(2).gumbel(size=(length, len(p["output"])))).to(p["output"])
    h = p["hidden"].new_zeros(1, HIDDEN)
    written, total = [], 0.0
    for n in range(length):
        logits, h = run(p, text, h)
        scores = F.log_softmax(logits[0, -1], dim=-1)
        text = (scores + noise[n]).argmax().reshape(1, 1)
        written.append(text.item())
        total += scores[written[-1]].item()
    return written, total / length


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    characters = help_text()
    letters = sorted(set(characters))
    text = torch.tensor([letters.index(c) for c in characters], device=settings.device)
    split = len(text) * 9 // 10
    rows = text[: split // ROWS * ROWS].view(ROWS, -1)
    p = start(len(letters), kind)
    optimizer = Adam(p.values(), rate=4e-3)
    h = torch.zeros(ROWS, HIDDEN, **kind)
    steps = settings.size(500, 10)
    history = []
    for n in settings.track(range(steps), "training"):
        place = n * WINDOW % (rows.shape[1] - WINDOW)
        loss, h = loss_of(p, rows[:, place : place + WINDOW + 1], h.detach())
        loss.backward()
        norm = clip(p.values(), 1.0).item()
        optimizer.step(warmup_cosine(n, steps))
        history.append((loss.item(), norm))

    with torch.no_grad(), settings.timed():
        held_out = text[split:]
        held_out = held_out[: len(held_out) // 64 * 64].view(64, -1)[:, : settings.size(401, 49)]
        held_out_loss, _ = loss_of(p, held_out, torch.zeros(64, HIDDEN, **kind))
        written, likelihood = write(p, text[None, split : split + 40], settings.size(300, 30))
    settings.say("".join(letters[n] for n in written))
    settings.picture("gru.png", lambda ax: draw(ax, history, held_out_loss.item()), (7, 4))
    return {
        "loss of the first window": Value(history[0][0]),
        "norm of the first gradient": Value(history[0][1]),
        "held-out loss, nats a character": Value(held_out_loss.item(), within=1e-6),
        "log-likelihood of the written text": Value(likelihood, within=1e-6),
    }


def draw(ax, history, held_out_loss):
    ax.plot([loss for loss, _ in history], label="training, per window")
    ax.axhline(held_out_loss, color="black", linestyle="--", label="held-out text, at the end")
    ax.set(xlabel="step", ylabel="nats per character", title="A gated recurrent unit learns Python's help")
    ax.legend()


if __name__ == "__main__":
    alone(main)
