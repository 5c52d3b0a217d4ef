"""A character-level transformer learns the English of Python's own help texts, and then writes some.

A decoder with causal attention, normalised before each part, its embedding tied to its output; trained with AdamW,
the rate warmed up and then lowered along a cosine. Sampling takes one of the twenty likeliest characters, drawn by
the library's own random numbers: so the surprise of the written text is compared as a statistic, and the training
before it exactly.

Sources: A. Vaswani et al., Attention is all you need, 2017; A. Radford et al., Language models are unsupervised
multitask learners, 2019 (the order of the parts); A. Karpathy's nanoGPT is the best known such program.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from adam import Adam, clip, warmup_cosine
from support import Value, alone, help_text

WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 64, 2, 4, 64, 16


def start(letters, kind):
    """The parameters before training, by name. Keys need no bias: softmax would not see it."""
    rng = np.random.default_rng(0)

    def normal(scale, *shape):
        return torch.from_numpy(rng.normal(0, scale, shape)).to(**kind).requires_grad_()

    def matrix(outer, inner):
        return normal(1 / math.sqrt(inner), outer, inner)

    def constant(value, *shape):
        return torch.full(shape, value, **kind, requires_grad=True)

    p = {"letters": normal(0.05, letters, WIDTH), "places": normal(0.05, CONTEXT, WIDTH)}
    for n in range(LAYERS):
        p[f"{n}.gain1"], p[f"{n}.shift1"] = constant(1.0, WIDTH), constant(0.0, WIDTH)
        p[f"{n}.qkv"], p[f"{n}.out"] = matrix(3 * WIDTH, WIDTH), matrix(WIDTH, WIDTH)
        p[f"{n}.gain2"], p[f"{n}.shift2"] = constant(1.0, WIDTH), constant(0.0, WIDTH)
        p[f"{n}.up"], p[f"{n}.up_bias"] = matrix(4 * WIDTH, WIDTH), constant(0.0, 4 * WIDTH)
        p[f"{n}.down"], p[f"{n}.down_bias"] = matrix(WIDTH, 4 * WIDTH), constant(0.0, WIDTH)
    p["gain"], p["shift"] = constant(1.0, WIDTH), constant(0.0, WIDTH)
    return p


def model(p, text):
    """Letters (batch, time) to the logits of the next one at each place, (batch, time, letters)."""
    batch, time = text.shape
    x = F.embedding(text, p["letters"]) + p["places"][:time]
    for n in range(LAYERS):
        h = F.layer_norm(x, (WIDTH,), p[f"{n}.gain1"], p[f"{n}.shift1"])
        q, k, v = F.linear(h, p[f"{n}.qkv"]).view(batch, time, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(h.transpose(1, 2).flatten(2), p[f"{n}.out"])
        h = F.layer_norm(x, (WIDTH,), p[f"{n}.gain2"], p[f"{n}.shift2"])
        h = F.gelu(F.linear(h, p[f"{n}.up"], p[f"{n}.up_bias"]))
        x = x + F.linear(h, p[f"{n}.down"], p[f"{n}.down_bias"])
    return F.linear(F.layer_norm(x, (WIDTH,), p["gain"], p["shift"]), p["letters"])


def loss_of(p, windows):
    """The mean surprise, in nats, of each character of the windows given those before it."""
    return F.cross_entropy(model(p, windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def windows(text, starts):
    return text[starts[:, None] + torch.arange(CONTEXT + 1, device=text.device)]


def prepare(settings):
    """Returns the parameters, the alphabet, the text as numbers, and the function that makes one step of training."""
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    characters = help_text()
    letters = sorted(set(characters))
    number = {letter: n for n, letter in enumerate(letters)}
    text = torch.tensor([number[c] for c in characters], device=settings.device)
    p = start(len(letters), kind)
    optimizer = Adam(p.values(), rate=6e-3, betas=(0.9, 0.98), decay=0.1)

    def step(starts, factor):
        loss = loss_of(p, windows(text, starts))
        loss.backward()
        norm = clip(p.values(), 1.0)
        optimizer.step(factor)
        return loss.item(), norm.item()

    return p, letters, text, step


@torch.no_grad()
def write(p, text, length):
    """Continues each row of text (batch, time) by ``length`` characters; also returns the surprise of each of them."""
    surprises = []
    for _ in range(length):
        logits = model(p, text[:, -CONTEXT:])[:, -1]
        best, where = logits.topk(20, dim=-1)
        drawn = where.gather(1, torch.multinomial(F.softmax(best, dim=-1), 1))
        surprises.append(-F.log_softmax(logits, dim=-1).gather(1, drawn))
        text = torch.cat([text, drawn], dim=1)
    return text, torch.cat(surprises, dim=1)


def main(settings):
    torch.manual_seed(0)
    p, letters, text, step = prepare(settings)
    split = len(text) * 9 // 10
    steps = settings.size(1200, 10)
    rng = np.random.default_rng(1)
    batches = torch.from_numpy(rng.integers(0, split - CONTEXT, (steps, BATCH))).to(settings.device)
    history = []
    for n, starts in enumerate(settings.track(batches, "training")):
        history.append(step(starts, warmup_cosine(n, steps)))

    held_out = torch.arange(split, len(text) - CONTEXT - 1, CONTEXT, device=settings.device)
    with torch.no_grad(), settings.timed():
        held_out_loss = loss_of(p, windows(text, held_out[:: settings.size(1, 20)]))
    with settings.timed():
        prompt = text[split : split + CONTEXT].expand(16, -1)
        written, surprises = write(p, prompt, settings.size(200, 15))
    settings.say("".join(letters[n] for n in written[0, CONTEXT:].tolist()))
    settings.picture("transformer.png", lambda ax: draw(ax, history, held_out_loss.item()), (7, 4))
    rows = surprises.mean(dim=1)
    return {
        "loss of the first batch": Value(history[0][0]),
        "norm of the first gradient": Value(history[0][1]),
        "held-out loss, nats a character": Value(held_out_loss.item(), within=1e-6),
        # Four standard errors of a difference; the rows are independent, the characters of a row are not.
        "surprise of the written text": Value(
            rows.mean().item(), within=4 * rows.std().item() * math.sqrt(2 / len(rows))
        ),
    }


def draw(ax, history, held_out_loss):
    ax.plot([loss for loss, _ in history], label="training, per batch")
    ax.axhline(held_out_loss, color="black", linestyle="--", label="held-out text, at the end")
    ax.set(xlabel="step", ylabel="nats per character", title="A transformer learns Python's help")
    ax.legend()


if __name__ == "__main__":
    alone(main)
