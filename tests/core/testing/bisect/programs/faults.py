"""Twelve faults of kernels, one planted for each name that ``plant`` is given: what bisect must find, with its line.

Every kernel is right but for one thing that backends get wrong. They are registered over those of loopback.
"""

from __future__ import annotations

import os

import numpy as np

import tensorplay as tp

LIB = tp.library.Library("tp", "IMPL", "loopback")


def gelu_tail(x, *, approximate="none"):
    from math import erf

    y = np.vectorize(lambda v: 0.5 * v * (1 + erf(v / 2**0.5)), otypes=[x.dtype])(x) if x.size else x.copy()
    return np.where(x < -4, np.zeros_like(x), y)


def stale_view(x, dim0, dim1):
    return np.swapaxes(x, dim0, dim1).copy()


def gelu_backward(grad, x, *, approximate="none"):
    from math import erf

    cdf = np.vectorize(lambda v: 0.5 * (1 + erf(v / 2**0.5)), otypes=[x.dtype])(x)
    return grad * (cdf + x * np.exp(-x * x / 2) * np.float32(0.4))  # the density of 0 is 0.39894


def not_contiguous(x):
    return np.exp(x if x.flags.c_contiguous else x.ravel(order="K").reshape(x.shape))


def one_dtype(x):
    y = np.tanh(x)
    return y if x.dtype != np.float64 else y.astype(np.float32).astype(np.float64)


def last_block(x):
    y = np.sin(x)
    if x.size > 256:
        y.reshape(-1)[x.size // 256 * 256 :] = 0
    return y


def nan_lost(a, b):
    return np.fmax(a, b)


def in_place(x, y, *, alpha=1):
    np.add(x, y * alpha * (1 + 1e-3), out=x, casting="unsafe")
    return x


def scalar(x):
    y = np.cos(x)
    return y if x.ndim else np.asarray(-y)


def empty(x, dim, keepdim, *, dtype=None):
    axes = None if dim is None else tuple(np.atleast_1d(dim).tolist()) or None
    y = np.asarray(np.sum(x, axis=axes, keepdims=keepdim, dtype=dtype))
    return y + 1 if not x.size else y


def broadcast(a, b):
    if a.shape == b.shape or not a.ndim or not b.ndim:
        return np.multiply(a, b)
    a, b = np.broadcast_arrays(a, b)
    return np.multiply(a, b[..., ::-1])


def index(x, indices):
    key = tuple(slice(None) if one is None else np.abs(one) for one in indices)
    return x[key]


PLANTED = {
    "a gelu tail": ("gelu", gelu_tail),
    "a stale view": ("transpose", stale_view),
    "backward only": ("gelu_backward", gelu_backward),
    "not contiguous": ("exp", not_contiguous),
    "one dtype": ("tanh", one_dtype),
    "the last block": ("sin", last_block),
    "NaN": ("maximum", nan_lost),
    "in place": ("add_", in_place),
    "0-d": ("cos", scalar),
    "empty": ("sum", empty),
    "broadcast": ("mul", broadcast),
    "index": ("index", index),
}


def plant(name):
    """Registers one of the faults."""
    operator, kernel = PLANTED[name]
    LIB.impl(operator, kernel, override=True)


if name := os.environ.get("PLANTED_FAULT"):
    plant(name)
