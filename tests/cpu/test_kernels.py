"""What the CPU's own kernels add: the values of the general ones, and raw ufuncs where nothing is to be added."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import tensorplay  # noqa: F401 - registers the operators
from tensorplay_composite.arrays import kernels
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_cpu.kernels import DEVICE, cpu_kernels

GENERAL, CPU = kernels(np), cpu_kernels()


def test_ufuncs_are_registered_raw():
    raw = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "exp": np.exp, "log": np.log}
    raw |= {"sqrt": np.sqrt, "tanh": np.tanh, "neg": np.negative, "abs": np.absolute, "eq": np.equal, "lt": np.less}
    for name, ufunc in raw.items():
        assert CPU[name] is ufunc


def test_every_replacement_replaces_something():
    assert set(GENERAL) <= set(CPU)
    operators = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
    for name in set(CPU) - set(GENERAL):  # what has a formula, or a kernel in other operators
        assert operators[name].math is not None or operators[name].composite == "explicit", name


UNARY = ["relu", "sigmoid", "sgn", "clone", "conj", "real", "sum", "mean", "max", "argmax"]
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "strided": lambda x: x[::2, ::-1],
    "expanded": lambda x: np.broadcast_to(x[:, :1], (6, 4)),
    "large": lambda x: np.tile(x, (70, 300)),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_agrees_with_the_general_kernels(dtype, layout):
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(DEVICE.dtypes[dtype])
    x[0, 1] = np.nan
    x = LAYOUTS[layout](x)
    tolerance = {"float64": 1e-12, "float32": 1e-5}.get(dtype, 1e-2)

    def same(name, *args):
        mine, theirs = CPU[name](*args), GENERAL[name](*args)
        for a, b in zip(*([r] if not isinstance(r, tuple) else r for r in (mine, theirs)), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)
            np.testing.assert_allclose(
                np.asarray(a).astype("float64"), np.asarray(b).astype("float64"), rtol=tolerance, err_msg=name
            )

    for name in UNARY:
        same(name, x)
    for dim in (0, 1, -1):
        for name in ("softmax", "log_softmax", "max.dim", "sum", "mean", "argmax"):
            same(name, x, dim)
    same("matmul", x[:3, :3], x[:3, :3])
    index = np.array([0, 2, 2, -1])
    same("index_backward", x[index], x.shape, [index])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reach", [20.0, 80.0, 800.0], ids=str)
def test_sigmoid_and_gelu_of_a_block_are_right_out_to_where_they_end(dtype, reach):
    """The reference is Python's own ``math``; a block takes another way where some number is far out."""
    x = np.linspace(-reach, reach, 2001).astype(dtype)
    numbers = x.astype("float64").tolist()
    tiny, step = np.finfo(dtype).tiny, np.finfo(dtype).eps
    logistic = [1 / (1 + math.exp(-v)) if v > 0 else math.exp(v) / (1 + math.exp(v)) for v in numbers]
    np.testing.assert_allclose(CPU["sigmoid"](x), logistic, rtol=4 * step, atol=tiny * step)
    normal = [v * math.erfc(-v / math.sqrt(2)) / 2 if v > -38 else -0.0 for v in numbers]
    # The exponent is half a square, so a rounding of x is worth its square of the result, in the reference too.
    wrong = np.abs(CPU["gelu"](x) - np.array(normal))
    assert (wrong <= 2 * (8 + np.minimum(np.square(x.astype("float64")), 1600)) * step * np.abs(normal) + tiny).all()


def test_infinities_and_nan_in_a_block_leave_the_others_alone():
    x = np.linspace(-4, 4, 1000, dtype="float32")
    wild = x.copy()
    wild[[3, 500, 900]] = np.inf, -np.inf, np.nan
    for name, ends in (("sigmoid", [1, 0, np.nan]), ("gelu", [np.inf, 0, np.nan])):
        found, plain = CPU[name](wild), CPU[name](x)
        np.testing.assert_array_equal(found[[3, 500, 900]], ends)
        others = np.isfinite(wild)
        np.testing.assert_allclose(found[others], plain[others], rtol=1e-6)


def test_importing_the_distribution_imports_no_numpy():
    names = "tensorplay_cpu, tensorplay_composite, tensorplay_cuda, tensorplay_loopback"
    code = f"import sys, {names}; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
