"""The repr, against literals that PyTorch 2.13 printed for the same data (its name replaced by ours in dtypes)."""

from __future__ import annotations

from math import inf, nan

import pytest

from tensorplay_core.errors import ArgumentError, ValueRangeError
from tensorplay_core.tensor.printing import format_tensor, get_printoptions, printoptions, set_printoptions
from tensorplay_core.types import dtype as dt


def shape_of(data):
    return (len(data), *(shape_of(data[0]) if data else ())) if isinstance(data, list) else ()


def take(data, slices):
    return [take(item, slices[1:]) for item in data[slices[0]]] if slices else data


def show(data, dtype="float32", **keywords):
    keywords.setdefault("shape", shape_of(data))
    return format_tensor(lambda slices: take(data, slices), dtype=dt.by_name(dtype), **keywords)


CASES = [
    (1.0, "float32", {}, "tensor(1.)"),
    (1.5, "float32", {}, "tensor(1.5000)"),
    (7, "int64", {}, "tensor(7)"),
    (True, "bool", {}, "tensor(True)"),
    (1 + 2j, "complex64", {}, "tensor(1.+2.j)"),
    (nan, "float32", {}, "tensor(nan)"),
    ([1.0, 2.0, 3.0], "float32", {}, "tensor([1., 2., 3.])"),
    (
        [[1.0, 2.0], [3.0, 4.0]],
        "float32",
        {},
        """\
tensor([[1., 2.],
        [3., 4.]])""",
    ),
    (
        [[1.0, 2.0], [3.0, 4.5]],
        "float64",
        {},
        """\
tensor([[1.0000, 2.0000],
        [3.0000, 4.5000]], dtype=tensorplay.float64)""",
    ),
    (
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        "int64",
        {},
        """\
tensor([[[1, 2],
         [3, 4]],

        [[5, 6],
         [7, 8]]])""",
    ),
    (
        [[[[1], [2]]], [[[3], [-40]]]],
        "int32",
        {},
        """\
tensor([[[[  1],
          [  2]]],


        [[[  3],
          [-40]]]], dtype=tensorplay.int32)""",
    ),
    ([1, -100, 20], "int64", {}, "tensor([   1, -100,   20])"),
    ([True, False], "bool", {}, "tensor([ True, False])"),
    (
        [[True], [False]],
        "bool",
        {},
        """\
tensor([[ True],
        [False]])""",
    ),
    ([nan, 1.0], "float32", {}, "tensor([nan, 1.])"),
    ([nan, inf, -inf], "float32", {}, "tensor([nan, inf, -inf])"),
    ([inf, 0.5, -2.0], "float32", {}, "tensor([    inf,  0.5000, -2.0000])"),
    ([0.0, -0.0], "float32", {}, "tensor([0., -0.])"),
    ([0.1, 1000.0], "float32", {}, "tensor([1.0000e-01, 1.0000e+03])"),
    ([0.5, 500.0], "float32", {}, "tensor([  0.5000, 500.0000])"),
    ([1.0, 1000.0], "float32", {}, "tensor([   1., 1000.])"),
    ([1.0, 1001.0], "float32", {}, "tensor([1.0000e+00, 1.0010e+03])"),
    ([1e8, 1e8], "float64", {}, "tensor([100000000., 100000000.], dtype=tensorplay.float64)"),
    ([1.5e8, 1e8], "float64", {}, "tensor([1.5000e+08, 1.0000e+08], dtype=tensorplay.float64)"),
    ([0.0001, 0.0002], "float64", {}, "tensor([0.0001, 0.0002], dtype=tensorplay.float64)"),
    ([0.00009, 0.0002], "float64", {}, "tensor([9.0000e-05, 2.0000e-04], dtype=tensorplay.float64)"),
    ([1e-20, 1e20, nan], "float64", {}, "tensor([1.0000e-20, 1.0000e+20,        nan], dtype=tensorplay.float64)"),
    (
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0],
        "float32",
        {},
        "tensor([ 1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13., 14.])",
    ),
    ([1 + 2j, 3 - 4.5j], "complex64", {}, "tensor([1.+2.0000j, 3.-4.5000j])"),
    (
        [-1.5 + 2j, complex(nan, -inf)],
        "complex128",
        {},
        "tensor([-1.5000+2.j,     nan-infj], dtype=tensorplay.complex128)",
    ),
    ([1 + 2j], "complex64", {}, "tensor([1.+2.j])"),
    ([1.0, 2.0], "float16", {}, "tensor([1., 2.], dtype=tensorplay.float16)"),
    ([1.0, 2.5], "bfloat16", {}, "tensor([1.0000, 2.5000], dtype=tensorplay.bfloat16)"),
    ([1, 255], "uint8", {}, "tensor([  1, 255], dtype=tensorplay.uint8)"),
    (
        [x / 7 for x in range(20)],
        "float64",
        {},
        """\
tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,
        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,
        2.5714, 2.7143], dtype=tensorplay.float64)""",
    ),
    (list(range(1001)), "int64", {}, "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (
        list(range(1000))[:30],
        "int64",
        {},
        """\
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])""",
    ),
    (
        [[float(x + y) for x in range(40)] for y in range(40)],
        "float32",
        {},
        """\
tensor([[ 0.,  1.,  2.,  ..., 37., 38., 39.],
        [ 1.,  2.,  3.,  ..., 38., 39., 40.],
        [ 2.,  3.,  4.,  ..., 39., 40., 41.],
        ...,
        [37., 38., 39.,  ..., 74., 75., 76.],
        [38., 39., 40.,  ..., 75., 76., 77.],
        [39., 40., 41.,  ..., 76., 77., 78.]])""",
    ),
    (
        [[[x + y] * 3 for x in range(4)] for y in range(100)],
        "int64",
        {},
        """\
tensor([[[  0,   0,   0],
         [  1,   1,   1],
         [  2,   2,   2],
         [  3,   3,   3]],

        [[  1,   1,   1],
         [  2,   2,   2],
         [  3,   3,   3],
         [  4,   4,   4]],

        [[  2,   2,   2],
         [  3,   3,   3],
         [  4,   4,   4],
         [  5,   5,   5]],

        ...,

        [[ 97,  97,  97],
         [ 98,  98,  98],
         [ 99,  99,  99],
         [100, 100, 100]],

        [[ 98,  98,  98],
         [ 99,  99,  99],
         [100, 100, 100],
         [101, 101, 101]],

        [[ 99,  99,  99],
         [100, 100, 100],
         [101, 101, 101],
         [102, 102, 102]]])""",
    ),
    (
        [[x * 1000 for x in range(20)]],
        "int64",
        {"precision": 2},
        """\
tensor([[    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000,
         10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000]])""",
    ),
    ([1.23456, 2.0], "float32", {"precision": 2}, "tensor([1.23, 2.00])"),
    ([1.0, 2.0], "float32", {"sci_mode": True}, "tensor([1.0000e+00, 2.0000e+00])"),
    ([1e-9, 1.0], "float32", {"sci_mode": False}, "tensor([0.0000, 1.0000])"),
    (list(range(10)), "int64", {"threshold": 5}, "tensor([0, 1, 2,  ..., 7, 8, 9])"),
    (list(range(10)), "int64", {"threshold": 5, "edgeitems": 1}, "tensor([0,  ..., 9])"),
    (list(range(10)), "int64", {"threshold": 5, "edgeitems": 0}, "tensor([...], size=(10,))"),
    (
        list(range(10)),
        "int64",
        {"linewidth": 20},
        """\
tensor([0, 1, 2, 3,
        4, 5, 6, 7,
        8, 9])""",
    ),
    (
        [[0.5] * 12],
        "float32",
        {"profile": "short"},
        "tensor([[0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50]])",
    ),
]


@pytest.mark.parametrize(("data", "dtype", "options", "expected"), CASES)
def test_prints_as_pytorch_does(data, dtype, options, expected):
    with printoptions(**options):
        assert show(data, dtype) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((0,), "float32", "tensor([])"),
        ((0, 3), "float32", "tensor([], size=(0, 3))"),
        ((0,), "int64", "tensor([], dtype=tensorplay.int64)"),
        ((2, 0), "float64", "tensor([], size=(2, 0), dtype=tensorplay.float64)"),
    ],
)
def test_an_empty_tensor_is_not_fetched(shape, dtype, expected):
    assert format_tensor(None, shape=shape, dtype=dt.by_name(dtype)) == expected


def test_suffixes():
    assert show([1.0, 1.0], requires_grad=True) == "tensor([1., 1.], requires_grad=True)"
    assert show([2.0, 2.0], grad_fn="AddBackward", requires_grad=True) == "tensor([2., 2.], grad_fn=<AddBackward>)"
    assert show([2.0], grad_fn="<AddBackward>") == "tensor([2.], grad_fn=<AddBackward>)"
    assert show([1, 2], "int32", device="loopback:0") == ("tensor([1, 2], device='loopback:0', dtype=tensorplay.int32)")
    assert show([1.0], device="cpu") == "tensor([1.])"
    assert show([0.5] * 9, grad_fn="AddBackward") == (
        "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000],\n"
        "       grad_fn=<AddBackward>)"
    )
    assert show([1.0], prefix="Parameter(") == "Parameter([1.])"


def test_only_the_corners_are_fetched():
    seen = []

    def fetch(slices):
        seen.append([len(range(*one.indices(size))) for one, size in zip(slices, (1000, 4, 1000), strict=True)])
        return [[[1.0] * seen[-1][2]] * seen[-1][1]] * seen[-1][0]

    text = format_tensor(fetch, shape=(1000, 4, 1000), dtype=dt.float32)
    assert seen == [[3, 4, 3]] * 4
    assert text.count("1.") == 6 * 4 * 6


def test_options():
    before = get_printoptions()
    assert before == {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
    try:
        set_printoptions(profile="short", precision=3)
        assert get_printoptions() == {**before, "precision": 3, "edgeitems": 2}
        with printoptions(sci_mode=True):
            assert get_printoptions()["sci_mode"] is True
        set_printoptions(profile="full")
        assert show(list(range(1001)), "int64").count("\n") > 50
    finally:
        set_printoptions(profile="default")
    assert get_printoptions() == before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"profile": "shorts"}, ValueRangeError, "Did you mean 'short'"),
        ({"precision": 2.0}, ArgumentError, "precision must be an int, not 2.0 (float)"),
        ({"precision": True}, ArgumentError, "precision must be an int, not True (bool)"),
        ({"edgeitems": -1}, ValueRangeError, "edgeitems must be at least 0, but is -1"),
        ({"linewidth": 0}, ValueRangeError, "linewidth must be at least 1, but is 0"),
        ({"threshold": nan}, ValueRangeError, "threshold must be at least 0, but is nan"),
        ({"sci_mode": 1}, ArgumentError, "sci_mode must be True, False or None, not 1"),
    ],
)
def test_bad_options_change_nothing(options, error, message):
    before = get_printoptions()
    with pytest.raises(error) as caught:
        set_printoptions(**options)
    assert message in str(caught.value)
    assert get_printoptions() == before
