"""The definitions in NumPy of the operators of linear algebra, which test_values compares with."""

from __future__ import annotations

from typing import Any

import numpy as np


def added(self: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = alpha * np.matmul(a, b)
    return np.broadcast_to(product if beta == 0 else beta * self + product, product.shape)


def kron(a: Any, b: Any) -> Any:
    return np.kron(a, b)


def cross(a: Any, b: Any, dim: Any = None) -> Any:
    if dim is None:
        dim = np.broadcast_shapes(a.shape, b.shape).index(3)
    shape = np.broadcast_shapes(a.shape, b.shape)
    return np.cross(np.broadcast_to(a, shape), np.broadcast_to(b, shape), axis=dim)


def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    n = x.shape[-1] + abs(offset)
    result = np.zeros((*x.shape[:-1], n, n), x.dtype)
    for i in range(x.shape[-1]):
        result[..., i + max(-offset, 0), i + max(offset, 0)] = x[..., i]
    return np.moveaxis(result, (-2, -1), (dim1, dim2))


def tensordot(a: Any, b: Any, first: Any, second: Any) -> Any:
    for i, j in zip(first, second, strict=True):
        if b.shape[j] == 1:
            a = a.sum(axis=i, keepdims=True)
    return np.tensordot(a, b, (first, second))


def einsum(equation: str, tensors: Any, path: Any = None) -> Any:
    return np.einsum(equation, *tensors)


def norm(x: Any, p: float, axis: int) -> Any:
    x = x.reshape(1) if x.ndim == 0 else x
    return np.linalg.norm(x, p, axis, keepdims=True)


def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    return (x / np.maximum(norm(x, p, dim), eps)).reshape(x.shape)


def cosine_similarity(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (np.broadcast_to(x, shape) for x in (a, b))
    return np.sum(normalize(a, 2, dim, eps) * normalize(b, 2, dim, eps), axis=dim if a.ndim else None)


def pairwise_distance(a: Any, b: Any, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return np.linalg.norm(a - b + eps, p, -1, keepdims=keepdim)


def cdist(a: Any, b: Any, p: float = 2, compute_mode: Any = None) -> Any:
    difference = a[..., :, None, :] - b[..., None, :, :]
    return np.linalg.norm(difference, p, -1) if a.shape[-1] else np.zeros(difference.shape[:-1])


def cdist_backward(grad: Any, a: Any, b: Any, p: float, distance: Any) -> Any:
    difference, r = a[..., :, None, :] - b[..., None, :, :], distance[..., None]
    with np.errstate(all="ignore"):
        slope = np.sign(difference) * (np.abs(difference) / r) ** (p - 1)
    if p == np.inf:
        size = np.abs(difference)  # the distance may be rounded
        largest = size == size.max(-1, keepdims=True)
        slope = np.sign(difference) * largest / largest.sum(-1, keepdims=True)
    return np.sum(grad[..., None] * np.where((r == 0) | (difference == 0) | (p == 0), 0, slope), axis=-2)


REFERENCES: dict[str, Any] = {
    "_cdist_backward": cdist_backward,
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), np.matmul),
    "vdot": lambda a, b: np.matmul(np.conj(a) if a.dtype.kind == "c" else a, b),
    "outer": np.outer,
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), added),
    "tril": np.tril,
    "triu": np.triu,
    "trace": np.trace,
    "diag": np.diag,
    "diag_embed": diag_embed,
    "kron": kron,
    "linalg_cross": lambda a, b, dim=-1: cross(a, b, dim),
    "cross": cross,
    "tensordot": tensordot,
    "einsum": einsum,
    "cosine_similarity": cosine_similarity,
    "normalize": normalize,
    "pairwise_distance": pairwise_distance,
    "cdist": cdist,
}
