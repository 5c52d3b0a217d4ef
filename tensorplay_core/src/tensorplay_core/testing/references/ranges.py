"""References of divided ranges and of the places of triangles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tensorplay_core.testing.references.array import Array
from tensorplay_core.testing.references.elementwise import budget
from tensorplay_core.testing.references.reference import Reference
from tensorplay_core.testing.references.rounding import format_of, round_to
from tensorplay_core.types.dtype import get_default_dtype


def _divided(start: Any, end: Any, steps: int, whole: bool) -> list[Fraction]:
    """Exact numbers: element i is start + i (end - start) / (steps - 1)."""
    first, last = (Fraction(int(x) if whole else x) for x in (start, end))
    return [first + (last - first) * Fraction(i, max(steps - 1, 1)) for i in range(steps)]


def linspace(start: Any, end: Any, steps: int, *, dtype: str | None = None, device: Any = None) -> Array:
    """Equal distances, both ends included; integers are cut off towards 0."""
    dtype = dtype or get_default_dtype().name
    form = format_of(dtype)
    exact = _divided(start, end, steps, form is None)
    if form is None:
        return Array((steps,), round_to([int(x) for x in exact], dtype), dtype)
    reach = max(abs(float(start)), abs(float(end)))
    # A step is rounded before it is multiplied, in float64 or in the dtype where that is finer.
    slack = [4 * reach * 2.0**-52 for _ in exact]
    return Array((steps,), [float(x) for x in exact], dtype, slack)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: str | None = None, device: Any = None
) -> Array:
    """Powers of a base; an error of the exponent is one of the result times its logarithm."""
    dtype = dtype or get_default_dtype().name
    form = format_of(dtype)
    data = [base ** float(x) for x in _divided(start, end, steps, form is None)]
    if form is None:
        return Array((steps,), round_to([int(x) for x in data], dtype), dtype)
    return Array((steps,), data, dtype, [64 * abs(x) * 2.0**-52 for x in data])


def _triangle(row: int, col: int, dtype: str | None, inside: Any) -> Array:
    pairs = [(i, j) for i in range(row) for j in range(col) if inside(i, j)]
    numbers = [i for i, _ in pairs] + [j for _, j in pairs]
    name = dtype or "int64"
    return Array((2, len(pairs)), round_to(numbers, name), name)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: str | None = None, device: Any = None) -> Array:
    """On and below a diagonal."""
    return _triangle(row, col, dtype, lambda i, j: j <= i + offset)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: str | None = None, device: Any = None) -> Array:
    """On and above a diagonal."""
    return _triangle(row, col, dtype, lambda i, j: j >= i + offset)


REFERENCES: dict[str, Reference] = {
    "linspace": Reference(linspace, budget(1)),
    "logspace": Reference(logspace, budget(2)),
    "tril_indices": Reference(tril_indices, {}),
    "triu_indices": Reference(triu_indices, {}),
}
