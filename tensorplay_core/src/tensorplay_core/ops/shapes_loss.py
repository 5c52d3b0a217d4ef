"""The shape rules of the losses that have kernels of their own."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import DTypeError, ShapeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped


def cross_entropy_rows(op: str, self: Shaped, indices: Shaped, *rest: Any, **keywords: Any) -> Shape:
    """One loss for each row of (N, C), given N classes."""
    if self.dtype is not None and not self.dtype.is_floating_point:
        raise DTypeError(f"{op}: takes floating dtypes, not {self.dtype.name}" + fix("convert with .to(tp.float32)."))
    if indices.dtype is not None and not indices.dtype.is_integral:
        raise DTypeError(f"{op}: classes are integers, not {indices.dtype.name}" + fix("convert with .to(tp.int64)."))
    if len(self.shape) != 2 or indices.shape != self.shape[:1]:
        raise ShapeError(f"{op}: takes logits (N, C) and classes (N), not {self.shape} and {indices.shape}")
    return indices.shape


def cross_entropy_rows_backward(
    op: str, grad_out: Shaped, self: Shaped, indices: Shaped, *rest: Any, **keywords: Any
) -> Shape:
    """The shape of the logits."""
    rows = cross_entropy_rows(op, self, indices)
    if grad_out.shape != rows:
        raise ShapeError(f"{op}: grad_out has shape {grad_out.shape}, and there are {rows[0]} rows")
    return self.shape
