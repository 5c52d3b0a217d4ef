"""The references of reductions give what NumPy gives; NaN, ties, nothing at all, and who accumulates in what."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.testing.references import Array, reference

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


def axes(dim):
    return None if dim is None or dim == () else tuple(dim) if isinstance(dim, (tuple, list)) else dim


def added(x, dim=None, keepdim=False, *, dtype=None):
    wide = {"u": "int64", "b": "int64", "i": "int64"}.get(x.dtype.kind, x.dtype)
    return np.sum(
        x.reshape(1) if x.ndim == 0 else x,
        axis=axes(dim) if x.ndim else None,
        keepdims=keepdim and x.ndim > 0,
        dtype=wide,
    )


def averaged(x, dim=None, keepdim=False, *, dtype=None):
    if x.ndim == 0:
        return x
    return np.mean(x, axis=axes(dim), keepdims=keepdim)


def largest(x):
    return np.max(x)


def largest_along(x, dim, keepdim=False):
    if x.ndim == 0:
        return x, np.array(0)
    places = np.argmax(x, axis=dim, keepdims=True)
    values = np.take_along_axis(x, places, axis=dim)
    return (values, places) if keepdim else (np.squeeze(values, dim), np.squeeze(places, dim))


def place(x, dim=None, keepdim=False):
    return np.array(0) if x.ndim == 0 else np.argmax(x, axis=dim, keepdims=keepdim)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_sums_and_means(against):
    against("sum", added, "sum")
    against("mean", averaged, "same", (*FLOATS, *COMPLEX))


def test_largest_elements(against):
    dtypes = ("bool", "uint8", "int8", "int64", *FLOATS)
    against("max", largest, "same", dtypes)
    against("max.dim", largest_along, "same", dtypes)
    against("argmax", place, "index", dtypes)


def test_several_and_negative_dims():
    values = np.arange(2 * 3 * 4 * 5, dtype=float).reshape(2, 3, 4, 5)
    x = Array.read(values)
    for dim in ((0, -1), (-2, 1), (3, 0, 1), -2, (0, 1, 2, 3), (), None):
        for keepdim in (False, True):
            expected = np.sum(values, axis=axes(dim), keepdims=keepdim)
            found = reference("sum")(x, dim, keepdim)[0]
            assert (found.shape, found.data) == (expected.shape, np.ravel(expected).tolist()), (dim, keepdim)
            expected = np.mean(values, axis=axes(dim), keepdims=keepdim)
            found = reference("mean")(x, dim, keepdim)[0]
            assert found.shape == expected.shape
            assert found.data == pytest.approx(np.ravel(expected).tolist())


def test_the_sum_of_nothing_is_0_and_its_mean_nan():
    nothing = Array((0, 2), [], "float32")
    assert reference("sum")(nothing)[0].data == [0.0]
    assert reference("sum")(nothing, 0, True)[0] == Array((1, 2), [0.0, 0.0], "float32", [0.0, 0.0])
    assert reference("sum")(nothing.cast("int8"))[0] == Array((), [0], "int64")
    assert all(math.isnan(x) for x in reference("mean")(nothing, 0)[0].data)
    assert reference("mean")(nothing, 1)[0].shape == (0,)
    with pytest.raises(ValueError, match="nothing"):
        reference("max")(nothing)


def test_integers_sum_in_int64_and_wrap_there():
    assert reference("sum")(Array((3,), [200, 200, 200], "uint8"))[0] == Array((), [600], "int64")
    assert reference("sum")(Array((2,), [2**63 - 1, 1], "int64"))[0].data == [-(2**63)]
    assert reference("sum")(Array((3,), [True] * 3, "bool"))[0] == Array((), [3], "int64")
    assert reference("sum")(Array((2,), [100, 100], "int8"), dtype="int8")[0] == Array((), [-56], "int8")
    assert reference("sum")(Array((2,), [1, 2], "int8"), dtype="float16")[0].dtype == "float16"
    with pytest.raises(TypeError):
        reference("mean")(Array((2,), [1, 2], "int8"))


def test_nan_infinities_and_overflow_in_sums():
    inf = math.inf
    rows = {(1.0, math.nan): "nan", (inf, 1.0): "inf", (inf, -inf): "nan", (-inf, -inf): "-inf", (1e308, 1e308): "inf"}
    for row, right in rows.items():
        assert str(reference("sum")(Array((2,), list(row), "float64"))[0].data[0]) == right, row
    assert reference("sum")(Array((3,), [1e308, 1e308, -1e308], "float64"))[0].data == [1e308]


def test_the_first_nan_is_the_largest_and_of_equal_elements_the_first_counts():
    x = Array((2, 4), [1.0, math.nan, 5.0, math.nan, 3.0, 7.0, 7.0, -1.0], "float32")
    values, places = reference("max.dim")(x, 1)
    assert places.data == [1, 1]
    assert math.isnan(values.data[0])
    assert values.data[1] == 7.0
    assert reference("argmax")(x)[0].data == [1]
    assert reference("argmax")(x, None, True)[0].shape == (1, 1)
    assert math.isnan(reference("max")(x)[0].data[0])
    assert reference("argmax")(Array((3,), [False, True, True], "bool"))[0].data == [1]
    for name in ("max", "argmax"):
        with pytest.raises(TypeError):
            reference(name)(Array((1,), [1j], "complex64"))


def judge(name, dtype, x, kernel, *args):
    """How many elements of a kernel's result are wrong."""
    expected = reference(name)(x, *args)[0]
    found = np.asarray(kernel(np.array(x.data, dtype).reshape(x.shape)))
    return len(list(reference(name).mismatches(Array.read(found), expected)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(7,), (500,), (40_000,), (300, 20)])
def test_other_orders_of_summation_are_right(draw, dtype, shape):
    x = draw(shape, dtype)
    axis = 0 if len(shape) > 1 else None
    dim = () if axis is None else (axis,)
    for kernel in (
        lambda a: np.sum(a, axis=axis, dtype=dtype),
        lambda a: np.cumsum(a, axis=axis, dtype=dtype)[-1],
        lambda a: np.cumsum(a[::-1], axis=axis, dtype=dtype)[-1],
    ):
        assert not judge("sum", dtype, x, kernel, *dim)


def test_constants_summed_one_after_another_are_right():
    """Their roundings all go the same way."""
    x = Array((20_000,), [0.1] * 20_000, "float64").cast("float32")
    assert not judge("sum", "float32", x, lambda a: np.cumsum(a, dtype="float32")[-1])


@pytest.mark.parametrize("size", [50, 2**17 + 300])
def test_a_sum_that_leaves_out_the_end_or_the_digits_is_wrong(draw, size):
    x = Array((size,), [abs(v) for v in draw((size,), "float32", low=-2, high=2).data], "float32")
    assert judge("sum", "float32", x, lambda a: np.sum(a[: -size // 100], dtype="float32"))
    assert judge("sum", "float32", x, lambda a: np.sum(a.astype("float16").astype("float32") * 1.0005, dtype="float32"))
    assert judge("mean", "float32", x, lambda a: np.float32(np.sum(a) / (size * 1.001)))
    eighths = Array((size,), [round(8 * v) / 8 for v in x.data], "float32")
    assert not judge("sum", "float32", eighths, lambda a: np.sum(a, dtype="float32"))
    assert judge("sum", "float32", eighths, lambda a: np.nextafter(np.sum(a, dtype="float32"), np.float32(0)) - 1)


def test_halves_must_accumulate_in_float32(draw):
    x = Array((4000,), [abs(v) for v in draw((4000,), "float16", low=-2, high=0).data], "float16")
    wide = np.sum(np.array(x.data, "float16"), dtype="float32").astype("float16")
    assert not judge("sum", "float16", x, lambda a: wide)
    assert judge("sum", "float16", x, lambda a: np.cumsum(a, dtype="float16")[-1])
