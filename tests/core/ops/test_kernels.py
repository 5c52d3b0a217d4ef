"""What happens at a backend key: kernels get arrays, and what they return is never believed unseen.

The hostile kernels are registered over loopback, as a third party's would be.
"""

from __future__ import annotations

import warnings
from contextlib import closing

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import AutogradError, DTypeError, KernelError, ShapeError
from tensorplay_core.testing import force_slow_path

Library = tp.library.Library


def x(*values, dtype=None):
    return tp.tensor(list(values), dtype=dtype or tp.float32, device="loopback")


@pytest.fixture
def hostile():
    with closing(Library("tp", "IMPL", "loopback")) as lib:
        yield lambda op, kernel: lib.impl(op, kernel, override=True)


def raises_shape(a, b):
    raise ValueError("out of tea")


class Odd:
    """Nothing that an array can be made of."""

    def __array__(self, *args, **kwargs):
        raise TypeError("not an array")


BROKEN = {
    "wrong shape": (lambda a, b: (a + b)[:1], r"should have shape \(2,\), it returned \(1,\)"),
    "0-d": (lambda a, b: a[0], r"should have shape \(2,\), it returned \(\)"),
    "a Python scalar": (lambda a, b: 3.0, r"should have shape \(2,\), it returned \(\)"),
    "nothing": (lambda a, b: None, "returned None, not an array"),
    "a wider kind of dtype": (lambda a, b: a + 1j, "should be float32, it returned complex64"),
    "another byte order": (lambda a, b: (a + b).astype(">f4"), "dtype >f4"),
    "text": (lambda a, b: np.array(["p", "q"]), "dtype <U1"),
    "objects": (lambda a, b: np.array([None, None]), "dtype object"),
    "its input": (lambda a, b: a, "shares memory with the argument self"),
    "its other input": (lambda a, b: b, "shares memory with the argument other"),
    "a view of its input": (lambda a, b: a[::-1], "shares memory with the argument self"),
    "no array": (lambda a, b: Odd(), "dtype object|not an array|should have shape"),
    "raises": (raises_shape, "failed on .*ValueError: out of tea"),
    "divides by zero": (lambda a, b: 1 // 0, "ZeroDivisionError"),
    "looks for an index": (lambda a, b: [][5], "list index out of range"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_kernel_that_breaks_a_promise_is_named_with_distribution_and_line(hostile, what):
    kernel, why = BROKEN[what]
    a, b = x(1, 2), x(3, 4)
    hostile("add", kernel)
    for _ in range(3):  # the first call, and those for which a slot could have been filled
        with pytest.raises(KernelError, match=rf"(?s)add: .*{why}") as info:
            a + b
        message = str(info.value)
        assert f"{__file__}:{kernel.__code__.co_firstlineno}" in message
        assert REGISTRY.find("add").table[a._type.page * 32][0].distribution in message
    assert a.tolist() == [1.0, 2.0] and b.tolist() == [3.0, 4.0]


ADAPTED = {
    "a wider dtype": (lambda a, b: (a + b).astype(np.float64), tp.float32),
    "a narrower dtype": (lambda a, b: (a + b).astype(np.float16), tp.float32),
    "a lower kind of dtype": (lambda a, b: (a + b).astype(np.int32), tp.float32),
    "a list": (lambda a, b: (a + b).tolist(), tp.float32),
}


@pytest.mark.parametrize("what", ADAPTED)
def test_a_result_that_can_be_adapted_is_adapted_on_the_fast_path_too(hostile, what):
    kernel, dtype = ADAPTED[what]
    hostile("add", kernel)
    a, b = x(1, 2), x(3, 4)
    for _ in range(3):
        y = a + b
        assert y.dtype is dtype and y.tolist() == [4.0, 6.0]
        assert y._array.dtype == np.float32


def test_a_python_scalar_of_a_0d_result_is_made_an_array(hostile):
    hostile("mul", lambda a, b: float(a * b))
    a = tp.tensor(3.0, device="loopback")
    for _ in range(3):
        y = a * a
        assert y.item() == 9.0 and isinstance(y._array, np.ndarray) and y._array.dtype == np.float32


def test_a_kernel_that_breaks_only_later_is_still_named(hostile):
    calls = []

    def sometimes(a, b):
        calls.append(1)
        if len(calls) > 2:
            raise OSError("cable unplugged")
        return a + b

    hostile("add", sometimes)
    a = x(1, 2)
    a + a, a + a
    with pytest.raises(KernelError, match="OSError: cable unplugged"):
        a + a


def test_errors_of_a_kernel_are_chained_and_interrupts_pass(hostile):
    hostile("add", raises_shape)
    with pytest.raises(KernelError) as info:
        x(1) + x(2)
    assert isinstance(info.value.__cause__, ValueError)

    def interrupted(a, b):
        raise KeyboardInterrupt

    hostile("add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        x(1) + x(2)


def test_a_wrong_number_of_results_is_named(hostile):
    hostile("max.dim", lambda a, dim, keepdim: a.max(dim))
    with pytest.raises(KernelError, match="2 results are promised"):
        tp.max(x(1, 2), 0)


def test_kernels_get_arrays_positionals_in_order_and_native_values(hostile):
    seen = {}

    def kernel(size, value, *, dtype, device):
        seen.update(size=size, value=value, dtype=dtype, device=device)
        return np.full(size, value, dtype)

    hostile("full", kernel)
    y = tp.full((2,), 7, dtype=tp.int16, device="loopback")
    assert y.tolist() == [7, 7] and y.dtype is tp.int16
    assert seen == {"size": (2,), "value": 7, "dtype": np.dtype("int16"), "device": 0}
    seen.clear()
    hostile("cat", lambda arrays, dim: seen.update(arrays=arrays, dim=dim) or np.concatenate(arrays, dim))
    tp.cat([x(1), x(2)], 0)
    assert isinstance(seen["arrays"], list) and all(type(a) is np.ndarray for a in seen["arrays"]) and seen["dim"] == 0


def test_inputs_arrive_in_one_dtype_and_scalars_as_0d_arrays(hostile):
    seen = []
    hostile("add", lambda a, b: seen.append((a.dtype.name, b.dtype.name, b.shape)) or a + b)
    x(1, dtype=tp.int8) + x(2, dtype=tp.float32)
    x(1, dtype=tp.int8) + 300
    x(1, dtype=tp.int8) + 1.5
    assert seen == [("float32", "float32", (1,)), ("int8", "int8", ()), ("float32", "float32", ())]


def test_shapes_are_refused_before_any_kernel_runs(hostile):
    calls = []
    hostile("add", lambda a, b: calls.append(1))
    with pytest.raises(ShapeError):
        x(1, 2) + x(1, 2, 3)
    assert calls == []


# ------------------------------------------------------------------------------------------------------- warnings


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("device", ["cpu", "loopback"])
def test_runtime_warnings_of_numpy_do_not_reach_the_user(device, slow):
    zero = tp.tensor([0.0, -1.0, 1e38], device=device)
    whole = tp.tensor([1, 0], dtype=tp.int32, device=device)

    def calls():
        for _ in range(2):
            tp.log(zero), tp.sqrt(zero), zero / zero, zero * zero, tp.exp(zero), zero**1000.0, zero + tp.inf - tp.inf
            whole / whole, zero.to(tp.int32), zero.to(tp.float16)
            zero.clone().log_(), zero.clone().div_(zero), zero.clone().mul_(1e38)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if slow:
            with force_slow_path():
                calls()
        else:
            calls()


@pytest.mark.parametrize("device", ["cpu", "loopback"])
def test_a_scalar_that_overflows_its_dtype_does_not_warn(device):
    half = tp.ones(1, dtype=tp.float16, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (half * 1e10).item() == float("inf")
        assert (tp.ones(1, device=device) * 1e300).item() == float("inf")
        assert (tp.ones(1, device=device) * -1e300).item() == float("-inf")


# ------------------------------------------------------------------------------------------------------- writing


def test_out_is_written_to_or_refused_before_anything_is_written():
    a, out = tp.tensor([1.0, 2.0]), tp.zeros(2)
    assert tp.add(a, a, out=out) is out and out.tolist() == [2.0, 4.0]
    assert tp.add(a, a, out=tp.zeros(2, dtype=tp.float64)).tolist() == [2.0, 4.0]
    whole = tp.zeros(2, dtype=tp.int64)
    with pytest.raises(DTypeError, match=r"float32.*int64"):
        tp.add(a, a, out=whole)
    with pytest.raises(ShapeError, match=r"out has shape \(3,\), the result \(2,\)"):
        tp.add(a, a, out=tp.zeros(3))
    with pytest.raises(AutogradError, match="out= cannot record"):
        tp.add(a, a, out=tp.zeros(2, requires_grad=True))
    with pytest.raises(AutogradError, match="out= cannot record"):
        tp.add(tp.ones(2, requires_grad=True), a, out=out)
    with pytest.raises(TypeError, match="out must be a Tensor"):
        tp.add(a, a, out=[0, 0])
    with pytest.raises(ShapeError, match="overlaps itself"):
        tp.add(a, a, out=tp.zeros(1).expand(2))
    with pytest.raises(tp.DeviceMismatch, match="out is on loopback:0, the result on cpu"):
        tp.add(a, a, out=tp.zeros(2, device="loopback"))
    assert whole.tolist() == [0, 0] and out.tolist() == [2.0, 4.0]
