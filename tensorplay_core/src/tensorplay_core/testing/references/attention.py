"""References of embeddings, one-hot classes, attention, and the gradient of dropout."""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.testing.references import ieee
from tensorplay_core.testing.references.array import Array, broadcast_shape
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import accumulator_of
from tensorplay_core.testing.references.sums import growth, slack_of, total

_Sum = tuple[list[float], float]
"""The terms of a sum, and by how much it may be wrong."""


def _rows(one: Array) -> list[list[Any]]:
    size = one.shape[-1]
    return [one.data[i * size : (i + 1) * size] for i in range(math.prod(one.shape[:-1]))]


def lookup(weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False) -> Array:
    """Rows."""
    count, size = weight.shape
    if not all(0 <= i < count for i in indices.data):
        raise IndexError(f"one of {indices.data} is no row of {count}")
    data = [x for i in indices.data for x in weight.data[i * size : (i + 1) * size]]
    return Array((*indices.shape, size), data, weight.dtype)


def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """Rows."""
    return lookup(weight, input)


def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """Sums of the rows of one index each."""
    size, form = grad_output.shape[-1], accumulator_of(grad_output.dtype)
    rows = _rows(grad_output) if size else [[] for _ in indices.data]
    data: list[Any] = []
    slack: list[float] = []
    for index in range(num_weights):
        taken = [row for row, i in zip(rows, indices.data, strict=True) if i == index and index != padding_idx]
        divisor = len(taken) if scale_grad_by_freq and taken else 1
        for column in range(size):
            terms = [row[column] for row in taken]
            value = total(terms) / divisor if terms else 0.0
            data.append(value)
            slack.append(slack_of(terms, form) / divisor if terms else 0.0)
    return Array((num_weights, size), data, grad_output.dtype, slack)


def one_hot(self: Array, num_classes: int = -1) -> Array:
    """1 at the class."""
    count = max(self.data) + 1 if num_classes == -1 else num_classes
    if not all(0 <= label < count for label in self.data):
        raise ValueError("there is no such class")
    data = [int(label == c) for label in self.data for c in range(count)]
    return Array((*self.shape, count), data, "int64")


def native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Array:
    """``grad * mask * scale``."""
    data = [g * (scale if m else 0.0) for g, m in zip(grad_output.data, mask.data, strict=True)]
    return Array(grad_output.shape, data, grad_output.dtype)


def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    """The input, or nothing of it; what is drawn in between is no function of the arguments."""
    stays = train is False
    if not stays and p != 1:
        raise ValueError("only what drops everything has one right result")
    mask = Array(input.shape, [stays] * len(input.data), "bool")
    return native_dropout_backward(input, mask, 1.0), mask


def dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """The same without the mask."""
    return native_dropout(input, p, training)[0]


def attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """``softmax(query @ key.T * scale + mask) @ value``, a query at a time."""
    length, size = query.shape[-2:]
    others, width = value.shape[-2:]
    scale = (1 / math.sqrt(size) if size else 1.0) if scale is None else scale
    if enable_gqa:
        key, value = (_repeated(one, query.shape[-3] // one.shape[-3]) for one in (key, value))
    batch = broadcast_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    q, k, v = (
        Array((*batch, *a.shape[-2:]), a.broadcast((*batch, *a.shape[-2:])), a.dtype) for a in (query, key, value)
    )
    mask = None if attn_mask is None else attn_mask.broadcast((*batch, length, others))
    data, slack = [], []
    for n in range(math.prod(batch)):
        keys = [k.data[(n * others + j) * size : (n * others + j + 1) * size] for j in range(others)]
        values = [v.data[(n * others + j) * width : (n * others + j + 1) * width] for j in range(others)]
        for i in range(length):
            row = q.data[(n * length + i) * size : (n * length + i + 1) * size]
            allowed = [not is_causal or j <= i for j in range(others)]
            added = [0.0] * others
            if mask is not None and attn_mask is not None:
                part = mask[(n * length + i) * others : (n * length + i + 1) * others]
                if attn_mask.dtype == "bool":
                    allowed = [a and m for a, m in zip(allowed, part, strict=True)]
                else:
                    added = part
            found, errors = _query(row, keys, values, allowed, added, scale, query.dtype, width)
            data += found
            slack += errors
    return Array((*batch, length, width), data, query.dtype, slack)


def _query(
    row: list[float],
    keys: list[list[float]],
    values: list[list[float]],
    allowed: list[bool],
    added: list[float],
    scale: float,
    dtype: str,
    width: int,
) -> tuple[list[float], list[float]]:
    """Returns what one query finds, with its errors."""
    unit = accumulator_of(dtype).eps / 2
    scores, errors = [], []
    for one, may, more in zip(keys, allowed, added, strict=True):
        terms = [a * b * scale for a, b in zip(row, one, strict=True)]
        scores.append(float(total(terms)) + more if may else -math.inf)
        errors.append(
            unit * ((growth(terms) + 4) * sum(map(abs, terms)) + 2 * abs(more if math.isfinite(more) else 0.0))
        )
    if not scores or max(scores) == -math.inf:
        return [0.0] * width, [0.0] * width
    largest = math.nan if any(s != s for s in scores) else max(scores)
    exponentials = [ieee.exp(s - largest) for s in scores]
    size = float(total(exponentials))
    weights = [e / size for e in exponentials]
    spread = max((e for e, w in zip(errors, weights, strict=True) if w), default=0.0)
    found, slack = [], []
    for column in range(width):
        terms = [w * v[column] for w, v in zip(weights, values, strict=True)]
        found.append(float(total(terms)))
        relative = 4 * spread + unit * (
            2 * growth(terms)
            + 24
            + max((abs(s - largest) for s, w in zip(scores, weights, strict=True) if w), default=0.0)
        )
        error = relative * sum(map(abs, terms))
        slack.append(error if math.isfinite(error) else 0.0)
    return found, slack


def _repeated(one: Array, times: int) -> Array:
    *batch, heads, length, size = one.shape
    block = length * size
    parts = [one.data[i * block : (i + 1) * block] for i in range(math.prod(batch) * heads)]
    return Array(
        (*batch, heads * times, length, size), [x for part in parts for _ in range(times) for x in part], one.dtype
    )


def attention_kernel(
    query: Array, key: Array, value: Array, attn_mask: Array | None, is_causal: bool, scale: float
) -> Array:
    """The same of one batch."""
    return attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)


def attention_backward(
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    is_causal: bool,
    scale: float,
) -> tuple[Array, Array, Array]:
    """``scale * e @ key``, ``scale * e.T @ query`` and ``p.T @ grad``, with ``e = p * (d - sum(d * p))``.

    Here d is ``grad @ value.T``, and the weights p are the attention of the unit matrix; what those are uncertain by
    goes on into every sum.
    """
    batch, (length, size), (others, width) = query.shape[:-2], query.shape[-2:], value.shape[-2:]
    unit = [float(i == j) for _ in range(math.prod(batch)) for i in range(others) for j in range(others)]
    p = attention_kernel(query, key, Array((*batch, others, others), unit, value.dtype), attn_mask, is_causal, scale)
    wrong, form = [0.0] * len(p.data) if p.slack is None else p.slack, accumulator_of(query.dtype)
    sums: tuple[list[_Sum], list[_Sum], list[_Sum]] = ([], [], [])
    for n in range(math.prod(batch)):
        g, q, k, v = (_matrix(one, n) for one in (grad_out, query, key, value))
        w, dw = ([part[(n * length + i) * others :][:others] for i in range(length)] for part in (p.data, wrong))
        found = [_slopes(g[i], v, w[i], dw[i], scale, form.eps) for i in range(length)]
        e, de = [one for one, _ in found], [one for _, one in found]
        for i in range(length):
            sums[0].extend(_weighed(e[i], de[i], [row[c] for row in k], form.eps) for c in range(size))
        _add_columns(sums[1], e, de, q, (others, size), form.eps)
        _add_columns(sums[2], w, dw, g, (others, width), form.eps)
    query_grad, key_grad, value_grad = (
        Array(shape, [float(total(terms)) for terms, _ in found], query.dtype, [error for _, error in found])
        for shape, found in zip((query.shape, key.shape, value.shape), sums, strict=True)
    )
    return query_grad, key_grad, value_grad


def _slopes(
    grad: list[float], values: list[list[float]], w: list[float], dw: list[float], scale: float, eps: float
) -> tuple[list[float], list[float]]:
    """Returns the gradients of one row of scores, and by how much they may be wrong."""
    d = [float(total([a * b for a, b in zip(grad, row, strict=True)])) for row in values]
    size = [float(total([abs(a * b) for a, b in zip(grad, row, strict=True)])) for row in values]
    mean = float(total([a * b for a, b in zip(d, w, strict=True)]))
    most = float(total([a * b for a, b in zip(size, w, strict=True)]))
    doubt = float(total([a * b for a, b in zip(size, dw, strict=True)]))
    steps = eps * (growth(grad) + growth(d) + 6)
    errors = [
        abs(scale) * (x * (abs(b - mean) + s) + (a + x) * (doubt + steps * (s + most)))
        for a, x, b, s in zip(w, dw, d, size, strict=True)
    ]
    return [scale * a * (b - mean) for a, b in zip(w, d, strict=True)], errors


def _add_columns(
    sums: list[_Sum],
    weights: list[list[float]],
    doubts: list[list[float]],
    matrix: list[list[float]],
    sizes: tuple[int, int],
    eps: float,
) -> None:
    """Adds the sums that are ``weights.T @ matrix``."""
    rows, columns = sizes
    for j in range(rows):
        own, doubt = [row[j] for row in weights], [row[j] for row in doubts]
        sums.extend(_weighed(own, doubt, [row[c] for row in matrix], eps) for c in range(columns))


def _matrix(one: Array, n: int) -> list[list[float]]:
    rows, columns = one.shape[-2:]
    return [one.data[(n * rows + i) * columns :][:columns] for i in range(rows)]


def _weighed(weights: list[float], doubts: list[float], values: list[float], eps: float) -> _Sum:
    """Returns the terms of a sum of products, and by how much it may be wrong."""
    terms = [a * b for a, b in zip(weights, values, strict=True)]
    error = sum(d * abs(b) for d, b in zip(doubts, values, strict=True)) + eps * (growth(terms) + 2) * sum(
        map(abs, terms)
    )
    return terms, error if math.isfinite(error) else 0.0


REFERENCES: dict[str, Reference] = {
    "_attention": Reference(attention_kernel, budget(2)),
    "_attention_backward": Reference(attention_backward, budget(2)),
    "_embedding": Reference(lookup, {}, bits=True),
    "alpha_dropout": Reference(dropout, {}),
    **{name: Reference(dropout, {}) for name in ("dropout", "dropout1d", "dropout2d", "dropout3d")},
    "embedding": Reference(embedding, {}, bits=True),
    "embedding_dense_backward": Reference(embedding_dense_backward, budget(1)),
    "native_dropout": Reference(native_dropout, {}),
    "native_dropout_backward": Reference(native_dropout_backward, budget(2)),
    "one_hot": Reference(one_hot, {}, bits=True),
    "scaled_dot_product_attention": Reference(attention, budget(2)),
}
