"""The shape rules of ranges that are divided and of the places of a triangle."""

from __future__ import annotations

import math
from typing import Any

from tensorplay_core.errors import ArgumentError, DTypeError
from tensorplay_core.ops.shape_checks import Shape, SizeError, as_int, as_sizes, check_shape


def linspace(op: str, start: Any, end: Any, steps: Any, base: Any = 10.0, **keywords: Any) -> Shape:
    """``steps`` numbers."""
    count = as_int(op, steps, "steps")
    if count < 0:
        raise SizeError(f"{op}: steps must not be negative, but is {count}")
    dtype = keywords.get("dtype")
    for name, value in (("start", start), ("end", end)):
        if not isinstance(value, (int, float)):
            raise ArgumentError(f"{op}: {name} must be a real number, not {value!r}")
        if dtype is not None and not dtype.is_inexact and not math.isfinite(value):
            raise SizeError(f"{op}: {name} must be finite in {dtype.name}, but is {value}")
    if dtype is not None and dtype.is_bool:
        raise DTypeError(f"{op}: makes numbers, and dtype is bool")
    return check_shape(op, (count,))


def triangle(op: str, row: Any, col: Any, offset: Any = 0, **keywords: Any) -> Shape:
    """Two rows, as long as the triangle has elements."""
    (rows,) = as_sizes(op, as_int(op, row, "row"), name="row")
    (columns,) = as_sizes(op, as_int(op, col, "col"), name="col")
    shift = as_int(op, offset, "offset")
    below = triangle_size(rows, columns, shift if "tril" in op else shift - 1)
    return check_shape(op, (2, below if "tril" in op else rows * columns - below))


def triangle_size(rows: int, columns: int, offset: int) -> int:
    """Returns how many elements are on and below a diagonal.

    Example:
        >>> triangle_size(3, 3, 0), triangle_size(2, 4, 1), triangle_size(2, 2, -5)
        (6, 5, 0)
    """
    first, last = max(0, -offset), min(rows, columns - offset)  # rows of which a part is below
    if last <= first:
        return max(0, rows - max(first, 0)) * columns if columns - offset <= first else 0
    partial = (last - first) * (first + offset + 1 + last + offset) // 2
    return partial + (rows - last) * columns
