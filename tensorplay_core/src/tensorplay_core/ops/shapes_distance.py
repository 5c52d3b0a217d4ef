"""Shape rules of the distances between the rows of two matrices, and of their gradient."""

from __future__ import annotations

from typing import Any

from tensorplay_core.errors import ArgumentError, DTypeError, ShapeError, fix
from tensorplay_core.ops.shape_checks import Shape, Shaped, broadcast_shapes, check_shape, shape_of

MODES = (None, 0, 1, 2)


def cdist(op: str, x1: Shaped, x2: Shaped, p: Any = 2.0, compute_mode: Any = None, **keywords: Any) -> Shape:
    """(..., n, m) and (..., k, m) give (..., n, k)."""
    batch, n, k, _ = _rows(op, x1, x2, p)
    if compute_mode not in MODES:
        raise ArgumentError(f"{op}: compute_mode must be 0, 1 or 2, not {compute_mode!r}")
    return check_shape(op, (*batch, n, k))


def cdist_backward(op: str, grad_output: Shaped, x1: Shaped, x2: Shaped, p: Any, cdist: Shaped) -> Shape:
    """(..., n, m), of the batch that both arguments broadcast to."""
    batch, n, k, m = _rows(op, x1, x2, p)
    for name, x in (("grad_output", grad_output), ("cdist", cdist)):
        if shape_of(x) != (*batch, n, k):
            raise ShapeError(f"{op}: {name} must have the shape of the distances, {(*batch, n, k)}, not {x.shape}")
    return check_shape(op, (*batch, n, m))


def _rows(op: str, x1: Shaped, x2: Shaped, p: Any) -> tuple[Shape, int, int, int]:
    """The batch, how many rows each argument has, and how many elements a row."""
    for name, x in (("x1", x1), ("x2", x2)):
        if x.dtype is not None and not x.dtype.is_floating_point:
            raise DTypeError(f"{op}: takes floating tensors, and {name} is {x.dtype.name}" + fix("x.to(tp.float32)"))
        if len(x.shape) < 2:
            hint = fix("x.unsqueeze(0) is one row") if len(x.shape) == 1 else ""
            raise ShapeError(f"{op}: {name} must have rows, (..., n, m), and has shape {x.shape}{hint}")
    (*first, n, m), (*second, k, other) = shape_of(x1), shape_of(x2)
    if m != other:
        raise ShapeError(f"{op}: the rows of x1 have {m} elements, and those of x2 {other}")
    if not p >= 0:
        raise ArgumentError(f"{op}: p must not be negative, and is {p}")
    return broadcast_shapes(op, tuple(first), tuple(second)), n, k, m
