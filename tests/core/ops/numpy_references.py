"""One independent definition in NumPy per operator, which test_values compares with.

A reference is given float64 or complex128 where the dtype is inexact; its result is rounded once by whoever compares.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def axis_of(dim: Any, x: np.ndarray) -> Any:
    if dim is None or x.ndim == 0 or (isinstance(dim, tuple) and not dim):
        return None
    return tuple(dim) if isinstance(dim, (tuple, list)) else dim


def reduced(function: Any) -> Any:
    def reference(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        return function(x, axis=axis_of(dim, x), keepdims=keepdim and x.ndim > 0)

    return reference


def argmax(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None or x.ndim == 0:
        return np.reshape(np.argmax(x), (1,) * x.ndim if keepdim else ())
    return np.argmax(x, axis=dim, keepdims=keepdim)


def sigmoid(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return 1 / (1 + np.exp(-x))


def sgn(x: Any) -> Any:
    if x.dtype.kind == "b":  # NumPy has no sign of a bool
        return x
    if x.dtype.kind != "c":
        return np.sign(x)
    with np.errstate(all="ignore"):
        return np.where(x == 0, 0, x / np.abs(x))


def log_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    if x.ndim == 0:
        return x - x
    if x.size == 0:
        return x
    x = x - x.max(axis=dim, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=dim, keepdims=True))


def index(x: Any, indices: Any) -> Any:
    return x[tuple(slice(None) if i is None else i for i in indices)]


def index_backward(grad: Any, sizes: Any, indices: Any) -> Any:
    result = np.zeros(sizes, grad.dtype)
    np.add.at(result, tuple(slice(None) if i is None else i for i in indices), grad)
    return result


def along(ndim: int, dim: int, what: Any) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * ndim
    key[dim] = what
    return tuple(key)


def slice_backward(grad: Any, sizes: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    result = np.zeros(sizes, grad.dtype)
    result[along(len(sizes), dim, slice(start, end, step))] = grad
    return result


def select_backward(grad: Any, sizes: Any, dim: int, index: int) -> Any:
    result = np.zeros(sizes, grad.dtype)
    result[along(len(sizes), dim, index)] = grad
    return result


def squeeze(x: Any, dim: Any = None) -> Any:
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    return np.squeeze(x, axis=tuple({d % x.ndim for d in dims if x.shape[d] == 1} if x.ndim else ()))


def expand(x: Any, size: Any) -> Any:
    new = len(size) - x.ndim
    return np.broadcast_to(x, tuple(x.shape[i - new] if n == -1 else n for i, n in enumerate(size)))


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    log_p = np.moveaxis(log_softmax(x, 0 if x.ndim == 1 else 1), 0 if x.ndim == 1 else 1, -1)
    classes = log_p.shape[-1]
    weight = np.ones(classes) if weight is None else weight
    if target.dtype.kind == "f":
        target = np.moveaxis(target, 1, -1) if x.ndim > 1 else target
        smooth = target * (1 - label_smoothing) + label_smoothing / classes
        loss = -(smooth * weight * log_p).sum(-1)
        return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / max(loss.size, 1)}[reduction]
    loss, scale = np.zeros(target.shape), np.zeros(target.shape)
    for where in np.ndindex(target.shape):
        label = int(target[where])
        if label != ignore_index:
            scale[where] = weight[label]
            loss[where] = -(1 - label_smoothing) * weight[label] * log_p[where][label]
            loss[where] -= label_smoothing / classes * (weight * log_p[where]).sum()
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / scale.sum()}[reduction]


def name_of(dtype: Any) -> str:
    return dtype if isinstance(dtype, str) else dtype.name


def constant(value: Any) -> Any:
    return lambda size, *fill, dtype=None, device=None: np.full(size, fill[0] if fill else value)


# ------------------------------------------------------------------------------------------------- places and views


def picked(x: Any, dim: int, index: Any, place: Any) -> Any:
    """Returns the key of the element that an index array means at one of its places."""
    key = list(place)
    if key:
        key[dim] = int(index[place])
    return tuple(key)


def gather(x: Any, dim: int, index: Any) -> Any:
    result = np.zeros(index.shape, x.dtype)
    for place in np.ndindex(index.shape):
        result[place] = x[picked(x, dim, index, place)]
    return result


def scatter(x: Any, dim: int, index: Any, source: Any, add: bool = False) -> Any:
    result = x.copy()
    for place in np.ndindex(index.shape):
        key = picked(x, dim, index, place)
        value = source[place] if isinstance(source, np.ndarray) else source
        result[key] = result[key] + value if add else value
    return result


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    result = x.copy()
    key = tuple(slice(None) if i is None else i for i in indices)
    if accumulate:
        np.add.at(result, key, values)
    else:
        result[key] = values
    return result


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, mask.shape)
    result, mask = np.broadcast_to(x, shape).copy(), np.broadcast_to(mask, shape)
    result[mask] = np.ravel(source)[: mask.sum()]
    return result


def written(x: Any, key: Any, source: Any) -> Any:
    """Returns a copy with the elements of a key overwritten."""
    result = x.copy()
    result[key] = source
    return result


def cat(arrays: Any, dim: int = 0) -> Any:
    """Concatenates; an array of shape (0,) counts for nothing among others of more dims."""
    return np.concatenate([a for a in arrays if a.shape != (0,)] or arrays, dim)


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    moved = np.moveaxis(x, (dim1, dim2), (-2, -1))
    rows = [i for i in range(moved.shape[-2]) if 0 <= i + offset < moved.shape[-1]]
    return moved[..., rows, [i + offset for i in rows]]


def diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    places = diagonal(np.arange(x.size).reshape(x.shape), offset, dim1, dim2)
    result = x.ravel().copy()
    result[places] = source
    return result.reshape(x.shape)


def strided_places(size: Any, stride: Any, offset: Any) -> Any:
    places = np.full(size, offset or 0)
    for dim, (n, step) in enumerate(zip(size, stride, strict=True)):
        places = places + (np.arange(n) * step).reshape([-1 if d == dim else 1 for d in range(len(size))])
    return places


def as_strided(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    return np.ravel(x)[strided_places(size, stride, storage_offset)]


def as_strided_scatter(x: Any, source: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    result = x.ravel().copy()
    result[strided_places(size, stride, storage_offset)] = source
    return result.reshape(x.shape)


def parts(x: Any, sizes: Any, dim: int = 0) -> Any:
    ends = np.cumsum(sizes)
    return tuple(x[along(x.ndim, dim, slice(int(end) - n, int(end)))] for n, end in zip(sizes, ends, strict=True))


def narrow(x: Any, dim: int, start: int, length: int) -> Any:
    start += x.shape[dim] if start < 0 else 0
    return x[along(x.ndim, dim, slice(start, start + length))]


def split(x: Any, size: int, dim: int = 0) -> Any:
    n = x.shape[dim]
    return parts(x, [min(size, n - i) for i in range(0, n, size)] if n else [0], dim)


def chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    n = x.shape[dim]
    return split(x, -(-n // chunks), dim) if n else parts(x, [0] * chunks, dim)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if x.ndim == 0:
        return x.reshape(1)
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape((*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    rest = math.prod(n for n in sizes if n != -1)
    sizes = [x.shape[dim] // rest if n == -1 else n for n in sizes]
    return x.reshape((*x.shape[: dim % x.ndim], *sizes, *x.shape[dim % x.ndim + 1 :]))


REFERENCES: dict[str, Any] = {
    "add": lambda a, b, alpha=1: a + (b if alpha == 1 else np.asarray(alpha, a.dtype) * b),
    "sub": lambda a, b, alpha=1: a - (b if alpha == 1 else np.asarray(alpha, a.dtype) * b),
    "mul": np.multiply,
    "div": np.true_divide,
    "pow": np.power,
    "neg": np.negative,
    "abs": np.abs,
    "sgn": sgn,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "square": np.square,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "softplus": lambda x, beta=1, threshold=20: np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta),
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: np.where(x <= -3, 0, np.where(x >= 3, x, x * (x + 3) / 6)),
    "relu": lambda x: np.where(x > 0, x, np.where(x == x, 0, x)),
    "conj": np.conj,
    "real": np.real,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "where": np.where,
    "clone": np.array,
    "sum": reduced(np.sum),
    "mean": reduced(np.mean),
    "max": np.max,
    "max.dim": lambda x, dim, keepdim=False: (
        np.max(x, axis=axis_of(dim, x), keepdims=keepdim),
        argmax(x, dim, keepdim),
    ),
    "argmax": argmax,
    "reshape": np.reshape,
    "permute": np.transpose,
    "transpose": lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1) if x.ndim else x,
    "expand": expand,
    "squeeze": squeeze,
    "unsqueeze": np.expand_dims,
    "select": lambda x, dim, index: x[along(x.ndim, dim, index)],
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[along(x.ndim, dim, slice(start, end, step))],
    "cat": cat,
    "index": index,
    "index_backward": index_backward,
    "select_backward": select_backward,
    "slice_backward": slice_backward,
    "matmul": np.matmul,
    "linear": lambda x, w, b=None: x @ w.T + (0 if b is None else b),
    "softmax": lambda x, dim, dtype=None: np.exp(log_softmax(x, dim)),
    "log_softmax": log_softmax,
    "cross_entropy": cross_entropy,
    "_to_copy": lambda x, dtype=None, device=None: x,
    "copy_": lambda x, src, non_blocking=False: np.broadcast_to(src, x.shape),
    "fill_": lambda x, value: np.full(x.shape, value),
    "zero_": lambda x: np.zeros(x.shape),
    "zeros": constant(0),
    "ones": constant(1),
    "full": constant(None),
    "arange": lambda start, end, step, dtype=None, device=None: np.arange(start, end, step),
    "eye": lambda n, m=None, dtype=None, device=None: np.eye(n, m),
    "empty": constant(0),
    "rand": constant(0),
    "randn": constant(0),
    "randperm": lambda n, dtype=None, device=None: np.arange(n),
    "index_put": index_put,
    "index_put_": index_put,
    "index_select": lambda x, dim, index: np.take(x, np.atleast_1d(index), axis=dim) if x.ndim else x,
    "masked_select": lambda x, mask: np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))[
        np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
    ],
    "masked_fill.Scalar": lambda x, mask, value: np.where(mask, np.asarray(value, x.dtype), x),
    "masked_fill.Tensor": lambda x, mask, value: np.where(mask, value.astype(x.dtype), x),
    "masked_scatter": masked_scatter,
    "gather": gather,
    "scatter.src": scatter,
    "scatter.value": scatter,
    "scatter_add": lambda x, dim, index, source: scatter(x, dim, index, source, add=True),
    "take": lambda x, index: np.ravel(x)[index],
    "nonzero": np.argwhere,
    "as_strided": as_strided,
    "as_strided_scatter": as_strided_scatter,
    "diagonal": diagonal,
    "diagonal_scatter": diagonal_scatter,
    "unbind": lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)),
    "split_with_sizes": parts,
    "split": split,
    "split.sizes": parts,
    "chunk": chunk,
    "narrow": narrow,
    "movedim": lambda x, source, destination: np.moveaxis(x, source, destination) if x.ndim else x,
    "flatten": flatten,
    "unflatten": unflatten,
    "t": np.transpose,
    "stack": np.stack,
    "flip": lambda x, dims: np.flip(x, dims) if x.ndim else x,
    "select_scatter": lambda x, source, dim, index: written(x, along(x.ndim, dim, index), source),
    "slice_scatter": lambda x, source, dim=0, start=None, end=None, step=1: written(
        x, along(x.ndim, dim, slice(start, end, step)), source
    ),
}
