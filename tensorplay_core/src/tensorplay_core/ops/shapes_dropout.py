"""The shape rules of dropout."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DTypeError, ShapeError, ValueRangeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped


def check_probability(op: str, p: Any) -> None:
    """Refuses what is no probability.

    Raises:
        ValueRangeError: it is less than 0, more than 1, or NaN.
    """
    if not 0 <= p <= 1:
        raise ValueRangeError(
            f"{op}: dropout probability has to be between 0 and 1, but got {p}" + fix("p is the share that becomes 0.")
        )


def dropout(op: str, input: Shaped, p: Any, train: Any) -> tuple[Shape, Shape]:
    """The shape of the input, for the result and for the mask."""
    check_probability(op, p)
    if input.dtype is not None and not input.dtype.is_inexact:
        raise DTypeError(f"{op}: takes floating dtypes, not {input.dtype.name}" + fix("convert with .to(tp.float32)."))
    return input.shape, input.shape


def dropout_backward(op: str, grad_output: Shaped, mask: Shaped, scale: Any) -> Shape:
    """The shape of the gradient, which is that of the mask."""
    if mask.dtype is not None and not mask.dtype.is_bool:
        raise DTypeError(f"{op}: mask is bool, not {mask.dtype.name}")
    if grad_output.dtype is not None and not grad_output.dtype.is_inexact:
        raise DTypeError(f"{op}: takes floating dtypes, not {grad_output.dtype.name}")
    if mask.shape != grad_output.shape:
        raise ShapeError(f"{op}: grad_output has shape {grad_output.shape}, and mask {mask.shape}")
    return grad_output.shape
