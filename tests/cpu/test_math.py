"""The CPU's emitter: the values of the formula whatever the size, layout and dtype, at the cost of what it calls."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplay as tp
from tensorplay_composite.arrays import emitter as array_emitter
from tensorplay_composite.arrays import kernels
from tensorplay_composite.operators.math import emit as interpreter
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import DTypeError
from tensorplay_core.ops.arguments import bind
from tensorplay_core.testing.samples import KINDS, samples
from tensorplay_core.types.program import Program
from tensorplay_cpu import blocks
from tensorplay_cpu import math as cpu_math
from tensorplay_cpu.kernels import DEVICE, cpu_kernels
from tensorplay_cpu.pointwise import BLOCK, FEW

KERNELS = cpu_kernels()
EMIT = cpu_math.emitter(KERNELS)
BF16 = DEVICE.dtypes["bfloat16"]


def program(*steps, inputs=("x",), keywords=(), numbers=(), scalar_steps=(), results=None):
    return Program(inputs, keywords, numbers, scalar_steps, steps, results or (steps[-1][0],))


SILU = program(("t0", "sigmoid", "x"), ("t1", "mul", "x", "t0"))
CUBIC = program(("t0", "mul", "x", "x"), ("t1", "mul", "t0", "x"), ("t2", "sub", "t1", "t0"), ("t3", "abs", "t2"))
LEAKY = program(
    ("t0", "gt", "x", 0), ("t1", "mul", "x", "n"), ("t2", "where", "t0", "x", "t1"), inputs=("x", "n"), numbers=("n",)
)
AXPY = program(
    ("t0", "mul", "s0", "x"),
    ("t1", "add", "t0", "y"),
    inputs=("x", "n", "y"),
    keywords=(("alpha", 1),),
    numbers=("n", "alpha"),
    scalar_steps=(("s0", "mul", "n", "alpha"),),
)
SIZES = [0, 1, FEW, FEW + 1, 1000, BLOCK, BLOCK + 1, 3 * BLOCK + 5]


def cubic(x):
    return np.abs(x * x * x - x * x)


# ---------------------------------------------------------------------------------------------------- sizes and layouts


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "complex64"])
@pytest.mark.parametrize("size", SIZES)
def test_every_size_gives_the_formula(size, dtype):
    x = np.random.default_rng(size).integers(-9, 9, size).astype(dtype)
    kernel, expected = EMIT(CUBIC), cubic(x)
    for _ in range(2):
        found = kernel(x)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_zero_dims(dtype):
    x = np.array(-1.5, DEVICE.dtypes[dtype])
    found = np.asarray(EMIT(CUBIC)(x))
    assert found.shape == () and found.dtype == x.dtype and float(found) == 5.625


@pytest.mark.parametrize("limit", [4, 50, BLOCK])
@pytest.mark.parametrize("few", [0, 10**9])
def test_operands_broadcast(few, limit, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", limit)
    monkeypatch.setattr(cpu_math, "FEW", few)
    x, y = np.arange(5.0).reshape(5, 1), np.arange(14.0).reshape(7, 2).T[:1]
    kernel = EMIT(AXPY)
    for a, b in ((x, y), (y, x), (x, np.array(2.0)), (np.array([[3.0]]), y), (x[:0], y)):
        for _ in range(2):
            np.testing.assert_array_equal(kernel(a, 2, b), 2 * a + b)


def test_silu_has_the_relative_accuracy_of_float32_far_out():
    x = np.linspace(-100, 100, 2 * BLOCK).astype("float32")
    exact = x.astype("float64") / (1 + np.exp(-x.astype("float64")))
    normal = np.abs(exact / x) > np.finfo("float32").tiny  # the logistic function, a factor, is no subnormal number
    for values in (EMIT(SILU)(x), np.concatenate([EMIT(SILU)(part) for part in np.split(x, 2 * BLOCK // FEW)])):
        np.testing.assert_allclose(values[normal], exact[normal], rtol=6e-7)


# --------------------------------------------------------------------------------------------------- dtypes and numbers


@pytest.mark.parametrize("size", [5, 1000, BLOCK + 3])
@pytest.mark.parametrize("native", [np.dtype("float16"), BF16], ids=str)
def test_half_precisions_are_rounded_once(native, size):
    x = np.linspace(-30, 300, size).astype(native)
    wide = x.astype("float32")
    found = EMIT(CUBIC)(x)
    assert found.dtype == native
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, cubic(wide).astype(native))


@pytest.mark.parametrize("size", [4, 1000])
def test_numbers_are_weak_and_told_apart(size):
    kernel = EMIT(LEAKY)
    for dtype in ("float32", "float64"):
        x = -np.ones(size, dtype)
        for n in (0.5, 0.25, 2, True, 0.0, -0.0, 0.5):
            found = kernel(x, n)
            assert found.dtype == dtype and (found == -float(n)).all()
            assert np.signbit(found[0]) == np.signbit(-np.float64(n)), n
    assert np.isnan(kernel(x, float("nan"))).all() and np.isposinf(kernel(x, float("-inf"))).all()


@pytest.mark.parametrize("size", [4, 1000])
def test_integers_wrap_and_refuse_floats(size):
    kernel, x = EMIT(AXPY), np.full(size, 100, "int8")
    assert (kernel(x, 2, x) == 300 - 256).all() and (kernel(x, 258, x) == 300 - 256).all()
    with pytest.raises(DTypeError, match=r"s0 is 0\.5, and int8 tensors"):
        kernel(x, 0.5, x)
    with pytest.raises(DTypeError, match="float32 tensors"):
        kernel(x.astype("float32"), 1j, x)
    with pytest.raises(TypeError):
        kernel(x.astype("float32"), "1", x)


def test_keywords_are_honoured_beside_the_default_on_the_fast_path():
    kernel, x = EMIT(AXPY), np.arange(4, dtype="float32")
    for _ in range(2):
        assert kernel(x, 2, x).tolist() == [0, 3, 6, 9]
        assert kernel(x, 2, x, alpha=3).tolist() == [0, 7, 14, 21]
        assert kernel(x, 2, x, alpha=0.5).tolist() == [0, 2, 4, 6]


def test_complex_numbers_first_do_not_spoil_the_kernel():
    kernel = EMIT(AXPY)
    z, x = np.array([1j]), np.array([2.0], "float32")
    assert kernel(z, 1j, z)[0] == -1 + 1j and kernel(x, 3, x)[0] == 8 and kernel(z, 2, z)[0] == 3j


@pytest.mark.parametrize("size", [3, 1000])
def test_conditions_need_not_be_bool_arrays(size):
    made = program(("t0", "where", "condition", "x", -1), inputs=("condition", "x"))
    kernel, x = EMIT(made), np.arange(size, dtype="float32")
    for condition in (x > 1, (x > 1).astype("int32") * 2, (x > 1) * 0.5):
        for _ in range(2):
            np.testing.assert_array_equal(kernel(condition, x), np.where(x > 1, x, -1))


@pytest.mark.parametrize("size", [3, 1000])
def test_comparisons_return_bool_and_mix_with_numbers(size):
    x = np.linspace(-2, 2, size).astype("float16")
    assert EMIT(program(("t0", "ge", "x", 0.5)))(x).tolist() == (x >= 0.5).tolist()
    mixed = program(("t0", "gt", "x", 0), ("t1", "mul", "t0", 0.1), ("t2", "exp", "t0"), ("t3", "add", "t1", "t2"))
    found = EMIT(mixed)(x.astype("float64"))
    np.testing.assert_allclose(found, np.where(x > 0, 0.1 + np.e, 1.0), rtol=1e-15)


def test_results_are_several_each_with_memory_of_its_own():
    made = program(("t0", "neg", "x"), ("t1", "exp", "t0"), inputs=("x", "y"), results=("t0", "t1", "t0", "y", 7))
    kernel = EMIT(made)
    for shape in ((3, 1), (300, 4)):
        x, y = np.random.default_rng(0).standard_normal((2, *shape)).astype("float32")
        results = kernel(x, y)
        for found, wanted in zip(results, (-x, np.exp(-x), -x, y, np.full(shape, 7)), strict=True):
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == "float32" and not any(np.shares_memory(found, a) for a in (x, y))
        assert not any(np.shares_memory(a, b) for i, a in enumerate(results) for b in results[:i])


@pytest.mark.parametrize("size", [3, 1000])
def test_a_step_may_take_a_number_that_stays_one(size):
    def leaky_relu(x, slope):
        assert slope.__class__ is float
        return np.where(x > 0, x, x * np.asarray(slope, x.dtype))

    emit = cpu_math.emitter({**KERNELS, "leaky_relu": leaky_relu})
    made = program(("t0", "leaky_relu", "x", "n"), ("t1", "leaky_relu", "t0", 0.5), inputs=("x", "n"), numbers=("n",))
    kernel, x = emit(made), -np.ones(size, "float32")
    for n in (0.5, 0.25, 0.5):
        assert (kernel(x, n) == -n / 2).all()
        assert (array_emitter(np, {"leaky_relu": leaky_relu})(made)(x, n) == -n / 2).all()


def test_what_it_cannot_do_it_leaves_to_composite():
    assert cpu_math.emitter({"mul": np.multiply})(SILU) is None
    assert EMIT(program(("t0", "mul", "n", 2), inputs=("n",), numbers=("n",))) is None


# --------------------------------------------------------------------------------------- registers, threads and silence


EXACT = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.absolute,
    "maximum": np.maximum, "minimum": np.minimum, "sqrt": np.sqrt, "sgn": np.sign,
    "relu": lambda x: np.maximum(x, np.float32(0)), "where": np.where, "gt": np.greater, "le": np.less_equal,
}  # fmt: skip
"""Operators whose value does not depend on which loop of NumPy computes it."""


ARITY = {name: 3 if name == "where" else getattr(function, "nin", 1) for name, function in EXACT.items()}


@st.composite
def programs(draw):
    known, conditions, steps = ["x", "y"], [], []
    for i in range(draw(st.integers(1, 12))):
        operator = draw(st.sampled_from([name for name in EXACT if name != "where" or conditions]))
        first = st.sampled_from(conditions if operator == "where" else known)
        others = st.sampled_from([*known, *(conditions if operator == "mul" else []), 3, 0.5, 0, -0.0])
        operands = [draw(first), *[draw(others) for _ in range(ARITY[operator] - 1)]]
        steps.append((f"t{i}", operator, *operands))
        (conditions if operator in ("gt", "le") else known).append(f"t{i}")
    results = draw(st.lists(st.sampled_from([*known, *conditions]), min_size=1, max_size=3))
    return Program(("x", "y"), (), (), (), tuple(steps), tuple(results))


def by_steps(made, x, y):
    values = {"x": x, "y": y}
    for name, operator, *operands in made.steps:
        values[name] = EXACT[operator](*[values[o] if isinstance(o, str) else np.float32(o) for o in operands])
    return tuple([np.broadcast_to(values[r], np.broadcast(x, y).shape) for r in made.results])


@settings(deadline=None, max_examples=150)
@given(programs(), st.sampled_from([((3, 4), (3, 4)), ((5, 1), (1, 3)), ((7,), ()), ((4, 3), (3,))]))
def test_registers_are_never_mixed_up(made, shapes):
    rng = np.random.default_rng(0)
    x, y = (np.asarray(rng.standard_normal(shape), "float32") for shape in shapes)
    with np.errstate(all="ignore"):
        expected = by_steps(made, x, y)
    before = blocks.BLOCK, cpu_math.FEW
    for blocks.BLOCK, cpu_math.FEW in ((5, 0), (64, 0), (64, 256)):
        try:
            kernel = EMIT(made)
            for _ in range(2):
                found = kernel(x, y)
                for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
                    assert np.asarray(a).dtype == b.dtype
                    np.testing.assert_array_equal(a, b, err_msg=str(made))
                    if not made.operators() & {"maximum", "minimum", "relu"}:  # which zero is larger is left open
                        np.testing.assert_array_equal(np.signbit(a), np.signbit(b), err_msg=str(made))
        finally:
            blocks.BLOCK, cpu_math.FEW = before


def test_threads_may_call_it_first_with_different_numbers():
    x = -np.ones(4, "float32")
    for _ in range(20):
        kernel, wrong, barrier = EMIT(LEAKY), [], threading.Barrier(8)

        def work(n, kernel=kernel, wrong=wrong, barrier=barrier):
            barrier.wait()
            for _ in range(50):
                if kernel(x, n)[0] != -n:
                    wrong.append(n)

        threads = [threading.Thread(target=work, args=(n / 8,)) for n in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [3, 1000])
def test_no_warning_is_told_of(size, dtype):
    made = program(("t0", "exp", "x"), ("t1", "sub", "t0", "t0"), ("t2", "mul", "t0", 1e39), results=("t1", "t2"))
    x = np.full(size, 1000.0, DEVICE.dtypes[dtype])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            nan, infinity = EMIT(made)(x)
            assert np.isnan(nan.astype("float64")).all() and np.isinf(infinity.astype("float64")).all()
            assert np.isinf(EMIT(LEAKY)(-x, 1e39).astype("float64")).all() or dtype == "float64"


def test_changing_numbers_do_not_fill_the_memory():
    kernel, x = EMIT(LEAKY), -np.ones(2, "int64")
    emitted = kernel.__globals__["general"].__self__
    for n in range(3 * cpu_math.KEPT):
        assert kernel(x, n).tolist() == [-n, -n]
    assert len(emitted._forms) <= cpu_math.KEPT and len(emitted._calls) <= cpu_math.KEPT


# --------------------------------------------------------------------------------------------------- through the front


@pytest.mark.parametrize("dtype", [tp.float16, tp.bfloat16, tp.float32, tp.float64])
@pytest.mark.parametrize("shape", [(), (5,), (300, 400)])
def test_in_place_and_out_give_the_same_bits(shape, dtype):
    x = tp.tensor(np.random.default_rng(0).standard_normal(shape) * 5, dtype=dtype)
    expected = tp.silu(x).tolist()
    out = tp.zeros(shape, dtype=dtype)
    assert tp.silu(x, out=out) is out and out.tolist() == expected
    itself = x.clone()
    assert tp.silu(itself, out=itself) is itself and itself.tolist() == expected
    itself = x.clone()
    assert itself.silu_() is itself and itself.tolist() == expected
    for _ in range(2):  # a view of what is written to
        itself = x.clone()
        if shape:
            itself[::2].silu_()
            assert itself[::2].tolist() == expected[::2] and itself[1::2].tolist() == x[1::2].tolist()


MATH = {op.display_name: op for op in REGISTRY.operators.values() if op.math is not None and op.namespace == "tp"}
REFUSED = {("bool", "numeric"), ("complex64", "real")}  # by the tags of an operator
TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14, "complex64": 2e-6}


def plain(value):
    return value.to(tp.complex128 if value.dtype.is_complex else tp.float64).cpu().numpy()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", MATH)
def test_all_emitters_agree_on_every_formula(name, dtype):
    op = MATH[name]
    ours, general, steps = EMIT(op.math), array_emitter(np, kernels(np))(op.math), interpreter(op.math)
    count = 0
    for sample in samples(op, dtype=dtype):
        args, kwargs = bind(op, *sample.build(tp))
        expected = op.function(*args, **kwargs)
        operands = [
            tp.tensor(a, dtype=None if expected.dtype is tp.bool else expected.dtype)
            if argument.type.is_tensor and not isinstance(a, tp.Tensor)
            else a
            for a, argument in zip(args, op.schema.positional, strict=True)
        ]  # a number in the place of a tensor is a tensor of its own before a formula sees it
        tensors = [
            a.to(expected.dtype) if isinstance(a, tp.Tensor) and expected.dtype.is_inexact else a for a in operands
        ]
        arrays = [a.numpy() if isinstance(a, tp.Tensor) else a for a in tensors]
        found = steps(*tensors, **kwargs)
        assert found.dtype is expected.dtype and found.shape == expected.shape, sample.name
        results = [plain(found), np.asarray(ours(*arrays, **kwargs))]
        if dtype != "bfloat16":  # NumPy alone has none
            results.append(np.asarray(general(*arrays, **kwargs)))
            assert results[-1].dtype == results[1].dtype
        for result in results:
            np.testing.assert_allclose(
                result.astype(plain(expected).dtype), plain(expected), rtol=TOLERANCES.get(dtype, 2e-6), atol=1e-30
            )
        count += 1
    takes = getattr(tp, dtype).kind in KINDS.get(name, "buifc") and not any((dtype, tag) in REFUSED for tag in op.tags)
    assert bool(count) is takes
