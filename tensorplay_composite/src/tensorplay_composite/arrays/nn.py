"""Normalised exponentials.

Both subtract the largest element first, so nothing overflows; half precisions compute in float32 and round once.
``dtype=`` is left to the Composite kernels, which cast first.
"""

from __future__ import annotations

from typing import Any

from tensorplay_composite.arrays._support import Kernels, Support, check_0d, dtype_name, quietly
from tensorplay_core.errors import ArgumentError, DTypeError, fix


@quietly
def kernels(xp: Any, support: Support) -> Kernels:
    """Returns the kernels of neural networks over ``xp``."""
    kind, cast, single = support.kind, support.cast, support.single
    exp, log, largest, add_up = xp.exp, xp.log, xp.max, support.sum

    def shifted(name: str, self: Any, dim: int) -> Any:
        what = kind[self.dtype]
        if dim.__class__ is not int:  # None and tuples mean several dims to the module
            raise ArgumentError(f"{name}: dim must be an int, not {dim!r}")
        if what == "half":
            self = cast(self, single)
        elif what not in ("float", "complex"):
            raise DTypeError(
                f"{name}: the tensor is {dtype_name(self.dtype)}, and only floating dtypes have a {name}"
                + fix(f"{name}(x, dim, dtype=tp.float32)")
            )
        if what == "complex":
            raise DTypeError(f"{name}: complex numbers have no order, and the tensor is {dtype_name(self.dtype)}")
        if self.ndim == 0:
            check_0d(name, dim)
            return self - self
        if self.shape[dim] == 0:  # nothing is the largest of nothing
            return self
        return self - largest(self, axis=dim, keepdims=True)

    def softmax(self: Any, dim: int) -> Any:
        x = shifted("softmax", self, dim)
        e = exp(x)
        result = e / (add_up(e, axis=dim, keepdims=True) if e.ndim else e)
        return cast(result, self.dtype) if kind[self.dtype] == "half" else result

    def log_softmax(self: Any, dim: int) -> Any:
        x = shifted("log_softmax", self, dim)
        result = x - log(add_up(exp(x), axis=dim, keepdims=True)) if x.ndim else x
        return cast(result, self.dtype) if kind[self.dtype] == "half" else result

    return {"softmax": softmax, "log_softmax": log_softmax}
