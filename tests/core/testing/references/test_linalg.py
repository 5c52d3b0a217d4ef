"""The references of matrix products give what NumPy gives, and tell a product in lower precision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tensorplay_core.testing.references import Array, reference

KINDS = ("uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def linear(x, weight, bias=None):
    return np.matmul(x, weight.T) + (0 if bias is None else bias).astype(x.dtype) if bias is not None else x @ weight.T


def test_products_of_every_rank(against):
    against("matmul", np.matmul, "same", KINDS, rtol=1e-14)
    against("linear", linear, "same", KINDS, rtol=1e-14)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4, 1, 2, 3), (5, 3, 2)),
        ((4, 5, 2, 3), (1, 3, 2)),
        ((1, 2, 3), (2, 4, 3, 5)),
        ((3,), (2, 4, 3, 5)),
        ((2, 4, 5, 3), (3,)),
        ((2, 0), (0, 3)),
        ((0,), (0,)),
        ((1, 2, 3), (0, 3, 2)),
    ],
)
def test_batches_vectors_and_nothing(a, b):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal(a), rng.standard_normal(b)
    result, expected = reference("matmul")(Array.read(left), Array.read(right))[0], np.matmul(left, right)
    assert result.shape == expected.shape
    assert result.data == pytest.approx(np.ravel(expected).tolist())


def test_integers_wrap_and_bool_is_or_of_and():
    a = Array((1, 2), [100, 100], "int8")
    assert reference("matmul")(a, Array((2,), [2, 1], "int8"))[0] == Array((1,), [44], "int8")
    yes = Array((2, 2), [True, False, False, False], "bool")
    assert reference("matmul")(yes, yes)[0].data == [True, False, False, False]
    assert reference("matmul")(a, Array((2,), [0.5, 0.25], "float16"))[0].dtype == "float16"


def test_nan_and_infinities_stay_in_their_rows():
    a = Array((2, 2), [np.inf, 0.0, 1.0, 2.0], "float32")
    b = Array((2, 2), [0.0, 1.0, 1.0, 1.0], "float32")
    assert str(reference("matmul")(a, b)[0].data) == "[nan, inf, 2.0, 3.0]"


def test_linear_takes_a_vector_as_its_weight():
    x, weight = Array((2, 3), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "float32"), Array((3,), [1.0, 0.0, -1.0], "float32")
    assert reference("linear")(x, weight, Array((), [0.5], "float32"))[0].data == [-1.5, -1.5]


def test_shapes_that_do_not_multiply_are_an_error():
    with pytest.raises(ValueError, match="do not multiply"):
        reference("matmul")(Array((2,), [1, 2], "int8"), Array((3,), [1, 2, 3], "int8"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_numpys_products_are_right_and_those_of_fewer_digits_wrong(draw, dtype):
    a, b = draw((20, 90), dtype, 1), draw((90, 15), dtype, 2)
    arrays = [np.array(x.data, dtype).reshape(x.shape) for x in (a, b)]
    expected = reference("matmul")(a, b)[0]
    judge = reference("matmul").mismatches
    assert not list(judge(Array.read(np.matmul(*arrays)), expected))
    low = {"float32": "float16", "float64": "float32", "complex64": "float16"}[dtype]

    def lower(x):
        return (x.real.astype(low) + 1j * x.imag.astype(low) if x.dtype.kind == "c" else x.astype(low)).astype(dtype)

    assert len(list(judge(Array.read(np.matmul(*map(lower, arrays))), expected))) > len(expected.data) / 2
    assert list(judge(Array.read(np.matmul(arrays[0][:, :-1], arrays[1][:-1])), expected))


def test_halves_must_accumulate_in_float32(draw):
    a, b = draw((1, 3000), "float16", 1, -2, 0), draw((3000, 4), "float16", 2, -2, 0)
    a = Array(a.shape, [abs(x) for x in a.data], a.dtype)
    b = Array(b.shape, [abs(x) for x in b.data], b.dtype)
    left, right = (np.array(x.data, "float16").reshape(x.shape) for x in (a, b))
    expected, judge = reference("matmul")(a, b)[0], reference("matmul").mismatches
    wide = (left.astype("float32") @ right.astype("float32")).astype("float16")
    assert not list(judge(Array.read(wide), expected))
    narrow = np.cumsum(left.T * right, axis=0, dtype="float16")[-1:]
    assert len(list(judge(Array.read(narrow), expected))) == 4


def test_products_of_float64_are_rounded_in_the_reference_too():
    """A kernel with fused multiply-adds finds the part of 0.1 * 0.1 that float64 cannot hold."""
    tenth = 0.1
    a, b = Array((2,), [tenth, -(tenth * tenth)], "float64"), Array((2,), [tenth, 1.0], "float64")
    expected = reference("matmul")(a, b)[0]
    assert expected.data == [0.0]
    fused = float(Fraction(tenth) ** 2 - Fraction(tenth * tenth))
    assert 0 < abs(fused) < 1e-17
    assert not list(reference("matmul").mismatches(Array((), [fused], "float64"), expected))
    assert list(reference("matmul").mismatches(Array((), [100 * fused], "float64"), expected))
