"""Divided ranges and the places of triangles, made on the host: each is made once, and exactly, for every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_composite.arrays._support import Kernels, dtype_name
from tensorplay_core.errors import ValueRangeError, fix

Upload = Callable[[Any, Any], Any]


def kernels(upload: Upload, name_of: Callable[[Any], str] = dtype_name) -> Kernels:
    """Returns the kernels of a device.

    Args:
        upload: ``upload(host, dtype)`` gives a device's array with a NumPy array's numbers, in a native dtype.
        name_of: the name of a native dtype.
    """

    def divided(start: Any, end: Any, steps: int, whole: bool) -> Any:
        """Numbers in float64; each half is counted from its own end."""
        import numpy

        if whole:
            start, end = int(start), int(end)
        numbers = numpy.arange(steps, dtype="float64")
        if steps < 2:
            return numbers + start
        step, half = (end - start) / (steps - 1), steps // 2
        numbers[half:] -= steps - 1
        numbers *= step
        numbers[:half] += start
        numbers[half:] += end
        return numbers

    def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None) -> Any:
        whole = "int" in name_of(dtype)
        return upload(truncated(divided(start, end, steps, whole), name_of(dtype)), dtype)

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

    def triangle(row: int, col: int, below: Any, dtype: Any) -> Any:
        import numpy

        rows, columns = numpy.arange(row)[:, None], numpy.arange(col)[None, :]
        return upload(numpy.stack(numpy.nonzero(below(rows, columns))).astype("int64"), dtype)

    def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
        return triangle(row, col, lambda i, j: j <= i + offset, dtype)

    def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
        return triangle(row, col, lambda i, j: j >= i + offset, dtype)

    return {
        "linspace": linspace,
        "logspace": logspace,
        "tril_indices": tril_indices,
        "triu_indices": triu_indices,
    }
