"""The references of pointwise operators give what NumPy gives, and integers, bool and scalars what PyTorch gives."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

from tensorplay_core.testing.references import UNSPECIFIED, Array, reference

NAN, INF = math.nan, math.inf


def power(a, b):
    """NumPy's, but for integers to a negative power, which it refuses and the contract defines, and for bool."""
    if a.dtype.kind == "b":
        return a | ~np.asarray(b)
    return np.power(a, np.asarray(b, a.dtype))


def sign(x):
    if x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
    return x if x.dtype.kind == "b" else np.sign(x)


def in_kind(function):
    """NumPy computes a Python scalar's way of NEP 50 only with arrays: a 0-d array keeps the dtype."""
    return lambda a, b, **more: function(a, np.asarray(b, a.dtype) if np.isscalar(b) else b, **more)


NUMPY = {
    "add": (in_kind(lambda a, b, alpha=1: a + np.asarray(alpha, a.dtype) * b), "same"),
    "sub": (in_kind(lambda a, b, alpha=1: a - np.asarray(alpha, a.dtype) * b), "same"),
    "mul": (in_kind(np.multiply), "same"),
    "div": (np.divide, "float"),
    "pow": (power, "same"),
    "neg": (np.negative, "same"),
    "abs": (np.abs, "real"),
    "sgn": (sign, "same"),
    "square": (lambda x: x * x, "same"),
    "reciprocal": (lambda x: 1 / x, "float"),
    "sqrt": (lambda x: np.sqrt(x, dtype=np.result_type(x, "float64")), "float"),
    "rsqrt": (lambda x: 1 / np.sqrt(x, dtype=np.result_type(x, "float64")), "float"),
    **{
        name: (lambda x, name=name: getattr(np, name)(x, dtype=np.result_type(x, "float64")), "float")
        for name in ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh")
    },
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x.astype(np.result_type(x, "float64")))), "float"),
    "relu": (lambda x: np.maximum(x, np.asarray(0, x.dtype)), "same"),
    "conj": (np.conj, "same"),
    "real": (np.real, "real"),
    "clone": (np.copy, "same"),
    "maximum": (np.maximum, "same"),
    "minimum": (np.minimum, "same"),
    "eq": (np.equal, "bool"),
    "ne": (np.not_equal, "bool"),
    "lt": (np.less, "bool"),
    "le": (np.less_equal, "bool"),
    "gt": (np.greater, "bool"),
    "ge": (np.greater_equal, "bool"),
    "where": (np.where, "same"),
}
_KINDS = {  # what has no meaning, or that NumPy does not take
    **dict.fromkeys(("sub", "neg", "pow"), "uifc"),
    **dict.fromkeys(("maximum", "minimum", "lt", "le", "gt", "ge"), "buif"),
    "relu": "uif",
}
BY_KIND = {
    "b": ["bool"],
    "u": ["uint8"],
    "i": ["int8", "int64"],
    "f": ["float16", "bfloat16", "float32", "float64"],
    "c": ["complex64", "complex128"],
}


@pytest.mark.parametrize("name", NUMPY)
def test_a_reference_gives_what_numpy_gives_on_the_samples(against, name):
    function, rule = NUMPY[name]
    dtypes = [dtype for kind in _KINDS.get(name, "buifc") for dtype in BY_KIND[kind]]
    # NumPy's complex functions are off by a few units more, and the formulas above lose some.
    against(name, function, rule, dtypes, rtol=2e-13 if name in ("pow", "sigmoid", "log1p") else 2e-15)


SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 5e-324, -5e-324, 1e308, -1e308, 710.0, -750.0)


@pytest.mark.parametrize("name", [name for name, (_, rule) in NUMPY.items() if rule != "bool" and name != "where"])
def test_special_values_and_the_sign_of_zero(name):
    function, _ = NUMPY[name]
    binary = name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum")
    rows = [(a, b) for a in SPECIAL for b in SPECIAL] if binary else [(a,) for a in SPECIAL]
    columns = [list(column) for column in zip(*rows, strict=True)]
    result = reference(name)(*[Array((len(c),), c, "float64") for c in columns])[0]
    with np.errstate(all="ignore"):
        expected = function(*[np.array(c) for c in columns]).tolist()
    for row, actual, right in zip(rows, result.data, expected, strict=True):
        if right != right:
            assert actual != actual, (row, actual, right)
            continue
        assert actual == pytest.approx(right, rel=1e-15, abs=0), (row, actual, right)
        # Of 0.0 and -0.0 either is the larger; the sign of a zero is left open for relu and sgn.
        if name not in ("maximum", "minimum", "relu", "sgn", "sigmoid"):
            assert math.copysign(1, actual) == math.copysign(1, right), (row, actual, right)


def test_branch_cuts_follow_the_sign_of_zero():
    """https://data-apis.org/array-api/latest/API_specification/: sqrt and log have theirs on the negative real axis."""
    z = Array((2,), [complex(-4, 0.0), complex(-4, -0.0)], "complex128")
    assert reference("sqrt")(z)[0].data == [2j, -2j]
    assert [w.imag for w in reference("log")(z)[0].data] == [math.pi, -math.pi]
    assert reference("log1p")(z)[0].data == [complex(math.log(3), math.pi), complex(math.log(3), -math.pi)]


def test_complex_functions_at_infinity_and_zero_are_not_finite():
    z = Array((3,), [complex(INF, INF), complex(NAN, 1), 0j], "complex64")
    finite = {
        name: [cmath.isfinite(w) for w in reference(name)(z)[0].data]
        for name in ("exp", "log", "sin", "tanh", "reciprocal", "sgn")
    }
    assert finite["exp"] == finite["sin"] == finite["sgn"] == [False, False, True]
    assert finite["log"] == [False] * 3
    assert finite["reciprocal"][1:] == [False, False]
    assert reference("abs")(Array((), [complex(INF, NAN)], "complex64"))[0].data == [INF]
    undecided = reference("pow")(Array((2,), [0j, complex(INF)], "complex64"), -1j)[0].data
    assert undecided == [UNSPECIFIED, UNSPECIFIED]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "neg", "square", "abs"])
def test_integers_wrap_around(name, dtype):
    info = np.iinfo(dtype)
    values = [info.min, info.max, info.min // 2 + 1, 3, 0, 1]
    count = 2 if name in ("add", "sub", "mul") else 1
    arrays = [np.array(values, dtype), np.array(values[::-1], dtype)[:, None]][:count]
    with np.errstate(all="ignore"):
        expected = NUMPY[name][0](*arrays)
    result = reference(name)(*[Array(a.shape, np.ravel(a).tolist(), dtype) for a in arrays])[0]
    assert (result.dtype, result.data) == (dtype, np.ravel(expected).tolist())


def test_integer_powers_are_those_of_pytorch():
    """torch.pow(torch.tensor([0, 1, -1, -1, 2, 3]), torch.tensor([-1, -5, -2, -3, -1, 5])), and 3 ** 50 in int8."""
    base, exponent = [0, 1, -1, -1, 2, 3, 0], [-1, -5, -2, -3, -1, 5, 0]
    result = reference("pow")(Array((7,), base, "int64"), Array((7,), exponent, "int64"))[0]
    assert result.data == [0, 1, 1, -1, 0, 243, 1]
    wrapped = (3**50 + 128) % 256 - 128
    assert reference("pow")(Array((), [3], "int8"), 50)[0] == Array((), [wrapped], "int8")


def test_bool_adds_as_or_and_multiplies_as_and():
    a, b = Array((4,), [False, False, True, True], "bool"), Array((4,), [False, True, False, True], "bool")
    assert reference("add")(a, b)[0] == Array((4,), [False, True, True, True], "bool")
    assert reference("mul")(a, b)[0] == Array((4,), [False, False, False, True], "bool")
    assert reference("maximum")(a, b)[0].data == [False, True, True, True]
    with pytest.raises(TypeError):
        reference("sub")(a, b)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((("int32",), 2.5), "float32"),
        ((("int8",), 2), "int8"),
        ((("bool",), 2), "int64"),
        ((("float16",), 2.5), "float16"),
        ((("float64",), 1j), "complex128"),
        ((("bfloat16",), ("float16",)), "float32"),
        ((("int8",), ("uint8",)), "int16"),
        ((("uint64",), ("int64",)), "float32"),
        ((("int64",), ("float16",)), "float16"),
        ((("float64",), ("complex64",)), "complex128"),
    ],
)
def test_promotion(values, dtype):
    arrays = [Array.of([1], v[0]) if isinstance(v, tuple) else v for v in values]
    assert reference("mul")(*arrays)[0].dtype == reference("mul")(*arrays[::-1])[0].dtype == dtype


def test_arguments_are_cast_before_anything_is_computed():
    """Beside float16 tensors a number is a float16 number; beside float32 an int64 has lost its last digits."""
    assert reference("mul")(Array((), [1.0], "float16"), 0.1)[0].data == [float(np.float16(0.1))]
    assert reference("sub")(Array((), [2**24 + 1], "int64"), Array((), [2.0**24], "float32"))[0].data == [0.0]
    assert reference("eq")(Array((), [2**24 + 1], "int64"), Array((), [2.0**24], "float32"))[0].data == [True]


def test_numbers_beyond_an_integer_dtype_compare_as_they_are():
    x = Array((2,), [44, -128], "int8")
    assert reference("eq")(x, 300)[0].data == [False, False]
    assert reference("lt")(x, 300)[0].data == [True, True]


def test_alpha_may_be_rounded_with_its_product():
    big, small = Array((), [1000.25], "float32"), Array((), [10000.5], "float32")
    result = reference("sub")(big, small, alpha=0.1)[0]
    right = 1000.25 - float(np.float32(0.1)) * 10000.5
    assert result.data == [right]
    assert result.slack == [np.spacing(np.float32(1000)) / 2]
    rounded = float(np.float32(1000.25) - np.float32(0.1) * np.float32(10000.5))
    assert rounded != right
    assert not list(reference("sub").mismatches(Array((), [rounded], "float32"), result))
