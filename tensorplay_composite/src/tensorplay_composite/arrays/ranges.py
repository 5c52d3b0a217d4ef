"""Divided ranges and the places of triangles, made on the host: each is made once, and exactly, for every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_composite.arrays._support import Kernels
from tensorplay_composite.arrays._support import name_of as _name_of
from tensorplay_core.errors import ValueRangeError, fix

_BLOCK = 1 << 13
_HOST = frozenset({"float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})

Upload = Callable[[Any, Any], Any]


def kernels(upload: Upload, name_of: Callable[[Any], str] = _name_of) -> Kernels:
    """Returns the kernels of a device.

    Args:
        upload: ``upload(host, dtype)`` gives a device's array with a NumPy array's numbers, in a native dtype.
        name_of: the name of a native dtype.
    """

    def divided(start: Any, end: Any, steps: int, whole: bool, name: str = "float64") -> Any:
        """Numbers computed in float64, as those of a dtype; each half is counted from its own end."""
        import numpy

        if whole:
            start, end = int(start), int(end)
        if steps < 2:
            return (numpy.arange(steps, dtype="float64") + start).astype(name)
        step, half = (end - start) / (steps - 1), steps // 2
        result = numpy.empty(steps, name)
        for first, last, from_, origin in ((0, half, 0, start), (half, steps, steps - 1, end)):
            for at in range(first, last, _BLOCK):  # small enough for the fastest memory
                numbers = numpy.arange(at - from_, min(at + _BLOCK, last) - from_, dtype="float64")
                numbers *= step
                numbers += origin
                result[at : at + len(numbers)] = numbers
        return result

    def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None) -> Any:
        name = name_of(dtype)
        whole = "int" in name
        return upload(divided(start, end, steps, whole, name if name in _HOST else "float64"), dtype)

    def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None) -> Any:
        import numpy

        name = name_of(dtype)
        exponents = divided(start, end, steps, "int" in name)
        with numpy.errstate(all="ignore"):
            numbers = numpy.power(base, exponents)
        if "int" in name and steps:
            limits = numpy.iinfo(name)
            least, most = numbers.min(), numbers.max()
            if not (least > limits.min - 1 and most < float(limits.max) + 1):
                raise ValueRangeError(
                    f"logspace: {base!r} to the power of {start} to {end} does not fit {name}"
                    + fix("choose other powers, or another dtype")
                )
        return upload(truncated(numbers, name), dtype)

    def truncated(numbers: Any, name: str) -> Any:
        return numbers.astype(name) if "int" in name else numbers

    def triangle(row: int, first: Any, last: Any, dtype: Any) -> Any:
        """Places row by row, of which each has the columns from one number up to another, both of them arrays."""
        import numpy

        counts = last - first
        ends = numpy.cumsum(counts)
        result = numpy.empty((2, int(ends[-1]) if row else 0), "int64")
        result[0] = numpy.repeat(numpy.arange(row), counts)
        result[1] = numpy.arange(result.shape[1])
        result[1] -= numpy.repeat(ends - counts - first, counts)
        return upload(result, dtype)

    def columns(row: int, col: int, offset: int) -> Any:
        """The first column of each row that is right of a diagonal."""
        import numpy

        return numpy.clip(numpy.arange(row) + offset + 1, 0, col)

    def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
        last = columns(row, col, offset)
        return triangle(row, last * 0, last, dtype)

    def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
        first = columns(row, col, offset - 1)
        return triangle(row, first, first * 0 + col, dtype)

    return {
        "linspace": linspace,
        "logspace": logspace,
        "tril_indices": tril_indices,
        "triu_indices": triu_indices,
    }
