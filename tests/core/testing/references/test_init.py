"""Every operator of the contract has a reference; in-place variants follow; budgets find what computes too roughly."""

from __future__ import annotations

import subprocess
import sys
import time

import ml_dtypes
import numpy as np
import pytest

from tensorplay_core.testing.references import PROPERTIES, Array, names, reference

ELEMENTARY = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sqrt", "square", "reciprocal", "abs")
NUMPY = {name: getattr(np, name) for name in ELEMENTARY}
NUMPY |= {"rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x))}
NUMPY |= {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(x))),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}
POSITIVE = {"log", "sqrt", "rsqrt", "log1p"}


def test_every_operator_of_the_contract_has_a_reference(contract):
    missing = [name for name in contract if reference(name) is None and name not in PROPERTIES]
    assert not missing, (
        f"no reference in tensorplay_core.testing.references for {', '.join(missing)}: "
        "add the right result, in Python's own arithmetic, and its error budget"
    )
    assert {name.removesuffix("_") for name in names()} <= {name.removesuffix("_") for name in contract}
    assert not PROPERTIES - set(contract)
    inplace = [name for name, op in contract.items() if op.inplace]
    assert len(inplace) > 20
    assert all(reference(f"{name}_") for name in inplace)


def test_there_is_none_for_what_nobody_knows():
    assert reference("no_such_operator") is None
    assert reference("rand") is None
    assert reference("_") is None


def test_in_place_results_have_the_dtype_of_what_is_written_to():
    x = Array((2,), [1.0, 2.0], "float16")
    result = reference("add_")(x, Array((), [0.1], "float32"))[0]
    assert (result.dtype, result.shape) == ("float16", (2,))
    wanted = [float(np.float16(np.float32(value) + np.float32(0.1))) for value in x.data]
    assert not list(reference("add_").mismatches(Array((2,), wanted, "float16"), result))
    assert list(reference("add_").mismatches(Array((2,), [wanted[0], wanted[1] * 1.002], "float16"), result))
    assert reference("mul_")(Array((1,), [100], "int8"), 3)[0] == Array((1,), [44], "int8")
    assert x.data == [1.0, 2.0]
    with pytest.raises(TypeError, match="cannot be written"):
        reference("div_")(Array((1,), [1], "int8"), 2)
    with pytest.raises(ValueError, match="cannot be written"):
        reference("add_")(Array((1,), [1], "int8"), Array((2,), [1, 2], "int8"))


def test_references_leave_their_arguments_alone(contract):
    x, y = Array((2, 2), [4.0, 1.0, 2.0, 3.0], "float32"), Array((2, 2), [1.0, 2.0, 3.0, 4.0], "float32")
    before = (list(x.data), list(y.data))
    for name in ("add", "exp", "reshape", "slice", "clone", "sum", "matmul", "softmax", "copy_", "fill_", "elu_"):
        second = {"add": y, "matmul": y, "copy_": y, "reshape": (4,), "softmax": 0, "fill_": 7}.get(name)
        result = reference(name)(*([x] if second is None else [x, second]))[0]
        result.data[0] = "written to"
    assert (x.data, y.data) == before


def numbers(name, draw, dtype):
    x = draw((3000,), dtype, seed=4, low=-8, high=4)
    return Array(x.shape, [abs(v) for v in x.data], dtype) if name in POSITIVE else x


@pytest.mark.parametrize("name", NUMPY)
def test_numpys_float32_is_within_the_budget(draw, name):
    x = numbers(name, draw, "float32")
    with np.errstate(all="ignore"):
        found = NUMPY[name](np.array(x.data, "float32"))
    expected = reference(name)(x)[0]
    wrong = list(reference(name).mismatches(Array.read(found), expected))
    assert not wrong, wrong[:3]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NUMPY)
def test_halves_that_compute_in_float32_and_round_once_are_right(draw, name, dtype):
    x = numbers(name, draw, dtype)
    native = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    with np.errstate(all="ignore"):
        found = NUMPY[name](np.array(x.data, "float32")).astype(native).astype("float64").tolist()
    wrong = list(reference(name).mismatches(Array(x.shape, found, dtype), reference(name)(x)[0]))
    assert not wrong, wrong[:3]


@pytest.mark.parametrize("name", [*NUMPY, "mish", "selu", "leaky_relu", "hardsigmoid", "neg", "relu"])
@pytest.mark.parametrize(("dtype", "lower"), [("float32", "float16"), ("float64", "float32")])
def test_fewer_digits_are_found(draw, name, dtype, lower):
    """A kernel that computes, or only takes its input, in the next lower precision is wrong nearly everywhere."""
    x = numbers(name, draw, dtype)
    expected = reference(name)(x)[0]
    different = [v for v in expected.data if v not in (0.0, 1.0, -1.0)]
    rough = expected.cast(lower).cast(dtype)
    wrong = list(reference(name).mismatches(rough, expected))
    assert len(wrong) > 0.8 * len(different) > 300
    from_rough_input = reference(name)(x.cast(lower).cast(dtype))[0].rounded()
    assert len(list(reference(name).mismatches(from_rough_input, expected))) > 0.25 * len(different)


@pytest.mark.parametrize("name", ["mul", "div", "pow", *ELEMENTARY, "sigmoid", "rsqrt", "sgn"])
def test_a_complex_kernel_of_fewer_digits_is_found(draw, name):
    """Near poles too, where a slack allows for what the condition of the function makes of rounding errors."""
    args = [draw((2000,), "complex128", seed, -3, 1) for seed in (1, 2)][: 2 if name in ("mul", "div", "pow") else 1]
    expected = reference(name)(*args)[0]
    assert not list(reference(name).mismatches(expected.rounded(), expected))
    rough = expected.cast("float32" if name == "abs" else "complex64").cast(expected.dtype)
    assert len(list(reference(name).mismatches(rough, expected))) > 1900


def test_a_large_call_takes_no_time_to_speak_of(draw):
    """0.1 s on a machine of 2024; the limit is that of a slow one that does other things too."""
    x, y = draw((100_000,), "float32", 1), draw((100_000,), "float32", 2)
    start = time.process_time()
    for name, args in (("add", (x, y)), ("exp", (x,)), ("silu", (x,)), ("where", (Array((), [True], "bool"), x, y))):
        expected = reference(name)(*args)[0]
        assert not list(reference(name).mismatches(expected.rounded(), expected))
    assert time.process_time() - start < 4


def test_no_array_library_is_imported():
    program = (
        "import sys; from tensorplay_core.testing.references import Array, reference\n"
        "reference('matmul')(Array.of([[1.0]], 'float32'), Array.of([2.0], 'float32'))\n"
        "print([m for m in ('numpy', 'ml_dtypes', 'tensorplay_cpu') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"
