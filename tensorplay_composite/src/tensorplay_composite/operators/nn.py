"""Composite operators of neural networks: normalised exponentials with ``dtype=``, and the linear layer."""

from __future__ import annotations

from tensorplay_core.errors import DTypeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.types.dtype import DType, float32


def _shifted(name: str, self: Tensor, dim: int) -> Tensor:
    """Returns ``self`` minus its largest element along ``dim``, in float32 for half precisions."""
    dtype = self.dtype
    if not dtype.is_floating_point:
        raise DTypeError(
            f"{name}: the tensor is {dtype.name}, and only floating dtypes have a {name}"
            + fix(f"{name}(x, dim, dtype=tp.float32)")
        )
    if dtype.itemsize == 2:
        self = self.to(float32)
    if self.numel() == 0:  # nothing is the largest of nothing
        return self
    return self - F.max(self, dim, True)[0]


def softmax(self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))``."""
    if dtype is not None:
        return F.softmax(self.to(dtype), dim)
    e = F.exp(_shifted("softmax", self, dim))
    return (e / e.sum(dim, True)).to(self.dtype)


def log_softmax(self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """``x - max - log(sum(exp(x - max)))``."""
    if dtype is not None:
        return F.log_softmax(self.to(dtype), dim)
    x = _shifted("log_softmax", self, dim)
    return (x - F.log(F.exp(x).sum(dim, True))).to(self.dtype)


def softmin(self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """``softmax(-self)``."""
    return F.softmax(-self, dim, dtype=dtype)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``; a 1-d weight is one output feature whose dim disappears."""
    product = input @ (weight.transpose(0, 1) if weight.ndim == 2 else weight)
    return product if bias is None else product + bias
