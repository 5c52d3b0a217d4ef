"""What the formulas of max pools call: the gradients go by the places of the largest elements."""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32


def max_pool_gathered(grad: Tensor, indices: Tensor, dims: int) -> Tensor:
    """The elements of a gradient at the places of a pool's indices."""
    outer, shape = _outer(indices.shape, dims), indices.shape
    flat = grad.reshape((outer, math.prod(grad.shape[grad.ndim - dims :])))
    return F.gather(flat, 1, indices.reshape((outer, -1 if outer else 0))).reshape(shape)


def max_pool_scattered(grad: Tensor, shape: tuple[int, ...], indices: Tensor, dims: int) -> Tensor:
    """Zeros of a pool's input to which the gradient is added at the places of its indices; halves round once."""
    outer, dtype = _outer(indices.shape, dims), grad.dtype
    if dtype.is_floating_point and dtype.itemsize == 2:
        grad = grad.to(float32)
    flat = grad.new_zeros((outer, math.prod(shape[len(shape) - dims :])))
    places = indices.reshape((outer, -1 if outer else 0))
    result = F.scatter_add(flat, 1, places, grad.reshape(places.shape)).reshape(shape)
    return result if result.dtype is dtype else result.to(dtype)


def _outer(shape: Any, dims: int) -> int:
    return math.prod(shape[: len(shape) - dims])
