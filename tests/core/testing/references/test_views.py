"""The references of views, joins and copies give what NumPy gives, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplay_core.testing.references import UNSPECIFIED, Array, reference


def squeezed(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    dims = [d % max(x.ndim, 1) for d in ((dim,) if isinstance(dim, int) else dim)]
    return x.reshape([size for d, size in enumerate(x.shape) if size != 1 or d not in dims])


def expanded(x, size):
    new = len(size) - x.ndim
    return np.broadcast_to(x, [x.shape[i - new] if n == -1 else n for i, n in enumerate(size)])


def sliced(x, dim=0, start=None, end=None, step=1):
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


NUMPY = {
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": np.transpose,
    "transpose": lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
    "expand": expanded,
    "squeeze": squeezed,
    "unsqueeze": np.expand_dims,
    "select": lambda x, dim, index: np.take(x, index, axis=dim),
    "slice": sliced,
    "cat": lambda tensors, dim=0: np.concatenate([x for x in tensors if x.shape != (0,)] or tensors, axis=dim),
    "copy_": lambda x, source: np.broadcast_to(source, x.shape).astype(x.dtype),
}


@pytest.mark.parametrize("name", NUMPY)
def test_elements_are_where_numpy_has_them(against, name):
    against(name, NUMPY[name], "same", rtol=0)


def test_to_copy_casts(against):
    def cast(x, dtype):
        return x if dtype is None else x.astype(dtype)

    against("_to_copy", lambda x, dtype=None: cast(x, dtype), "same", ("bool", "uint8", "int64", "float32"), rtol=0)
    to = reference("_to_copy")
    x = Array((3,), [0.1, -2.7, math.nan], "float64")
    assert to(x)[0] == x
    assert to(x)[0].data is not x.data
    assert to(x, dtype="float16", device="cpu")[0].data[:2] == [float(np.float16(0.1)), float(np.float16(-2.7))]
    assert to(x, dtype="int8")[0].data == [0, -2, UNSPECIFIED]
    assert to(x, dtype="bool")[0].data == [True, True, True]


def test_what_does_not_fit_is_an_error():
    x = Array((2, 3), [1, 2, 3, 4, 5, 6], "int8")
    with pytest.raises(ValueError, match="shape"):
        reference("reshape")(x, (4,))
    with pytest.raises(IndexError):
        reference("unsqueeze")(x, 4)


def test_elements_that_only_move_keep_the_sign_of_zero():
    minus = Array((1,), [-0.0], "float32")
    for name, args in {"unsqueeze": (0,), "slice": (), "_to_copy": (), "clone": (), "reshape": ((1, 1),)}.items():
        result = reference(name)(minus, *args)[0]
        assert math.copysign(1, result.data[0]) == -1, name
        plus = Array(result.shape, [0.0], "float32")
        assert list(reference(name).mismatches(plus, result)), name


def test_cat_promotes():
    parts = [Array((1,), [1], "int64"), Array((2,), [0.5, 2.0], "float16")]
    assert reference("cat")(parts)[0] == Array((3,), [1.0, 0.5, 2.0], "float16")
