"""Dropout in blocks: numbers are drawn, compared and applied while they are in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplay_composite.arrays import HostRandom, Kernels, quietly
from tensorplay_cpu.pointwise import BLOCK


@quietly
def kernels(random: HostRandom) -> Kernels:
    """``native_dropout`` and its gradient; the numbers are those that ``rand`` draws in float32."""
    empty, multiply, not_less = np.empty, np.multiply, np.greater_equal
    single = np.dtype("float32")

    def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Any, Any]:
        mask = empty(input.shape, bool)
        if train is False:
            mask.fill(True)
            return input.copy(), mask
        flat, draw = mask.reshape(-1), random.generator(0).random
        room = empty(min(BLOCK, flat.size), single)
        for start in range(0, flat.size, BLOCK):
            part = flat[start : start + BLOCK]
            numbers = room[: part.size]
            draw(out=numbers, dtype=single)
            not_less(numbers, p, part)
        return native_dropout_backward(input, mask, 1 / (1 - p) if p < 1 else 0.0), mask

    def native_dropout_backward(grad_output: Any, mask: Any, scale: float) -> Any:
        """``grad_output * (mask * scale)``: what is dropped becomes 0, NaN where it was not finite, as in PyTorch."""
        dtype = grad_output.dtype
        if dtype.itemsize == 2:
            return native_dropout_backward(grad_output.astype(single), mask, scale).astype(dtype)
        result = empty(grad_output.shape, dtype)
        x, kept, out = np.ascontiguousarray(grad_output).reshape(-1), mask.reshape(-1), result.reshape(-1)
        factor = grad_output.real.dtype.type(scale)
        room = empty(min(BLOCK, x.size), factor.dtype)
        for start in range(0, x.size, BLOCK):
            stop = start + BLOCK
            numbers = multiply(kept[start:stop], factor, room[: x.size - start])
            multiply(x[start:stop], numbers, out[start:stop])
        return result

    return {"native_dropout": native_dropout, "native_dropout_backward": native_dropout_backward}
