"""Type promotion: one table, the Array API standard's, extended to every pair.

The result never depends on the number of dims or on values. Python scalars are weak: they take part with their kind
alone (:func:`with_scalar`). The extension: an integer with a float gives the float dtype, uint64 with a signed integer
gives the default float dtype (no integer holds both), float16 with bfloat16 gives float32.
https://data-apis.org/array-api/latest/API_specification/type_promotion.html
"""

from __future__ import annotations

from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import DType

NOT_PROMOTED = {"condition": "bool_type", "index": "index_type", "indices": "index_type"}
"""Tensor arguments that choose rather than compute: they keep their dtype, and are no numbers. Each with the attribute
of the first tensor's type that says what it usually is, which is what the fast path asks for."""
BROADCASTING = ("broadcast", "bitwise", "clamp")
"""Shape rules of operators whose tensors share a dtype, so that a number may stand for one of several."""
PLAIN_NUMBERS = (float, int)
"""The classes of numbers that the fast path takes as they are; bools, complex numbers and NumPy's go the slow one."""
SCALARS = (bool, int, float, complex)
"""The classes of Python numbers, by kind."""
SCALED = "scaled_by_alpha"
"""The tag of operators whose ``alpha`` multiplies their second tensor, which their kernels need not do."""

_SIGNED = (dt.int8, dt.int16, dt.int32, dt.int64)
_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def _integers(a: DType, b: DType) -> DType:
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    unsigned, signed = (a, b) if a.kind == "u" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    wider = [d for d in _SIGNED if d.itemsize > unsigned.itemsize]
    return wider[0] if wider else dt.get_default_dtype()


def _floats(a: DType, b: DType) -> DType:
    if a.itemsize == b.itemsize:
        return dt.float32  # float16 with bfloat16
    return a if a.itemsize > b.itemsize else b


def _pair(a: DType, b: DType) -> DType:
    if a is b:
        return a
    low, high = sorted((a, b), key=lambda d: _CATEGORY[d.kind])
    if _CATEGORY[low.kind] == _CATEGORY[high.kind]:
        if high.kind == "c":
            return dt.complex128
        return _floats(a, b) if high.kind == "f" else _integers(a, b)
    if high.kind == "c" and low is dt.float64:
        return dt.complex128
    return high


TABLE: dict[tuple[DType, DType], DType] = {(a, b): _pair(a, b) for a in dt.ALL for b in dt.ALL}


def promote(a: DType, b: DType) -> DType:
    """Returns the dtype that two tensors of dtypes ``a`` and ``b`` compute in.

    Example:
        >>> promote(dt.int64, dt.float16), promote(dt.uint8, dt.int8)
        (tensorplay.float16, tensorplay.int16)
    """
    return TABLE[a, b]


def with_scalar(tensor: DType, kind: type) -> DType:
    """Returns the dtype of a tensor of dtype ``tensor`` together with a Python scalar of class ``kind``.

    Example:
        >>> with_scalar(dt.int32, float), with_scalar(dt.bfloat16, int), with_scalar(dt.float64, complex)
        (tensorplay.float32, tensorplay.bfloat16, tensorplay.complex128)
    """
    if kind is complex:
        if tensor.is_complex:
            return tensor
        return dt.complex128 if tensor is dt.float64 else dt.complex64
    if kind is float:
        return tensor if tensor.is_inexact else dt.get_default_dtype()
    if kind is int:
        return dt.int64 if tensor.is_bool else tensor
    return tensor
