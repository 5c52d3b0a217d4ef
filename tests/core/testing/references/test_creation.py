"""The references of creation and filling give what NumPy gives, in the dtypes of PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.testing.references import PROPERTIES, Array, reference

DEFAULT = "float32"


@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_constants(against, name):
    against(name, lambda size, dtype=None: getattr(np, name)(size, dtype or "float32"), lambda _: DEFAULT, ("float32",))
    against(
        name, lambda size, dtype=None: getattr(np, name)(size), lambda _: DEFAULT, ("int8", "bfloat16", "complex64")
    )


def test_full_has_the_dtype_of_its_value():
    for value, dtype in ((True, "bool"), (3, "int64"), (0.5, "float32"), (2j, "complex64")):
        assert reference("full")((2, 1), value)[0] == Array((2, 1), [value] * 2, dtype)
    assert reference("full")((), 7, dtype="float16")[0] == Array((), [7.0], "float16")
    assert reference("full")((0, 3), 7)[0] == Array((0, 3), [], "int64")


def test_eye(against):
    against("eye", lambda n, m=None, dtype=None: np.eye(n, m), lambda dtype: dtype, ("float32", "int64", "bool"))


def test_ranges(against):
    def dtype_of(*row):
        return "float32" if any(isinstance(x, float) for x in row) else "int64"

    for row in (
        (0, 5, 1),
        (5, 0, -2),
        (3, 3, 1),
        (0.0, 1.0, 0.25),
        (1, 2, 0.5),
        (-1.5, 2.0, 1),
        (0, 1, 0.1),
        (5, 1, 1),
    ):
        result = reference("arange")(*row)[0]
        expected = np.arange(*row)
        assert (result.dtype, result.shape) == (dtype_of(*row), expected.shape)
        assert result.data == pytest.approx(expected.tolist())
    assert reference("arange")(0, 3, 1, dtype="float16")[0] == Array((3,), [0.0, 1.0, 2.0], "float16")
    against("arange", lambda start, end, step: np.arange(start, end, step), None, ("float32",))


def test_a_float32_range_is_right_and_one_that_accumulates_is_not():
    result, judge = reference("arange")(0, 100, 0.1)[0], reference("arange").mismatches
    assert not list(judge(Array.read(np.arange(0, 100, 0.1).astype("float32")), result))
    drifting = np.concatenate([[0], np.cumsum(np.full(999, 0.1, "float32"), dtype="float32")]).astype("float32")
    assert list(judge(Array.read(drifting), result))


def test_filling(against):
    against("fill_", lambda x, value: np.full(x.shape, value), "same", ("float32", "int64", "complex64"))
    against("zero_", lambda x: np.zeros(x.shape), "same")
    assert reference("fill_")(Array((2,), [1.0, 2.0], "float16"), 0.1)[0].data == [float(np.float16(0.1))] * 2
    assert math.isnan(reference("fill_")(Array((), [1.0], "float32"), math.nan)[0].data[0])


def test_what_is_no_function_of_its_arguments_has_no_reference():
    dropout = {"alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "native_dropout"}
    assert {name for name in PROPERTIES if reference(name)} == dropout  # which have one for calls that draw nothing


def test_dropout_that_draws_nothing():
    x = Array((2,), [1.0, 2.0], "float32")
    for name in ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d"):
        assert reference(name)(x, 0.5, False)[0].data == [1.0, 2.0]
    kept, mask = reference("native_dropout")(x, 1.0, False)
    assert kept.data == [1.0, 2.0] and mask.data == [True, True] and mask.dtype == "bool"
