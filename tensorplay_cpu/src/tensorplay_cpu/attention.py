"""Embeddings: rows are read with ``take``, and their gradients added up as slices are elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_core.errors import DimError
from tensorplay_cpu.scatter import add_slices


@quietly
def kernels(general: Kernels) -> Kernels:
    """``_embedding`` and its gradient."""

    def embedding(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
        rows, _ = weight.shape  # or the shape rule says what is wrong
        check_range(indices, rows)
        return weight.take(indices, 0)

    def embedding_dense_backward(
        grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
    ) -> Any:
        dtype = grad_output.dtype
        if dtype.itemsize == 2:
            wide = grad_output.astype("float32")
            rest = num_weights, padding_idx, scale_grad_by_freq
            return embedding_dense_backward(wide, indices, *rest).astype(dtype)
        check_range(indices, num_weights)
        result = np.zeros((num_weights, grad_output.shape[-1]), dtype)
        places = indices.reshape(-1)
        if not places.size or not grad_output.size:
            return result
        add_slices(result, 0, places, grad_output.reshape(places.size, -1))
        if scale_grad_by_freq:
            counts = np.bincount(places.astype("int64", copy=False), minlength=num_weights)
            found = np.flatnonzero(counts)
            result[found] = (result[found] / counts[found][:, None]).astype(dtype)
        if padding_idx >= 0:
            result[padding_idx] = 0
        return result

    def check_range(indices: Any, count: int) -> None:
        if not indices.size:
            return
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= count:
            wrong = low if low < 0 else high
            raise DimError(f"embedding: index out of range in self: {wrong} is no row of {count}, 0 to {count - 1}")

    return {"_embedding": embedding, "embedding_dense_backward": embedding_dense_backward}
