"""A kernel's first call for a type: what it does to its inputs is seen and put back, and what it raises is named.

The hostile kernels are registered over loopback, as a third party's would be.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import tensorplay as tp
from tensorplay_core.dispatch import active, devices
from tensorplay_core.dispatch.context import STATE, exclude
from tensorplay_core.dispatch.keys import AUTOGRAD, backend_key
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.tensor_type import unresolved
from tensorplay_core.errors import KernelError
from tensorplay_core.ops import first_call
from tensorplay_core.tensor.version import version_of

Library = tp.library.Library


def x(*values: Any, dtype: Any = None) -> tp.Tensor:
    return tp.tensor(list(values), dtype=dtype or tp.float32, device="loopback")


@pytest.fixture
def hostile() -> Iterator[Any]:
    devices.entry("loopback")
    with closing(Library("tp", "IMPL", "loopback")) as lib:
        yield lambda op, kernel: lib.impl(op, kernel, override=True)


def write(array: Any, value: Any = 7) -> None:
    array[...] = value


# ------------------------------------------------------------------------------------------------ inputs are left alone


WRITERS = {
    "to self": (lambda a, b: (write(a), a + b)[1], "its argument self,", "it has been put back as it was"),
    "to other": (lambda a, b: (write(b), a + b)[1], "its argument other,", "it has been put back as it was"),
    "to both": (
        lambda a, b: (write(a), write(b), a + b)[2],
        "its arguments self and other,",
        "they have been put back",
    ),
    "to one element": (lambda a, b: (write(a[1:]), a + b)[1], "its argument self,", "it has been put back as it was"),
    "the sign of a zero": (lambda a, b: (write(a[2:3], -0.0), a + b)[1], "its argument self,", "it has been put back"),
    "and returns it": (lambda a, b: np.add(a, b, out=a), "its argument self,", "it has been put back as it was"),
    "and locks it": (
        lambda a, b: (write(a), a.setflags(write=False), a + b)[2],
        "its argument self,",
        "self could not be put back",
    ),
}


@pytest.mark.parametrize("how", WRITERS)
def test_a_kernel_that_writes_to_an_input_is_named_and_the_input_put_back(hostile: Any, how: str) -> None:
    kernel, argument, after = WRITERS[how]
    values = [1.0, float("nan"), 0.0], [3.0, 4.0, 5.0]
    a, b = x(*values[0]), x(*values[1])
    hostile("add", kernel)
    for _ in range(3):
        with pytest.raises(
            KernelError, match=f"^add: the kernel of .* is wrong: it changed {argument}.*; {after}.*\nfix: "
        ) as info:
            a + b
        registered = REGISTRY.find("add").table[backend_key("loopback")][0]
        assert f"the kernel of {registered.distribution} ({registered.where})" in str(info.value)
        assert registered.where == f"{__file__}:{kernel.__code__.co_firstlineno}" and not registered.verified
        if how != "and locks it":
            assert a._array.tobytes() == np.float32(values[0]).tobytes() and b.tolist() == values[1]
            assert version_of(a)[0] == version_of(b)[0] == 0
        assert a._type.__dict__["k_add"] is unresolved
        if how == "and locks it":
            return


def test_a_write_to_an_item_of_a_list_and_to_a_keyword_is_named(hostile: Any) -> None:
    hostile("cat", lambda arrays, dim: (write(arrays[1]), np.concatenate(arrays, dim))[1])
    a, b = x(1), x(2)
    with pytest.raises(KernelError, match=r"cat: .* changed its argument tensors\[1\]"):
        tp.cat([a, b])
    assert b.tolist() == [2.0]
    with closing(Library("watched", "DEF")) as lib:
        lib.define("op(Tensor x, *, Tensor? weight=None) -> Tensor")
        lib.impl("op", lambda x, *, weight=None: (write(weight), x + 1)[1], "loopback", level="array")
        with pytest.raises(KernelError, match="changed its argument weight"):
            tp.ops.watched.op(a, weight=b)
        assert b.tolist() == [2.0]


def test_a_kernel_that_writes_and_then_raises_loses_nothing(hostile: Any) -> None:
    def half_way(a: Any, b: Any) -> Any:
        write(a)
        raise ValueError("half-way")

    hostile("add", half_way)
    a = x(1, 2)
    for _ in range(2):
        with pytest.raises(KernelError, match=r"add: the kernel of .* failed on .*: ValueError: half-way"):
            a + a
        assert a.tolist() == [1.0, 2.0]


def test_declared_writes_and_what_shares_memory_with_them_are_no_fault(hostile: Any) -> None:
    hostile("add_", lambda a, b: np.add(a, b, out=a))
    a = x(1, 2, 3)
    version_of(a)
    a.add_(a)
    assert a.tolist() == [2.0, 4.0, 6.0]
    hostile("mul_", lambda a, b: np.multiply(a, b, out=a))
    a[1:].mul_(a[:2])
    assert a.tolist() == [2.0, 8.0, 24.0] and version_of(a)[0] == 2
    hostile("sub_", lambda a, b: (np.subtract(a, b, out=a), write(b))[0])
    b = x(1, 1, 1)
    with pytest.raises(KernelError, match=r"sub_: .* changed its argument other"):
        a.sub_(b)
    assert b.tolist() == [1.0, 1.0, 1.0]


def test_a_write_that_the_framework_knows_of_is_somebody_elses(hostile: Any) -> None:
    """Two threads may share a parameter; the kernel of one is not to blame for a write of the other, nor undoes it."""
    a = x(1, 2)

    def slow(p: Any, q: Any) -> Any:
        total = p + q
        other = threading.Thread(target=lambda: a.mul_(10))
        other.start()
        other.join()
        return total

    hostile("add", slow)
    assert (a + x(1, 1)).tolist() == [2.0, 3.0] and a.tolist() == [10.0, 20.0]


def test_large_inputs_and_those_of_an_immutable_device_are_not_watched(
    hostile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile("add", lambda a, b: (write(a), a + b)[1])
    monkeypatch.setattr(first_call, "LIMIT", 3)
    with pytest.raises(KernelError):
        x(1, 2, 3) + x(1, 2, 3)
    assert (x(1, 2, 3, 4) + x(1, 2, 3, 4)).tolist() == [8.0, 9.0, 10.0, 11.0]
    hostile("mul", lambda a, b: (write(a), a * b)[1])
    a = x(1, 2)
    monkeypatch.setattr(a._type.api, "mutable", False, raising=False)
    assert (a * x(1, 2)).tolist() == [7.0, 14.0]


def test_a_kernel_is_watched_once_for_each_type(hostile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    made = first_call.Watched
    monkeypatch.setattr(
        "tensorplay_core.ops.kernels.Watched", lambda *args: copies.append(args[1].dtype) or made(*args)
    )
    hostile("max.dim", lambda a, dim, keepdim: (a.max(dim), a.argmax(dim)))
    for dtype in (tp.float32, tp.int32):
        for _ in range(3):
            tp.max(x(1, 3, 2, dtype=dtype), 0)
    assert copies == [tp.float32, tp.int32]


# ------------------------------------------------------------------------------------------------------- what it raises


@pytest.mark.parametrize(
    "error", [StopIteration("done"), GeneratorExit(), SystemExit(3), SystemExit(), RuntimeError("odd")]
)
def test_what_would_end_a_program_or_a_generator_in_silence_is_an_error(hostile: Any, error: BaseException) -> None:
    def kernel(a: Any, b: Any) -> Any:
        raise error

    hostile("add", kernel)

    def numbers() -> Iterator[Any]:
        yield x(1) + x(2)

    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    for _ in range(2):
        with pytest.raises(
            KernelError, match=f"^add: the kernel of .*{__file__}:.* failed on .*: {text}\nfix: "
        ) as info:
            next(numbers())
        assert info.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("full"), asyncio.CancelledError()])
def test_what_happens_to_the_program_passes_as_it_is(hostile: Any, error: BaseException) -> None:
    def kernel(a: Any, b: Any) -> Any:
        write(a)
        raise error

    hostile("add", kernel)
    a = x(1)
    with pytest.raises(type(error)) as info:
        a + x(2)
    assert info.value is error and a.tolist() == [1.0]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="the system has no such signal")
def test_an_exit_that_a_signal_asks_for_passes_a_kernel_that_happens_to_run(hostile: Any) -> None:
    def leave(number: int, frame: Any) -> None:
        raise SystemExit(4)

    def kernel(a: Any, b: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return a + b

    hostile("add", kernel)
    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit, match="4"):
            x(1) + x(2)
    finally:
        signal.signal(signal.SIGUSR1, before)


SCOPES = {
    "none": lambda: tp.enable_grad(),
    "no_grad": lambda: tp.no_grad(),
    "inference mode": lambda: tp.inference_mode(),
    "a profiler": lambda: tp.profiler.profile(),
    "an exclude set": lambda: exclude(AUTOGRAD),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("kernel", [lambda a: 1 // 0, lambda a: a[:1] + 1, lambda a: (write(a), a + 1)[1]])
def test_after_the_error_the_context_is_as_before(hostile: Any, scope: str, kernel: Any) -> None:
    hostile("exp", kernel)
    a = x(1, 2).requires_grad_()
    with SCOPES[scope]():
        state, counts = STATE.get(), (active.special, active.grad_off, active.inference)
        for _ in range(2):
            with pytest.raises(KernelError):
                a.exp()
            with pytest.raises(KernelError):
                a.detach().exp_()
        assert STATE.get() is state and (active.special, active.grad_off, active.inference) == counts
    assert a._type.__dict__["k_exp"] is unresolved and a.tolist() == [1.0, 2.0] and a._node.is_leaf


# ---------------------------------------------------------------------------------------------- tables change meanwhile


def test_a_kernel_may_register_and_take_out_kernels_while_it_runs() -> None:
    a = x(1, 2)
    first, second = Library("tp", "IMPL"), Library("tp", "IMPL")

    def replaced(p: Any, q: Any) -> Any:
        second.impl("add", lambda p, q: p + q + 100, "loopback", override=True)
        first.close()
        return p + q + 1

    first.impl("add", replaced, "loopback", override=True)
    try:
        assert (a + a).tolist() == [3.0, 5.0]  # what had begun is finished
        assert a._type.__dict__["k_add"] is unresolved
        assert [(a + a).tolist() for _ in range(3)] == [[102.0, 104.0]] * 3
    finally:
        first.close()
        second.close()
    assert [(a + a).tolist() for _ in range(2)] == [[2.0, 4.0]] * 2


def test_a_kernel_may_unload_its_own_backend_while_it_runs() -> None:
    program = """
import tensorplay as tp
x = tp.ones(3, device="loopback")
lib = tp.library.Library("tp", "IMPL")
def last(a, b):
    tp.backends.unload("loopback")
    return a + b
lib.impl("add", last, "loopback", override=True)
for call in (lambda: x + x, lambda: x + x, lambda: x * x):
    try:
        call()
    except tp.DeviceUnavailable as error:
        assert "was unloaded" in str(error), error
    else:
        raise SystemExit("it ran")
lib.close()
tp.backends.load("loopback")
assert [(x + x).tolist() for _ in range(2)] == [[2.0] * 3] * 2 and (x * 4).tolist() == [4.0] * 3
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
