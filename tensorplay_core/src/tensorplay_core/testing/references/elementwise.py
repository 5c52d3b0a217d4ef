"""How a function of numbers becomes a reference of arrays: promotion, broadcasting, and one loop.

A function is given by kind of dtype, because the kinds differ in meaning: bool adds as *or*, integers wrap around,
floats have infinities and complex numbers no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tensorplay_core.testing.references.array import Array, broadcast_shape
from tensorplay_core.testing.references.rounding import accumulator_of, round_to
from tensorplay_core.types.dtype import DType, bool_, by_name, complex64, get_default_dtype, int64
from tensorplay_core.types.promotion import promote, with_scalar

Function = Callable[..., Any]
Slack = Callable[..., float]
_KINDS = {
    "float16": "half",
    "bfloat16": "half",
    "float32": "real",
    "float64": "real",
    "complex64": "complex",
    "complex128": "complex",
}


def budget(real: float, *, half: float | None = None, complex: float | None = None) -> dict[str, float]:
    """Returns an error budget by dtype.

    Args:
        real: for float32 and float64, in units in the last place.
        half: for the half precisions, which compute in float32 and round once, so that 1 is the rule.
        complex: for the complex dtypes, in units of the modulus; that of ``real`` where it is not given.

    Example:
        >>> budget(4, complex=8)["complex64"], budget(4)["float16"]
        (8, 1.0)
    """
    half = min(1.0, real) if half is None else half
    complex = real if complex is None else complex
    return {
        "float16": half,
        "bfloat16": half,
        "float32": real,
        "float64": real,
        "complex64": complex,
        "complex128": complex,
    }


def common_dtype(values: Sequence[Any]) -> DType:
    """Returns the dtype that arrays and Python numbers have in common; numbers take part with their kind alone."""
    dtype: DType | None = None
    for value in values:
        if isinstance(value, Array):
            dtype = by_name(value.dtype) if dtype is None else promote(dtype, by_name(value.dtype))
    for value in values:
        if not isinstance(value, Array):
            if dtype is None:
                dtype = {bool: bool_, int: int64, complex: complex64}.get(type(value), get_default_dtype())
            dtype = with_scalar(dtype, type(value))
    assert dtype is not None
    return dtype


def compute_dtype(rule: str, values: Sequence[Any]) -> DType:
    """Returns what an operator of a promote rule computes in."""
    dtype = common_dtype(values)
    return get_default_dtype() if rule == "float" and not dtype.is_inexact else dtype


def result_dtype(rule: str, dtype: DType) -> str:
    """Returns the name of the result's dtype, given the one that was computed in."""
    return {"bool": "bool", "real": dtype.real_dtype.name}.get(rule, dtype.name)


def as_array(value: Any, dtype: str) -> Array:
    """Returns an array or a number as an array of a dtype."""
    return value.cast(dtype) if isinstance(value, Array) else Array((), round_to([value], dtype), dtype)


def kinds(
    real: Function,
    complex: Function | None = None,
    integer: Function | None = None,
    boolean: Function | None = None,
) -> dict[str, Function]:
    """Returns functions by kind of dtype; what is not given is not taken."""
    given = {"f": real, "c": complex, "u": integer, "i": integer, "b": boolean}
    return {kind: function for kind, function in given.items() if function is not None}


def pointwise(rule: str, functions: dict[str, Function], slack: Slack | None = None) -> Callable[..., Array]:
    """Returns what computes one element of the result from one element of each argument.

    Args:
        rule: the promote rule: ``default``, ``keep``, ``float``, ``bool`` or ``real``.
        functions: by kind of dtype.
        slack: takes the format that is computed in, and one element of each argument and of the result.
    """

    def reference(*values: Any) -> Array:
        dtype = compute_dtype(rule, values)
        function = functions.get(dtype.kind)
        if function is None:
            raise TypeError(f"there is no such function of {dtype.name}")
        exact = rule == "bool" and dtype.is_integral  # numbers that the dtype cannot hold compare as they are
        arrays = [
            Array((), [value], dtype.name) if exact and not isinstance(value, Array) else as_array(value, dtype.name)
            for value in values
        ]
        shape = broadcast_shape(*[array.shape for array in arrays])
        elements = [array.broadcast(shape) for array in arrays]
        data = [*map(function, *elements)]
        result = result_dtype(rule, dtype)
        if not dtype.is_inexact or result == "bool":
            return Array(shape, round_to(data, result), result)
        form = accumulator_of(dtype.name)
        return Array(shape, data, result, None if slack is None else [*map(partial(slack, form), *elements, data)])

    return reference
