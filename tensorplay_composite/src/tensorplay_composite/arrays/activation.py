"""Kernels of the activations that are no formula of ``math``: ``gelu`` and its gradient, in both their forms.

Everything is computed from numbers between -40 and 40: beyond them ``gelu`` is 0 or the number itself in every dtype,
and an infinity times 0 would not be.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, quietly
from tensorplay_composite.arrays.elementary import error_functions
from tensorplay_core.ops.shapes_pointwise import check_approximation

FARTHEST = 40.0
CUBIC = 0.044715
SCALE = math.sqrt(8 / math.pi)
"""``gelu`` with tanh is x times the logistic function of ``SCALE * (x + CUBIC * x**3)``."""


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels over ``xp``."""
    kind, cast, single = support.kind, support.cast, support.single
    exp, maximum, minimum, asarray = xp.exp, xp.maximum, xp.minimum, xp.asarray
    _, erfc = error_functions(xp, support)

    def single_at_least(function: Any) -> Any:
        """Half precisions compute in float32, and are rounded once."""

        @functools.wraps(function)
        def widened(*arrays: Any, approximate: str = "none") -> Any:
            dtype = arrays[0].dtype
            check_approximation("gelu", approximate)
            if kind[dtype] != "half":
                return function(*arrays, approximate=approximate)
            return cast(function(*[cast(a, single) for a in arrays], approximate=approximate), dtype)

        return widened

    def logistic(x: Any) -> Any:
        return 1 / (1 + exp(-x))

    @single_at_least
    def gelu(self: Any, *, approximate: str = "none") -> Any:
        x = maximum(self, asarray(-FARTHEST, dtype=self.dtype))
        if approximate == "none":
            return x * erfc(x * -math.sqrt(0.5)) * 0.5
        return x * logistic(x * (1 + CUBIC * x * x) * SCALE)

    @single_at_least
    def gelu_backward(grad_output: Any, self: Any, *, approximate: str = "none") -> Any:
        end = asarray(FARTHEST, dtype=self.dtype)
        x = minimum(maximum(self, -end), end)
        if approximate == "none":
            density = exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
            return grad_output * (erfc(x * -math.sqrt(0.5)) * 0.5 + x * density)
        v = x * (1 + CUBIC * x * x) * SCALE
        right, left = logistic(v), logistic(-v)
        return grad_output * (right + x * right * left * (1 + 3 * CUBIC * x * x) * SCALE)

    return {"gelu": gelu, "gelu_backward": gelu_backward}
