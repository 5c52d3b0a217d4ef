"""Division with a remainder of float32, in blocks of float64: NumPy calls the C library for every single element.

The quotient of two float32 numbers is a whole number in float64 only if it is one in truth, as long as it is below
2**28; and the product of the rounded quotient and the divisor is exact there, and so is what it leaves. Blocks in
which a quotient is larger, infinite or NaN are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorplay_composite.arrays import Kernels, quietly
from tensorplay_composite.arrays._support import silent
from tensorplay_cpu.blocks import in_blocks
from tensorplay_cpu.pointwise import FEW

NARROW = 16 * 1024
"""Elements of a block: two inputs and three registers of float64 must fit the cache."""
SINGLE, DOUBLE = np.dtype("float32"), np.dtype("float64")
LARGEST = 2.0**28


def rounded_quotient(rounding: Any, a: Any, b: Any, wide: Any, divisor: Any, quotient: Any) -> bool:
    """Writes the arguments in float64 and their quotient, rounded; returns whether it is exact."""
    wide[...] = a
    divisor[...] = b
    np.divide(wide, divisor, quotient)
    rounding(quotient, quotient)
    least, largest = divisor.min(), divisor.max()
    return bool(max(quotient.max(), -quotient.min()) < LARGEST and -np.inf < least and largest < np.inf)


def floor_divide_block(a: Any, b: Any, wide: Any, divisor: Any, quotient: Any, out: Any) -> None:
    """``a // b``."""
    if rounded_quotient(np.floor, a, b, wide, divisor, quotient):
        out[...] = quotient
    else:
        np.floor_divide(a, b, out)


def remainder_block(a: Any, b: Any, wide: Any, divisor: Any, quotient: Any, out: Any) -> None:
    """``a - a // b * b``, with the sign of b."""
    if rounded_quotient(np.floor, a, b, wide, divisor, quotient):
        np.multiply(quotient, divisor, quotient)
        np.subtract(wide, quotient, quotient)
        out[...] = quotient
        np.copysign(out, b, out)
    else:
        np.remainder(a, b, out)


def fmod_block(a: Any, b: Any, wide: Any, divisor: Any, quotient: Any, out: Any) -> None:
    """``a - trunc(a / b) * b``, with the sign of a."""
    if rounded_quotient(np.trunc, a, b, wide, divisor, quotient):
        np.multiply(quotient, divisor, quotient)
        np.subtract(wide, quotient, quotient)
        out[...] = quotient
        np.copysign(out, a, out)
    else:
        np.fmod(a, b, out)


@quietly
def kernels() -> Kernels:
    """Returns the kernels, by the operator's name."""
    quiet = {name: silent(value) for name, value in globals().items() if name.endswith(("_block", "_quotient"))}
    for function in quiet.values():
        function.__globals__.update(quiet)

    def divided(ufunc: Any, block: Callable[..., None]) -> Any:
        def divide(self: Any, other: Any) -> Any:
            if (self.size <= FEW and other.size <= FEW) or self.dtype is not SINGLE:
                return ufunc(self, other)
            return in_blocks(block, (self, other), (), (DOUBLE,) * 3, (SINGLE,), NARROW)[0]

        return divide

    return {
        "floor_divide": divided(np.floor_divide, quiet["floor_divide_block"]),
        "remainder": divided(np.remainder, quiet["remainder_block"]),
        "fmod": divided(np.fmod, quiet["fmod_block"]),
    }
