"""Functions that derivative formulas call besides operators: written in operators, so they can be differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.helpers_attention import (
    attention_double_backward as attention_double_backward,
)
from tensorplay_core.ops.helpers_attention import (
    attention_mask_gradient as attention_mask_gradient,
)
from tensorplay_core.ops.helpers_attention import (
    embedding_gradient_rows as embedding_gradient_rows,
)
from tensorplay_core.ops.helpers_convolution import (
    convolution_double_backward as convolution_double_backward,
)
from tensorplay_core.ops.helpers_convolution import (
    convolution_gradients as convolution_gradients,
)
from tensorplay_core.ops.helpers_distance import (
    cdist_double_backward as cdist_double_backward,
)
from tensorplay_core.ops.helpers_distance import (
    powered as powered,
)
from tensorplay_core.ops.helpers_distance import (
    slopes as slopes,
)
from tensorplay_core.ops.helpers_dropout import (
    dropout_gradient as dropout_gradient,
)
from tensorplay_core.ops.helpers_factorization import (
    cholesky_backward as cholesky_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    det_backward as det_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    eigh_backward as eigh_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    eigvalsh_backward as eigvalsh_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    pinv_backward as pinv_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    qr_backward as qr_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    slogdet_backward as slogdet_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    solve_backward_matrix as solve_backward_matrix,
)
from tensorplay_core.ops.helpers_factorization import (
    solve_triangular_backward as solve_triangular_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    svd_backward as svd_backward,
)
from tensorplay_core.ops.helpers_factorization import (
    svdvals_backward as svdvals_backward,
)
from tensorplay_core.ops.helpers_indexing import (
    roll_backward as roll_backward,
)
from tensorplay_core.ops.helpers_indexing import (
    scatter_reduce_backward as scatter_reduce_backward,
)
from tensorplay_core.ops.helpers_indexing import (
    unfold_backward as unfold_backward,
)
from tensorplay_core.ops.helpers_linalg import (
    adjoint as adjoint,
)
from tensorplay_core.ops.helpers_linalg import (
    scaled as scaled,
)
from tensorplay_core.ops.helpers_loss import (
    cross_entropy_double_backward as cross_entropy_double_backward,
)
from tensorplay_core.ops.helpers_normalization import (
    standardize_backward as standardize_backward,
)
from tensorplay_core.ops.helpers_normalization import (
    standardize_double_backward as standardize_double_backward,
)
from tensorplay_core.ops.helpers_padding import (
    constant_pad_nd_backward as constant_pad_nd_backward,
)
from tensorplay_core.ops.helpers_padding import (
    windows_size as windows_size,
)
from tensorplay_core.ops.helpers_pointwise import (
    clamp_backward as clamp_backward,
)
from tensorplay_core.ops.helpers_pointwise import (
    clamp_backward_max as clamp_backward_max,
)
from tensorplay_core.ops.helpers_pointwise import (
    clamp_backward_min as clamp_backward_min,
)
from tensorplay_core.ops.helpers_pointwise import (
    gelu_second as gelu_second,
)
from tensorplay_core.ops.helpers_pointwise import (
    logit_backward as logit_backward,
)
from tensorplay_core.ops.helpers_pointwise import (
    nonzero as nonzero,
)
from tensorplay_core.ops.helpers_pointwise import (
    nonzero_length as nonzero_length,
)
from tensorplay_core.ops.helpers_pointwise import (
    sinc_slope as sinc_slope,
)
from tensorplay_core.ops.helpers_pointwise import (
    whole_quotient as whole_quotient,
)
from tensorplay_core.ops.helpers_pointwise import (
    xlogy_slope as xlogy_slope,
)
from tensorplay_core.ops.helpers_pooling import (
    max_pool_gathered as max_pool_gathered,
)
from tensorplay_core.ops.helpers_pooling import (
    max_pool_scattered as max_pool_scattered,
)
from tensorplay_core.ops.helpers_reduction import (
    amax_backward as amax_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    cummax_backward as cummax_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    cumprod_backward as cumprod_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    cumsum_backward as cumsum_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    logcumsumexp_backward as logcumsumexp_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    logsumexp_backward as logsumexp_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    nansum_backward as nansum_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    norm_backward as norm_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    prod_backward as prod_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    selected_backward as selected_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    selected_forward as selected_forward,
)
from tensorplay_core.ops.helpers_reduction import (
    std_backward as std_backward,
)
from tensorplay_core.ops.helpers_reduction import (
    var_backward as var_backward,
)
from tensorplay_core.ops.shape_checks import normalize_dim, normalize_dims
from tensorplay_core.ops.shapes_view import extent, may_overlap
from tensorplay_core.tensor.tensor import Tensor

Dims = int | Sequence[int] | None


def _dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    return normalize_dims("sum", dim, ndim)


def sum_backward(grad: Tensor, shape: tuple[int, ...], dim: Dims, keepdim: bool) -> Tensor:
    """Spreads the gradient of a sum over the elements that were summed; ``shape`` is the input's."""
    if not keepdim:
        reduced = _dims(dim, len(shape))
        grad = grad.reshape(tuple(1 if i in reduced else n for i, n in enumerate(shape)))
    return grad.expand(shape)


def mean_backward(grad: Tensor, shape: tuple[int, ...], dim: Dims, keepdim: bool) -> Tensor:
    """Spreads the gradient of a mean over the elements that were averaged; ``shape`` is the input's."""
    count = 1
    for i in _dims(dim, len(shape)) if shape else ():  # a 0-d tensor takes dim 0, and has none
        count *= shape[i]
    return sum_backward(grad, shape, dim, keepdim) / count


def max_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Gives the gradient of a maximum to the elements that equal it, in equal parts; NaN counts as equal to NaN."""
    mask = F.where(result == result, self == result, self != self)
    hits = mask.to(self.dtype)
    return grad * (hits / hits.sum())


def max_dim_backward(grad: Tensor, indices: Tensor, shape: tuple[int, ...], dim: int, keepdim: bool) -> Tensor:
    """Gives the gradient of a maximum along a dim to the element that was chosen."""
    if not shape:
        return grad.reshape(shape)
    dim = normalize_dim("max", dim, len(shape))
    if not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    position = F.arange(shape[dim], device=indices.device).reshape([-1 if i == dim else 1 for i in range(len(shape))])
    return F.where(indices == position, grad, 0)


def permute_backward(grad: Tensor, dims: Sequence[int]) -> Tensor:
    """Undoes a permutation of dims."""
    ndim = grad.ndim
    inverse = [0] * ndim
    for i, dim in enumerate(dims):
        inverse[normalize_dim("permute", dim, ndim)] = i
    return grad.permute(inverse)


def cat_backward(grad: Tensor, shapes: Sequence[tuple[int, ...]], dim: int) -> list[Tensor]:
    """Cuts the gradient of a concatenation into those of its parts."""
    dim = normalize_dim("cat", dim, grad.ndim)
    parts, start = [], 0
    for shape in shapes:
        if shape == (0,) and grad.ndim != 1:  # an empty 1-d tensor joins anything and adds nothing
            parts.append(grad.new_zeros(shape))
            continue
        end = start + shape[dim]
        parts.append(F.slice(grad, dim, start, end))
        start = end
    return parts


def sgn_backward(grad: Tensor, self: Tensor) -> Tensor:
    """The gradient of ``sgn``: zero for real numbers, the tangential part over the modulus for complex ones."""
    if not self.is_complex():
        return grad * 0
    modulus = self.abs()
    safe = F.where(modulus == 0, 1, modulus)
    sign = self.sgn()
    part = grad / safe
    return F.where(modulus == 0, 0, part - sign * (part * sign.conj()).real())


def matmul_backward_self(grad: Tensor, shape: tuple[int, ...], other: Tensor) -> Tensor:
    """The gradient of ``self @ other`` with respect to ``self``; batch dims are not summed."""
    other = other.conj()
    if other.ndim == 1:
        return grad.unsqueeze(-1) * other  # (..., n) from (...,) and (m,); also the inner product
    if len(shape) == 1:
        return (grad.unsqueeze(-2) @ other.transpose(-2, -1)).squeeze(-2)
    return grad @ other.transpose(-2, -1)


def matmul_backward_other(grad: Tensor, self: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The gradient of ``self @ other`` with respect to ``other``; batch dims are not summed."""
    self = self.conj()
    if len(shape) == 1:
        return grad * self if self.ndim == 1 else grad.unsqueeze(-1) * self
    if self.ndim == 1:
        return self.unsqueeze(-1) * grad.unsqueeze(-2)
    return self.transpose(-2, -1) @ grad


def zeros_like(input: Tensor) -> Tensor:
    """Zeros of a tensor's shape, dtype and device."""
    return input.new_zeros(input.shape)


def new_zeros(grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Zeros of a shape, of the gradient's dtype and device."""
    return grad.new_zeros(shape)


def index_put_zero(grad: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The gradient of a tensor that was written to: 0 where something else stands now."""
    return F.index_put(grad, indices, grad.new_zeros(()))


def diagonal_backward(grad: Tensor, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Tensor:
    """Zeros of the input's shape with the gradient on the diagonal."""
    return F.diagonal_scatter(grad.new_zeros(shape), grad, offset, dim1, dim2)


def unbind_backward(grads: Sequence[Tensor], dim: int) -> Tensor:
    """Puts the gradients of the parts back together."""
    return F.stack(grads, dim)


def split_backward(grads: Sequence[Tensor], dim: int) -> Tensor:
    """Puts the gradients of the parts back together."""
    return F.cat(grads, dim)


def as_strided_backward(
    grad: Tensor,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    size: tuple[int, ...],
    strides: tuple[int, ...],
    storage_offset: int | None,
) -> Tensor:
    """The gradient of ``as_strided``, by way of the memory that its input and its result share.

    The gradient is added up at the places in memory where the result lies, and read where the input lies; of several
    elements of the input at one place each gets an equal part. That is what PyTorch does.

    Args:
        grad: the gradient of the result.
        shape: the input's.
        stride: the input's.
        offset: the input's place in the memory.
        size: the result's shape.
        strides: the result's.
        storage_offset: the result's place in the memory; None for the input's.
    """
    first = offset if storage_offset is None else storage_offset
    count = max(offset + extent(shape, stride), first + extent(size, strides))
    memory = F.arange(count, device=grad.device)
    read, written = memory.as_strided(shape, stride, offset), memory.as_strided(size, strides, first)
    total = F.index_backward(grad, (count,), [written])
    if may_overlap(shape, stride):
        ones = F.ones(shape, dtype=grad.dtype, device=grad.device)
        total = total / F.maximum(F.index_backward(ones, (count,), [read]).real(), 1)
    return F.index(total, [read])


def quotient(dividend: Any, divisor: Any) -> Any:
    """``/`` of two numbers, as elements are divided: by 0 gives an infinity or NaN."""
    from tensorplay_core.ops.program_types import scalar  # here, because few formulas need it

    return scalar("div", dividend, divisor)


def power(base: Any, exponent: Any) -> Any:
    """``**`` of two numbers, as elements are raised: 0 to a negative power gives an infinity."""
    from tensorplay_core.ops.program_types import scalar

    return scalar("pow", base, exponent)
