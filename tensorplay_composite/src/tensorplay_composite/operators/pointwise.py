"""Composite pointwise operators, and the forms of ``add`` and ``sub`` with ``alpha``, which array kernels leave out."""

from __future__ import annotations

from tensorplay_core.errors import ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import float32, get_default_dtype
from tensorplay_core.types.promotion import promote


def _scaled(name: str, self: Tensor, other: Tensor, alpha: complex) -> Tensor:
    """Returns ``alpha * other`` in the dtype that ``self`` and ``other`` have in common."""
    common = promote(self.dtype, other.dtype)
    if (isinstance(alpha, complex) and not common.is_complex) or (
        isinstance(alpha, float) and not (common.is_floating_point or common.is_complex)
    ):
        raise ValueRangeError(
            f"{name}: alpha is {alpha!r}, and {common.name} tensors take an alpha of their own kind"
            + fix(f"{name} with tensors converted by .to(dtype), or pass {name}(x, alpha * other)")
        )
    return other.to(common) * alpha


def add(self: Tensor, other: Tensor, *, alpha: complex = 1) -> Tensor:
    """``self + alpha * other``."""
    return self + (other if alpha == 1 else _scaled("add", self, other, alpha))


def sub(self: Tensor, other: Tensor, *, alpha: complex = 1) -> Tensor:
    """``self - alpha * other``."""
    return self - (other if alpha == 1 else _scaled("sub", self, other, alpha))


def sigmoid(self: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) through exp(-|x|), which never overflows; half precisions compute in float32."""
    dtype = self.dtype
    if not dtype.is_inexact:  # before the sign changes: an unsigned integer has no negative, a bool not even a sign
        return sigmoid(self.to(get_default_dtype()))
    if dtype.is_floating_point and dtype.itemsize == 2:
        return sigmoid(self.to(float32)).to(dtype)
    positive = (self.real() if dtype.is_complex else self) >= 0
    small = F.exp(F.where(positive, -self, self))
    return F.where(positive, 1, small) / (1 + small)


def relu(self: Tensor) -> Tensor:
    """``max(x, 0)``; written so that NaN stays NaN."""
    return F.where(self <= 0, 0, self)
