"""The cross entropy of rows in blocks: exponentials and probabilities never leave the cache, and none are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_core.errors import DimError, fix
from tensorplay_cpu.normalization import SHORT, items


@quietly
def kernels(general: Kernels) -> Kernels:
    """``_cross_entropy`` and its gradient, of floating dtypes."""
    largest, exp, log, multiply, subtract = np.maximum.reduce, np.exp, np.log, np.multiply, np.subtract
    empty, fill, matmul = np.empty, np.copyto, np.matmul

    def cross_entropy(self: Any, indices: Any, ignore_index: int, label_smoothing: float) -> Any:
        dtype = self.dtype
        if dtype.itemsize == 2:
            return cross_entropy(self.astype("float32"), indices, ignore_index, label_smoothing).astype(dtype)
        rows, classes = self.shape
        places, ignored = checked(indices, rows, classes, ignore_index)
        result = empty(places.shape, dtype)
        if not self.size:
            result.fill(0)
            return result
        ones, room, numbers = np.ones(classes, dtype), None, None
        for piece in items(self.shape):
            x = self[piece]
            if room is None or room.shape != x.shape:
                room, numbers = empty(x.shape, dtype), np.arange(x.shape[0])
            shift(x, room)
            picked = room[numbers, places[piece]]
            if label_smoothing:
                picked = picked * (1 - label_smoothing) + matmul(room, ones) * (label_smoothing / classes)
            exp(room, room)
            sizes = matmul(room, ones)
            subtract(log(sizes, sizes), picked, result[piece])
        if ignored is not None:
            result[ignored] = 0
        return result

    def cross_entropy_backward(
        grad_out: Any, self: Any, indices: Any, ignore_index: int, label_smoothing: float
    ) -> Any:
        dtype = self.dtype
        if dtype.itemsize == 2:
            wide = grad_out.astype("float32"), self.astype("float32")
            return cross_entropy_backward(*wide, indices, ignore_index, label_smoothing).astype(dtype)
        rows, classes = self.shape
        places, ignored = checked(indices, rows, classes, ignore_index)
        if grad_out.shape != places.shape:
            raise ValueError("the shape rule says what is wrong")
        result = empty(self.shape, dtype)
        if not self.size:
            return result
        ones, room, numbers = np.ones(classes, dtype), None, None
        for piece in items(self.shape):
            out, g = result[piece], grad_out[piece]
            if room is None or room.shape != out.shape:
                room, numbers = empty(out.shape, dtype), np.arange(out.shape[0])
            shift(self[piece], out)
            exp(out, out)
            multiply(out, spread(g / matmul(out, ones), room), out)
            out[numbers, places[piece]] -= g * (1 - label_smoothing)
            if label_smoothing:
                subtract(out, spread(g * (label_smoothing / classes), room), out)
        if ignored is not None:
            result[ignored] = 0
        return result

    def shift(x: Any, out: Any) -> None:
        """Writes a block minus the largest element of each row."""
        top = largest(x, 1, keepdims=True)
        if x.shape[1] < SHORT:
            fill(out, top)
            subtract(x, out, out)
        else:
            subtract(x, top, out)

    def spread(numbers: Any, room: Any) -> Any:
        column = numbers[:, None]
        if room.shape[1] >= SHORT:
            return column
        fill(room, column)
        return room

    def checked(indices: Any, rows: int, classes: int, ignore_index: int) -> tuple[Any, Any]:
        """Returns the classes, 0 in place of those to be ignored, and which those are; None where there are none."""
        if indices.shape != (rows,):
            raise ValueError("the shape rule says what is wrong")
        ignored = indices == ignore_index
        some = bool(ignored.any())
        if some:
            indices = np.where(ignored, 0, indices)
        if indices.size and (indices.min() < 0 or indices.max() >= classes) and not (some and ignored.all()):
            wrong = next(place for place in indices.tolist() if not 0 <= place < classes)
            raise DimError(
                f"cross_entropy: target has class {wrong}, and self has {classes} classes, 0 to {classes - 1}"
                + fix(f"correct the labels; those to be left out have the value ignore_index={ignore_index}")
            )
        return indices, ignored if some else None

    return {"_cross_entropy": cross_entropy, "_cross_entropy_backward": cross_entropy_backward}
