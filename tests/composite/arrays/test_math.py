"""The general emitter: formulas on raw arrays of any NumPy-like module, with the kernels that a backend has anyway."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_composite.arrays import emitter, kernels
from tensorplay_composite.arrays import math as arrays_math
from tensorplay_core.errors import DTypeError
from tensorplay_core.types.program import Program

GENERAL = kernels(np)
EMIT = emitter(np, GENERAL)


def program(*steps, inputs=("x",), keywords=(), numbers=(), scalar_steps=(), results=None):
    return Program(inputs, keywords, numbers, scalar_steps, steps, results or (steps[-1][0],))


SOFTSIGN = program(("t0", "abs", "x"), ("t1", "add", 1, "t0"), ("t2", "div", "x", "t1"))
AXPY = program(
    ("t0", "mul", "s0", "x"),
    ("t1", "add", "t0", "y"),
    inputs=("x", "n", "y"),
    keywords=(("alpha", 1),),
    numbers=("n", "alpha"),
    scalar_steps=(("s0", "mul", "n", "alpha"),),
)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_computes_the_formula(dtype, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    found = np.asarray(EMIT(SOFTSIGN)(x))
    assert found.dtype == dtype and found.shape == shape
    np.testing.assert_array_equal(found, x / (1 + np.abs(x)))


def test_it_is_none_where_the_backend_lacks_a_kernel_of_a_step():
    some = {name: GENERAL[name] for name in ("abs", "add")}
    assert emitter(np, some)(SOFTSIGN) is None
    assert emitter(np, some)(program(("t0", "abs", "x"))) is not None
    assert EMIT(program(("t0", "mul", "n", 2), inputs=("n",), numbers=("n",))) is None


def test_numbers_arrays_and_keywords_take_their_places():
    x, y = np.arange(3.0), np.ones((2, 1))
    kernel = EMIT(AXPY)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(x, 2, y), 2 * x + y)
        np.testing.assert_array_equal(kernel(x, 2, y, alpha=0.5), x + y)
        np.testing.assert_array_equal(kernel(x, -0.0, y), y + 0 * x)
    assert np.signbit(kernel(np.ones(1), -0.0, np.zeros(1) * -1.0))
    assert not np.signbit(kernel(np.ones(1), 0.0, np.zeros(1) * -1.0))


def test_steps_on_literals_alone_need_no_argument_that_is_a_number():
    third = program(("t0", "mul", "x", "s0"), scalar_steps=(("s0", "div", 1, 3),))
    assert EMIT(third)(np.array([3.0, 6.0])).tolist() == [1.0, 2.0]


def test_integers_wrap_and_refuse_floats():
    kernel, x = EMIT(AXPY), np.array([100], "int8")
    assert kernel(x, 2, x).tolist() == [300 - 256] and kernel(x, 258, x).tolist() == [300 - 256]
    assert kernel(x, 2, x).dtype == "int8"
    with pytest.raises(DTypeError, match=r"n is 0\.5|s0 is 0\.5"):
        kernel(x, 0.5, x)
    with pytest.raises(DTypeError, match="float64 tensors"):
        kernel(x.astype("float64"), 1j, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precisions_are_rounded_once(dtype, bf16):
    x = np.linspace(-300, 300, 997).astype(bf16 if dtype == "bfloat16" else dtype)
    found = EMIT(program(("t0", "mul", "x", "x"), ("t1", "div", "t0", 3)))(x)
    wide = x.astype("float32")
    np.testing.assert_array_equal(found, (wide * wide / np.float32(3)).astype(x.dtype))
    assert found.dtype == x.dtype and np.isfinite(found.astype("float32")).all()  # 300 * 300 is no float16


def test_results_have_the_shape_of_all_inputs_and_memory_of_their_own():
    x, y = np.array([[1.0], [2.0]]), np.array([3.0, 4.0])
    kernel = EMIT(program(("t0", "neg", "x"), inputs=("x", "y"), results=("t0", "t0", "x", "y", 7)))
    results = kernel(x, y)
    expected = [-x + 0 * y, -x + 0 * y, x + 0 * y, y + 0 * x, np.full((2, 2), 7.0)]
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert not np.shares_memory(found, x) and not np.shares_memory(found, y)
    same = kernel(x, x)
    assert not any(np.shares_memory(a, b) for i, a in enumerate(same) for b in same[:i])


def test_comparisons_return_bool_and_conditions_choose():
    x = np.array([-1.0, 2.0], "float16")
    assert EMIT(program(("t0", "gt", "x", 0)))(x).dtype == bool
    made = program(("t0", "where", "condition", "x", 9), inputs=("condition", "x"))
    assert EMIT(made)(np.array([True, False]), x).tolist() == [-1.0, 9.0]


def test_no_warning_is_told_of():
    made = program(("t0", "exp", "x"), ("t1", "sub", "t0", "t0"), ("t2", "mul", "t1", 1e39))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in ("float16", "float32", "float64"):
            assert np.isnan(EMIT(made)(np.array([1000.0], dtype))).all()


def test_changing_numbers_do_not_fill_the_memory():
    kernel, x = EMIT(AXPY), np.array([1], "int64")
    for n in range(3 * arrays_math.KEPT):
        assert kernel(x, n, x).tolist() == [n + 1]
    plans = next(c.cell_contents for c in kernel.__closure__ if isinstance(c.cell_contents, arrays_math.Plans))
    assert len(plans._plans) <= arrays_math.KEPT and len(plans._constants) <= arrays_math.KEPT


def test_a_backend_gets_all_formulas_with_it():
    x = tp.tensor([-1.0, 3.0], device="loopback")
    assert tp.square(x).tolist() == [1.0, 9.0]
    assert "emitted by tensorplay_composite.arrays.math.emitter" in str(tp.explain("silu(float32[2] loopback)"))
