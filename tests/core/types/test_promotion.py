"""The promotion table against the Array API standard's, typed out, and against NumPy's where the two agree."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tensorplay_core.types import dtype as dt
from tensorplay_core.types.promotion import TABLE, promote, with_scalar

# https://data-apis.org/array-api/latest/API_specification/type_promotion.html, row by row. i2 is int16, u4 uint32 …
STANDARD = """
     i1 i2 i4 i8
i1   i1 i2 i4 i8
i2   i2 i2 i4 i8
i4   i4 i4 i4 i8
i8   i8 i8 i8 i8

     u1 u2 u4 u8
u1   u1 u2 u4 u8
u2   u2 u2 u4 u8
u4   u4 u4 u4 u8
u8   u8 u8 u8 u8

     u1 u2 u4
i1   i2 i4 i8
i2   i2 i4 i8
i4   i4 i4 i8
i8   i8 i8 i8

     f4 f8 c8 c16
f4   f4 f8 c8 c16
f8   f8 f8 c16 c16
c8   c8 c16 c8 c16
c16  c16 c16 c16 c16
"""


def standard():
    for block in STANDARD.strip().split("\n\n"):
        head, *rows = [line.split() for line in block.splitlines()]
        for first, *results in rows:
            for second, result in zip(head, results, strict=True):
                yield tuple(dt.by_name(np.dtype(name).name) for name in (first, second, result))


@pytest.mark.parametrize(("a", "b", "result"), list(standard()), ids=lambda d: d.name)
def test_the_standards_table(a, b, result):
    assert promote(a, b) is result
    assert promote(b, a) is result


def test_bool_with_bool_is_bool():
    assert promote(dt.bool_, dt.bool_) is dt.bool_


def test_it_is_a_commutative_table_of_every_pair_and_a_dtype_with_itself_is_itself():
    assert set(TABLE) == set(itertools.product(dt.ALL, repeat=2))
    assert all(TABLE[a, b] is TABLE[b, a] for a, b in TABLE)
    assert all(promote(a, a) is a for a in dt.ALL)


def native(d):
    return np.dtype(ml_dtypes.bfloat16 if d is dt.bfloat16 else d.name)


NO_ANSWER = {dt.bfloat16: {dt.float16, dt.uint16, dt.uint32, dt.uint64, dt.int16, dt.int32, dt.int64}}
WIDE = {  # integers that NumPy widens a small float for; ours keeps the float's dtype, as the design says
    dt.float16: {dt.uint16, dt.uint32, dt.uint64, dt.int16, dt.int32, dt.int64},
    dt.float32: {dt.uint32, dt.uint64, dt.int32, dt.int64},
    dt.complex64: {dt.uint32, dt.uint64, dt.int32, dt.int64},
}
DIFFERENT = {
    **{frozenset({f, i}): f for f, integers in WIDE.items() for i in integers},
    # No integer holds both: NumPy takes float64, ours the default float dtype.
    **{frozenset({dt.uint64, i}): dt.float32 for i in (dt.int8, dt.int16, dt.int32, dt.int64)},
}


@pytest.mark.parametrize("a", dt.ALL, ids=str)
def test_where_it_differs_from_numpy(a):
    """Every difference from ``numpy.promote_types`` is in the list above, and everything in it is a difference."""
    differences = {}
    for b in dt.ALL:
        try:
            theirs = np.promote_types(native(a), native(b))
        except TypeError:
            assert b in NO_ANSWER.get(a, ()) or a in NO_ANSWER.get(b, ())
            continue
        if theirs != native(promote(a, b)):
            differences[frozenset({a, b})] = promote(a, b)
    assert differences == {pair: result for pair, result in DIFFERENT.items() if a in pair}


def test_where_numpy_has_no_answer():
    assert promote(dt.float16, dt.bfloat16) is dt.float32
    assert all(promote(dt.bfloat16, other) is dt.bfloat16 for other in NO_ANSWER[dt.bfloat16] - {dt.float16})


@pytest.mark.parametrize("d", dt.ALL, ids=str)
def test_python_scalars_are_weak(d):
    assert with_scalar(d, bool) is d
    assert with_scalar(d, int) is (dt.int64 if d.is_bool else d)
    assert with_scalar(d, float) is (d if d.is_inexact else dt.float32)
    wide = {dt.float64: dt.complex128, dt.complex128: dt.complex128}
    assert with_scalar(d, complex) is wide.get(d, dt.complex64)
