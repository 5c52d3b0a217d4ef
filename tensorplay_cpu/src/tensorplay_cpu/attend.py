"""Attention in blocks of rows of scores that stay in the cache; neither scores nor weights are ever whole.

The gradient computes the weights again, which costs less than to write and to read them. Of causal attention over long
sequences the keys that a block does not see are left out. How a block is exponentiated is told in
:mod:`tensorplay_cpu.softmax`; the sums divide what was found, which is narrower than the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_cpu.normalization import BLOCK
from tensorplay_cpu.softmax import HIGHEST, spread, tops

SMALL = 1e-20
"""What a sum is at least where no weight that counts beside the largest is denormal."""
Piece = tuple[slice, slice, int]


@quietly
def kernels(general: Kernels) -> Kernels:
    """``_attention`` and its gradient, of floating dtypes."""
    exp, matmul, multiply, subtract, add = np.exp, np.matmul, np.multiply, np.subtract, np.add
    largest, least, empty, vecdot = np.maximum.reduce, np.minimum.reduce, np.empty, np.vecdot

    def attention(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float) -> Any:
        dtype = query.dtype
        check_shapes(query, key, value)
        if dtype.itemsize == 2:
            q, k, v = (a.astype("float32") for a in (query, key, value))
            return attention(q, k, v, attn_mask, is_causal, scale).astype(dtype)
        if not math.prod(query.shape[:-1]) * key.shape[-2]:  # no scores
            return np.zeros((*query.shape[:-1], value.shape[-1]), dtype)
        q, k, v = (matrices(a) for a in (query * query.dtype.type(scale), key, value))
        added = addition(attn_mask, is_causal, query.shape, key.shape, dtype)
        result = empty((*q.shape[:2], v.shape[2]), dtype)
        for heads, rows, columns in _pieces(q.shape[0], q.shape[1], k.shape[1], is_causal):
            weights, sums = exponentials(
                q[heads, rows], k[heads, :columns], added, (heads, rows), attn_mask is not None
            )
            out = matmul(weights, v[heads, :columns])
            multiply(out, (1 / sums)[..., None], result[heads, rows])
        return result.reshape(*query.shape[:-1], value.shape[-1])

    def attention_backward(
        grad_out: Any, query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float
    ) -> tuple[Any, Any, Any]:
        dtype = query.dtype
        check_shapes(query, key, value)
        if grad_out.shape != (*query.shape[:-1], value.shape[-1]):
            raise ValueError("the gradient is of another result")  # the shape rule says it better
        if dtype.itemsize == 2:
            g, q, k, v = (a.astype("float32") for a in (grad_out, query, key, value))
            found = attention_backward(g, q, k, v, attn_mask, is_causal, scale)
            return found[0].astype(dtype), found[1].astype(dtype), found[2].astype(dtype)
        if not math.prod(query.shape[:-1]) * key.shape[-2]:
            return np.zeros(query.shape, dtype), np.zeros(key.shape, dtype), np.zeros(value.shape, dtype)
        g, q, k, v = (matrices(a) for a in (grad_out, query * query.dtype.type(scale), key, value))
        added = addition(attn_mask, is_causal, query.shape, key.shape, dtype)
        to_q, to_k, to_v = empty(q.shape, dtype), np.zeros(k.shape, dtype), np.zeros(v.shape, dtype)
        for heads, rows, columns in _pieces(q.shape[0], q.shape[1], k.shape[1], is_causal):
            keys, grad = k[heads, :columns], g[heads, rows]
            weights, sums = exponentials(q[heads, rows], keys, added, (heads, rows), attn_mask is not None)
            slopes = matmul(grad, v[heads, :columns].swapaxes(1, 2))
            flat = weights.reshape(-1, columns)
            room = empty(flat.shape, dtype)
            multiply(flat, spread(1 / sums.reshape(-1), room), flat)
            to_v[heads, :columns] += matmul(weights.swapaxes(1, 2), grad)
            found = slopes.reshape(-1, columns)
            subtract(found, spread(vecdot(found, flat), room), found)
            multiply(found, flat, found)
            matmul(slopes, keys, to_q[heads, rows])
            to_k[heads, :columns] += matmul(slopes.swapaxes(1, 2), q[heads, rows])
        multiply(to_q, dtype.type(scale), to_q)
        return to_q.reshape(query.shape), to_k.reshape(key.shape), to_v.reshape(value.shape)

    def exponentials(q: Any, keys: Any, added: Any, place: Any, masked: bool) -> tuple[Any, Any]:
        """Weights before they are divided by their sums, and those; a row that looks nowhere has weights of 0."""
        scores = matmul(q, keys.swapaxes(1, 2))
        if added is not None:
            part = added[place[1]] if added.ndim == 2 else added[place]
            add(scores, part[..., : keys.shape[1]], scores)
        flat = scores.reshape(-1, scores.shape[2])
        ones = np.ones(flat.shape[1], flat.dtype)
        if largest(flat, None) <= HIGHEST[flat.dtype]:
            weights = exp(flat)
            sums = matmul(weights, ones)
            if least(sums) >= SMALL:
                return weights.reshape(scores.shape), sums.reshape(scores.shape[:2])
        top = tops(flat)
        if masked:
            top[top == -math.inf] = 0
        exp(subtract(flat, top[:, None], flat), flat)
        sums = matmul(flat, ones)
        sums[sums == 0] = 1
        return scores, sums.reshape(scores.shape[:2])

    def addition(mask: Any, is_causal: bool, query: Any, key: Any, dtype: Any) -> Any:
        """What is added to scores: None, or (L, S) for all, or (B, L, S)."""
        sizes, found = (query[-2], key[-2]), None
        if is_causal:
            found = np.where(np.tri(*sizes, dtype=bool), dtype.type(0), dtype.type(-math.inf))
        if mask is None:
            return found
        own = mask if mask.dtype is dtype else mask.astype(dtype)
        if math.prod(own.shape[:-2]) == 1:
            own = np.broadcast_to(own.reshape(own.shape[-2:] if own.ndim > 1 else own.shape), sizes)
        else:
            own = np.broadcast_to(own, (*query[:-2], *sizes)).reshape(-1, *sizes)
        return own if found is None else own + found

    return {"_attention": attention, "_attention_backward": attention_backward}


def check_shapes(query: Any, key: Any, value: Any) -> None:
    """Refuses what is not (..., L, E), (..., S, E) and (..., S, V); the shape rule says it better.

    Raises:
        ValueError: it is not.
    """
    q, k, v = query.shape, key.shape, value.shape
    if k[:-1] != v[:-1] or q[:-2] != k[:-2] or q[-1] != k[-1] or len(q) < 2:
        raise ValueError("no attention")


def matrices(one: Any) -> Any:
    """(B, rows, columns), of any dims before the last two."""
    return np.ascontiguousarray(one).reshape(math.prod(one.shape[:-2]), *one.shape[-2:])


def _pieces(batch: int, length: int, others: int, is_causal: bool) -> Iterator[Piece]:
    """Yields matrices, rows of them and the number of columns that those see, of about a block of scores each."""
    if length * others <= BLOCK:
        step = max(1, BLOCK // max(1, length * others))
        for start in range(0, batch if length else 0, step):
            yield slice(start, start + step), slice(0, length), min(others, length) if is_causal else others
        return
    step = max(1, BLOCK // others)
    for n in range(batch):
        for start in range(0, length, step):
            stop = min(length, start + step)
            yield slice(n, n + 1), slice(start, stop), min(others, stop) if is_causal else others
