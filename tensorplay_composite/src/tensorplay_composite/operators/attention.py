"""Embeddings, one-hot classes and attention, written in indexing, matrix products and ``softmax``."""

from __future__ import annotations

import math

from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.errors import ArgumentError, DimError, DTypeError, NoDataError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops import _generated_functional as F
from tensorplay_core.ops.shape_checks import broadcast_shapes
from tensorplay_core.tensor.tensor import Tensor
from tensorplay_core.tensor.wrappers import every_element
from tensorplay_core.types.dtype import float32

# ----------------------------------------------------------------------------------------------------------- embeddings


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` at the indices ``input``."""
    if sparse:
        raise ArgumentError("embedding: sparse gradients are not supported" + fix("leave sparse=True away."))
    if weight.ndim != 2:
        raise ShapeError(f"embedding: 'weight' must be 2-D, (rows, size of a row), and has shape {weight.shape}")
    rows = weight.shape[0]
    padding = -1
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ValueRangeError(
                f"embedding: Padding_idx must be within num_embeddings: {padding_idx} is no row of {rows}"
                + fix(f"choose one from {-rows} to {rows - 1}.")
            )
        padding = padding_idx % max(rows, 1)
    if max_norm is not None and input.numel():
        _shorten(input, weight, max_norm, norm_type)
    return F._embedding(weight, input, padding, scale_grad_by_freq)


def _shorten(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Shortens the rows that are read and whose norm is above ``max_norm``, in place; no gradient sees it."""
    with no_grad():
        rows = F._embedding(weight, input, -1, False).detach()
        size = F.abs(rows)
        infinite = norm_type == math.inf
        norms = F.max(size, -1)[0] if infinite else F.pow(F.pow(size, norm_type).sum(-1), 1 / norm_type)
        # As in PyTorch; a row that is read twice is written twice, with the same numbers.
        scale = F.where(norms > max_norm, max_norm / (norms + 1e-7), 1)
        weight.index_put_([input], rows * scale.unsqueeze(-1))


def _embedding(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """``weight[indices]`` without negative indices."""
    _check_range(indices, weight.shape[0])
    return F.index(weight, [indices])


def embedding_dense_backward(
    grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """Sums of the rows of one index each."""
    _check_range(indices, num_weights)
    wide = grad_output.to(float32) if grad_output.dtype.itemsize == 2 else grad_output
    if padding_idx >= 0:
        wide = F.where((indices == padding_idx).unsqueeze(-1), 0, wide)
    result = F.index_backward(wide, (num_weights, wide.shape[-1]), [indices])
    if scale_grad_by_freq:
        ones = F.ones(indices.shape, dtype=wide.real().dtype, device=wide.device)
        counts = F.index_backward(ones, (num_weights,), [indices])
        result = result / F.maximum(counts, 1).unsqueeze(-1)
    return result.to(grad_output.dtype)


def _check_range(indices: Tensor, count: int) -> None:
    if indices.is_meta or not indices.numel():
        return
    every = every_element(indices)
    low = -F.max(-every.to(F.max(every).dtype)).item() if every.dtype.is_signed else 0
    high = F.max(every).item()
    if low < 0 or high >= count:
        raise DimError(
            f"embedding: index out of range in self: {low if low < 0 else high} is no row of {count}, 0 to {count - 1}"
        )


def one_hot(self: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the class, 0 elsewhere."""
    if not self.dtype.is_integral:
        raise DTypeError(f"one_hot: classes are integers, not {self.dtype.name}" + fix("convert with .to(tp.int64)."))
    if num_classes < -1 or (not self.numel() and num_classes <= 0):
        raise ValueRangeError(
            f"one_hot: num_classes must be positive, or -1 for one more than the largest class, and is {num_classes}"
            + (fix("pass num_classes: there is no class to tell it from.") if not self.numel() else "")
        )
    classes = self.to(F.arange(0, 1, 1, device=self.device).dtype)
    if self.numel() and not self.is_meta:
        every = every_element(classes)
        largest, least = F.max(every).item(), -F.max(-every).item()
        if least < 0:
            raise ValueRangeError(f"one_hot: Class values must be non-negative, and one is {least}")
        if num_classes == -1:
            num_classes = int(F.max(classes).item()) + 1
        elif largest >= num_classes:
            raise ValueRangeError(
                f"one_hot: Class values must be smaller than num_classes, {num_classes}, and one is {largest}"
            )
    elif num_classes == -1:
        raise NoDataError("one_hot: a meta tensor has no largest class" + fix("pass num_classes."))
    numbers = F.arange(0, num_classes, 1, dtype=classes.dtype, device=self.device)
    return (classes.unsqueeze(-1) == numbers).to(classes.dtype)


# ------------------------------------------------------------------------------------------------------------ attention


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value``; half precisions compute in float32 and are rounded once."""
    _check_attention(query, key, value, attn_mask, is_causal, enable_gqa)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key, value = (_repeated(one, query.shape[-3] // one.shape[-3]) for one in (key, value))
    if not dropout_p and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        if attn_mask is not None:
            attn_mask = _bias(attn_mask, query) if attn_mask.dtype.is_bool else attn_mask.to(query.dtype)
        return F._attention(query, key, value, attn_mask, is_causal, scale)
    dtype = query.dtype
    if dtype.itemsize == 2:
        query, key, value = query.to(float32), key.to(float32), value.to(float32)
    weights = _weights(query, key, attn_mask, is_causal, scale)
    if dropout_p:
        weights = F.dropout(weights, dropout_p)
    return (weights @ value).to(dtype)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float
) -> Tensor:
    """The same of one batch, without dropout."""
    dtype = query.dtype
    if dtype.itemsize == 2:
        query, key, value = query.to(float32), key.to(float32), value.to(float32)
    return (_weights(query, key, attn_mask, is_causal, scale) @ value).to(dtype)


def _attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients, through the weights again."""
    dtype = query.dtype
    if dtype.itemsize == 2:
        grad_out, query, key, value = grad_out.to(float32), query.to(float32), key.to(float32), value.to(float32)
    weights = _weights(query, key, attn_mask, is_causal, scale)
    to_weights = grad_out @ value.transpose(-2, -1)
    to_scores = weights * (to_weights - (to_weights * weights).sum(-1, True)) * scale
    found = to_scores @ key, to_scores.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ grad_out
    return found[0].to(dtype), found[1].to(dtype), found[2].to(dtype)


def _weights(query: Tensor, key: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    """What each query takes of each value."""
    scores = (query * scale) @ key.transpose(-2, -1)
    if is_causal:
        rows, columns = scores.shape[-2:]
        place = F.arange(0, rows, 1, device=query.device).unsqueeze(-1)
        scores = scores + _bias(place >= F.arange(0, columns, 1, device=query.device), scores)
    if attn_mask is None:
        return F.softmax(scores, -1)
    scores = scores + (_bias(attn_mask, scores) if attn_mask.dtype.is_bool else attn_mask.to(scores.dtype))
    scores, nowhere = _looking_nowhere(scores)
    weights = F.softmax(scores, -1)
    return weights if nowhere is None else F.where(nowhere, 0, weights)


def _bias(mask: Tensor, scores: Tensor) -> Tensor:
    """What is added to scores: 0 where to look, minus infinity elsewhere."""
    return F.where(mask, 0.0, F.full((), -math.inf, dtype=scores.dtype, device=scores.device))


def _looking_nowhere(scores: Tensor) -> tuple[Tensor, Tensor | None]:
    """Returns scores without rows that are all minus infinity, and which those were; None where none is.

    They would be 0 / 0, whose NaN a later ``where`` keeps from the result and not from the gradient.
    """
    if scores.is_meta or not scores.numel():
        return scores, None
    top = F.max(scores.detach(), -1, True)[0]
    if F.max(-every_element(top)).item() != math.inf:
        return scores, None
    nowhere = top == -math.inf
    return F.where(nowhere, 0, scores), nowhere


def _repeated(one: Tensor, times: int) -> Tensor:
    """Each head so many times in a row."""
    *batch, heads, length, size = one.shape
    spread = one.unsqueeze(-3).expand((*batch, heads, times, length, size))
    return spread.reshape((*batch, heads * times, length, size))


def _check_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, enable_gqa: bool
) -> None:
    op = "scaled_dot_product_attention"
    shapes = f"query {query.shape}, key {key.shape} and value {value.shape}"
    if not query.dtype is key.dtype is value.dtype or not query.dtype.is_floating_point:
        raise DTypeError(
            f"{op}: query, key and value must be of one floating dtype, and are {query.dtype.name}, {key.dtype.name} "
            f"and {value.dtype.name}" + fix("convert with .to(tp.float32).")
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(f"{op}: takes tensors of 2 dims or more, (..., L, E), not {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"{op}: query and key must have one last size, and their shapes are {shapes}")
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"{op}: key and value must be of one length, their second to last size; {shapes}")
    if enable_gqa:
        if min(query.ndim, key.ndim, value.ndim) < 3 or any(
            not one.shape[-3] or query.shape[-3] % one.shape[-3] for one in (key, value)
        ):
            raise ShapeError(
                f"{op}: with enable_gqa the heads of query are a multiple of those of key and value; {shapes}"
            )
    else:
        broadcast_shapes(op, query.shape[:-2], key.shape[:-2], value.shape[:-2])
    if attn_mask is not None:
        if is_causal:
            raise ValueRangeError(
                f"{op}: Explicit attn_mask should not be set when is_causal=True" + fix("put both into one mask.")
            )
        if not (attn_mask.dtype.is_bool or attn_mask.dtype.is_floating_point):
            raise DTypeError(f"{op}: attn_mask is bool, or floating and added, not {attn_mask.dtype.name}")
