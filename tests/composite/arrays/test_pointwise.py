from __future__ import annotations

import math
import threading
import warnings

import numpy as np
import pytest

from tensorplay_core.errors import DTypeError

FLOATS = ["float16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]
REAL_OF = {"complex64": "float32", "complex128": "float64"}


def some(dtype, shape=(3, 4)):
    values = np.random.default_rng(0).integers(1, 5, shape)
    return (values + 1j * values[::-1]).astype(dtype) if dtype.startswith("complex") else values.astype(dtype)


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_of_every_real_dtype(k, name, dtype):
    x, y = some(dtype), some(dtype, (4,))
    result = k[name](x, y)
    expected = BINARY[name](x, y)
    assert result.dtype == (bool if name in ("eq", "ne", "lt", "le", "gt", "ge") else dtype)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "lt", "eq"])
def test_binary_of_bfloat16(k, bf16, name):
    x = np.array([1, 2, 3], bf16)
    result = k[name](x, x)
    assert result.dtype == (bool if name in ("lt", "eq") else bf16)


def test_binary_of_bool(k):
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert k["add"](a, b).tolist() == [False, True, True, True]
    assert k["mul"](a, b).tolist() == [False, False, False, True]
    assert k["pow"](a, b).tolist() == [True, False, True, True]
    assert k["pow"](a, b).dtype == bool


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_pow_of_integers_with_negative_exponents(k, dtype):
    low = np.iinfo(dtype).min
    base = np.array([2, 1, -1, -1, 0, 3, -2, 1, -1, 2], dtype)
    exponent = np.array([-1, -5, -3, -2, -1, 2, 3, low, low, low], dtype)
    assert k["pow"](base, exponent).tolist() == [0, 1, -1, 1, 0, 9, -8, 1, 1, 0]
    assert k["pow"](base, exponent).dtype == dtype


def test_pow_overflow_wraps_and_keeps_ones(k):
    # 16 * 16 is 0 in int8: and 127 * 127 is 1: squares do not tell what is 1 or -1.
    assert k["pow"](np.array([16, 127, -128], "int8"), np.array([-1, -1, -1], "int8")).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", FLOATS + INTS + COMPLEX + ["bool"])
def test_abs_and_neg(k, dtype):
    x = some(dtype)
    assert k["abs"](x).dtype == REAL_OF.get(dtype, dtype)
    if dtype != "bool":
        np.testing.assert_array_equal(k["neg"](x), 0 - x)


def test_sgn(k, bf16):
    assert k["sgn"](np.array([-2.0, 0.0, 3.0], "float32")).tolist() == [-1, 0, 1]
    assert k["sgn"](np.array([True, False])).tolist() == [True, False]
    assert k["sgn"](np.array([-2, 0, 3], "int8")).tolist() == [-1, 0, 1]
    assert k["sgn"](np.array([0, 3], "uint8")).tolist() == [0, 1]
    z = k["sgn"](np.array([3 + 4j, 0, -2j], "complex64"))
    assert z.dtype == "complex64"
    np.testing.assert_allclose(z, [0.6 + 0.8j, 0, -1j], rtol=1e-6)
    assert math.isnan(k["sgn"](np.array([np.nan]))[0])
    assert k["sgn"](np.array([-2, 3], bf16)).dtype == bf16


@pytest.mark.parametrize("dtype", FLOATS + INTS + COMPLEX + ["bool"])
@pytest.mark.parametrize("name", ["conj", "real", "clone", "sgn"])
def test_results_never_share_memory(k, name, dtype):
    x = some(dtype)
    result = k[name](x)
    assert not np.shares_memory(result, x)
    assert result.flags.writeable
    assert result.dtype == (REAL_OF.get(dtype, dtype) if name == "real" else dtype)
    if name == "conj":
        np.testing.assert_array_equal(result, x.astype("complex128").conj().astype(dtype) if dtype in COMPLEX else x)
    if name == "real":
        np.testing.assert_array_equal(result, x.real)


def test_clone_of_0d_and_of_a_view(k):
    assert k["clone"](np.array(3.0)).tolist() == 3.0
    x = np.arange(12).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(k["clone"](x), x)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh"])
def test_transcendental(k, name, dtype):
    x = some(dtype)
    result = k[name](x)
    assert result.dtype == dtype
    wide = getattr(np, name)(x.astype("complex128" if dtype in COMPLEX else "float64"))
    np.testing.assert_allclose(result, wide, rtol=2e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "sigmoid", "relu", "neg", "abs"])
def test_bfloat16_stays(k, bf16, name):
    assert k[name](np.array([0.5, 2.0], bf16)).dtype == bf16


EDGES = [0.0, -0.0, 1.0, -1.0, 20.0, -20.0, 88.0, -88.0, 103.0, -103.0, 1e4, -1e4, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", FLOATS)
def test_sigmoid_is_accurate_at_both_ends(k, dtype):
    x = np.array(EDGES, dtype)
    wide = x.astype("longdouble")
    expected = np.where(wide >= 0, 1 / (1 + np.exp(-abs(wide))), np.exp(-abs(wide)) / (1 + np.exp(-abs(wide))))
    result = k["sigmoid"](x)
    assert result.dtype == dtype
    info = np.finfo(dtype)
    np.testing.assert_allclose(
        result.astype("longdouble"), expected, rtol=4 * float(info.eps), atol=float(info.smallest_subnormal)
    )


def test_sigmoid_of_bfloat16_at_both_ends(k, bf16):
    x = np.array([-80.0, 80.0, 0.0, np.inf, -np.inf, np.nan], bf16)
    result = k["sigmoid"](x).astype("float32")
    np.testing.assert_allclose(result, [1.8e-35, 1, 0.5, 1, 0, np.nan], rtol=2e-2)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_sigmoid_of_complex(k, dtype):
    z = np.array([1 + 2j, -3 + 1j, 0, 500 + 1j, -500 + 1j], dtype)
    result = k["sigmoid"](z)
    assert result.dtype == dtype
    np.testing.assert_allclose(result[:3], 1 / (1 + np.exp(-z[:3])), rtol=1e-5)
    np.testing.assert_allclose(result[3:], [1, 0], atol=1e-30)


def test_sigmoid_in_blocks_and_out_of_order(k):
    x = np.random.default_rng(0).standard_normal((300, 700)).astype("float32")
    expected = 1 / (1 + np.exp(-x.astype("float64")))
    np.testing.assert_allclose(k["sigmoid"](x), expected, rtol=1e-6)
    np.testing.assert_allclose(k["sigmoid"](x.T), expected.T, rtol=1e-6)
    np.testing.assert_allclose(k["sigmoid"](x[::2, ::3]), expected[::2, ::3], rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 1, 3)])
@pytest.mark.parametrize("name", ["sigmoid", "relu", "exp", "conj", "real", "sgn", "abs"])
def test_any_shape(k, name, shape):
    assert np.shape(k[name](np.ones(shape, "float32"))) == shape


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_relu(k, dtype):
    x = np.array([-1, 0, 2]).astype(dtype)
    result = k["relu"](x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.maximum(x, 0))
    assert not np.shares_memory(result, x)


def test_relu_of_nan_zero_and_infinity(k, bf16):
    for dtype in (*FLOATS, bf16):
        result = k["relu"](np.array([np.nan, -0.0, np.inf, -np.inf], dtype)).astype("float64")
        np.testing.assert_array_equal(result, [np.nan, 0, np.inf, 0])


def test_relu_refuses_complex(k):
    with pytest.raises(DTypeError, match="no order"):
        k["relu"](np.ones(2, "complex64"))


@pytest.mark.parametrize("dtype", FLOATS + INTS + COMPLEX + ["bool"])
def test_where(k, dtype):
    x, y = some(dtype), np.zeros((), dtype)
    condition = np.array([True, False, True, False])
    result = k["where"](condition, x, y)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.where(condition, x, y))


@pytest.mark.parametrize("name", ["add", "div", "lt", "where", "pow"])
def test_shapes_that_do_not_broadcast_raise(k, name):
    x, y = np.ones(3, "float32"), np.ones(4, "float32")
    with pytest.raises(ValueError, match="broadcast"):
        k[name](*((x > 0,) if name == "where" else ()), x, y)


def silence(k):
    x = np.array([0.0, -1.0, np.inf, -np.inf, np.nan, 1e38], "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("sigmoid", "relu", "sgn", "softmax", "log_softmax", "mean", "max", "max.dim"):
            k[name](x, *((0,) if name in ("softmax", "log_softmax", "max.dim") else ()))
        k["softmax"](np.full(3, -np.inf, "float32"), 0)
        k["mean"](np.empty((0,), "float32"))
        k["pow"](np.zeros(2, "float32"), np.full(2, -1, "float32")) if not hasattr(k["pow"], "nin") else None
        k["copy_"](np.zeros(6, "int32"), x)
        k["copy_"](np.zeros(6, "float16"), x)
        k["copy_"](np.zeros(1, "float32"), np.ones(1, "complex64"))
        k["sigmoid"](np.array([-1000, 1000], "complex64"))
        k["max"](np.array([np.nan, 1], "float16"))
        k["sum"](np.array([np.inf, -np.inf], "float32"))
        k["sum"](np.array([6e4, 6e4], "float16"))


def test_own_functions_are_silent_in_every_thread(k):
    silence(k)
    errors = []

    def run():
        try:
            silence(k)
        except Warning as warning:
            errors.append(warning)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert errors == []


def test_the_users_numpy_still_warns(k):
    with pytest.warns(RuntimeWarning):
        np.log(np.zeros(1))
    assert np.geterr()["divide"] == "warn"


@pytest.mark.parametrize("dtype", COMPLEX)
def test_the_complex_log1p_has_all_digits_near_0_and_far_away(k, dtype):
    mpmath = pytest.importorskip("mpmath")
    sizes = [10.0**n for n in range(-30, 31, 3)]
    turns = np.exp(2j * np.pi * np.arange(64) / 64)
    parts = np.array([s * x for s in sizes for x in (1, -1, 0.37)])
    grid = (parts[:, None] + 1j * parts).reshape(-1)
    z = np.concatenate([grid, turns - 1, turns / 2, turns / 1000 - 1]).astype(dtype)
    found, eps = k["log1p"](z), np.finfo(dtype).eps
    assert found.dtype == dtype
    with mpmath.workprec(300):
        for given, result in zip(z.tolist(), found.tolist(), strict=True):
            exact = mpmath.log(1 + mpmath.mpc(given))
            assert abs(mpmath.mpc(result) - exact) <= 3 * eps * abs(exact), given
    ends = np.array([0, -1, complex("inf"), complex("nan"), complex(-2, -0.0)], dtype)
    assert k["log1p"](ends)[:2].tolist() == [0, -math.inf]
    assert np.isinf(k["log1p"](ends)[2]) and np.isnan(k["log1p"](ends)[3])
    assert k["log1p"](ends)[4].imag == pytest.approx(-math.pi)  # below the cut, as NumPy has it
