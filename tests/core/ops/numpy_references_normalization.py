"""Definitions of the normalisations in NumPy, for test_values."""

from __future__ import annotations

from typing import Any

import numpy as np


def standardize(x: Any, weight: Any, bias: Any, dim: Any, eps: float) -> Any:
    mean, var = x.mean(tuple(dim), keepdims=True), x.var(tuple(dim), keepdims=True)
    y = (x - mean) / np.sqrt(var + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias), mean, var


def summed(a: Any, shape: Any) -> Any:
    sizes = (1,) * (a.ndim - len(shape)) + tuple(shape)
    return a.sum(tuple(d for d, n in enumerate(sizes) if n == 1)).reshape(shape)


def standardize_backward(
    grad: Any, x: Any, mean: Any, var: Any, weight: Any, dim: Any, affine: Any, eps: float, mask: Any
) -> Any:
    h = (x - mean) / np.sqrt(var + eps)
    g = grad if weight is None else grad * weight
    dims = tuple(dim)
    rest = g - g.mean(dims, keepdims=True) - h * (g * h).mean(dims, keepdims=True)
    results = rest / np.sqrt(var + eps), summed(grad * h, affine), summed(grad, affine)
    return tuple(one if wanted else np.zeros(0) for one, wanted in zip(results, mask, strict=True))


def layer_norm(x: Any, sizes: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return standardize(x, weight, bias, range(x.ndim - len(sizes), x.ndim), eps)[0]


def channels(one: Any, x: Any) -> Any:
    return None if one is None else one.reshape((-1, *(1,) * (x.ndim - 2)))


def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    y = x.reshape((x.shape[0], groups, x.shape[1] // groups, int(np.prod(x.shape[2:]))))
    y = standardize(y, None, None, (2, 3), eps)[0].reshape(x.shape)
    y = y if weight is None else y * channels(weight, x)
    return y if bias is None else y + channels(bias, x)


def given(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    y = (x - channels(mean, x)) / np.sqrt(channels(var, x) + eps)
    y = y if weight is None else y * channels(weight, x)
    return y if bias is None else y + channels(bias, x)


def instance_norm(
    x: Any,
    mean: Any = None,
    var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    eps=1e-5,
) -> Any:
    if not use_input_stats:
        return given(x, mean, var, weight, bias, eps)
    return group_norm(x, x.shape[1], weight, bias, eps)


def batch_norm(
    x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False, eps: float = 1e-5
) -> Any:
    if not training:
        return given(x, mean, var, weight, bias, eps)
    dims = tuple(d for d in range(x.ndim) if d != 1)
    return standardize(x, channels(weight, x), channels(bias, x), dims, eps)[0]


def rms_norm(x: Any, sizes: Any, weight: Any = None, eps: Any = None) -> Any:
    # What is left out depends on the dtype, which a reference does not see: the samples are far larger.
    mean = (x * x).mean(tuple(range(x.ndim - len(sizes), x.ndim)), keepdims=True)
    return x / np.sqrt(mean + (eps or 0)) * (1 if weight is None else weight)


REFERENCES: dict[str, Any] = {
    "_standardize": standardize,
    "_standardize_backward": standardize_backward,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}
