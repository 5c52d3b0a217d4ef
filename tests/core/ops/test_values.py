"""The values of every operator against NumPy, over all dtypes and samples, on the cpu and on the loopback device.

``numpy_references*.py`` hold one independent definition per operator; an operator that is not in it fails. A reference
computes in float64 or complex128 where the dtype is inexact, and its result is rounded once, to the dtype that the
contract promises.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.testing.samples import samples

DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
DEVICES = ("cpu", "loopback")
COUNTS: Counter[str] = Counter()

OPERATORS = {op.display_name: op for op in REGISTRY.operators.values() if op.namespace == "tp"}
TOLERANCES: dict[tuple[str, str], dict[str, float]] = {
    # The product is rounded before the bias is added: an error of the product's size, not of the result's.
    ("linear", "float16"): {"rtol": 1e-3, "atol": 1e-2},
    ("linear", "bfloat16"): {"rtol": 1.6e-2, "atol": 6e-2},
}


def _table(path: Path, table: str) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(getattr(module, table, {}))


FILES = sorted(Path(__file__).parent.glob("numpy_references*.py"))
REFERENCES: dict[str, Any] = {n: function for path in FILES for n, function in _table(path, "REFERENCES").items()}
PROMISED: dict[str, Any] = {n: function for path in FILES for n, function in _table(path, "PROMISED").items()}
"""Operators whose results' dtypes no rule says: takes a dtype's name and the arguments, gives one name or several."""
RANDOM = {name for name, op in OPERATORS.items() if "random" in op.tags} | {"empty"}


# ----------------------------------------------------------------------------------------------------------- comparing


def wide(value: Any, op: Operator) -> Any:
    """Returns a value as a reference takes it: an array of a wide dtype, anything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)([wide(v, op) for v in value])
    if not isinstance(value, tp.Tensor):
        return value
    array = np.asarray(value.detach().cpu().numpy())
    if value.dtype.is_complex:
        return array.astype("complex128")
    integral = not value.dtype.is_floating_point
    return array if integral and op.promote != "float" else array.astype("float64")


def promised(op: Operator, dtype: tp.dtype, args: Any, kwargs: Any) -> Any:
    """The dtype of the result, or of each, written down apart from the code that computes it."""
    if op.display_name in PROMISED:
        names = PROMISED[op.display_name](dtype.name, args, kwargs)
        return getattr(tp, names) if isinstance(names, str) else tuple(getattr(tp, name) for name in names)
    if kwargs.get("dtype") is not None:
        return kwargs["dtype"]
    if op.promote == "bool":
        return tp.bool
    if op.promote == "index":
        return tp.int64
    if "creation" in op.tags:
        return tp.float32
    integral = not (dtype.is_floating_point or dtype.is_complex)
    if op.promote == "float" and integral:
        return tp.float32
    if op.promote == "sum" and integral:
        return tp.int64
    if op.promote == "real" and dtype.is_complex:
        return tp.float32 if dtype is tp.complex64 else tp.float64
    return dtype


def as_dtype(array: Any, dtype: tp.dtype) -> np.ndarray:
    native = tp.zeros((), dtype=dtype).numpy().dtype
    array = np.asarray(array)
    if array.dtype.kind == "c" and not dtype.is_complex:
        array = array.real
    return array.astype(native)


def compare(op: Operator, actual: Any, expected: Any, dtype: Any, place: str) -> None:
    results = actual if isinstance(actual, tuple) else (actual,)
    references = expected if isinstance(expected, tuple) else (expected,)
    for i, (found, wanted) in enumerate(zip(results, references, strict=True)):
        own = dtype[i] if isinstance(dtype, tuple) else dtype
        wanted = as_dtype(wanted, own)
        try:
            if op.display_name in RANDOM:
                assert found.shape == wanted.shape
                assert found.dtype.name == wanted.dtype.name
                if op.display_name == "randperm":
                    assert sorted(found.tolist()) == wanted.tolist()
                if op.display_name == "rand" and not own.is_complex:
                    assert all(0 <= x < 1 for x in found.reshape(-1).tolist())
            else:
                close = TOLERANCES.get((op.display_name, own.name), {})
                tp.testing.assert_close(found, wanted, check_device=False, **close)
        except AssertionError as error:
            raise AssertionError(f"{place}: {error}") from None
        COUNTS["elements compared"] += found.numel()
    COUNTS["calls compared with NumPy"] += 1


def apply(op: Operator, args: Any, kwargs: Any) -> Any:
    return op.function(*args, **kwargs)


def every_sample(op: Operator, device: str) -> Any:
    for name in DTYPES:
        if device != "cpu" and name == "bfloat16":
            continue
        for sample in samples(op, dtype=name):
            args, kwargs = sample.build(tp, device)
            yield f"{op.display_name}, {name}, {device}, sample {sample.name!r}", getattr(tp, name), args, kwargs


def own_memory(op: Operator) -> bool:
    return all(a.alias is None for a in op.schema.arguments) and op.display_name != "conj"


def tensors_of(values: Any) -> Any:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, tp.Tensor):
            yield value


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.functional is None])
def test_every_operator_agrees_with_numpy(name, device):
    op = OPERATORS[name]
    assert name in REFERENCES, f"{name} has no NumPy reference: add one to REFERENCES"
    seen = 0
    for place, dtype, args, kwargs in every_sample(op, device):
        plain_args, plain_kwargs = wide(args, op), {k: wide(v, op) for k, v in kwargs.items()}
        before = [t.numpy(force=True).copy() for t in tensors_of(args)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = REFERENCES[name](*plain_args, **plain_kwargs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            actual = apply(op, args, kwargs)
        compare(op, actual, expected, promised(op, dtype, args, kwargs), place)
        if own_memory(op):
            for result in tensors_of((actual,)):
                assert not any(np.shares_memory(result._array, t._array) for t in tensors_of(args)), place
        if not op.is_inplace:
            for t, old in zip(tensors_of(args), before, strict=True):
                assert t.numpy(force=True).tobytes() == old.tobytes(), f"{place}: an argument was written to"
        seen += 1
    assert seen > 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.functional is not None])
def test_in_place_variants_agree_with_their_form(name, device):
    op = OPERATORS[name]
    seen = 0
    for place, _, args, kwargs in every_sample(op.functional, device):
        wanted = apply(op.functional, args, kwargs)
        copy = args[0].clone()
        fits = wanted.shape == copy.shape and wanted.dtype is copy.dtype
        version = copy._version_number
        before = copy.tolist()
        try:
            result = apply(op, (copy, *args[1:]), kwargs)
        except (tp.ShapeError, tp.DTypeError):
            assert not fits, place
            assert repr(copy.tolist()) == repr(before), f"{place}: refused, and yet something was written"
            assert copy._version_number == version, place
            continue
        assert result is copy, place
        assert copy._version_number == version + 1, place
        tp.testing.assert_close(copy, wanted if fits else wanted.to(copy.dtype), rtol=0, atol=0)
        seen += 1
    assert seen > 5
    COUNTS["in-place calls compared"] += seen


def has_out(op: Operator) -> bool:
    return op.functional is None and "out" in inspect.signature(op.function).parameters


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if has_out(op) and name not in RANDOM])
def test_out_agrees_with_the_functional_form(name, device):
    op = OPERATORS[name]
    seen = 0
    for place, _, args, kwargs in every_sample(op, device):
        wanted = apply(op, args, kwargs)
        out = tp.zeros(wanted.shape, dtype=wanted.dtype, device=device)
        version = out._version_number
        assert apply(op, args, {**kwargs, "out": out}) is out, place
        tp.testing.assert_close(out, wanted, rtol=0, atol=0)
        assert out._version_number == version + 1, place
        seen += 1
        wrong = tp.zeros((*wanted.shape, 2), dtype=wanted.dtype, device=device)
        with pytest.raises(tp.ShapeError, match="out has shape"):
            apply(op, args, {**kwargs, "out": wrong})
        assert not any(np.asarray(wrong.numpy(force=True)).reshape(-1)), place
        if wanted.dtype.is_floating_point or wanted.dtype.is_complex:
            wrong = tp.zeros(wanted.shape, dtype=tp.int64, device=device)
            with pytest.raises(tp.DTypeError, match="int64"):
                apply(op, args, {**kwargs, "out": wrong})
            assert not any(np.asarray(wrong.numpy(force=True)).reshape(-1)), place
    assert seen > 5
    COUNTS["out= calls compared"] += seen


def test_out_of_a_wider_dtype_takes_the_result():
    out = tp.zeros(2, dtype=tp.float64)
    tp.add(tp.tensor([1, 2]), tp.tensor([3, 4]), out=out)
    assert out.tolist() == [4.0, 6.0]
    assert out.dtype is tp.float64


def test_out_may_be_an_input():
    x = tp.tensor([1.0, 2.0])
    assert tp.mul(x, x, out=x) is x
    assert x.tolist() == [1.0, 4.0]


def test_out_records_no_gradient():
    x = tp.ones(2, requires_grad=True)
    with pytest.raises(tp.AutogradError, match="out= cannot record a gradient"):
        tp.exp(x, out=tp.zeros(2))
    with tp.no_grad():
        assert tp.exp(x, out=tp.zeros(2)).requires_grad is False


def test_every_reference_belongs_to_an_operator():
    assert set(REFERENCES) <= set(OPERATORS)


def test_tails_keep_their_relative_accuracy():
    for value in (-700.0, -40.0, -1.0, 0.0, 1.0, 40.0, 700.0):
        expected = 1 / (1 + math.exp(-value)) if value > 0 else math.exp(value) / (1 + math.exp(value))
        tp.testing.assert_close(tp.sigmoid(tp.tensor(value, dtype=tp.float64)).item(), expected, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precisions_accumulate_in_float32(name):
    dtype = getattr(tp, name)
    x = tp.ones(5000, dtype=dtype)
    assert x.sum().item() == tp.tensor(5000.0, dtype=dtype).item()
    assert x.mean().item() == 1.0
    assert (x @ x).item() == tp.tensor(5000.0, dtype=dtype).item()


def test_report(capsys):
    """Prints what was compared; the last test of the file."""
    with capsys.disabled():
        print(f"\nvalues: {', '.join(f'{name}: {n}' for name, n in sorted(COUNTS.items()))}")
