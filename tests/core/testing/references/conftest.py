"""Calls of the contract's operators as plain arrays, and the comparison of a reference with a function of NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.testing.references import UNSPECIFIED, Array, reference
from tensorplay_core.testing.sample_specs import Named, TensorSpec
from tensorplay_core.testing.samples import samples

OPERATORS = {op.schema.base_name: op for op in CodegenContext.load().contract.functions}
DTYPES = ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
WIDE = {"f": "float64", "c": "complex128"}
RULES = {
    "same": lambda dtype: dtype,
    "bool": lambda dtype: "bool",
    "float": lambda dtype: "float32" if np.dtype(numpy_name(dtype)).kind in "biu" else dtype,
    "real": lambda dtype: {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype),
    "index": lambda dtype: "int64",
    "sum": lambda dtype: "int64" if np.dtype(numpy_name(dtype)).kind in "biu" else dtype,
}


def numpy_name(dtype):
    return "float32" if dtype == "bfloat16" else dtype


def plain(value):
    """A sample's argument as a reference takes it."""
    if isinstance(value, TensorSpec):
        flat = np.ravel(np.array(value.data, object)).tolist() if 0 not in value.shape else []
        return Array(value.shape, flat, value.dtype)
    if isinstance(value, Named):
        return value.name
    return [plain(item) for item in value] if isinstance(value, list) else value


def wide(value):
    """An argument as NumPy takes it: integers as they are, floats as float64, so that nothing is rounded twice."""
    if isinstance(value, Array):
        array = np.array(value.data, numpy_name(value.dtype)).reshape(value.shape)
        return array.astype(WIDE.get(array.dtype.kind, array.dtype))
    return [wide(item) for item in value] if isinstance(value, list) else value


def calls(name, dtype, seeds=(0, 1)):
    """Yields (label, args, kwargs) of an operator's samples."""
    for seed in seeds:
        for sample in samples(OPERATORS[name], dtype=dtype, seed=seed):
            kwargs = {key: plain(value) for key, value in sample.kwargs.items() if key != "device"}
            yield f"{name} {dtype} {sample.name}", [*map(plain, sample.args)], kwargs


def assert_same(actual, expected, label, rtol=4e-15, atol=0.0):
    """Compares an Array with what NumPy says; complex numbers that are not finite only in being so."""
    assert actual.shape == expected.shape, label
    for a, e in itertools.zip_longest(actual.data, np.ravel(expected).tolist()):
        if a is UNSPECIFIED:
            continue
        if isinstance(a, complex) and not np.isfinite(e):
            assert not np.isfinite(a), (label, a, e)
        elif a != e and not (a != a and e != e):
            assert abs(a - e) <= rtol * abs(e) + atol, (label, a, e)


@pytest.fixture
def against():
    """Returns what compares a reference with a function of NumPy on the operator's samples."""

    def compare(name, function, rule="same", dtypes=DTYPES, **tolerances):
        count = 0
        for dtype in dtypes:
            for label, args, kwargs in calls(name, dtype):
                results = reference(name)(*args, **kwargs)
                with np.errstate(all="ignore"):
                    expected = function(*map(wide, args), **{key: wide(value) for key, value in kwargs.items()})
                expected = expected if isinstance(expected, tuple) else (expected,)
                if rule is not None:
                    wanted = kwargs.get("dtype") or (rule(dtype) if callable(rule) else RULES[rule](dtype))
                    assert results[0].dtype == wanted, label
                for actual, right in zip(results, expected, strict=True):
                    assert_same(actual, np.asarray(right), label, **tolerances)
                    count += 1
        assert count, f"{name} has no samples of {dtypes}"

    return compare


@pytest.fixture
def contract():
    """The operators of the contract by name."""
    return OPERATORS


@pytest.fixture
def draw():
    """Returns what draws an Array: numbers of every size, half of them near 1, of both signs."""

    def random(shape, dtype, seed=0, low=-12, high=6):
        rng = np.random.default_rng(seed)

        def numbers():
            sizes = np.exp2(rng.uniform(low, high, shape)) * rng.choice((-1, 1), shape)
            return np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), sizes)

        values = numbers() + 1j * numbers() if dtype.startswith("complex") else numbers()
        return Array(tuple(shape), np.ravel(values).tolist(), "complex128").cast(dtype)

    return random
