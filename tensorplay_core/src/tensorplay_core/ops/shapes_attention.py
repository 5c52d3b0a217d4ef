"""The shape rules of embeddings and attention."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DTypeError, ShapeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, as_int, as_sizes, check_broadcasts_to, check_shape


def _check_indices(op: str, indices: Shaped) -> None:
    if indices.dtype is not None and not indices.dtype.is_integral:
        raise DTypeError(f"{op}: indices are integers, not {indices.dtype.name}" + fix("convert with .to(tp.int64)."))


def embedding(op: str, weight: Shaped, indices: Shaped, *rest: Any, **keywords: Any) -> Shape:
    """The shape of the indices, and the size of a row behind it."""
    _check_indices(op, indices)
    if len(weight.shape) != 2:
        raise ShapeError(f"{op}: 'weight' must be 2-D, (number of rows, size of a row), and has shape {weight.shape}")
    return check_shape(op, (*indices.shape, weight.shape[1]))


def embedding_backward(op: str, grad_output: Shaped, indices: Shaped, num_weights: Any, *rest: Any) -> Shape:
    """``num_weights`` rows."""
    _check_indices(op, indices)
    if grad_output.dtype is not None and not grad_output.dtype.is_inexact:
        raise DTypeError(f"{op}: takes floating dtypes, not {grad_output.dtype.name}")
    if grad_output.shape[:-1] != indices.shape or not grad_output.shape:
        raise ShapeError(
            f"{op}: grad_output has shape {grad_output.shape}; for indices of shape {indices.shape} it has that shape "
            "and one dim more"
        )
    (count,) = as_sizes(op, as_int(op, num_weights, "num_weights"), name="num_weights")
    return check_shape(op, (count, grad_output.shape[-1]))


def attention(op: str, query: Shaped, key: Shaped, value: Shaped, attn_mask: Shaped | None, *rest: Any) -> Shape:
    """(..., L, V), of (..., L, E), (..., S, E) and (..., S, V)."""
    shapes = f"query {query.shape}, key {key.shape} and value {value.shape}"
    for one in (query, key, value, *(() if attn_mask is None else (attn_mask,))):
        if one.dtype is not None and (not one.dtype.is_floating_point or one.dtype is not query.dtype):
            raise DTypeError(
                f"{op}: query, key, value and attn_mask are of one floating dtype" + fix("convert with .to(dtype).")
            )
        if one is not attn_mask and (len(one.shape) < 2 or one.shape[:-2] != query.shape[:-2]):
            raise ShapeError(f"{op}: takes three tensors with the same dims before the last two, not {shapes}")
    if key.shape[-1] != query.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"{op}: takes (..., L, E), (..., S, E) and (..., S, V), not {shapes}")
    if attn_mask is not None:
        check_broadcasts_to(op, "attn_mask", attn_mask.shape, (*query.shape[:-1], key.shape[-2]), "the scores")
    return (*query.shape[:-1], value.shape[-1])


def attention_backward(
    op: str, grad_out: Shaped, query: Shaped, key: Shaped, value: Shaped, attn_mask: Shaped | None, *rest: Any
) -> tuple[Shape, ...]:
    """The shapes of query, key and value."""
    shape = attention(op, query, key, value, attn_mask)
    if grad_out.shape != shape:
        raise ShapeError(f"{op}: grad_out has shape {grad_out.shape}, and the result {shape}")
    return query.shape, key.shape, value.shape
