"""``assert_close``, with a stand-in for tensors, so that it is tested apart from them."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from tensorplay_core.errors import ArgumentError
from tensorplay_core.testing import assert_close


class Fake:
    """What ``assert_close`` needs of a tensor."""

    def __init__(self, data, dtype="float32", device="cpu"):
        self.data, self.device = data, device
        self.dtype = type("DType", (), {"name": dtype})
        self.shape = np.shape(data)

    def tolist(self):
        return self.data


def message(*args, **keywords):
    with pytest.raises(AssertionError) as caught:
        assert_close(*args, **keywords)
    return str(caught.value)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (Fake([1.0, 2.0]), Fake([1.0 + 1e-6, 2.0])),
        (Fake([nan, inf, -inf]), Fake([nan, inf, -inf])),
        (Fake(2.0), Fake(2.0)),
        (Fake([]), Fake([])),
        (Fake([1 + 2j], "complex64"), Fake([1 + 2.000001j], "complex64")),
        (Fake([2**63 - 1], "int64"), Fake([2**63 - 1], "int64")),
        (Fake([1.0]), [1.0]),
        (Fake([[1.0], [2.0]]), ((1.0,), (2.0,))),
        (Fake(np.float32([1.5]).tolist()), np.float32([1.5])),
        ([Fake([1.0]), 2], (Fake([1.0]), 2)),
        ({"a": Fake([1.0])}, {"a": Fake([1.0])}),
        (1, 1),
        (nan, nan),
        (None, None),
        ([], []),
    ],
)
def test_close(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize(
    ("dtype", "relative"), [("float16", 1e-3), ("bfloat16", 1.6e-2), ("float32", 1.3e-6), ("float64", 1e-7)]
)
def test_tolerance_is_the_dtypes(dtype, relative):
    assert_close(Fake([1000 * (1 + 0.9 * relative)], dtype), Fake([1000.0], dtype))
    assert "not close" in message(Fake([1000 * (1 + 1.1 * relative)], dtype), Fake([1000.0], dtype))


def test_the_greater_tolerance_counts_where_dtypes_differ():
    assert_close(Fake([1.0005], "float16"), Fake([1.0], "float64"), check_dtype=False)


def test_message_of_tensors():
    assert message(Fake([[1.0, 2.0], [3.0, 8.0]]), Fake([[1.0, 2.5], [3.0, 4.0]])) == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 2 / 4 (50.0%)\n"
        "Greatest absolute difference: 4.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 1.0 at index (1, 1) (up to 1.3e-06 allowed)"
    )
    assert message(Fake([1, 2], "int64"), Fake([1, 4], "int64")) == (
        "Tensor-likes are not equal!\n\n"
        "Mismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 2 at index (1,)\n"
        "Greatest relative difference: 0.5 at index (1,)"
    )


def test_message_of_scalars():
    assert message(1.0, 2.0) == (
        "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
        "Absolute difference: 1.0 (up to 1e-07 allowed)\nRelative difference: 0.5 (up to 1e-07 allowed)"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "keywords", "part"),
    [
        (Fake([1.0]), Fake([1.0, 2.0]), {}, "'shape' do not match: (1,) != (2,)"),
        (Fake([1.0]), Fake([1.0], "float64"), {}, "'dtype' do not match: float32 != float64"),
        (Fake([1.0]), Fake([1.0], device="loopback:0"), {}, "'device' do not match: cpu != loopback:0"),
        (Fake([nan]), Fake([1.0]), {}, "Greatest absolute difference: nan at index (0,)"),
        (Fake([1.0, nan, 9.0]), Fake([1.0, 1.0, 1.0]), {}, "Greatest absolute difference: nan at index (1,)"),
        (Fake([nan]), Fake([nan]), {"equal_nan": False}, "not close"),
        (Fake([inf]), Fake([-inf]), {}, "Mismatched elements: 1 / 1 (100.0%)"),
        (Fake([1.0]), Fake([0.0]), {}, "Greatest relative difference: inf"),
        (Fake([2**53 + 1], "int64"), Fake([2**53], "int64"), {}, "Greatest absolute difference: 1 at"),
        (Fake([1.0]), [[1.0]], {}, "'shape' do not match: (1,) != (1, 1)"),
        (Fake([1.0]), "no", {}, "cannot be compared element by element"),
        ([1.0, Fake([1.0])], [1.0, Fake([2.0])], {}, "The failure occurred for item [1]"),
        ({"a": [1]}, {"a": [2]}, {}, "The failure occurred for item ['a'][0]"),
        ([1], [1, 2], {}, "The length of the sequences do not match: 1 != 2"),
        ({"a": 1}, {"b": 1}, {}, "'a', 'b' in one of them only"),
        (1, 1.0, {}, "types of the numbers do not match: int != float"),
        (1, None, {}, "int and NoneType cannot be compared"),
        (1, 2, {"msg": "mine"}, "mine"),
        (1, 2, {"msg": lambda text: text.upper()}, "SCALARS ARE NOT EQUAL!"),
    ],
)
def test_not_close(actual, expected, keywords, part):
    assert part in message(actual, expected, **keywords)


def test_tolerances_of_ones_own():
    assert_close(Fake([1.0]), Fake([1.1]), rtol=0, atol=0.2)
    with pytest.raises(ArgumentError, match="both rtol and atol"):
        assert_close(1.0, 1.0, rtol=1)
    with pytest.raises(ArgumentError, match="must not be negative"):
        assert_close(1.0, 1.0, rtol=-1, atol=0)
