"""The shape rules of embeddings."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DTypeError, ShapeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, as_int, as_sizes, check_shape


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
