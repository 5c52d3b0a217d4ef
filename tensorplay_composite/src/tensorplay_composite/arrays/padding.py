"""Constants around a copy: one array of the constant, written to once; or, where arrays are not written to, joined."""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, quietly
from tensorplay_core.ops.shape_checks import Shaped
from tensorplay_core.ops.shapes_padding import constant_pad_nd as result_shape
from tensorplay_core.ops.shapes_padding import pads_of


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of padding over ``xp``; none where it is not like NumPy, and Composite serves."""
    if not support.numpy_rules:
        return {}
    full = xp.full

    def constant_pad_nd(self: Any, pad: Any, value: Any = 0) -> Any:
        sizes = result_shape("constant_pad_nd", Shaped(self.shape), pad, value)
        result = full(sizes, value, self.dtype)
        pads = pads_of("constant_pad_nd", pad, self.ndim)
        read = tuple([slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(self.shape, pads, strict=True)])
        written = tuple([slice(max(a, 0), n - max(b, 0)) for n, (a, b) in zip(sizes, pads, strict=True)])
        result[written] = self[read]
        return result

    return {"constant_pad_nd": constant_pad_nd}
