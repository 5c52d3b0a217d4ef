"""The likeliest sentences of a bigram model, found by beam search.

Pairs of neighbouring words in Python's help texts are counted, and the counts smoothed into probabilities. A beam
search keeps the best few beginnings and extends each by every word. Where words may come again, dynamic programming
finds the one best sentence of all, which a beam that is wide enough has to find too; where none may come twice, only
the search is left.

Sources: D. Jurafsky and J. Martin, Speech and language processing, 3rd ed., section 3.6 (interpolation) and 10.2
(beam search); A. Viterbi, Error bounds for convolutional codes, 1967.
"""

import re
from collections import Counter

import torch
import torch.nn.functional as F
from support import Value, alone, help_text

PROMPTS, LENGTH = ("the", "python", "if", "exceptions"), 12


def read(size, device):
    """The commonest words, and the help texts as their numbers; 0 stands for all other words."""
    text = re.findall(r"[a-z]+", help_text().lower())
    words = [
        "?",
        *(word for word, _ in sorted(Counter(text).items(), key=lambda item: (-item[1], item[0]))[: size - 1]),
    ]
    number = {word: n for n, word in enumerate(words)}
    return words, torch.tensor([number.get(word, 0) for word in text], device=device)


def log_probabilities(text, size, kind, share=0.7):
    """log p(next | word), (size, size): the counts of pairs, interpolated with those of single words."""
    pairs = torch.bincount(text[:-1] * size + text[1:], minlength=size * size).view(size, size).to(**kind)
    single = torch.zeros(size, **kind).index_put_((text,), torch.ones(len(text), **kind), accumulate=True)
    single[0] = 0  # what stands for all other words is never written
    pairs[:, 0] = 0
    after = F.normalize(pairs, p=1.0, dim=1, eps=1.0)
    return torch.log(share * after + (1 - share) * single / single.sum())


def beam_search(table, starts, width, length, repeat):
    """The best sentences (prompts, width, length + 1) and their log-probabilities (prompts, width), best first."""
    prompts, size = len(starts), len(table)
    sentences = starts.view(prompts, 1, 1).expand(prompts, width, 1)
    scores = torch.full((prompts, width), -torch.inf, dtype=table.dtype, device=table.device)
    scores[:, 0] = 0.0
    for _ in range(length):
        extended = scores.unsqueeze(-1) + table[sentences[:, :, -1]]
        if not repeat:
            extended = extended.scatter(-1, sentences, -torch.inf)
        scores, best = extended.flatten(1).topk(width, dim=1)
        parent = (best // size).unsqueeze(-1).expand(-1, -1, sentences.shape[-1])
        sentences = torch.cat([sentences.gather(1, parent), (best % size).unsqueeze(-1)], dim=-1)
    return sentences, scores


def viterbi(table, starts, length):
    """The log-probability of the best sentence of all from each prompt, words repeated as it likes."""
    value = table.new_zeros(len(table))
    for _ in range(length):
        value = (table + value).amax(dim=1)
    return value[starts]


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    size = settings.size(800, 300)
    words, text = read(size, settings.device)
    starts = torch.tensor([words.index(word) if word in words else 1 for word in PROMPTS], device=settings.device)
    with settings.timed():
        table = log_probabilities(text, size, kind)
        surprise = -table[text[:-1], text[1:]]
        perplexity = surprise[surprise.isfinite()].mean().exp()
        best = viterbi(table, starts, LENGTH)
    widths = settings.size([1, 4, 16, 64, 256, 1024], [1, 4, 16, 64])
    found = {}
    for width in settings.track(widths, "searching"):
        _, scores = beam_search(table, starts, width, LENGTH, repeat=True)
        sentences, unrepeated = beam_search(table, starts, width, LENGTH, repeat=False)
        found[width] = (best - scores[:, 0]).clamp(min=0).mean().item(), unrepeated[:, 0].mean().item()

    for sentence, score in zip(sentences[:, 0].tolist(), unrepeated[:, 0].tolist(), strict=True):
        settings.say(f"{score:7.2f}  " + " ".join(words[n] for n in sentence))
    settings.picture("beam_search.png", lambda axes: draw(axes, found), (9, 3.4), 1, 2)
    return {
        "perplexity of the help texts": Value(perplexity.item()),
        "log p of the best sentences": Value(best.mean().item()),
        "what a beam of 1 misses": Value(found[1][0]),
        "what the widest beam misses": Value(found[widths[-1]][0]),
        "log p without repetition, beam of 1": Value(found[1][1]),
        "log p without repetition, widest beam": Value(found[widths[-1]][1]),
    }


def draw(axes, found):
    missed, unrepeated = zip(*found.values(), strict=True)
    axes[0].plot(list(found), missed, "o-")
    axes[0].set(xscale="log", xlabel="width of the beam", ylabel="nats", title="missed of the best sentence")
    axes[1].plot(list(found), unrepeated, "o-")
    axes[1].set(xscale="log", xlabel="width of the beam", ylabel="log p", title="no word twice")


if __name__ == "__main__":
    alone(main)
