"""References of the operators that make tensors of constants and ranges, or fill them.

Random and uninitialised tensors are no function of their arguments and have none: :data:`PROPERTIES` names them, and
what is checked of them is their shape, dtype, range and distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import budget, common_dtype
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import format_of, round_to
from tensorplay_core.types.dtype import get_default_dtype

_DROPOUT = ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "native_dropout")
PROPERTIES = frozenset(
    {
        *_DROPOUT,
        *("empty", "rand", "randn", "randperm", "randint", "multinomial", "bernoulli", "bernoulli.p"),
        *("normal.float_float", "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"),
        *("uniform_", "normal_", "bernoulli_.Tensor", "bernoulli_.float", "exponential_", "geometric_"),
        *("random_.from", "random_.to", "random_"),
    }
)
"""The operators whose results are no function of their arguments."""


def full(size: Sequence[int], fill_value: Any, *, dtype: str | None = None, device: Any = None) -> Array:
    """``fill_value`` everywhere, in the dtype of its kind unless one is given."""
    dtype = dtype or common_dtype([fill_value]).name
    return Array(tuple(size), round_to([fill_value], dtype) * math.prod(size), dtype)


def zeros(size: Sequence[int], *, dtype: str | None = None, device: Any = None) -> Array:
    """0 everywhere, in the default dtype unless one is given."""
    return full(size, 0, dtype=dtype or get_default_dtype().name)


def ones(size: Sequence[int], *, dtype: str | None = None, device: Any = None) -> Array:
    """1 everywhere, in the default dtype unless one is given."""
    return full(size, 1, dtype=dtype or get_default_dtype().name)


def arange(start: Any, end: Any, step: Any, *, dtype: str | None = None, device: Any = None) -> Array:
    """``start, start + step, …`` before ``end``; int64 of integers, the default dtype of floats."""
    dtype = dtype or common_dtype([0, start, end, step]).name
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return Array((len(range(start, end, step)),), round_to(range(start, end, step), dtype), dtype)
    count = max(0, math.ceil((end - start) / step))
    data = [start + i * step for i in range(count)]
    form = format_of(dtype)
    if form is None:
        return Array((count,), round_to(data, dtype), dtype)
    # ``i * step`` may be rounded before it is added.
    return Array((count,), data, dtype, [form.ulp(i * step) / 2 for i in range(count)])


def eye(n: int, m: int | None = None, *, dtype: str | None = None, device: Any = None) -> Array:
    """Ones on the main diagonal of an (n, m) matrix."""
    dtype, m = dtype or get_default_dtype().name, n if m is None else m
    return Array((n, m), round_to([row == column for row in range(n) for column in range(m)], dtype), dtype)


def fill_(self: Array, value: Any) -> Array:
    """``value`` everywhere."""
    return full(self.shape, value, dtype=self.dtype)


def zero_(self: Array) -> Array:
    """0 everywhere."""
    return full(self.shape, 0, dtype=self.dtype)


_FILLED: dict[str, Callable[..., Array]] = {
    "eye": eye,
    "fill_": fill_,
    "full": full,
    "ones": ones,
    "zero_": zero_,
    "zeros": zeros,
}
REFERENCES: dict[str, Reference] = {
    "arange": Reference(arange, budget(1)),
    **{name: Reference(fn, {}, bits=True) for name, fn in _FILLED.items()},
}
