"""Distances between the rows of two matrices, a few rows at a time.

All differences at once would take n * k * m numbers; a block of rows bounds that on every device.
"""

from __future__ import annotations

import math
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, quietly
from tensorplay_core.ops.shape_checks import broadcast_shapes

LIMIT = 1 << 20
"""How many differences there are at once."""


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of distances over ``xp``."""
    kind, cast, single, total = support.kind, support.cast, support.single, support.sum

    def blocks(x1: Any, x2: Any, batch: tuple[int, ...]) -> list[Any]:
        """Parts of the rows of x1, as columns, so that they go with every row of x2."""
        n, step = x1.shape[-2], max(1, LIMIT // max(1, math.prod(batch) * x2.shape[-2] * x2.shape[-1]))
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def norm(difference: Any, p: float) -> Any:
        if p == 2:
            return xp.sqrt(total(difference * difference, -1, False))
        size = xp.abs(difference)
        if p == 1:
            return total(size, -1, False)
        if p == math.inf:
            return xp.max(size, axis=-1)
        if p == 0:
            one = xp.ones((), dtype=size.dtype)
            return total(xp.where(size > 1, one, xp.ceil(size)), -1, False)  # NaN stays
        return total(size**p, -1, False) ** (1 / p)

    def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
        if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1] or not p >= 0:
            raise ValueError("the shape rule says what is wrong")
        if compute_mode not in (None, 0, 1, 2):
            raise ValueError("no such mode")
        dtype = x1.dtype
        if kind[dtype] == "half":
            return cast(cdist(cast(x1, single), cast(x2, single), p), dtype)
        batch = broadcast_shapes("cdist", x1.shape[:-2], x2.shape[:-2])
        (n, m), k = x1.shape[-2:], x2.shape[-2]
        if not m or 0 in batch or not n or not k:
            return xp.zeros((*batch, n, k), dtype=dtype)
        right = x2[..., None, :, :]
        parts = [norm(x1[..., part, None, :] - right, p) for part in blocks(x1, x2, batch)]
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)

    def slopes(difference: Any, r: Any, p: float) -> Any:
        """See ``ops/helpers_distance.py``."""
        sign = xp.sign(difference)
        if p == 1:
            return sign
        zero = xp.zeros((), dtype=r.dtype)
        one = xp.ones((), dtype=r.dtype)
        if p == math.inf:
            largest = xp.where(xp.abs(difference) == r, sign, zero)
            count = total(xp.abs(largest), -1, True)
            return largest / xp.where(count == 0, one, count)
        safe = xp.where(r == 0, one, r)
        if p == 2:
            return xp.where(r == 0, zero, difference / safe)
        share = xp.abs(difference) / safe
        return sign * xp.where(share == 0, zero, xp.where(share == 0, one, share) ** (p - 1))

    def _cdist_backward(grad_output: Any, x1: Any, x2: Any, p: float, cdist: Any) -> Any:
        dtype = x1.dtype
        if kind[dtype] == "half":
            wide = [cast(x, single) for x in (grad_output, x1, x2, cdist)]
            if p == math.inf:  # the largest component must equal the distance to the last bit
                wide[3] = forward(wide[1], wide[2], p)
            return cast(_cdist_backward(wide[0], wide[1], wide[2], p, wide[3]), dtype)
        batch = broadcast_shapes("cdist", x1.shape[:-2], x2.shape[:-2])
        (n, m), k = x1.shape[-2:], x2.shape[-2]
        if grad_output.shape != (*batch, n, k) or cdist.shape != grad_output.shape or m != x2.shape[-1]:
            raise ValueError("the shape rule says what is wrong")
        if not m or 0 in batch or not n or not k or p == 0:
            return xp.zeros((*batch, n, m), dtype=dtype)
        right = x2[..., None, :, :]
        parts = []
        for part in blocks(x1, x2, batch):
            found = slopes(x1[..., part, None, :] - right, cdist[..., part, :, None], p)
            parts.append(total(grad_output[..., part, :, None] * found, -2, False))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)

    forward = cdist
    return {"cdist": cdist, "_cdist_backward": _cdist_backward}
